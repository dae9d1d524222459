"""The client of a guest that misbehaves: each way has a clear end, and nothing that acts is sent twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from envs import EnvDiedError, EnvError
from envs.suites.osworld import guest_client
from envs.suites.osworld.guest_answers import FOREIGN, png_size_px
from envs.suites.osworld.guest_client import GuestAnswerError, GuestClient, UncertainError
from tests.envs.desktop.conftest import until

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


PAGE = b"\n<!DOCTYPE html><title>Sign in</title>"
DONE = b'{"status": "success", "returncode": 0, "output": "", "error": ""}'


def http(
    body: bytes = b"",
    status: str = "200 OK",
    kind: str = "application/json",
    length: int | None = None,
    **headers: str,
) -> bytes:
    size = len(body) if length is None else length
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n{more}Connection: close\r\n\r\n"
    return head.encode() + body


REDIRECT = http(status="302 Found", location="http://127.0.0.1:9/login")


class Stub:
    """A guest that answers each request with the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int(head.lower().partition("content-length: ")[2].split("\r\n")[0] or 0))
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
        (http(b""), "with empty"),
        (http(PNG[:-20], kind="image/png"), "a PNG cut off after 50 bytes"),
        (http(PNG[:45] + b"x" + PNG[46:], kind="image/png"), "a damaged PNG of 70 bytes"),
        (http(PNG[:8] + PNG[33:], kind="image/png"), "a damaged PNG of 45 bytes"),
        (http(b"\xff\xd8\xff\xe0 a JPEG", kind="image/png"), "with 11 bytes"),
        (http(PNG, kind="image/png", length=999), "does not answer"),
        (http(b'{"message": "X is gone"}', "500 Oops"), "X is gone"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not answer"),
        (b"", "does not answer"),
    ],
)
async def test_no_screenshot(guest: GuestClient, stub: Stub, answer: bytes, told: str) -> None:
    stub.answers = [answer]
    with pytest.raises(EnvDiedError, match=told) as raised:
        await guest.screenshot()
    assert raised.value.retryable and stub.asked == ["GET /screenshot"] * 3


async def test_a_screenshot_at_the_third_try(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [http(b""), http(PNG[:30]), http(PNG)]
    assert await guest.screenshot() == PNG
    assert png_size_px(PNG) == (1, 1)


Use = Callable[[GuestClient], Awaitable[Any]]
USES: dict[str, Use] = {
    "screenshot": lambda guest: guest.screenshot(),
    "execute": lambda guest: guest.execute(["rm", "a-file"]),
    "launch": lambda guest: guest.launch("xterm"),
    "upload": lambda guest: guest.upload("/a", b"1"),
    "file": lambda guest: guest.read_file("/a"),
    "window": lambda guest: guest.window_size_px("xterm"),
    "terminal": lambda guest: guest.terminal_output(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    "answer",
    [
        REDIRECT,
        http(DONE, "307 Temporary Redirect", location="/execute"),
        http(PNG, "304 Not Modified"),
        http(PAGE, kind="text/html"),
        http(b"", "401 Unauthorized"),
        http(DONE, "403 Forbidden"),
        http(PAGE, "511 Network Authentication Required"),
    ],
)
async def test_a_login_page_in_place_of_the_guest_is_named(
    guest: GuestClient, stub: Stub, use: Use, answer: bytes
) -> None:
    stub.answers = [answer]
    with pytest.raises(EnvError, match=r"proxy or login page|not sent as a file") as told:
        await use(guest)
    assert not isinstance(told.value, UncertainError) and not told.value.retryable and len(stub.asked) == 1


async def test_a_redirect_is_named_and_not_followed(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [REDIRECT]
    with pytest.raises(EnvError, match=rf"with a redirect \(302\) to http://127.0.0.1:9/login: {FOREIGN}"):
        await guest.screen_size_px()
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http(b'{"status": "error", "message": "Command timed out"}', "500 Oops"), "with 500: Command timed out"),
        (http(b"Internal Server Error", "500 Oops", "text/html"), "with 500: 21 bytes, 'Internal Server Error'"),
        (http(b"", "502 Bad Gateway"), "with 502: empty"),
        (http(b"", "204 No Content"), "with 204: empty"),
        (http(b"{", length=900), "did not answer to /execute"),
        (b"", "did not answer to /execute"),
        (http(b"x" * 3000, kind="text/plain"), "more than 2000 bytes"),
        (http(b"[1]"), "expected a JSON object"),
        (http(b"not json"), "expected a JSON object"),
        (http(DONE[:40]), "expected a JSON object"),
        (http(b"[" * 1500), "expected a JSON object"),
        (http(b'{"status": "error"}'), "status 'error'"),
        (http(DONE.replace(b"success", b"error")), "status 'error'"),
        (http(b'{"output": "", "error": ""}'), "returncode is missing, expected int"),
        (http(DONE.replace(b"0", b"null")), "returncode is None, expected int"),
        (http(DONE.replace(b"0", b"true")), "returncode is True, expected int"),
        (http(DONE.replace(b"0", b'"0"')), "returncode is '0', expected int"),
        (http(DONE.replace(b'"output": ""', b'"output": [1]')), r"output is \[1\], expected str"),
    ],
)
async def test_a_command_is_sent_once(guest: GuestClient, stub: Stub, answer: bytes, told: str) -> None:
    stub.answers = [answer]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest_client, "MAX_JSON_BYTES", 2000)
        with pytest.raises(UncertainError, match=f"{told}.*; whether it was done is not known"):
            await guest.execute(["rm", "a-file"])
    assert stub.asked == ["POST /execute"]


