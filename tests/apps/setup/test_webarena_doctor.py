"""`cua eval webarena --doctor`: what a run would find; stand-ins for the sites and the judge, and nobody."""

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from apps.setup.doctor import run_webarena_doctor
from envs.browser.launch import find_browser
from envs.suites.webarena.site_state import reserve_sites, reset_site
from envs.suites.webarena.sites import read_sites
from tests.envs.suites.webarena.stand_in import StandIn


@pytest.fixture
def site() -> Iterator[StandIn]:
    server = StandIn()
    yield server
    server.close()


@pytest.fixture
def judge_url() -> Iterator[str]:
    """A judge that takes an answer for right when it says blue."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            verdict = "correct" if "It is blue" in body else "incorrect"
            reply = json.dumps({"choices": [{"message": {"content": f"Well.\n{verdict}"}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


async def levels(path: Path, http_auth: Path | None = None, **options: str) -> dict[str, tuple[str, str]]:
    """Level and finding of each row."""
    settings = {"model": "literal", "http_auth": http_auth}
    report = await run_webarena_doctor(print, {"sites": str(path), **options}, settings)
    return {row.name: (row.level, row.actual) for row in report.rows}


async def test_options_that_are_not_taken(tmp_path: Path) -> None:
    assert (await levels(tmp_path / "none.toml"))["options"][0] == "fail"
    (tmp_path / "sites.toml").write_text('[map]\nurl = "http://127.0.0.1:9"\n')
    assert (await levels(tmp_path / "sites.toml", reset_command="reddit=x"))["options"][0] == "fail"


@pytest.mark.long
async def test_nobody_is_there(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    path.write_text(
        'judge = "m"\njudge_url = "http://127.0.0.1:9/v1"\n'
        '[reddit]\nurl = "http://127.0.0.1:9"\n[shopping]\nurl = "http://127.0.0.1:10"\n'
    )
    rows = await levels(path)
    assert rows["reddit"][0] == rows["shopping"][0] == "fail" and "does not answer" in rows["reddit"][1]
    assert rows["judge"][0] == "fail" and rows["hosts"][0] == "warn" and "reddit and shopping" in rows["hosts"][1]


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
async def test_sites_that_run(tmp_path: Path, site: StandIn, judge_url: str) -> None:
    path = tmp_path / "sites.toml"
    links = '<a href="http://elsewhere.test/1">a</a> <a href="http://elsewhere.test/2">b</a>'
    site.pages = {
        "/": "Running on Postmill",
        "/shop": f"<i>Magento</i> {links}",
        "/shop/magento_version": "Magento/2.3",
    }
    shop = site.url.replace("127.0.0.1", "localhost")
    path.write_text(
        f'judge = "m"\njudge_url = "{judge_url}"\n[reddit]\nurl = "{site.url}"\n'
        f'[shopping]\nurl = "{shop}/shop"\nuser = ""\n'
    )
    for one in read_sites(path).sites.values():
        await reset_site(replace(one, reset="true"))  # an earlier server may have had the port
    rows = await levels(path, reset_command="shopping=./reset.sh")
    assert rows["reddit"][0] == "ok" and rows["reddit"][1].endswith(": Postmill")
    assert rows["reddit login"][0] == "ok" and rows["hosts"][0] == "ok"
    assert rows["reddit state"] == ("ok", "nothing changed it; no command puts it back")
    assert rows["shopping"][0] == "warn" and "2 of its 2 links lead to elsewhere.test" in rows["shopping"][1]
    assert rows["shopping state"] == ("ok", "nothing changed it; put back by ./reset.sh")
    assert rows["shopping version"] == ("warn", "Magento/2.3")
    assert rows["judge"][0] == "ok" and rows["judge"][1].startswith("m tells right from wrong")
    async with reserve_sites([read_sites(path).sites["reddit"]], task_id="webarena/600", alone=True, timeout_s=5):
        pass
    site.pages = {"/": "nothing to see"}
    path.write_text(f'[reddit]\nurl = "{site.url}"\npassword = "wrong"\n')
    rows = await levels(path)
    assert rows["reddit"][0] == "warn" and rows["judge"][0] == "warn"
    assert rows["reddit login"][0] == "fail" and "wrong" not in rows["reddit login"][1]
    assert rows["reddit state"] == ("warn", "1 task changed it, last webarena/600; no command puts it back")
    await reset_site(replace(read_sites(path).sites["reddit"], reset="true"))


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
async def test_a_site_that_asks_for_a_login_by_http(tmp_path: Path, site: StandIn) -> None:
    path, auth = tmp_path / "sites.toml", tmp_path / "auth.toml"
    path.write_text(f'[reddit]\nurl = "{site.url}"\n')
    site.pages, site.http_login = {"/": "Running on Postmill"}, "ann:pw-12345"
    told = f"{site.url} asks for a user name and a password by HTTP authentication"
    for password, is_right in (("pw-12345", True), ("pw-54321", False)):
        auth.write_text(f'[[login]]\norigin = "{site.url}"\nusername = "ann"\npassword = "{password}"\n')
        rows = await levels(path, auth)
        assert (rows["reddit"][0], told in rows["reddit"][1]) == (("ok", False) if is_right else ("fail", True))
        assert ("reddit login" in rows) is is_right and not any(password in found for _, found in rows.values())
    assert (await levels(path))["reddit"][0] == "fail"
    assert (await levels(path, tmp_path / "none.toml"))["settings"][0] == "fail"
