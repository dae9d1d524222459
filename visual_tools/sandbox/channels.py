"""Talk to one kernel over its Unix sockets: Jupyter messages, signed, parsed as JSON, bounded in size and number.

The sockets speak ZMTP 3.0, the protocol of libzmq, and are read here with limits that libzmq does not have. The peer
runs untrusted code. libzmq bounds the size of a frame but not the number of frames in a message, so code that writes
to the socket directly could fill the memory of the reading process. Here a message is bounded as a whole.

Source: https://rfc.zeromq.org/spec/23/
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from visual_tools.errors import SandboxError, require
from visual_tools.sandbox.zygote.plan import CHANNELS

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_GREETING = _SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)  # version 3.0, not the server, filler
# Frame flags. Source: ZMTP 3.0, https://rfc.zeromq.org/spec/23
_MORE, _LONG, _COMMAND = 1, 2, 4
_MAX_COMMAND_BYTES = 4096
_NUM_PER_TURN = 64  # messages read before yielding to other tasks of the event loop


class ZmtpError(Exception):
    """Received data that is not valid ZMTP or exceeds a limit."""


class ZmtpConnection:
    """ZMTP connection; created by `connect`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_bytes: int, max_frames: int
    ) -> None:
        self._reader, self._writer = reader, writer
        self._max_bytes, self._max_frames = max_bytes, max_frames
        self._num_read = 0

    @classmethod
    async def connect(cls, path: Path, kind: str, *, max_bytes: int, max_frames: int) -> "ZmtpConnection":
        """Connect to a listening socket and perform the handshake; a `SUB` socket subscribes to everything.

        Raises:
            ZmtpError: If the peer speaks a different protocol.
            OSError: If no process listens on the socket.
            asyncio.IncompleteReadError: If the peer closed the connection.
        """
        connection = cls(*await asyncio.open_unix_connection(path), max_bytes, max_frames)
        try:
            await connection._shake_hands(kind)
        except BaseException:
            connection.close()
            raise
        if kind == "SUB":
            connection.write([b"\x01"])  # the empty prefix
        return connection

    async def _shake_hands(self, kind: str) -> None:
        self._writer.write(_GREETING + _make_ready(kind))
        greeting = await self._reader.readexactly(len(_GREETING))
        if greeting[0] != 0xFF or greeting[9] != 0x7F or greeting[10] < 3 or greeting[12:32].rstrip(b"\0") != b"NULL":
            raise ZmtpError(f"the greeting is {greeting[:32]!r}, not that of ZMTP 3 without authentication")
        flags, size_bytes = await self._read_head()
        if not flags & _COMMAND or size_bytes > _MAX_COMMAND_BYTES:
            raise ZmtpError("the greeting is not followed by a command of sensible length")
        command = await self._reader.readexactly(size_bytes)
        if not command.startswith(b"\x05READY"):
            raise ZmtpError(f"the greeting is followed by {command[:40]!r}, not by READY")

    async def _read_head(self) -> tuple[int, int]:
        """Read the flags and length of the next frame."""
        flags, size_bytes = await self._reader.readexactly(2)
        if flags & ~(_MORE | _LONG | _COMMAND):
            raise ZmtpError(f"a frame has the flags {flags:#04x}")
        if flags & _LONG:
            (size_bytes,) = struct.unpack(">Q", bytes([size_bytes]) + await self._reader.readexactly(7))
        return flags, size_bytes

    async def read(self) -> list[bytes]:
        """Read the frames of the next message.

        Raises:
            ZmtpError: If the message is longer or has more frames than allowed, or is malformed.
            asyncio.IncompleteReadError: If the peer closed the connection.
        """
        self._num_read += 1
        if self._num_read % _NUM_PER_TURN == 0:
            await asyncio.sleep(0)  # reading buffered data does not yield to the event loop
        frames: list[bytes] = []
        left_bytes = self._max_bytes
        while True:
            flags, size_bytes = await self._read_head()
            if flags & _COMMAND:
                raise ZmtpError("received a ZMTP command among the messages; expected messages only")
            left_bytes -= size_bytes
            if left_bytes < 0 or len(frames) == self._max_frames:
                raise ZmtpError(f"a message is longer than {self._max_bytes} bytes or {self._max_frames} frames")
            frames.append(await self._reader.readexactly(size_bytes))
            if not flags & _MORE:
                return frames

    def write(self, frames: Sequence[bytes]) -> None:
        """Send a message; does nothing if the connection is closed."""
        if not self._writer.is_closing():
            last = len(frames) - 1
            self._writer.write(b"".join(_make_frame(frame, is_last=at == last) for at, frame in enumerate(frames)))

    def close(self) -> None:
        """Close the connection; unsent data is dropped."""
        self._writer.transport.abort()


