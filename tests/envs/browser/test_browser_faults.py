"""What goes wrong outside ends in clear words and in bounded time."""

import asyncio
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from envs.actions import Action, Click, Hotkey, PressKey, TypeText, Wait
from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from envs.errors import EnvDiedError, EnvSetupError
from tests.envs.browser.driving import OpenPage, click, do, middle, picture, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
TASK = InstructionTask(instruction="test")


async def test_a_driver_that_cannot_run_is_told_with_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", "/bin/false")
    env = BrowserEnv()
    with pytest.raises(EnvSetupError, match=r"driver does not start: .* cua setup"):
        await env.reset(TASK)
    await env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:45/", r"nothing answers at that address \(connection refused\)"),
        ("http://no-such-host.invalid/", "there is no (such host|network)"),
        ("htp://example.com", "addresses of the kind 'htp:' are not taken; write http:// or https://"),
        ("not an address", "is not a web address"),
        ("file:///no/such/file.html", "there is no such file"),
    ],
)
async def test_a_start_page_that_does_not_open(url: str, message: str) -> None:
    env = BrowserEnv(BrowserOptions(start_url=url))
    try:
        with pytest.raises(EnvSetupError, match=message) as caught:
            await env.reset(TASK)
        assert "\n" not in str(caught.value)
    finally:
        await env.close()


@pytest.mark.long
async def test_a_page_that_answers_too_late(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.url("/slow?s=30"), navigation_timeout_s=0.5))
    try:
        with pytest.raises(EnvSetupError, match=r"no answer within 0\.5 s"):
            await env.reset(TASK)
    finally:
        await env.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "self-signed.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    try:
        subprocess.run([*command, "-keyout", path, "-out", f"{path}.crt"], check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@pytest.mark.slow
async def test_a_bad_certificate(certificate: Path) -> None:
    server = PageServer(certificate)
    url = server.serve("secure", title="secure")
    env, lax = (
        BrowserEnv(BrowserOptions(start_url=url)),
        BrowserEnv(BrowserOptions(start_url=url, ignore_https_errors=True)),
    )
    try:
        with pytest.raises(EnvSetupError, match=r"its certificate is not valid \(ERR_CERT_AUTHORITY_INVALID\)"):
            await env.reset(TASK)
        assert (await lax.reset(TASK)).title == "secure"
    finally:
        await env.close()
        await lax.close()
        server.close()


@pytest.mark.long
async def test_a_crashed_page_is_loaded_again_once(env: BrowserEnv, pages: PageServer) -> None:
    url = pages.serve("<button id=go>go</button>", title="fragile")
    await env.reset(OpenPage(url))

    async def crash() -> None:
        session = await env.page.context.new_cdp_session(env.page)
        task = asyncio.ensure_future(session.send("Page.crash"))
        task.add_done_callback(lambda done: done.exception())

    await crash()
    observation = (await env.step([Wait(duration_s=1.0)])).observation
    assert (
        observation.last_action_error
        == "the page crashed and was loaded again; what was entered in it is lost".replace(
            "the page", f"the page {url}"
        )
    )
    assert (observation.url, observation.title) == (url, "fragile")
    assert (await click(env, "#go")).last_action_error is None
    await crash()
    observation = (await env.step([Wait(duration_s=1.0)])).observation
    assert (observation.last_action_error, observation.url) == (f"the page {url} crashed and was closed", "about:blank")
    assert (await do(env, Hotkey(keys=("ctrl", "l")), TypeText(text=f"{url}\n"))).title == "fragile"


@pytest.mark.slow
async def test_a_killed_browser_ends_the_run(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve("<button id=go>go</button>")))
    try:
        await env.reset(TASK)
        marker = env._launched.marker if env._launched else ""
        for browser in psutil.process_iter(["cmdline"]):
            if marker in (browser.info["cmdline"] or []):
                browser.kill()
        began_s = time.monotonic()
        with pytest.raises(EnvDiedError, match="the browser process is gone"):
            for _ in range(50):
                await env.step([Click(x_px=5, y_px=5)])
        assert time.monotonic() - began_s < 10
        assert await env.describe_point(5, 5) is None
        with pytest.raises(EnvDiedError):
            await env.step([])
        assert (await env.reset(TASK)).last_action_error is None  # a reset brings a new one
    finally:
        await env.close()


async def test_a_browser_killed_while_it_acts(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve("")))
    try:
        await env.reset(TASK)
        marker = env._launched.marker if env._launched else ""
        step = asyncio.ensure_future(env.step([TypeText(text="x" * 2000)]))
        await asyncio.sleep(0.2)
        for browser in psutil.process_iter(["cmdline"]):
            if marker in (browser.info["cmdline"] or []):
                browser.kill()
        with pytest.raises(EnvDiedError):
            await asyncio.wait_for(step, 10)
    finally:
        await asyncio.wait_for(env.close(), 20)


