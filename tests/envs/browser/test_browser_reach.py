"""No way that a page has to a denied domain reaches it, whatever is allowed beside it."""

import asyncio
from collections.abc import Callable

import pytest

from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from tests.envs.browser.listener import Listener, listening
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
TASK = InstructionTask(instruction="test")
CERTAIN = frozenset(
    "image redirected_image redirected_fetch redirected_twice style font script module fetch beacon xhr event_source "
    "socket frame redirected_frame prefetch worker_fetch shared_worker shared_worker_redirect popup redirected_popup "
    "udp tcp".split()
)
"""Ways that do reach a page which is not denied: the test would see them."""

PAGE = """<!doctype html><meta charset=utf-8><title>ways</title>
<meta http-equiv="Content-Security-Policy-Report-Only" content="default-src 'none'">
<link rel=icon href="EVIL/icon">
<link rel=stylesheet href="EVIL/style"><link rel=prefetch href="EVIL/prefetch"><link rel=preconnect href="EVIL">
<link rel=dns-prefetch href="EVIL"><link rel=modulepreload href="EVIL/modulepreload">
<link rel=prerender href="EVIL/prerender"><link rel=manifest href="EVIL/manifest">
<script type=speculationrules>
  {"prefetch": [{"source": "list", "urls": ["EVIL/speculated", "SELF/redirect?to=EVIL/speculated_redirect"]}],
   "prerender": [{"source": "list", "urls": ["SELF/redirect?to=EVIL/prerendered", "EVIL/prerendered_direct"]}]}
</script>
<style>@font-face { font-family: f; src: url(EVIL/font) } p { font-family: f }</style>
<body><p>text</p><img src="EVIL/image"><img src="SELF/redirect?to=EVIL/redirected_image">
<iframe src="EVIL/frame"></iframe><iframe src="SELF/redirect?to=EVIL/redirected_frame"></iframe>
<iframe name=inner></iframe><form id=form action="EVIL/form_in_frame" target=inner></form>
<object data="EVIL/object"></object><video src="EVIL/media"></video>
<a id=ping href="#x" ping="EVIL/ping">ping</a>
<script src="EVIL/script"></script>
<script type=module>import("EVIL/module").catch(() => 0)</script>
<script>
  const quiet = promise => promise.catch(() => 0);
  const worker = code => URL.createObjectURL(new Blob([code], {type: "text/javascript"}));
  quiet(fetch("EVIL/fetch", {mode: "no-cors"}));
  quiet(fetch("SELF/redirect?to=EVIL/redirected_fetch", {mode: "no-cors"}));
  quiet(fetch("SELF/redirect?to=" + encodeURIComponent("SELF/redirect?to=EVIL/redirected_twice"), {mode: "no-cors"}));
  const xhr = new XMLHttpRequest(); xhr.open("GET", "EVIL/xhr"); xhr.send();
  navigator.sendBeacon("EVIL/beacon", "x");
  new EventSource("EVIL/event_source");
  new WebSocket("EVIL/socket".replace("http", "ws"));
  new Worker(worker("fetch('EVIL/worker_fetch', {mode: 'no-cors'}).catch(() => 0)"));
  const shared = "fetch('EVIL/shared_worker', {mode: 'no-cors'}).catch(() => 0);" +
    "fetch('SELF/redirect?to=EVIL/shared_worker_redirect', {mode: 'no-cors'}).catch(() => 0)";
  new SharedWorker(worker(shared));
  form.submit();
  open("EVIL/popup"); open("SELF/redirect?to=EVIL/redirected_popup");
  ping.click();
  if (window.WebTransport) new WebTransport("https://127.0.0.1:PORT/transport").ready.catch(() => 0);
  const peer = new RTCPeerConnection({iceServers: [
    {urls: ["stun:127.0.0.1:PORT", "stun:127.0.0.1:PORT?transport=tcp"]},
    {urls: ["turn:127.0.0.1:PORT?transport=udp", "turn:127.0.0.1:PORT?transport=tcp"],
     username: "u", credential: "p"}]});
  peer.createDataChannel("x"); peer.createOffer().then(offer => peer.setLocalDescription(offer));
</script>"""


async def reached_from(
    pages: PageServer,
    listener: Listener,
    host: str,
    evil: str,
    make_env: Callable[[BrowserOptions], BrowserEnv] = BrowserEnv,
    **rules: tuple[str, ...],
) -> set[str]:
    """What of a denied place a page reaches; `host` serves the page."""
    here = pages.url("", host=host)
    path = pages.serve_whole(
        PAGE.replace("EVIL", f"http://{evil}:{listener.port}").replace("SELF", here).replace("PORT", str(listener.port))
    )
    env = make_env(BrowserOptions(start_url=f"{here}{path}", **rules))
    try:
        await env.reset(TASK)
        for _ in range(5):
            await env.step([])
            await asyncio.sleep(0.3)
        return set(listener.reached)
    finally:
        await env.close()


@pytest.mark.slow
async def test_the_ways_are_real(pages: PageServer) -> None:
    async with listening() as listener:
        reached = await reached_from(pages, listener, "good.localhost", "evil.good.localhost")
    assert reached >= CERTAIN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "evil", "rules"),
    [
        ("good.localhost", "evil.good.localhost", (("good.localhost",), ("evil.good.localhost",))),
        ("127.0.0.1", "evil.localhost", ((), ("evil.localhost", "127.0.0.1:{port}"))),
        ("127.0.0.1", "127.0.0.1", (("127.0.0.1",), ("127.0.0.1:{port}",))),
    ],
    ids=["child of an allowed domain", "denied name", "denied port of an allowed host"],
)
async def test_none_of_them_reaches_a_denied_place(
    pages: PageServer, host: str, evil: str, rules: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    async with listening() as listener:
        allowed, denied = ([rule.format(port=listener.port) for rule in kind] for kind in rules)
        reached = await reached_from(
            pages, listener, host, evil, allowed_domains=tuple(allowed), denied_domains=tuple(denied)
        )
    assert reached == set()
