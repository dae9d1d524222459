"""What hostile words, files and requests may not do to the assistant, through the real app and a real Chromium."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil
import pytest

from cua.messages import Reply, ToolCall
from cua.models.scripted import ScriptedModel
from tests.apps.assistant.running import ROOT, Person, RunningAssistant
from tests.envs.browser.pages import PageServer
from tests.fake_openai import FakeOpenAI

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

EVIL = (
    "<img src=x onerror=window.hacked=1>",
    "<script>window.hacked=2</script>",
    '"><svg onload=window.hacked=3>',
    "[x](javascript:window.hacked=4)",
    "![x](http://evil.example/leak.png)",
    "<iframe srcdoc='<script>parent.hacked=5</script>'></iframe>",
    "<a href='javascript:window.hacked=6'>x</a>",
    "</textarea><details open ontoggle=window.hacked=7>",
    "<style>@import 'http://evil.example/x.css'</style>",
    "<math><mtext><mglyph><style><img src=x onerror=window.hacked=8>",
    "{{constructor.constructor('window.hacked=9')()}}",
    "<assistant-goto session=evil></assistant-goto>",
    "<base href=http://evil.example/>",
    "${window.hacked=10}",
    "<form action=http://evil.example><button>go",
    "<object data=javascript:window.hacked=11>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "<link rel=stylesheet href=http://evil.example/a.css>",
    "<video><source onerror=window.hacked=12>",
    "<body onload=window.hacked=13>",
    "<input autofocus onfocus=window.hacked=14>",
    "<img src='http://evil.example/pixel.gif'>",
    "\u202e<b>reversed</b>",
    "$$\\href{javascript:window.hacked=15}{x}$$",
    "`<img src=x onerror=window.hacked=16>`",
    "<xss style=animation-name:x onanimationstart=window.hacked=17>",
    "<template><img src=x onerror=window.hacked=18></template>",
    "<noscript><p title='</noscript><img src=x onerror=window.hacked=19>'>",
    "<details><summary>x</summary><script>window.hacked=20</script></details>",
    "<img srcset='http://evil.example/a.png 1x'>",
)


KEY = "sk-very-secret-key"
ODD = """() => {
  const attributes = [...document.querySelectorAll('*')].flatMap((one) => [...one.attributes].map((two) => [one, two]));
  return [
    window.hacked,
    ...[...document.scripts].filter((one) => /hacked|evil/.test(one.text + one.src)).map((one) => one.outerHTML),
    ...attributes.filter(([, two]) => /^on/i.test(two.name)
      || (/^(href|src|srcset|action|data|srcdoc)$/.test(two.name) && !two.value.startsWith('/api/runs/')
        && /javascript:|evil\\.example|hacked/.test(two.value))).map(([one]) => one.outerHTML.slice(0, 200)),
    ...[...document.querySelectorAll('iframe, object, embed, form[action], base:not([href="./"]), meta[http-equiv]')]
      .map((one) => one.outerHTML.slice(0, 200)),
  ].filter((one) => one != null);
}"""


def serve_evil(server: PageServer) -> str:
    """A page with a hostile title, and buttons with hostile names that ask before they are pressed."""
    style = "<style>button{display:block;width:640px;height:20px}</style>"
    rows = "".join(f"<button>Delete {escape(evil)}</button>" for evil in EVIL)
    return server.serve(style + rows, title=escape(" ".join(EVIL)))


def where_key_is_kept(app: RunningAssistant) -> list[Path]:
    """Records of runs, the log, settings, whatever else the app has written."""
    return [path for path in app.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


async def test_hostile_words_of_model_and_page_never_become_html(person: Person) -> None:
    page = person.page
    end = f"computer.terminate(status='success', answer={chr(10).join(EVIL)!r})"
    codes = [(evil, f"pyautogui.click(0.1, {(20 * number + 10) / 720:.4f})") for number, evil in enumerate(EVIL)]
    replies = [
        f"## Thought:\n{said}\n## Action:\n{said}\n## Code:\n```python\n{code}  # {said}\n```"
        for said, code in [*codes, ("End", end)]
    ]
    with FakeOpenAI(ScriptedModel(replies), model_id="evil") as server, contextlib.closing(PageServer()) as pages:
        settings = {"model": "evil", "base_url": server.base_url, "approve": "auto", "max_steps": 60}
        order = {"instruction": " ".join(EVIL), "place": "web", "url": serve_evil(pages), "settings": settings}
        session = await person.api("POST", "/sessions", json=order)
        await page.goto(f"{person.app.base}/?session={session['id']}")
        card = page.get_by_role("alertdialog", name="The agent asks")
        await card.wait_for(timeout=60_000)
        assert "Delete <img src=x" in await card.locator(".target").text_content()
        assert "Delete <img src=x" in await card.locator("h3").text_content()
        assert await page.evaluate(ODD) == []
        await person.api("POST", f"/sessions/{session['id']}/redirect", json={"instruction": EVIL[1]})
        await page.get_by_role("button", name="Allow deletes").click()
        await person.status("unverified|failed|error|capped", 120)
        feed = page.locator("assistant-feed")
        assert await page.locator("article.step").count() >= len(EVIL)
        for details in await feed.locator("details").all():
            await details.evaluate("one => one.open = true")
        text = await feed.text_content()
        assert all(text.count(evil) >= 3 for evil in EVIL if "\u202e" not in evil)
        assert await page.evaluate(ODD) == []
    await person.go("History")
    await page.get_by_role("button", name="Open ").first.click()
    await page.locator(".run h2").first.wait_for()
    for step in ("1", "7", "30"):
        await page.get_by_label("Step", exact=True).fill(step)
        await page.locator(f".run .step-view img[alt='Screen at step {step}']").wait_for()
        assert await page.evaluate(ODD) == []


SAFE = """# Sums
Two **bold** and *soft* words, `a*b*c`, [a page](https://a.example/x(1)) [^3^].

- one
  - deeper
- two
3. three

| name | sum |
|------|----:|
| a | 1 |

```python
print("**no**")
```
> said"""
AS_HTML = [
    "<h4>Sums</h4>",
    "<p>Two <strong>bold</strong> and <em>soft</em> words, <code>a*b*c</code>, "
    '<a href="https://a.example/x(1)" target="_blank" rel="noopener noreferrer nofollow" class="external" '
    'title="https://a.example/x(1)">a page<span class="quiet"> ↗</span></a> <i>3</i>.</p>',
    "<ul><li>one<ul><li>deeper</li></ul></li><li>two</li></ul>",
    '<ol start="3"><li>three</li></ol>',
    '<div class="table" tabindex="0" role="region" aria-label="Table"><table><tr><th>name</th><th>sum</th></tr>'
    "<tr><td>a</td><td>1</td></tr></table></div>",
    '<pre tabindex="0">print("**no**")</pre>',
    "<blockquote>said</blockquote>",
]
MARKDOWN = """async (text) => {
  const { markdown } = await import('/assistant/markdown.js');
  const cite = (mark) => Object.assign(document.createElement('i'), { textContent: mark });
  return markdown(text, cite).map((one) => one.outerHTML);
}"""


async def test_answers_are_a_safe_part_of_markdown(person: Person) -> None:
    assert await person.page.evaluate(MARKDOWN, SAFE) == AS_HTML
    assert await person.page.evaluate(MARKDOWN, "```markdown\n- [^t001.0^]\n```") == ["<ul><li><i>t001.0</i></li></ul>"]
    hostile = "".join(await person.page.evaluate(MARKDOWN, "\n\n".join(EVIL)))
    assert set(re.findall(r"<(\w+)", hostile)) <= {"p", "code"}
    assert await person.page.evaluate(MARKDOWN, "a ` b ** c * d [x] (y) | z") == ["<p>a ` b ** c * d [x] (y) | z</p>"]


async def test_hostile_files_tools_and_settings_never_become_html(person: Person, tmp_path: Path) -> None:
    page = person.page
    printing = "\n".join(f"print({evil!r})" for evil in EVIL)
    call = ToolCall(id="call_1", name="ipython", arguments=json.dumps({"code": printing}))
    replies = [Reply(content=EVIL[0], tool_calls=(call,)), Reply(content="\n".join(EVIL), tool_calls=())]
    files = [tmp_path / f"{evil.replace('/', '_')[:60]}.txt" for evil in EVIL[:6]]
    for file in files:
        file.write_text(EVIL[0])
    with FakeOpenAI(ScriptedModel(replies), model_id="evil") as server:
        for name, value in (("base_url", server.base_url), ("model", "evil"), ("api_key", KEY)):
            await person.api("PUT", f"/settings/{name}", json={"value": value})
        await person.choose("Mode", "agent")
        await page.locator("assistant-composer input[type=file]").set_input_files(files)
        await page.locator("assistant-composer .file:not(.is-loading)").nth(len(files) - 1).wait_for()
        assert await page.evaluate(ODD) == []
        await person.say("\n".join(EVIL))
        await person.status("unverified", 120)
        text = await page.locator("assistant-feed").text_content()
        assert all(text.count(evil) >= 3 for evil in EVIL if "\u202e" not in evil)
        assert await page.evaluate(ODD) == []
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (await person.api("GET", "/runs"))[0]["id"] and where_key_is_kept(person.app) == []
    await person.go("Settings")
    for evil in EVIL:
        await person.api("PUT", "/settings/model", json={"value": evil})
    await page.get_by_role("button", name="All settings").click()
    await page.get_by_label("Setting", exact=True).click()
    await page.get_by_role("option", name="Most steps").click()
    await page.get_by_text("Most steps: A run ends").wait_for()  # the field is emptied by then
    for evil in EVIL[:3]:
        await page.locator("#value input").fill(evil)
        await person.press("Save")
        await page.get_by_text(f"Most steps is {evil!r}").first.wait_for(state="attached")
        assert await page.evaluate(ODD) == []
    for name in ("base_url", "model", "api_key"):
        await person.api("PUT", f"/settings/{name}", json={"value": ""})


async def test_keys_go_in_and_never_come_out(person: Person) -> None:
    page = person.page
    await person.go("Settings")
    await page.locator("#connect-key input").fill(KEY)
    await person.press("Test and save")
    await page.locator("#verdict").get_by_text("no endpoint is set").wait_for()
    await page.wait_for_function("document.querySelector('#connect-key input').value === ''")
    (row,) = [row for row in await person.api("GET", "/settings") if row["name"] == "api_key"]
    assert row["value"] == "(set)"
    assert KEY not in await page.content()
    assert KEY not in str(await person.api("GET", "/settings"))
    assert KEY not in str(await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])"))
    assert where_key_is_kept(person.app) == []
    await person.api("PUT", "/settings/api_key", json={"value": ""})


async def test_strangers_stay_outside(app: RunningAssistant, browser: Any) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    answer = await page.goto(f"{app.base}/")
    assert answer.status == 401 and await page.get_by_label("Token").count() == 1
    await page.get_by_label("Token").fill(app.token)
    await page.get_by_role("button", name="Open").click()
    await page.get_by_role("button", name="Try the practice task").wait_for()
    (cookie,) = await context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert app.token not in cookie["value"] and await page.evaluate("document.cookie") == ""
    other = await context.new_page()  # another origin in the browser that is logged in
    await other.goto("data:text/html,<title>elsewhere</title>")
    attack = """async (base) => {
      const tried = [];
      for (const [path, more] of [['/api/sessions', {}], ['/api/sessions', { method: 'POST', body: '{}' }],
        ['/gradio_api/queue/join', { method: 'POST', body: '{}' }], ['/api/files', { method: 'POST', body: 'x' }]]) {
        for (const mode of ['cors', 'no-cors']) {
          tried.push(await fetch(base + path, { ...more, mode, credentials: 'include' })
            .then((answer) => answer.type === 'opaque' ? '' : `${path} ${answer.status}`, () => ''));
        }
      }
      tried.push(await new Promise((done) => {
        const socket = new WebSocket(base.replace('http', 'ws') + '/api/sessions/x/live');
        socket.onopen = () => done('socket opened');
        socket.onclose = socket.onerror = () => done('');
      }));
      return tried.filter(Boolean);
    }"""
    assert await other.evaluate(attack, app.base) == []
    assert await page.evaluate("() => fetch('/api/sessions').then((one) => one.json())") == []
    await context.close()


async def test_no_way_to_other_files_through_the_app(app: RunningAssistant) -> None:
    async with httpx.AsyncClient(base_url=app.base, headers=app.bearer, timeout=30) as web:
        files = {"files": ("../../../escaped.txt", b"mine", "text/plain")}
        (uploaded,) = (await web.post("/gradio_api/upload", files=files)).json()
        page_dir = Path(uploaded).parents[1]
        assert page_dir.name == "page" and page_dir.parent.name.startswith("k25-assistant-")
        assert page_dir.parent.stat().st_mode & 0o077 == 0
        assert not list(page_dir.parent.glob("escaped*"))
        link = page_dir / "link.txt"
        link.symlink_to("/etc/passwd")
        for target in (
            *("/etc/passwd", "../../../../etc/passwd", "file:///etc/passwd", str(app.log), "log.txt", uploaded),
            *(str(link), str(ROOT / "pyproject.toml"), str(app.home / "config"), "http://127.0.0.1:1/x"),
        ):
            for route in (
                "/gradio_api/file=",
                "/gradio_api/file/",
                "/file=",
                "/gradio_api/proxy=",
                "/gradio_api/stream/",
            ):
                for path in (route + target, route + quote(target, safe="")):
                    answer = await web.get(path)
                    assert answer.status_code in (400, 404), (path, answer.status_code)
        for path in (
            *("/assets/..%2f..%2f..%2fsettings.py", "/static/%2e%2e/%2e%2e/app.py", "/svelte/../../../etc/passwd"),
            *("/assets//etc/passwd", "/static//etc/passwd", "/assistant/..%2fpage.py", "/assistant/%2e%2e/page.py"),
            *(
                "/gradio_api/runs",
                "/monitoring",
                "/gradio_api/mcp/",
                "/gradio_api/deep_link",
                "/gradio_api/component_server",
            ),
            *("/api/runs/..%2f..%2fetc/steps/1/image", "/api/sessions/..%2f..%2f/images/x", "/docs", "/redoc"),
        ):
            answer = await web.get(path)
            assert answer.status_code in (400, 403, 404), (path, answer.status_code)
            assert "root:" not in answer.text and "import " not in answer.text
        for name in ("../../up.txt", "..", "/etc/cron.d/x", "a\x00b\n.txt", "con\u202e.exe", "x" * 5000):
            stored = (await web.post("/api/files", params={"name": name}, content=b"x")).json()["name"]
            folder, _, plain = stored.partition("/")
            assert (page_dir.parent / "uploads" / folder / plain).is_file() and len(plain.encode()) <= 200
        assert not list(page_dir.parent.glob("*.txt"))
        stolen = {"instruction": "read", "mode": "thinking", "files": ["../../../etc/passwd"]}
        assert (await web.post("/api/sessions", json=stolen)).status_code in (400, 404)


async def test_what_names_another_host_or_page_is_refused_on_every_route(app: RunningAssistant) -> None:
    strange = (
        ({"host": "evil.example"}, 400),
        ({"host": "localhost.evil.example:1"}, 400),
        ({"host": "127.0.0.1"}, 400),  # another port
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    )
    routes = ("/api/sessions", "/api/settings", "/gradio_api/queue/join", "/gradio_api/upload", "/config", "/api/files")
    async with httpx.AsyncClient(base_url=app.base, timeout=30) as web:
        for path in routes:
            for headers, status in strange:
                for method in ("GET", "POST"):
                    answer = await web.request(method, path, headers={**app.bearer, **headers})
                    assert answer.status_code == status, (method, path, headers)
                    assert "access-control-allow-origin" not in answer.headers
            assert (await web.get(path)).status_code == 401
        evil = {"host": "evil.example", "origin": "http://evil.example"}  # what a rebound name sends
        assert (await web.get("/", headers=evil)).status_code == 400
        (allowed,) = {(await web.options(path, headers={**app.bearer, "origin": app.base})).headers.get(
            "access-control-allow-origin") for path in routes}  # fmt: skip
        assert allowed is None


async def test_the_app_listens_and_speaks_on_loopback_only(person: Person) -> None:
    process = psutil.Process(person.app.process.pid)
    kinds = {socket.AF_INET, socket.AF_INET6}
    for one in (process, *process.children(recursive=True)):
        for connection in one.net_connections():
            if connection.family in kinds:
                assert connection.laddr.ip in ("127.0.0.1", "::1"), (one.name(), connection)
                assert not connection.raddr or connection.raddr.ip in ("127.0.0.1", "::1"), (one.name(), connection)


ALONE = """
import asyncio, socket, sys, threading
reached = []
def listen(kind, port):
    one = socket.socket(socket.AF_INET, kind)
    one.bind(("0.0.0.0", port))
    if kind == socket.SOCK_STREAM:
        one.listen()
    def take():
        while True:
            if kind == socket.SOCK_STREAM:
                there, _ = one.accept()
                if there.getsockname()[0] != "127.0.0.1":
                    reached.append(there.getsockname())
                there.close()
            else:
                reached.append(one.recvfrom(2000)[0])
    threading.Thread(target=take, daemon=True).start()
for port in (80, 443, 53):
    listen(socket.SOCK_STREAM, port)
listen(socket.SOCK_DGRAM, 53)
listen(socket.SOCK_DGRAM, 443)
try:
    socket.create_connection(("93.184.216.34", 443), 2).close()
except OSError as error:
    sys.exit(f"no trap: {error}")
import time
time.sleep(0.2)
if len(reached) != 1:
    sys.exit(f"no trap: {reached}")
from playwright.async_api import async_playwright
from envs.browser import find_browser
from tests.apps.assistant.running import RunningAssistant
async def walk(app):
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(find_browser().path))
        page = await browser.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(app.address)
        await page.get_by_role("button", name="Try the practice task").click()
        await page.get_by_role("button", name="Allow once").wait_for(timeout=90_000)
        await asyncio.sleep(12)  # onnxruntime reports 9 s after its import
        for entry in ("History", "Settings", "Tasks"):
            await page.locator("assistant-sidebar").get_by_role("button", name=entry).click()
        await page.locator(".session > .entry").click()
        await page.get_by_role("button", name="Stop", exact=True).click()
        await page.locator(".status[data-state=stopped]").wait_for()
        await browser.close()
        return [url for url in asked if not url.startswith((app.base, "data:", "blob:"))]
with RunningAssistant() as app:
    asked = asyncio.run(walk(app))
print("reached", reached[1:], "asked", asked)
"""


@pytest.mark.skipif(shutil.which("unshare") is None or shutil.which("ip") is None, reason="needs unshare and ip")
async def test_nothing_leaves_the_machine() -> None:
    """In a network of its own, in which every address leads back to listeners of this test."""
    fenced = 'ip link set lo up && ip route add local default dev lo && exec "$@"'
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", fenced, "sh", sys.executable, "-c", ALONE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=240, env=environment, cwd=ROOT
    )
    if "no trap" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"no network of its own here: {done.stderr.strip()[-200:]}")
    assert done.stdout.strip() == "reached [] asked []", done.stderr[-2000:]