def _make_frame(body: bytes, *, is_last: bool) -> bytes:
    flags = 0 if is_last else _MORE
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return struct.pack(">BQ", flags | _LONG, len(body)) + body


def _make_ready(kind: str) -> bytes:
    name, value = b"Socket-Type", kind.encode()
    body = b"\x05READY" + bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return bytes([_COMMAND, len(body)]) + body


Message = dict[str, Any]
_KINDS = {"shell": "DEALER", "control": "DEALER", "iopub": "SUB"}
_ASK_AGAIN_S = 0.02  # the first requests may be lost while the sockets connect, so they are repeated
_MESSAGE_SLACK_BYTES = 1 << 20  # headers of a message beyond its limit on content
_LARGE_BYTES = 1 << 18  # messages of this size or more are parsed outside the event loop
_SMALL_BYTES = 1 << 14  # messages up to this size are always read: one of them reports the end of the cell
_MESSAGE_COST_BYTES = 5000  # fixed cost charged per message
_MAX_FRAMES = 32  # of one message: Jupyter's have six and a few buffers; bounds memory
_MAX_PARTS = 1_000_000  # limit for large messages: parsed values take far more memory than text


def open_listeners(folder: Path) -> list[socket.socket]:
    """Create the listening sockets of a kernel, in the order of `CHANNELS`.

    The socket files can be deleted once the channels are connected.
    """
    listeners = []
    for name in CHANNELS:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(folder / name))
        listener.listen(8)
        listeners.append(listener)
    return listeners


