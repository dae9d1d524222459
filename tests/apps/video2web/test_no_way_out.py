"""Pages that try to get out of the browser in which they are shown: nothing arrives where they send it."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.video2web.build import SiteEvaluator
from apps.video2web.render import Renderer, SiteFiles, SitePages, open_page

pytestmark = pytest.mark.asyncio(loop_scope="session")


class _Listener:
    """A port for TCP and UDP that counts who comes."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.came: list[str] = []
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._accept, self._receive)]
        for thread in self.threads:
            thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            self.came.append("tcp")
            connection.close()

    def _receive(self) -> None:
        while True:
            try:
                data, _ = self.udp.recvfrom(2048)
            except OSError:
                return
            if data == b"end":
                return
            self.came.append("udp")

    def close(self) -> None:
        self.udp.sendto(b"end", ("127.0.0.1", self.port))
        self.tcp.shutdown(socket.SHUT_RDWR)
        self.tcp.close()
        for thread in self.threads:
            thread.join(5)
        self.udp.close()


@pytest.fixture
def listener() -> Iterator[_Listener]:
    made = _Listener()
    yield made
    made.close()


WAYS = {
    "web socket": "<script>new WebSocket('ws://127.0.0.1:PORT/')</script>",
    "event source": "<script>new EventSource('http://127.0.0.1:PORT/')</script>",
    "beacon": "<script>navigator.sendBeacon('http://127.0.0.1:PORT/', 'x')</script>",
    "kept alive": "<script>fetch('http://127.0.0.1:PORT/', {keepalive: true, mode: 'no-cors'})</script>",
    "peer": "<script>(async () => { const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:PORT'},"
    "{urls: 'turn:127.0.0.1:PORT?transport=tcp', username: 'a', credential: 'b'}]}); peer.createDataChannel('x');"
    "await peer.setLocalDescription(await peer.createOffer()); })()</script>",
    "transport": "<script>try { new WebTransport('https://127.0.0.1:PORT/') } catch (error) {}</script>",
    "prefetch": "<link rel=prefetch href='http://127.0.0.1:PORT/a'><link rel=preload as=script "
    "href='http://127.0.0.1:PORT/b'><link rel=modulepreload href='http://127.0.0.1:PORT/c'>",
    "preconnect": "<link rel=preconnect href='http://127.0.0.1:PORT'><link rel=dns-prefetch href='//127.0.0.1:PORT'>",
    "speculation": '<script type=speculationrules>{"prerender": [{"source": "list", "urls": '
    '["http://127.0.0.1:PORT/"]}], "prefetch": [{"source": "list", "urls": ["http://127.0.0.1:PORT/"]}]}</script>',
    "service worker": "<script>navigator.serviceWorker?.register('worker.js')</script>",
    "worker": "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('http://127.0.0.1:PORT/');"
    "importScripts('http://127.0.0.1:PORT/')\"])))</script>",
    "popup": "<script>open('http://127.0.0.1:PORT/'); open('http://127.0.0.1:PORT/', 'x', 'noopener')</script>",
    "refresh": "<meta http-equiv=refresh content='0;url=http://127.0.0.1:PORT/'>",
    "navigation": "<script>setTimeout(() => { location = 'http://127.0.0.1:PORT/' }, 5)</script>",
    "form": "<form id=f action='http://127.0.0.1:PORT/' method=post target=_blank></form><script>f.submit()</script>",
    "ping": "<a id=a href='#x' ping='http://127.0.0.1:PORT/'>x</a><script>a.click()</script>",
    "frames": "<iframe src='http://127.0.0.1:PORT/'></iframe><object data='http://127.0.0.1:PORT/'></object>"
    "<embed src='http://127.0.0.1:PORT/'><iframe srcdoc=\"<img src='http://127.0.0.1:PORT/'>\"></iframe>",
    "style": "<style>@import 'http://127.0.0.1:PORT/'; @font-face{font-family:a;src:url(http://127.0.0.1:PORT/)}"
    "body{font-family:a;background:url(http://127.0.0.1:PORT/);cursor:url(http://127.0.0.1:PORT/), auto}</style>x",
    "media": "<video src='http://127.0.0.1:PORT/' poster='http://127.0.0.1:PORT/' autoplay></video>"
    "<link rel=icon href='http://127.0.0.1:PORT/'><link rel=manifest href='http://127.0.0.1:PORT/'>",
    "report": "<meta http-equiv=Content-Security-Policy content=\"img-src 'none'; report-uri http://127.0.0.1:PORT/\">"
    "<img src=x.png>",
}


@pytest.mark.long
async def test_nothing_leaves_the_browser(renderer: Renderer, listener: _Listener) -> None:
    """All ways at once, each in a page of its own, and time for what is slow."""
    pages: dict[str, str | bytes] = {
        f"{place}.html": f"<!doctype html>{html.replace('PORT', str(listener.port))}<p>shown"
        for place, html in enumerate(WAYS.values())
    }
    pages["worker.js"] = f"fetch('http://127.0.0.1:{listener.port}/')"
    site = SitePages(pages)

    async def look(place: int) -> None:
        async with renderer.context(site, (320, 200)) as context:
            await open_page(context, f"/{place}.html")
            await asyncio.sleep(1.5)

    for first in range(0, len(WAYS), 7):
        done = await asyncio.gather(
            *(look(place) for place in range(first, min(first + 7, len(WAYS)))), return_exceptions=True
        )
        assert all(one is None or "cannot be loaded" in str(one) for one in done), done
    assert listener.came == []
    with socket.create_connection(("127.0.0.1", listener.port), timeout=5):  # the listener does listen
        pass
    await asyncio.sleep(0.2)
    assert listener.came == ["tcp"]


@pytest.mark.long
async def test_files_of_the_machine_are_not_shown(renderer: Renderer, tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("<body style='margin:0;background:#f0f'>secret")
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(
        f"<!doctype html><body style='margin:0'><iframe src='file://{secret}' width=200 height=60></iframe>"
        f"<object data='file://{secret}' width=200 height=60></object><iframe src='view-source:file://{secret}'></iframe>"
        f"<img src='file://{secret}'><link rel=stylesheet href='file://{secret}'><iframe src='../secret.html'></iframe>"
    )
    page = await renderer.render(SiteFiles(site), (640, 300))
    assert not ((page.image == (255, 0, 255)).all(axis=2)).any()


@pytest.mark.long
async def test_a_page_that_goes_away_or_lies_to_the_examiner_costs_itself_only() -> None:
    lie = "<script>window.axe = Object.freeze({run: async () => ({violations: []})})</script>"
    async with SiteEvaluator() as evaluator:
        files = {"index.html": f"<!doctype html>{lie}<p>text<img src=x.png>".encode()}
        violations = await evaluator.find_violations(files, "index.html", (320, 200))
    assert violations is None or any(line.startswith("image-alt") for line in violations)
