"""The client's side of ZMTP, against libzmq itself and against what a hostile kernel may write."""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from visual_tools.sandbox.channels import ZmtpConnection, ZmtpError

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04XPUB"
MESSAGES = ([b"one"], [b"", b"x" * 255, b"y" * 256, b"z" * 100_000], [b"\0" * 31] * 31, [b""])


@pytest.fixture
def context() -> Iterator[zmq.asyncio.Context]:
    made = zmq.asyncio.Context()
    yield made
    made.destroy(linger=0)


async def connect(path: Path, kind: str = "SUB") -> ZmtpConnection:
    connecting = ZmtpConnection.connect(path, kind, max_bytes=200_000, max_frames=32)
    return await asyncio.wait_for(connecting, 5)


async def test_messages_go_both_ways_with_a_router_of_libzmq(context: zmq.asyncio.Context, tmp_path: Path) -> None:
    router = context.socket(zmq.ROUTER)
    router.bind(f"ipc://{tmp_path / 'line'}")
    connection = await connect(tmp_path / "line", "DEALER")
    for frames in MESSAGES:
        connection.write(frames)
        identity, *arrived = await asyncio.wait_for(router.recv_multipart(), 5)
        assert arrived == frames
        await router.send_multipart([identity, *frames])
        assert await asyncio.wait_for(connection.read(), 5) == frames
    connection.close()


async def test_everything_is_subscribed_to(context: zmq.asyncio.Context, tmp_path: Path) -> None:
    publisher = context.socket(zmq.XPUB)
    publisher.bind(f"ipc://{tmp_path / 'line'}")
    connection = await connect(tmp_path / "line")
    assert await asyncio.wait_for(publisher.recv_multipart(), 5) == [b"\x01"]
    for frames in MESSAGES:
        await publisher.send_multipart(frames)
        assert await asyncio.wait_for(connection.read(), 5) == frames
    connection.close()


async def read_what_is_written(path: Path, data: bytes) -> list[bytes]:
    """What a client reads from one who greets, writes this and leaves."""
    return await meet(path, GREETING + READY + data, lambda connection: connection.read())


async def meet(path: Path, data: bytes, then: Callable[[ZmtpConnection], Awaitable[list[bytes]]]) -> list[bytes]:
    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.write_eof()
        with contextlib.suppress(OSError):
            await reader.read()  # until the client has gone
        writer.close()

    async with await asyncio.start_unix_server(write, path):
        connection = await connect(path)
        try:
            return await asyncio.wait_for(then(connection), 5)
        finally:
            connection.close()


def frame(size_bytes: int, flags: int = 0) -> bytes:
    return struct.pack(">BQ", flags | 2, size_bytes) + bytes(min(size_bytes, 300_000))


async def test_a_message_at_the_limits_is_read(tmp_path: Path) -> None:
    assert await read_what_is_written(tmp_path / "a", frame(200_000)) == [bytes(200_000)]
    assert await read_what_is_written(tmp_path / "b", b"\1\0" * 31 + b"\0\0") == [b""] * 32


@pytest.mark.parametrize(
    "data",
    [
        b"\1\0" * 32 + b"\0\0",
        b"\1\0" * 100_000,
        frame(200_001),
        frame(2**64 - 1),
        frame(2**63),
        frame(100_000, 1) + frame(100_001),
        b"\x04\x05\x04PING",
        b"\x08\x00",
        b"\xff\x00\x00",
    ],
    ids=[
        *("one frame too many", "frames without end", "one byte too many", "all bits", "the highest bit"),
        *("too long together", "a command", "an unknown flag", "garbage"),
    ],
)
async def test_what_breaks_a_limit_ends_the_reading(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ZmtpError):
        await read_what_is_written(tmp_path / "line", data)


async def test_one_who_leaves_in_the_middle_is_noticed(tmp_path: Path) -> None:
    for at, data in enumerate((b"", b"\0", b"\2\0\0", b"\0\5abc", b"\1\0")):
        with pytest.raises(asyncio.IncompleteReadError):
            await read_what_is_written(tmp_path / str(at), data)


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n".ljust(80),
        GREETING[:10] + b"\x01" + GREETING[11:] + READY,
        GREETING.replace(b"NULL", b"PLAI") + READY,
        GREETING + b"\x04\x07\x05ERROR\0",
        GREETING + b"\x06" + struct.pack(">Q", 1 << 40),
        GREETING + b"\x00\x05READY",
    ],
    ids=["another protocol", "an old version", "with a password", "an error", "an endless command", "a message"],
)
async def test_a_wrong_greeting_is_refused(tmp_path: Path, greeting: bytes) -> None:
    with pytest.raises(ZmtpError):
        await meet(tmp_path / "line", greeting, lambda connection: connection.read())


async def test_a_flood_leaves_the_loop_its_turns(tmp_path: Path) -> None:
    """However much has come, other tasks run between 64 messages and the next."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def read_all(connection: ZmtpConnection) -> list[bytes]:
        counting = asyncio.create_task(count())
        for _ in range(10_000):
            await connection.read()
        counting.cancel()
        return []

    await meet(tmp_path / "line", GREETING + READY + b"\0\0" * 10_000, read_all)
    assert turns >= 10_000 // 64
