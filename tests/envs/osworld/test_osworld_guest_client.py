"""The client of a guest that misbehaves: each way has a clear end, and nothing that acts is sent twice."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from envs import EnvDiedError, EnvError
from envs.osworld import guest_client, guest_http
from envs.osworld.guest_client import GuestClient
from envs.osworld.guest_http import GuestAnswerError, UncertainError
from tests.envs.desktop.conftest import until

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def http(body: bytes = b"", status: str = "200 OK", kind: str = "application/json", length: int | None = None) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}"
    return f"{head}\r\nConnection: close\r\n\r\n".encode() + body


class Stub:
    """A guest that answers each request with the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(" ".join(head.split()[:2]))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:  # it says nothing and hangs
            await reader.read()
        else:
            writer.write(answer)
        writer.close()


@pytest.fixture
async def stub() -> Stub:
    return Stub()


@pytest.fixture
async def guest(stub: Stub) -> AsyncIterator[GuestClient]:
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    client = GuestClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", retry_s=0.0)
    yield client
    await client.close()
    server.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http(b""), "its screenshot is empty"),
        (http(b"<html>502</html>", kind="text/html"), "its screenshot is 16 bytes, '<html>502</html>'"),
        (http(PNG[:-20], kind="image/png"), "a PNG cut off after 50 bytes"),
        (http(PNG, kind="image/png", length=999), "does not answer"),
        (http(b'{"message": "X is gone"}', "500 Oops"), "X is gone"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not answer"),
        (b"", "does not answer"),
    ],
)
async def test_no_screenshot(guest: GuestClient, stub: Stub, answer: bytes, told: str) -> None:
    stub.answers = [answer]
    with pytest.raises(EnvDiedError, match=told.replace("(", r"\(")):
        await guest.screenshot()
    assert stub.asked == ["GET /screenshot"] * 3


async def test_a_screenshot_at_the_third_try(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [http(b""), http(PNG[:30]), http(PNG)]
    assert await guest.screenshot() == PNG
    assert guest_client.png_size_px(PNG) == (1, 1)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http(b'{"status": "error", "message": "Command timed out"}', "500 Oops"), "with 500: Command timed out"),
        (http(b"Internal Server Error", "500 Oops", "text/html"), "with 500: 21 bytes, 'Internal Server Error'"),
        (http(b"", "502 Bad Gateway"), "with 502: empty"),
        (http(b"{", length=900), "whether it was done is not known"),
        (b"", "whether it was done is not known"),
        (http(b"[1]"), "whether the command ran is not known"),
        (http(b"not json"), "whether the command ran is not known"),
    ],
)
async def test_a_command_is_sent_once(guest: GuestClient, stub: Stub, answer: bytes, told: str) -> None:
    stub.answers = [answer]
    with pytest.raises(UncertainError, match=told):
        await guest.execute(["rm", "a-file"])
    assert stub.asked == ["POST /execute"]


async def test_a_command_that_gets_no_answer_is_sent_once(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [None]
    with pytest.raises(UncertainError, match="ReadTimeout"):
        await guest.execute("true", timeout_s=0.2)
    assert stub.asked == ["POST /execute"]


async def test_an_answer_that_never_ends_is_bounded_in_time(stub: Stub) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(http(b"", length=10**9))
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    client = GuestClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", retry_s=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest_http, "_CONNECT_TIMEOUT_S", 0.3)
        with pytest.raises(EnvDiedError, match=r"no whole answer in 0\.2 s"):
            await client.accessibility_tree(timeout_s=0.2)
    await client.close()
    server.close()


async def test_a_file_that_is_too_large_is_not_read(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [http(b"x" * 5000, kind="application/octet-stream")]
    with pytest.raises(GuestAnswerError, match="more than 1000 bytes"):
        await guest.read_file("/big", max_bytes=1000)
    assert len(stub.asked) == 1


async def test_a_file_that_is_not_there_is_none(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [http(b'{"error": "File not found"}', "404 Not Found")]
    assert await guest.read_file("/none") is None
    assert len(stub.asked) == 1


@pytest.mark.parametrize("size", [{}, {"width": "800", "height": 600}, {"width": 0, "height": 0}])
async def test_a_screen_without_a_size(guest: GuestClient, stub: Stub, size: dict[str, object]) -> None:
    stub.answers = [http(json.dumps(size).encode())]
    with pytest.raises(EnvError, match="expected width and height"):
        await guest.screen_size_px()


@pytest.mark.parametrize("answer", [http(b"[1]"), http(b'"a"'), http(b"", "500 Oops"), http(b"[1.5, 2]")])
async def test_a_pointer_that_is_nowhere(guest: GuestClient, stub: Stub, answer: bytes) -> None:
    stub.answers = [answer]
    assert await guest.pointer_px() is None


async def test_redirects_are_not_followed(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"]
    with pytest.raises(EnvError):
        await guest.screen_size_px()
    assert len(stub.asked) == 1


async def test_a_cancelled_command_leaves_no_connection(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [None]
    command = asyncio.ensure_future(guest.execute("sleep 1000"))
    await until(lambda: stub.asked)
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    stub.answers = [http(b'{"returncode": 0, "output": "", "error": ""}')]
    assert (await guest.execute("true")).returncode == 0
