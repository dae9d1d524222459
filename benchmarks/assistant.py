"""Measure the assistant: start, frames per second, time to stop, idle load, memory; and Gradio's own streaming.

    python -m benchmarks.assistant [--seconds 20] [--stops 10] [--steps 300] [--only PART,PART]

Parts: start, frames, stop, idle, memory, ocr, peer.

The app runs in a process of its own, as `cua assistant` starts it, and a real Chromium looks at its page; both share
this machine's cores with the agent's own browser. Frames count when the page has drawn them (`load` of the image). The
screen shows a page of text that scrolls all the time, 1280 x 720, so that there is always something new to send. The
peer, in the same run, is the way of Gradio's documentation to show images one after the other: a generator that yields
to `gr.Image`; once with ready images, so that only the way to the page is measured, and once with screenshots of the
same page by Playwright. It runs no agent.
"""

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil

from cua.models.scripted import ScriptedModel
from envs.browser import find_browser
from tests.apps.assistant.running import RunningAssistant
from tests.fake_openai import FakeOpenAI
from tests.free_port import find_free_port

SIZE = {"width": 1280, "height": 720}
MOVING = """<!doctype html><meta charset=utf-8><title>moving</title><style>body{font:15px/1.5 sans-serif;margin:0 2rem}
tr:nth-child(odd){background:#eef}td{padding:0 1.5rem}</style><table></table><script>
const words = 'paint always something new on the screen of this agent while a person looks'.split(' ');
document.querySelector('table').innerHTML = Array.from({length: 400}, (_, row) => '<tr>' + Array.from({length: 9},
  (_, column) => `<td>${words[(row * 7 + column * 3) % words.length]} ${row * column % 97}</td>`).join('')).join('');
let y = 0; const step = () => { y = (y + 3) % 6000; scrollTo(0, y); requestAnimationFrame(step); }; step();
</script>"""
STILL = "<!doctype html><title>still</title><h1>At rest</h1><p>Nothing moves here.</p>"
TURNING = """<!doctype html><meta charset=utf-8><title>turning</title><style>body{font:16px/1.6 sans-serif}</style>
<button>Next</button><ol></ol><script>
let page = 0; const words = 'amber birch cedar delta ember fjord grove heron inlet jetty'.split(' ');
const turn = () => { page += 1; document.querySelector('ol').innerHTML = words.map((word, row) =>
  `<li>${word} ${page * 37 % 991} of page ${page}, ${words[(row + page) % 10]}</li>`).join(''); };
document.querySelector('button').onclick = turn; turn();
</script>"""
COUNT_FRAMES = """window.framesDrawn = 0;
document.addEventListener('load', (event) => {
  if (event.target.tagName === 'IMG' && event.target.naturalWidth > 600) window.framesDrawn += 1;
}, true);"""
THINK_S = 0.3
"""Time that the served model takes for a reply."""
PEER = """
import sys, time
import gradio as gr
from PIL import Image, ImageDraw
kind, port, address, browser = sys.argv[1:]

def ready():
    images = []
    for number in range(16):
        image = Image.new("RGB", (1280, 720), "white")
        draw = ImageDraw.Draw(image)
        for row in range(40):
            draw.text((30, 18 * row), f"row {row * 7 + number} of a page full of text " * 5, fill="black")
        images.append(image)
    while True:
        yield from images

async def shots():
    import io
    from playwright.async_api import async_playwright
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=browser)
        page = await started.new_page(viewport={"width": 1280, "height": 720})
        await page.goto(address)
        while True:
            yield Image.open(io.BytesIO(await page.screenshot()))

with gr.Blocks(analytics_enabled=False) as demo:
    go, image = gr.Button("Go"), gr.Image()
    go.click(ready if kind == "ready" else shots, None, image)
demo.queue().launch(server_port=int(port), quiet=True, ssr_mode=False)
"""


def page_of(html: str) -> str:
    """A page as an address."""
    return f"data:text/html,{quote(html)}"


