"""Pages of the web as images: from a server on loopback, whole, within the rules on domains."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.video2web.inputs import check_url, is_url, photograph_pages, take_inputs
from cua.errors import ConfigError, CuaError
from envs.domain_rules import DomainRules
from tests.free_port import find_free_port

SIZE = (400, 300)
LONG = """<!doctype html><style>body{margin:0;font:20px sans-serif}div{height:500px}div:nth-child(2){background:#2a7}
</style><div>Top</div><div></div><div id=late>not yet</div><script>alert('hello');
new IntersectionObserver((all) => all.forEach((one) => { if (one.isIntersecting) late.style.background = '#c33' }))
  .observe(late)</script>"""


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pages = {"/": LONG, "/plain": "<h1>Plain</h1>"}
        if self.path == "/gone":
            self.send_error(410)
        elif self.path == "/away":
            self._send(302, "", Location="/plain")
        elif self.path == "/data.zip":
            self._send(200, "PK", "application/zip")
        else:
            self._send(200, pages.get(self.path, "<p>other"))

    def _send(self, status: int, body: str, kind: str = "text/html", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.long
async def test_pages_are_taken_whole_and_looked_through(address: str) -> None:
    shown = await photograph_pages([f"{address}/", f"{address}/away"], SIZE, DomainRules())
    image = shown[f"{address}/"]
    assert image.shape == (1500, 400, 3)
    assert tuple(image[700, 200]) == (0x22, 0xAA, 0x77)
    assert tuple(image[1400, 200]) == (0xCC, 0x33, 0x33)
    assert shown[f"{address}/away"].shape == (300, 400, 3)


@pytest.mark.long
async def test_addresses_and_images_make_one_site(address: str, tmp_path: Path) -> None:
    Image.fromarray(np.full((300, 400, 3), 255, np.uint8)).save(tmp_path / "page.png")
    found = await take_inputs([f"{address}/plain", str(tmp_path / "page.png")], SIZE)
    assert [page.name for page in found.pages] == [f"{address}/plain", "page.png"]
    assert found.viewport_px == SIZE
    assert [block.text for block in found.pages[0].blocks] == ["plain"]
    with pytest.raises(ConfigError, match="give images of one width"):
        await take_inputs([f"{address}/plain", str(tmp_path / "page.png")], None)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/gone", "answers 410 Gone; expected a page"), ("/data.zip", "download")],
)
async def test_what_is_no_page_is_said(address: str, path: str, said: str) -> None:
    with pytest.raises(CuaError, match=said):
        await photograph_pages([address + path], SIZE, DomainRules())


@pytest.mark.long
async def test_nobody_there_and_what_the_rules_forbid(address: str) -> None:
    with pytest.raises(CuaError, match="cannot be opened: no server answers there"):
        await photograph_pages([f"http://127.0.0.1:{find_free_port()}/"], SIZE, DomainRules())
    with pytest.raises(ConfigError, match=r"is denied by the rule '127\.0\.0\.1'"):
        await photograph_pages([address], SIZE, DomainRules(denied=("127.0.0.1",)))
    with pytest.raises(ConfigError, match="outside of the allowed domains"):
        await photograph_pages([address], SIZE, DomainRules(allowed=("example.com",)))


@pytest.mark.parametrize(
    "text", ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "about:blank", "ftp://a/b", "http://",
             "https://:80/", "http://a:99999/", "chrome://version", "view-source:http://a/"],
)  # fmt: skip
def test_only_pages_of_the_web_are_opened(text: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be opened|is not the address of a web page"):
        check_url(text)


def test_files_are_no_addresses() -> None:
    assert not any(map(is_url, ("page.png", "C:\\page.png", "a/b.html", "-")))
    assert is_url("HTTPS://example.com/x") and check_url("HTTPS://example.com/x")
