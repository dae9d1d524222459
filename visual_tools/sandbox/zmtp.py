"""ZMTP 3.0 over a Unix socket, the client's side: what libzmq speaks, read with limits that libzmq does not have.

The other side runs code that nobody trusts. libzmq bounds the size of a frame, but not how many frames make a
message, so whoever writes to the socket by hand fills the memory of the process that reads. Here a message is bounded
as a whole.

Source: https://rfc.zeromq.org/spec/23/
"""

import asyncio
import struct
from collections.abc import Sequence
from pathlib import Path

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_GREETING = _SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)  # version 3.0, not the server, filler
# Source: ZMTP 3.0, https://rfc.zeromq.org/spec/23, flags of a frame
_MORE, _LONG, _COMMAND = 1, 2, 4
_MAX_COMMAND_BYTES = 4096
_NUM_PER_TURN = 64  # messages read before the event loop's other tasks have their turn


class ZmtpError(Exception):
    """What came is no ZMTP, or more of it than is allowed."""


class ZmtpConnection:
    """One connection; made by `connect`.

    Args:
        reader: Of the socket.
        writer: Of the socket.
        max_bytes: Longest message, all its frames together.
        max_frames: Most frames of a message.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_bytes: int, max_frames: int
    ) -> None:
        self._reader, self._writer = reader, writer
        self._max_bytes, self._max_frames = max_bytes, max_frames
        self._num_read = 0

    @classmethod
    async def connect(cls, path: Path, kind: str, *, max_bytes: int, max_frames: int) -> "ZmtpConnection":
        """Connect to a listening socket and shake hands.

        Args:
            path: The socket's file.
            kind: What this side is: `DEALER`, or `SUB`, which subscribes to everything.
            max_bytes: Longest message, all its frames together.
            max_frames: Most frames of a message.

        Raises:
            ZmtpError: The other side speaks something else.
            OSError: Nobody listens there.
            asyncio.IncompleteReadError: The other side left.
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
        told = await self._reader.readexactly(len(_GREETING))
        if told[0] != 0xFF or told[9] != 0x7F or told[10] < 3 or told[12:32].rstrip(b"\0") != b"NULL":
            raise ZmtpError(f"the greeting is {told[:32]!r}, not that of ZMTP 3 without authentication")
        flags, size_bytes = await self._read_head()
        if not flags & _COMMAND or size_bytes > _MAX_COMMAND_BYTES:
            raise ZmtpError("the greeting is not followed by a command of sensible length")
        command = await self._reader.readexactly(size_bytes)
        if not command.startswith(b"\x05READY"):
            raise ZmtpError(f"the greeting is followed by {command[:40]!r}, not by READY")

    async def _read_head(self) -> tuple[int, int]:
        """Flags and length of the next frame."""
        flags, size_bytes = await self._reader.readexactly(2)
        if flags & ~(_MORE | _LONG | _COMMAND):
            raise ZmtpError(f"a frame has the flags {flags:#04x}")
        if flags & _LONG:
            (size_bytes,) = struct.unpack(">Q", bytes([size_bytes]) + await self._reader.readexactly(7))
        return flags, size_bytes

    async def read(self) -> list[bytes]:
        """The frames of the next message.

        Raises:
            ZmtpError: It is longer, or has more frames, than allowed, or is none.
            asyncio.IncompleteReadError: The other side left.
        """
        self._num_read += 1
        if self._num_read % _NUM_PER_TURN == 0:
            await asyncio.sleep(0)  # what is buffered already is read without one
        frames: list[bytes] = []
        left_bytes = self._max_bytes
        while True:
            flags, size_bytes = await self._read_head()
            if flags & _COMMAND:
                raise ZmtpError("a command came among the messages: none was agreed upon")
            left_bytes -= size_bytes
            if left_bytes < 0 or len(frames) == self._max_frames:
                raise ZmtpError(f"a message is longer than {self._max_bytes} bytes or {self._max_frames} frames")
            frames.append(await self._reader.readexactly(size_bytes))
            if not flags & _MORE:
                return frames

    def write(self, frames: Sequence[bytes]) -> None:
        """Send a message; nothing happens once the connection is closed."""
        if not self._writer.is_closing():
            last = len(frames) - 1
            self._writer.write(b"".join(_make_frame(frame, is_last=at == last) for at, frame in enumerate(frames)))

    def close(self) -> None:
        """Close the connection; what was not sent yet is dropped."""
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