def clicks() -> Iterator[str]:
    """Replies of an agent that goes on and on."""
    number = 0
    while True:
        x, y = 0.1 + 0.8 * (number % 37) / 37, 0.5 + 0.4 * (number % 11) / 11
        yield f"## Action:\nClick {number}\n## Code:\n```python\npyautogui.click({x:.4f}, {y:.4f})\n```"
        number += 1


class Cost:
    """Processor seconds of a process and those below it, and their memory."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._began = time.perf_counter()
        self._before = self._seconds()

    def _all(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]

    def _seconds(self) -> dict[int, float]:
        found = {}
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                spent = process.cpu_times()
                found[process.pid] = spent.user + spent.system
        return found

    def percent(self) -> tuple[float, float]:
        """Percent of one core since the beginning: the app's own process, and those below it."""
        wall_s = time.perf_counter() - self._began
        spent = {pid: seconds - self._before.get(pid, 0.0) for pid, seconds in self._seconds().items()}
        own = spent.pop(self._root.pid, 0.0)
        return 100 * own / wall_s, 100 * sum(spent.values()) / wall_s

    def memory_mb(self) -> tuple[float, float]:
        """PSS of the app's own process, and of those below it."""
        sizes = {process.pid: pss_mb(process.pid) for process in self._all()}
        own = sizes.pop(self._root.pid)
        return own, sum(sizes.values())


def pss_mb(pid: int) -> float:
    """Memory of a process, what it shares divided by those that share it."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(row.split()[1]) for row in rows if row.startswith("Pss:")) / 1024


class Bench:
    """One app and one browser that looks at it."""

    def __init__(self, app: RunningAssistant, page: Any) -> None:
        self.app = app
        self.page = page

    async def api(self, method: str, path: str, **more: Any) -> Any:
        """A call of the HTTP API."""
        async with httpx.AsyncClient(base_url=self.app.base, headers=self.app.bearer, timeout=60) as web:
            answer = await web.request(method, f"/api{path}", **more)
        answer.raise_for_status()
        return answer.json()

    @contextlib.asynccontextmanager
    async def session(self, instruction: str, **order: Any) -> AsyncIterator[str]:
        """A session that the page shows, from its first image on."""
        begun = await self.api("POST", "/sessions", json={"instruction": instruction, **order})
        await self.page.goto(f"{self.app.base}/?session={begun['id']}")
        try:
            await self.phase(begun["id"], "working")
            await self.page.wait_for_function("() => window.framesDrawn > 0", timeout=60_000)
            yield begun["id"]
        finally:
            await self.api("DELETE", f"/sessions/{begun['id']}")

    async def phase(self, session: str, *wanted: str) -> dict[str, Any]:
        """Wait until the session is in one of these phases."""
        while True:
            view: dict[str, Any] = await self.api("GET", f"/sessions/{session}")
            if view["phase"] in wanted:
                return view
            if view["phase"] == "ended":
                raise RuntimeError(f"the run ended: {view['error'] or view['result']}")
            await asyncio.sleep(0.05)


def served(server: FakeOpenAI) -> dict[str, Any]:
    """Settings of a run with a served model that goes on."""
    return {"model": "clicking", "base_url": server.base_url, "approve": "yolo", "max_steps": 100_000}


async def count_frames(page: Any, pid: int, seconds: float) -> str:
    """Frames that the page draws meanwhile, and what the app costs."""
    await asyncio.sleep(1)
    cost, began, first = Cost(pid), time.perf_counter(), await drawn(page)
    await asyncio.sleep(seconds)
    fps = (await drawn(page) - first) / (time.perf_counter() - began)
    own, below = cost.percent()
    return f"{fps:.1f} frames/s, app {own:.0f} % of a core, browser or desktop below it {below:.0f} %"


async def drawn(page: Any) -> int:
    """How many frames the page has drawn."""
    return int(await page.evaluate("window.framesDrawn"))


async def measure_frames(bench: Bench, seconds: float) -> None:
    """While a served model works on a page and on a desktop, and while the embedded one reads the screen itself."""
    with FakeOpenAI(ScriptedModel(clicks(), latency_s=THINK_S), model_id="clicking") as server:
        settings = served(server)
        web = {"mode": "thinking", "place": "web", "url": page_of(MOVING)}
        async with bench.session("Go on", **web, settings=settings) as session:
            told = await count_frames(bench.page, bench.app.process.pid, seconds)
            print(f"browser, served model: {told}, step {(await bench.phase(session, 'working'))['step']}", flush=True)
        program = "xterm -geometry 200x50+0+0 -e sh -c 'while :; do date +%N; sleep 0.02; done'"
        desktop = {"mode": "thinking", "place": "desktop", "app": program}
        async with bench.session("Go on", **desktop, settings={**settings, "screen": "1280x720"}) as session:
            told = await count_frames(bench.page, bench.app.process.pid, seconds)
            print(f"desktop, served model: {told}, step {(await bench.phase(session, 'working'))['step']}", flush=True)
    async with bench.session("Click new 3. " * 40, **web, settings={"approve": "yolo"}):
        print(f"browser, embedded model: {await count_frames(bench.page, bench.app.process.pid, seconds)}", flush=True)


async def measure_peer(page: Any, seconds: float) -> None:
    """Gradio's own way."""
    found = find_browser()
    for kind, what in (("ready", "ready images"), ("shots", "screenshots by Playwright")):
        port = find_free_port()
        with peer(kind, str(port), page_of(MOVING), str(found.path if found else "")) as pid:
            await reach(f"http://127.0.0.1:{port}/")
            await page.goto(f"http://127.0.0.1:{port}/")
            await page.get_by_role("button", name="Go", exact=True).click()
            await page.wait_for_function("() => window.framesDrawn > 3", timeout=60_000)
            print(f"gr.Image generator, {what}: {await count_frames(page, pid, seconds)}", flush=True)


