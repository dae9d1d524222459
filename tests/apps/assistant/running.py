"""A whole assistant in a process of its own, as `cua assistant` starts it, and a person at its page."""

import asyncio
import inspect
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

ROOT = Path(__file__).parents[3]
START_S = 120.0


class RunningAssistant:
    """A context manager; `address` lets a browser in.

    Args:
        arguments: Of the command line.
        environment: More variables.
    """

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._arguments = arguments
        self._environment = environment or {}

    def __enter__(self) -> "RunningAssistant":
        self._folder = tempfile.TemporaryDirectory(prefix="k25-test-assistant-")
        self.home = Path(self._folder.name)
        self.runs = self.home / "runs"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("K25_", "OPENAI_"))}
        environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "K25_RUNS_DIR": str(self.runs),
            "OMP_THREAD_LIMIT": "1",
            **self._environment,
        }
        self.log = self.home / "log.txt"
        command = [sys.executable, "-m", "apps.cli.main", "assistant", "--port", "0", "--no-browser", *self._arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.home, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.address = self._wait()
        self.base, _, self.token = self.address.partition("/?token=")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._folder.cleanup()

    @property
    def bearer(self) -> dict[str, str]:
        """Headers of a program's request."""
        return {"authorization": f"Bearer {self.token}"}

    def _wait(self) -> str:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"http://\S+token=\S+", self.log.read_text(errors="replace"))
            if found:
                return found[0]
            time.sleep(0.1)
        raise RuntimeError(f"the assistant did not start: {self.log.read_text(errors='replace')[-3000:]}")


async def until(look: Callable[[], Any], timeout_s: float = 60) -> Any:
    """Return the first true result of a function, plain or asynchronous.

    Raises:
        AssertionError: If there is none in time, with the last result.
    """
    end_s = time.monotonic() + timeout_s
    while True:
        found = look()
        found = await found if inspect.isawaitable(found) else found
        if found:
            return found
        assert time.monotonic() < end_s, found
        await asyncio.sleep(0.05)


STATUS = """() => {
  const [status, facts] = ['.status', '.facts'].map((name) => document.querySelector(`assistant-screen ${name}`));
  return status ? `${status.textContent} · ${facts.textContent} [${status.dataset.state}]` : 'not loaded';
}"""
"""State in words, step and cost, and the state's own name."""


HIDDEN = """(selector) => {
  const one = [...document.querySelectorAll(selector)].find((found) => found.offsetParent);
  if (!one) return `${selector}: not shown`;
  const box = one.getBoundingClientRect(), parts = [box.left, box.top, box.right, box.bottom].map(Math.round);
  const isIn = box.left >= -1 && box.top >= -1 && box.right <= innerWidth + 1 && box.bottom <= innerHeight + 1;
  if (!isIn) return `${selector}: ${parts}`;
  const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return one.contains(there) ? '' : `${selector}: under ${there?.outerHTML.slice(0, 80)}`;
}"""
"""Reason why a person does not see an element: not shown, not whole inside the window, or covered; '' if seen."""


class Person:
    """Person who uses the page in a browser."""

    def __init__(self, page: Any, app: RunningAssistant) -> None:
        self.page = page
        self.app = app
        self.strange: list[str] = []
        page.on("request", self._look_at)
        page.on("pageerror", lambda error: self.strange.append(f"error: {error}"))
        page.on("dialog", self._dismiss)

    def _look_at(self, request: Any) -> None:
        if not request.url.startswith((self.app.base, "data:", "blob:")):
            self.strange.append(request.url)

    async def _dismiss(self, dialog: Any) -> None:
        self.strange.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    async def open(self) -> None:
        await self.page.goto(f"{self.app.base}/")
        await self.page.get_by_role("button", name="Try the practice task").wait_for()

    async def fresh(self) -> None:
        await self.open()
        await self.go("New")

    async def go(self, entry: str) -> None:
        """Press an entry of the sidebar: New, Tasks, History, Settings."""
        await self.page.locator("assistant-sidebar").get_by_role("button", name=entry, exact=True).click()

    async def open_session(self, words: str) -> None:
        await self.page.locator(".session > .entry", has_text=words).click()

    async def choose(self, label: str, value: str) -> None:
        await self.page.get_by_label(label, exact=True).first.select_option(value)

    async def look_for(self, *selectors: str) -> list[str]:
        """Return the faults of elements that cannot be seen without scrolling."""
        return [fault for selector in selectors if (fault := await self.page.evaluate(HIDDEN, selector))]

    async def say(self, words: str) -> None:
        box = self.page.get_by_label("Instruction", exact=True)
        await box.fill(words)
        await box.press("Enter")

    async def status(self, pattern: str, timeout_s: float = 60) -> str:
        until = time.monotonic() + timeout_s
        text = ""
        while time.monotonic() < until:
            text = await self.page.evaluate(STATUS)
            if re.search(pattern, text):
                return text
            await asyncio.sleep(0.05)
        told = (await self.page.locator("assistant-feed").text_content() or "")[-600:]
        raise AssertionError(f"the status is {text!r}, expected {pattern!r}; the feed ends with: {told}")

    async def press(self, name: str) -> None:
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def settle(self) -> None:
        """Wait until the page that was opened has its content, and nothing moves in it."""
        still = "!document.querySelector('.grid .is-loading') && document.fonts.status === 'loaded'"
        moving = "document.getAnimations().every((one) => one.playState !== 'running')"
        await self.page.wait_for_function(f"{still} && {moving}")

    async def step_of(self, session: str) -> int:
        """Return the number of the step that a session is at."""
        return int((await self.api("GET", f"/sessions/{session}"))["step"])

    async def stop(self) -> None:
        button = self.page.get_by_role("button", name="Stop", exact=True)
        if await button.is_enabled():
            await button.evaluate("one => one.click()")  # the run may end at this moment
            await self.status(r"\[(stopped|succeeded|failed|unverified|error|not started)", 10)

    async def api(self, method: str, path: str, **more: Any) -> Any:
        async with httpx.AsyncClient(base_url=self.app.base, headers=self.app.bearer, timeout=30) as web:
            answer = await web.request(method, f"/api{path}", **more)
        answer.raise_for_status()
        return answer.json()
