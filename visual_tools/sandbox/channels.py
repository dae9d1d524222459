"""Talk to one kernel over its Unix sockets: Jupyter's messages, signed, parsed as JSON, bounded in size and number."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from visual_tools.errors import SandboxError
from visual_tools.require import require
from visual_tools.sandbox.zmtp import ZmtpConnection, ZmtpError
from visual_tools.sandbox.zygote.plan import CHANNELS

Message = dict[str, Any]
_KINDS = {"shell": "DEALER", "control": "DEALER", "iopub": "SUB"}
_ASK_AGAIN_S = 0.02
_MESSAGE_SLACK_BYTES = 1 << 20
_LARGE_BYTES = 1 << 18  # messages from here on are read off the event loop
_SMALL_BYTES = 1 << 14  # messages up to here are read whatever came before: one of them says that the cell has ended
_MESSAGE_COST_BYTES = 5000  # what reading any message is worth
_MAX_FRAMES = 32
_MAX_PARTS = 1_000_000  # of a large message: values, which take far more memory than text


def open_listeners(folder: Path) -> list[socket.socket]:
    """Listening sockets for a kernel, in the order of `CHANNELS`; the files may go once the channels are connected."""
    listeners = []
    for name in CHANNELS:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(folder / name))
        listener.listen(8)
        listeners.append(listener)
    return listeners


class Channels:
    """The sockets of one kernel.

    Args:
        folder: Where the sockets' files are.
        key: Signs the messages.
        max_bytes: Longest message that is accepted; a kernel that sends a longer one is cut off.
        on_output: Called with each message of the kernel's output channel, and nothing that is not well formed.

    Attributes:
        is_flooded: Whether more came than `allow_output` allowed, or something that is no message at all.
        is_cut_off: Whether a channel was closed because of what came: the kernel is of no use any more.
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
            ZmtpError: What listens there is no kernel.
            OSError: Nobody listens there.
            asyncio.IncompleteReadError: The kernel ended.
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
        """Make a request and send it; the future gets the reply."""
        return self.send(channel, self.make(kind, content))

    def make(self, kind: str, content: Message) -> Message:
        """A message that is not sent yet; its id is `message["header"]["msg_id"]`."""
        message: Message = self._session.msg(kind, content)
        return message

    def send(self, channel: str, message: Message) -> "asyncio.Future[Message]":
        """Send a request; the future gets the reply."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._replies[message["header"]["msg_id"]] = future
        self._connections[channel].write(self._session.serialize(message))
        return future

    def allow_output(self, num_bytes: int) -> None:
        """Take so much output from now on; what comes beyond it is dropped unread, and `is_flooded` is set."""
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
            pass  # the kernel ended, which its parent tells, or closed its own socket

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
            return None  # not a message of Jupyter's, or not signed
        is_fine = isinstance(message, dict) and all(
            isinstance(message.get(part), dict) for part in ("header", "parent_header", "content")
        )
        return message if is_fine and isinstance(message.get("msg_type"), str) else None

    def close(self) -> None:
        """Close the sockets; no more is read."""
        for reader in self._readers:
            reader.cancel()
        for connection in self._connections.values():
            connection.close()
        for reply in self._replies.values():
            reply.cancel()
        self._replies.clear()


def parent_id(message: Message) -> str:
    """Id of the request that a message belongs to; "" when it does not say."""
    told = message["parent_header"].get("msg_id")
    return told if isinstance(told, str) else ""


def _has_many_parts(frame: bytes) -> bool:
    """Whether JSON may hold very many values. Commas of a text count too: such a text is not what kernels send."""
    return sum(map(frame.count, (b"[", b"{", b":", b","))) > _MAX_PARTS


def make_key() -> str:
    """A fresh key for one kernel."""
    return os.urandom(32).hex()


def check_socket_path(folder: Path) -> None:
    """Check that socket files in a folder have names that the system takes.

    Raises:
        SandboxError: The path is too long.
    """
    longest = max(len(os.fsencode(folder / name)) for name in CHANNELS)
    if longest > 100:
        raise SandboxError(f"the path {folder} is too long for a socket ({longest} bytes, 100 allowed): shorten TMPDIR")


async def wait_for_first(*futures: "asyncio.Future[Any]", timeout_s: float) -> None:
    """Return when one of the futures is done, or the time is up; none of them is cancelled."""
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