async def test_there_is_no_such_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EnvSetupError, match="there is no browser at /nowhere/chrome"):
        await BrowserEnv(BrowserOptions(executable_path="/nowhere/chrome")).reset(TASK)
    monkeypatch.setenv("K25_BROWSER", "/nowhere/chrome")
    with pytest.raises(EnvSetupError, match="K25_BROWSER is '/nowhere/chrome', and there is no such program"):
        await BrowserEnv().reset(TASK)
    monkeypatch.delenv("K25_BROWSER")
    for name in ("PATH", "HOME", "XDG_DATA_HOME", "PLAYWRIGHT_BROWSERS_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(EnvSetupError, match=r"found no browser; .* Get one with: cua setup"):
        await BrowserEnv().reset(TASK)


async def test_a_browser_that_does_not_start(tmp_path: Path) -> None:
    program = tmp_path / "chrome"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(EnvSetupError, match=r"did not start: .* See what is wrong with: cua doctor"):
        await BrowserEnv(BrowserOptions(executable_path=program)).reset(TASK)


@pytest.mark.long
async def test_nothing_is_left_after_close(pages: PageServer) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    env = BrowserEnv(BrowserOptions(start_url=pages.serve("")))
    await env.reset(TASK)
    mine = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert mine
    await env.close()

    async def are_gone() -> bool:
        return not [process for process in mine if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    await until(are_gone, 10)


@pytest.mark.long
async def test_an_alert_without_end_can_be_left(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<button id=go onclick='for (;;) alert(1)'>go</button>")))
    x_px, y_px = await middle(env, "#go")
    result = await env.step([Click(x_px=x_px, y_px=y_px)])
    assert result.observation.dialog is not None
    began_s = time.monotonic()
    await env.reset(OpenPage(pages.serve("", title="free")))
    assert time.monotonic() - began_s < 12
    assert (await do(env)).title == "free"


KEYS_SEEN = "document.querySelector('#field').value.length"


@pytest.mark.parametrize(
    "actions",
    [
        [PressKey(key="a") for _ in range(500)],
        [PressKey(key="a", presses=1000) for _ in range(999)],
        [TypeText(text="a" * 20_000)],
    ],
    ids=["many", "repeated", "typed"],
)
@pytest.mark.long
async def test_a_step_that_is_cancelled_ends_in_the_middle(
    env: BrowserEnv, pages: PageServer, actions: list[Action]
) -> None:
    await env.reset(OpenPage(pages.serve("<input id=field autofocus>")))
    await click(env, "#field")
    step = asyncio.ensure_future(env.step(actions))
    await until(lambda: env.page.evaluate(KEYS_SEEN))
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(step, 5)
    await env.step([Wait(duration_s=0.2)])  # keys that were under way
    seen = await env.page.evaluate(KEYS_SEEN)
    assert 0 < seen < sum(len(a.text) if isinstance(a, TypeText) else getattr(a, "presses", 1) for a in actions)
    await env.step([Wait(duration_s=0.2)])
    assert await env.page.evaluate(KEYS_SEEN) == seen


@pytest.mark.long
async def test_a_step_that_takes_too_long_ends_and_says_how_far_it_came(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(""), step_timeout_s=0.2))
    try:
        await env.reset(TASK)
        result = await env.step([Wait(duration_s=0.15)] * 20)
        assert result.observation.last_action_error == (
            "this step took longer than 0.2 s: 2 of its 20 actions were carried out, the others were not. "
            "Do less in one step"
        )
    finally:
        await env.close()


@pytest.mark.parametrize("opening", ["", "target=_blank"])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("refused", "ERR_CONNECTION_REFUSED"),
        ("unknown", "ERR_NAME_NOT_RESOLVED"),
        ("loop", "ERR_TOO_MANY_REDIRECTS"),
    ],
)
@pytest.mark.long
async def test_a_page_that_cannot_be_opened_says_which_and_why(
    env: BrowserEnv, pages: PageServer, kind: str, reason: str, opening: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refused = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
    address = {"refused": refused, "unknown": "http://nosuch.invalid/x", "loop": pages.url("/loop")}[kind]
    start = pages.serve(f"<a id=go {opening} href='{address}'>go</a>", title="start")
    await env.reset(OpenPage(start))
    observation = await click(env, "#go")
    (note,) = observation.notes
    assert note.startswith(f"This page could not be opened: {address}: ") and reason in note
    assert len(picture(observation).getcolors(100_000) or ()) > 2  # the screenshot has text
    again = (await env.step([PressKey(key="f5")])).observation
    assert reason in (again.last_action_error or "") and again.screenshot == observation.screenshot
    if opening:
        assert (await do(env, Hotkey(keys=("ctrl", "w")))).url == start
    else:
        assert (await do(env, Hotkey(keys=("alt", "left")))).url == start
        assert reason in (await env.step([Hotkey(keys=("alt", "right"))])).observation.last_action_error or ""
        observation = await do(env, Hotkey(keys=("ctrl", "l")), TypeText(text=f"{start}\n"))
    observation = await do(env, Wait(duration_s=0.1))
    assert (observation.url, observation.notes) == (start, ())


@pytest.mark.long
async def test_neither_a_frame_that_fails_nor_an_answer_without_content_hides_the_page(
    env: BrowserEnv, pages: PageServer
) -> None:
    body = f"<a id=go href='{pages.url('/empty')}'>go</a><iframe src='http://nosuch.invalid/'></iframe>"
    start = pages.serve(body, title="start")
    await env.reset(OpenPage(start))
    observation = await click(env, "#go")
    assert (observation.url, observation.notes) == (start, ())
