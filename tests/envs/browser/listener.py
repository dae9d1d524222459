"""A server on loopback that writes down everything that reaches its port, by TCP and by UDP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_ANSWER = (
    b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Type: text/html\r\n"
    b"Supports-Loading-Mode: credentialed-prerender\r\nContent-Length: 6\r\nConnection: close\r\n\r\nwicked"
)


@dataclass
class Listener:
    """What reached a port.

    Attributes:
        port: The port, on 127.0.0.1.
        reached: The paths that were asked for; `tcp` for a connection that asked for nothing, `udp` for a datagram.
    """

    port: int = 0
    reached: set[str] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note one connection and give it a page."""
        name = "tcp"
        self.reached.add(name)
        try:
            line = await reader.readline()
            if line:
                name = line.split(b" ")[1].decode().strip("/") if line.count(b" ") == 2 else "noise"
                self.reached.add(name)
            writer.write(_ANSWER)
            await writer.drain()
        except (OSError, IndexError, ValueError):
            pass
        finally:
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def datagram_received(self, data: bytes, address: object) -> None:
        self._listener.reached.add("udp")


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    """A listener while the block runs."""
    listener = Listener()
    server = await asyncio.start_server(listener.answer, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Datagrams(listener), local_addr=("127.0.0.1", listener.port)
    )
    try:
        yield listener
    finally:
        transport.close()
        server.close()