@pytest.mark.parametrize(
    ("use", "body", "told"),
    [
        (lambda guest: guest.launch("x"), b'{"status": "error", "message": "no x"}', "with no x"),
        (lambda guest: guest.launch("x"), b"", "with empty, expected 'launched successfully'"),
        (lambda guest: guest.upload("/a", b"1"), b"Disk full", "with 9 bytes, 'Disk full'"),
        (lambda guest: guest.open_file("/a"), b"no window came", "expected 'success'"),
        (lambda guest: guest.terminal_output(), b'{"status": "error"}', "status 'error'"),
        (lambda guest: guest.terminal_output(), b"{}", "output is missing, expected str or NoneType"),
        (lambda guest: guest.accessibility_tree(), b'{"AT": null}', "AT is None, expected str"),
        (
            lambda guest: guest.list_directory("/a"),
            b'{"directory_tree": {"error": "denied"}}',
            "a folder with children",
        ),
        (lambda guest: guest.list_directory("/a"), b"{}", "directory_tree is missing"),
        (lambda guest: guest.desktop_path(), b"{}", "desktop_path is missing"),
        (lambda guest: guest.platform(), b"Service Unavailable", "expected the name of a system"),
        (lambda guest: guest.start_recording(), b'{"status": "error", "message": "no ffmpeg"}', "no ffmpeg"),
        (lambda guest: guest.end_recording(), b"no recording", "expected an mp4 file"),
        (lambda guest: guest.run_script("x"), b'{"status": "error", "message": "x"}', "returncode is missing"),
        (lambda guest: guest.read_file("/a"), b'{"error": "denied"}', "which is not sent as a file"),
        (lambda guest: guest.screen_size_px(), b"{}", "expected width and height"),
        (lambda guest: guest.screen_size_px(), b'{"width": "800", "height": 600}', "expected width and height"),
        (lambda guest: guest.screen_size_px(), b'{"width": 0, "height": 0}', "expected width and height"),
        (lambda guest: guest.screen_size_px(), b'{"width": true, "height": 99999999}', "expected width and height"),
    ],
)
async def test_an_answer_that_is_not_that_of_its_route(
    guest: GuestClient, stub: Stub, use: Use, body: bytes, told: str
) -> None:
    stub.answers = [http(body)]
    with pytest.raises(EnvError, match=told):
        await use(guest)


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
        patch.setattr(guest_client, "_CONNECT_TIMEOUT_S", 0.3)
        with pytest.raises(EnvDiedError, match=r"no whole answer in 0\.2 s"):
            await client.accessibility_tree(timeout_s=0.2)
    await client.close()
    server.close()


async def test_a_file_that_is_too_large_is_not_read(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [http(b"x" * 5000, kind="application/octet-stream")]
    with pytest.raises(GuestAnswerError, match="more than 1000 bytes"):
        await guest.read_file("/big", max_bytes=1000)
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (http(b'{"error": "File not found"}', "404 Not Found"), None),
        (http(PAGE, kind="text/html", content_disposition="attachment; filename=a.html"), PAGE),
        (http(b"", kind="text/plain", content_disposition="attachment"), b""),
        (http(PNG, kind="application/octet-stream"), PNG),
    ],
)
async def test_a_file_and_none(guest: GuestClient, stub: Stub, answer: bytes, found: bytes | None) -> None:
    stub.answers = [answer]
    assert await guest.read_file("/a") == found
    assert len(stub.asked) == 1


async def test_a_page_that_is_not_found_is_not_a_missing_file(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [http(PAGE, "404 Not Found", "text/html")]
    with pytest.raises(GuestAnswerError, match="with 404: an HTML page"):
        await guest.read_file("/none")


@pytest.mark.parametrize("answer", [http(b"[1]"), http(b'"a"'), http(b"", "500 Oops"), http(b"[1.5, 2]")])
async def test_a_pointer_that_is_nowhere(guest: GuestClient, stub: Stub, answer: bytes) -> None:
    stub.answers = [answer]
    assert await guest.pointer_px() is None


async def test_a_cancelled_command_leaves_no_connection(guest: GuestClient, stub: Stub) -> None:
    stub.answers = [None]
    command = asyncio.ensure_future(guest.execute("sleep 1000"))
    await until(lambda: stub.asked)
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    stub.answers = [http(DONE)]
    assert (await guest.execute("true")).returncode == 0
