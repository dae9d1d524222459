"""The preview server: loopback only, a policy on every answer, no file outside of the site."""

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.video2web.preview import POLICY, PreviewServer
from cua.errors import ConfigError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PreviewServer]:
    site = tmp_path / "site"
    (site / "images").mkdir(parents=True)
    (site / "index.html").write_text("<h1>Plants</h1>")
    (site / "images" / "a b.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("secret")
    (site / "link.txt").symlink_to(tmp_path / "secret.txt")
    made = PreviewServer(site)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(5)


def _get(server: PreviewServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_files_of_the_site_are_served_with_a_policy(server: PreviewServer) -> None:
    status, headers, body = _get(server, "/")
    assert (status, body) == (200, b"<h1>Plants</h1>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"] == POLICY
    assert "connect-src 'none'" in POLICY
    assert _get(server, "/images/a%20b.svg?x=1")[0] == 200
    assert _get(server, "/index.html", method="HEAD")[2] == b""
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "//etc/hostname", "/link.txt", "/images", "/%00",
     "/none.html", "/" + "a" * 5000],
)  # fmt: skip
def test_nothing_else_is(server: PreviewServer, path: str) -> None:
    status, headers, body = _get(server, path)
    assert status == 404
    assert b"secret\n" not in body
    assert headers["Content-Security-Policy"] == POLICY


def test_a_foreign_host_and_other_methods_are_refused(server: PreviewServer) -> None:
    assert _get(server, "/", Host="evil.example")[0] == 421
    assert _get(server, "/", Host=f"localhost:{server.server_port}")[0] == 200
    assert _get(server, "/", method="POST")[0] == 501


def test_only_the_loopback_is_listened_on(server: PreviewServer, tmp_path: Path) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", server.server_port), timeout=1):
        pass
    with pytest.raises(ConfigError, match="cannot be used"):
        PreviewServer(tmp_path / "site", server.server_port)
    with pytest.raises(ConfigError, match=r"there is no .*index\.html"):
        PreviewServer(tmp_path)