class Channels:
    """Connections to the sockets of one kernel.

    Args:
        folder: Folder with the socket files.
        key: Key that signs the messages.
        max_bytes: Maximum message size; a kernel that sends a longer message is disconnected.
        on_output: Called with each well-formed message of the kernel's output channel.

    Attributes:
        is_flooded: True if more output arrived than `allow_output` allowed, or data that is not a message.
        is_cut_off: True if a channel was closed because of invalid data; the kernel is then unusable.
    """

    def __init__(self, folder: Path, key: str, max_bytes: int, on_output: Callable[[Message], None]) -> None:
        self._session = require("jupyter_client.session", "sandbox").Session(key=key.encode())
        self._session.unpack = json.loads
        self._folder = folder
        self._max_bytes = max_bytes + _MESSAGE_SLACK_BYTES
        self._connections: dict[str, ZmtpConnection] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._on_output = on_output
        self._replies: dict[str, asyncio.Future[Message]] = {}
        self._has_output = asyncio.Event()
        self._budget_bytes = max_bytes
        self.is_cut_off = False
        self.is_flooded = asyncio.Event()

    async def connect(self) -> None:
        """Connect to the kernel; return once it answers and its output arrives here.

        Raises:
            ZmtpError: If the peer is not a kernel.
            OSError: If no process listens on the sockets.
            asyncio.IncompleteReadError: If the kernel ended.
        """
        for name in CHANNELS:
            self._connections[name] = await ZmtpConnection.connect(
                self._folder / name, _KINDS[name], max_bytes=self._max_bytes, max_frames=_MAX_FRAMES
            )
        self._readers = [asyncio.create_task(self._read(name)) for name in CHANNELS]
        while not self._has_output.is_set():
            await self.request("shell", "kernel_info_request", {})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_output.wait(), _ASK_AGAIN_S)

    def request(self, channel: str, kind: str, content: Message) -> "asyncio.Future[Message]":
        """Create a request and send it; the future resolves to the reply."""
        return self.send(channel, self.make(kind, content))

    def make(self, kind: str, content: Message) -> Message:
        """Create a message without sending it; its id is `message["header"]["msg_id"]`."""
        message: Message = self._session.msg(kind, content)
        return message

    def send(self, channel: str, message: Message) -> "asyncio.Future[Message]":
        """Send a request; the future resolves to the reply."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._replies[message["header"]["msg_id"]] = future
        self._connections[channel].write(self._session.serialize(message))
        return future

    def allow_output(self, num_bytes: int) -> None:
        """Allow this many bytes of output from now on; the excess is dropped unread and sets `is_flooded`."""
        self._budget_bytes = num_bytes
        if not self.is_cut_off:
            self.is_flooded.clear()

    def _is_within_budget(self, size_bytes: int) -> bool:
        self._budget_bytes -= size_bytes + _MESSAGE_COST_BYTES
        if self._budget_bytes >= 0:
            return True
        self.is_flooded.set()
        return size_bytes <= _SMALL_BYTES

    async def _read(self, name: str) -> None:
        connection = self._connections[name]
        try:
            while True:
                await self._take(name, await connection.read())
        except ZmtpError:
            self.is_cut_off = True
            self.is_flooded.set()
            connection.close()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the kernel ended, which its parent reports, or closed its own socket

    async def _take(self, name: str, frames: list[bytes]) -> None:
        size_bytes = sum(map(len, frames))
        if not self._is_within_budget(size_bytes):
            return
        if size_bytes < _LARGE_BYTES:
            message = self._parse(frames)
        else:
            message = await asyncio.to_thread(self._parse, frames)
        if message is None:
            return
        if name == "iopub":
            self._has_output.set()
            self._on_output(message)
        else:
            reply = self._replies.pop(parent_id(message), None)
            if reply is not None and not reply.done():
                reply.set_result(message)

    def _parse(self, frames: list[bytes]) -> Message | None:
        if any(len(frame) > _LARGE_BYTES and _has_many_parts(frame) for frame in frames):
            return None
        try:
            _, rest = self._session.feed_identities(frames)
            message = self._session.deserialize(rest)
        except (ValueError, TypeError, KeyError, IndexError, RecursionError, AttributeError, ArithmeticError):
            return None  # not a Jupyter message, or not signed
        is_fine = isinstance(message, dict) and all(
            isinstance(message.get(part), dict) for part in ("header", "parent_header", "content")
        )
        return message if is_fine and isinstance(message.get("msg_type"), str) else None

    def close(self) -> None:
        """Close the sockets; no more data is read."""
        for reader in self._readers:
            reader.cancel()
        for connection in self._connections.values():
            connection.close()
        for reply in self._replies.values():
            reply.cancel()
        self._replies.clear()


def parent_id(message: Message) -> str:
    """Return the id of the request that a message belongs to; "" if it is missing."""
    request_id = message["parent_header"].get("msg_id")
    return request_id if isinstance(request_id, str) else ""


def _has_many_parts(frame: bytes) -> bool:
    """Return True if a JSON frame may hold very many values.

    Commas inside text count too; kernels do not normally send such text.
    """
    return sum(map(frame.count, (b"[", b"{", b":", b","))) > _MAX_PARTS


def make_key() -> str:
    """Generate a new signing key for one kernel."""
    return os.urandom(32).hex()


def check_socket_path(folder: Path) -> None:
    """Check that the paths of socket files in a folder are not too long for the system.

    Raises:
        SandboxError: If the path is too long.
    """
    longest = max(len(os.fsencode(folder / name)) for name in CHANNELS)
    if longest > 100:
        raise SandboxError(f"the path {folder} is too long for a socket ({longest} bytes, 100 allowed): shorten TMPDIR")


async def wait_for_first(*futures: "asyncio.Future[Any]", timeout_s: float) -> None:
    """Return when one of the futures is done or the timeout expires; no future is cancelled."""
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
