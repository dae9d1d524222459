"""Secrets leave a browser by no file: neither by its HAR nor by the names of downloads."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SECRET = 'hünter2 & "99"'
SEND = """async ([secret, basic]) => {
  document.cookie = "c=" + encodeURIComponent(secret);
  await fetch("/echo?q=" + encodeURIComponent(secret));
  await fetch("/upload", {method: "POST", body: JSON.stringify({secret}), headers: {Authorization: "Basic " + basic}});
  await fetch("/upload", {method: "POST", body: new URLSearchParams({secret})});
  await fetch("/upload", {method: "POST", body: new Blob([new Uint8Array([255, 254]), secret])});
}"""


@pytest.mark.long
async def test_the_har_file_holds_no_secret(pages: PageServer, tmp_path: Path) -> None:
    url = pages.serve(f"<p>plain words</p><script>let x = {json.dumps(SECRET)}</script>")
    har = tmp_path / "run.har"
    env = BrowserEnv(BrowserOptions(start_url=url, har_path=har, masked_texts=(SECRET,)))
    basic = base64.b64encode(f"ada:{SECRET}".encode()).decode()
    try:
        await env.reset(InstructionTask(instruction="-"))
        await env.page.evaluate(SEND, [SECRET, basic])
    finally:
        await env.close()
    told = har.read_text("utf-8")
    assert len(json.loads(told)["log"]["entries"]) >= 5
    assert "plain words" in told
    quoted = quote(SECRET, safe="")
    for form in (SECRET, json.dumps(SECRET)[1:-1], quoted, quoted.replace("%20", "+"), "nter2", basic, basic[8:-8]):
        assert form not in told
    assert told.count("***") >= 5