@contextlib.contextmanager
def peer(*arguments: str) -> Iterator[int]:
    """The peer's app in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", PEER, *arguments]) as process:
        try:
            yield process.pid
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()


async def reach(address: str) -> None:
    """Wait until something answers."""
    async with httpx.AsyncClient() as web:
        for _ in range(300):
            with contextlib.suppress(httpx.HTTPError):
                await web.get(address)
                return
            await asyncio.sleep(0.2)
    raise RuntimeError(f"nothing answers at {address}")


STOP = """() => new Promise((done) => {
  const status = document.querySelector('assistant-screen .status'), began = performance.now();
  const look = () => /stopped/.test(status.textContent) && done((performance.now() - began) / 1000);
  new MutationObserver(look).observe(status, { childList: true, characterData: true, subtree: true });
  [...document.querySelectorAll('assistant-screen button')].find((one) => one.textContent === 'Stop').click();
})"""


async def measure_stops(bench: Bench, count: int) -> None:
    """From the click on Stop to the word `stopped` on the page, at moments spread over a step."""
    for name, latency_s, code in (
        ("while the model thinks", 30.0, "pass"),
        ("in the middle of an action", 0.05, "time.sleep(30)"),
        ("anywhere in steps", THINK_S, ""),
    ):
        took = []
        replies = clicks() if not code else iter(lambda: f"## Action:\nGo\n## Code:\n```python\n{code}\n```", "")  # noqa: B023
        with FakeOpenAI(ScriptedModel(replies, latency_s=latency_s), model_id="clicking") as server:
            for number in range(count):
                order = {"mode": "thinking", "place": "web", "url": page_of(STILL), "settings": served(server)}
                async with bench.session("Go on", **order) as session:
                    await bench.phase(session, "working")
                    await asyncio.sleep(0.5 + 0.137 * number)
                    took.append(await bench.page.evaluate(STOP))
        print(f"stop {name}: {told(took)}", flush=True)


def told(seconds: Sequence[float]) -> str:
    """Median and worst."""
    return f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {len(seconds)}"


async def measure_idle(bench: Bench, seconds: float) -> None:
    """With the page in view and nothing to do; and paused before a page at rest."""

    async def look(name: str) -> None:
        await asyncio.sleep(3)
        cost = Cost(bench.app.process.pid)
        await asyncio.sleep(seconds)
        own, below = cost.percent()
        print(f"idle, {name}: app {own:.1f} % of a core, below it {below:.1f} %", flush=True)

    await bench.page.goto(f"{bench.app.base}/")
    await look("no session")
    with FakeOpenAI(ScriptedModel(clicks(), latency_s=THINK_S), model_id="clicking") as server:
        for name, html in (("paused before a page at rest", STILL), ("paused before a page that moves", MOVING)):
            order = {"mode": "thinking", "place": "web", "url": page_of(html), "settings": served(server)}
            async with bench.session("Go on", **order) as session:
                await bench.phase(session, "working")
                await bench.api("POST", f"/sessions/{session}/pause")
                await bench.phase(session, "paused")
                await look(name)


async def measure_memory(bench: Bench, steps: int) -> None:
    """Of the app along a run of many steps with a served model."""
    with FakeOpenAI(ScriptedModel(clicks()), model_id="clicking") as server:
        order = {"mode": "thinking", "place": "web", "url": page_of(STILL), "settings": served(server)}
        await follow_memory(bench, steps, "Go on", **order)


async def measure_ocr_memory(bench: Bench, steps: int) -> None:
    """Of the app along a run of many steps with the embedded model, which reads each screen by OCR; and after it."""
    settings = {"approve": "yolo", "max_steps": 100_000}
    order = {"mode": "thinking", "place": "web", "url": page_of(TURNING), "settings": settings}
    await follow_memory(bench, steps, "Click Next. " * (2 * steps), **order)
    await asyncio.sleep(45)
    print(f"memory 45 s after the run: app {Cost(bench.app.process.pid).memory_mb()[0]:.0f} MB", flush=True)


async def follow_memory(bench: Bench, steps: int, instruction: str, **order: Any) -> None:
    """Print the memory of app and agent's browser before a run and at ten of its steps."""
    print(f"memory before: app {Cost(bench.app.process.pid).memory_mb()[0]:.0f} MB", flush=True)
    async with bench.session(instruction, **order) as session:
        for mark in range(steps // 10, steps + 1, steps // 10):
            while (await bench.phase(session, "working"))["step"] < mark:
                await asyncio.sleep(0.2)
            own, below = Cost(bench.app.process.pid).memory_mb()
            print(f"memory at step {mark}: app {own:.0f} MB, the agent's browser {below:.0f} MB", flush=True)


def measure_starts(count: int) -> None:
    """From the command to its first line, and to the first answer of the page."""
    lines, answers = [], []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
            command = [sys.executable, "-m", "apps.cli.main", "assistant", "--port", "0", "--no-browser"]
            began = time.perf_counter()
            with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
                assert process.stderr is not None
                process.stderr.readline()
                lines.append(time.perf_counter() - began)
                address = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+", line)))
                httpx.get(address, follow_redirects=True, timeout=60).raise_for_status()
                answers.append(time.perf_counter() - began)
                process.terminate()
    print(f"start, first line: {told(lines)}; first page: {told(answers)}", flush=True)


async def measure(args: argparse.Namespace) -> None:
    """Everything that was asked for."""
    from playwright.async_api import async_playwright

    print(f"load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores", flush=True)
    if "start" in args.only:
        await asyncio.to_thread(measure_starts, args.stops)
    found = find_browser()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(found.path) if found else None)
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.add_init_script(COUNT_FRAMES)
        with RunningAssistant(environment={"OMP_THREAD_LIMIT": str(os.cpu_count())}) as app:
            await page.goto(app.address)
            bench = Bench(app, page)
            if "frames" in args.only:
                await measure_frames(bench, args.seconds)
            if "stop" in args.only:
                await measure_stops(bench, args.stops)
            if "idle" in args.only:
                await measure_idle(bench, args.seconds)
            if "memory" in args.only:
                await measure_memory(bench, args.steps)
            if "ocr" in args.only:
                await measure_ocr_memory(bench, args.steps)
        if "peer" in args.only:
            await measure_peer(page, args.seconds)
        await browser.close()
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parts = "start,frames,stop,idle,memory,ocr,peer"
    parser.add_argument("--only", type=lambda text: text.split(","), default=parts.split(","))
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
