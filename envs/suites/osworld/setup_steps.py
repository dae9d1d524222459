"""Steps of OSWorld's task files that run on the guest before a task, and before its verdict."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.errors import EnvSetupError, did_you_mean, require
from envs.suites.osworld.downloads import get_file, inside
from envs.suites.osworld.guest_client import Command, Execution, GuestClient, UncertainError
from envs.suites.osworld.task_file import SetupStep, TaskFile

_MAX_SLEEP_S = 600.0
_UNTIL_TIMEOUT_S = 300.0
_UNTIL_POLL_S = 0.3
_TABS_TIMEOUT_S = 75.0
_PAGE_TIMEOUT_MS = 60_000
_NOT_HERE = {
    "googledrive": "an account at Google Drive",
    "login": "an account",
    "update_browse_history": "a browser history that is downloaded",
    "tidy_desktop": "a step that upstream does not have either",
    "act": "a step that upstream does not have either",
    "replay": "a step that upstream does not have either",
}


@dataclass(slots=True, kw_only=True)
class GuestSetup:
    """Runner of the setup steps of one task.

    Attributes:
        guest: The guest.
        cache_dir: Local folder of the task: downloaded files, and output of commands.
        password: Value of `{CLIENT_PASSWORD}`.
        screen_px: Value of `{SCREEN_WIDTH}` and similar placeholders.
        browser_url: Debugging port of the guest's browser.
        warnings: Problems that are not errors by upstream's rules, such as a non-zero exit status.
    """

    guest: GuestClient
    cache_dir: Path
    password: str
    screen_px: tuple[int, int]
    browser_url: str
    warnings: list[str] = field(default_factory=list)

    async def run(self, steps: Sequence[SetupStep]) -> None:
        """Run the steps in order.

        Raises:
            EnvSetupError: If a step fails, or its kind is unknown.
            EnvError: If the guest is gone.
        """
        for number, step in enumerate(steps, 1):
            step_name = f"step {number} ({step.kind})"
            if step.kind in _NOT_HERE:
                raise EnvSetupError(f"{step_name} needs {_NOT_HERE[step.kind]}")
            if step.kind not in _STEPS:
                raise EnvSetupError(f"{step_name} is none that is known{did_you_mean(step.kind, _STEPS)}")
            try:
                await _STEPS[step.kind](self, **step.parameters)
            except UncertainError as error:
                raise EnvSetupError(f"{step_name}: {error}", retryable=True) from error
            except TypeError as error:
                raise EnvSetupError(f"{step_name} has parameters that it does not take: {error}") from error

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(float(seconds), _MAX_SLEEP_S))

    async def _download(self, files: Sequence[Mapping[str, str]]) -> None:
        for file in files:
            cached = self.cache_dir / cached_name(file["url"], file["path"])
            await get_file(file["url"], cached)
            await self.guest.upload(file["path"], await asyncio.to_thread(cached.read_bytes))

    async def _upload(self, files: Sequence[Mapping[str, str]]) -> None:
        for file in files:
            data = await asyncio.to_thread(inside(self.cache_dir, file["local_path"]).read_bytes)
            await self.guest.upload(file["path"], data)

    async def _launch(self, command: Command, shell: bool = False) -> None:
        if isinstance(command, str) and not shell:
            command = command.split()
        await self.guest.launch(command, shell=shell)

    async def _open(self, path: str) -> None:
        await self.guest.open_file(path)

    async def _activate_window(self, window_name: str, strict: bool = False, by_class: bool = False) -> None:
        await self.guest.activate_window(window_name, strict=strict, by_class=by_class)

    async def _close_window(self, window_name: str, strict: bool = False, by_class: bool = False) -> None:
        await self.guest.close_window(window_name, strict=strict, by_class=by_class)

    async def _change_wallpaper(self, path: str) -> None:
        await self.guest.change_wallpaper(path)

    async def _execute(
        self,
        command: Command,
        stdout: str = "",
        stderr: str = "",
        shell: bool = False,
        until: Mapping[str, object] | None = None,
    ) -> None:
        command = self._filled_in(command)
        until_s = time.monotonic() + _UNTIL_TIMEOUT_S
        while True:
            ended = await self.guest.execute(command, shell=shell)
            for name, text in ((stdout, ended.stdout), (stderr, ended.stderr)):
                if name:
                    path = inside(self.cache_dir, name)
                    await asyncio.to_thread(_write, path, text)
            if not until or _is_reached(ended, until):
                break
            if time.monotonic() > until_s:
                self.warnings.append(f"{_shown(command)} never came to {dict(until)}")
                break
            await asyncio.sleep(_UNTIL_POLL_S)
        if not until and ended.returncode != 0:
            output = ended.stderr.strip()[-300:] or ended.stdout.strip()[-300:] or "no error output"
            self.warnings.append(f"{_shown(command)} ended with status {ended.returncode}: {output}")

    def _filled_in(self, command: Command) -> Command:
        width, height = self.screen_px
        places = {
            "{CLIENT_PASSWORD}": self.password,
            "{SCREEN_WIDTH_HALF}": str(width // 2),
            "{SCREEN_HEIGHT_HALF}": str(height // 2),
            "{SCREEN_WIDTH}": str(width),
            "{SCREEN_HEIGHT}": str(height),
        }

        def fill_in(text: str) -> str:
            for place, value in places.items():
                text = text.replace(place, value)
            return text

        return fill_in(command) if isinstance(command, str) else [fill_in(str(part)) for part in command]

    async def _open_tabs(self, urls_to_open: Sequence[str]) -> None:
        async with self._browser() as browser:
            context = browser.contexts[0]
            first = context.pages[0] if context.pages else None
            for url in urls_to_open:
                page = await context.new_page()
                try:
                    await page.goto(url, timeout=_PAGE_TIMEOUT_MS)
                except require("playwright.async_api", "browser").Error as error:
                    self.warnings.append(f"{url} did not open: {error.message.splitlines()[0]}")
                if first is not None:
                    await first.close()
                    first = None

    async def _close_tabs(self, urls_to_close: Sequence[str]) -> None:
        async with self._browser() as browser:
            for page in list(browser.contexts[0].pages):
                if any(page.url.rstrip("/") == url.rstrip("/") for url in urls_to_close):
                    await page.close()

    def _browser(self) -> "_GuestBrowser":
        return _GuestBrowser(self.browser_url)


class _GuestBrowser:
    """Connection to the guest's browser over its debugging port, as a context manager."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Any:
        playwright = require("playwright.async_api", "browser")
        self._playwright = await playwright.async_playwright().start()
        until_s = time.monotonic() + _TABS_TIMEOUT_S
        while True:
            try:
                return await self._playwright.chromium.connect_over_cdp(self._url, timeout=10_000)
            except playwright.Error as error:
                if time.monotonic() > until_s:
                    await self._playwright.stop()
                    reason = error.message.splitlines()[0]
                    raise EnvSetupError(
                        f"the guest's browser does not answer at {self._url}: {reason}", retryable=True
                    ) from error
                await asyncio.sleep(1.0)

    async def __aexit__(self, *error: object) -> None:
        await self._playwright.stop()


def why_impossible_step(kind: str) -> str | None:
    """Return what is missing for a kind of step, in one clause; None if nothing is missing."""
    return _NOT_HERE.get(kind, None if kind in _STEPS else f"the setup step {kind!r}, which is not known")


def cached_name(url: str, path: str) -> str:
    """Return the name of a downloaded file in a task's folder, as in upstream's cache."""
    return f"{uuid.uuid5(uuid.NAMESPACE_URL, url)}_{path.rpartition('/')[2]}"


def cached_names(steps: Iterable[SetupStep]) -> dict[str, str]:
    """Return the names of all files that steps download, by path on the guest."""
    files = [file for step in steps if step.kind == "download" for file in step.parameters["files"]]
    return {file["path"]: cached_name(file["url"], file["path"]) for file in files}


def downloads_of(task: TaskFile) -> Iterator[tuple[str, str]]:
    """Yield (address, name in the task's folder) of all files of a task, including references."""
    for step in (*task.setup, *task.postconfig):
        files = step.parameters.get("files") if step.kind == "download" else None
        for file in files if isinstance(files, list) else ():  # errors in a damaged step are reported when it runs
            if isinstance(file, Mapping) and {"url", "path"} <= file.keys():
                yield file["url"], cached_name(file["url"], file["path"])
    for metric in task.metrics:
        for source in (metric.result, metric.expected or {}):
            if source.get("type") == "cloud_file":
                urls, names = source["path"], source["dest"]
                yield from zip(urls, names, strict=True) if source.get("multi") else [(str(urls), str(names))]


def _is_reached(ended: Execution, until: Mapping[str, object]) -> bool:
    return (
        ("returncode" in until and ended.returncode == until["returncode"])
        or ("stdout" in until and str(until["stdout"]) in ended.stdout)
        or ("stderr" in until and str(until["stderr"]) in ended.stderr)
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _shown(command: Command) -> str:
    text = command if isinstance(command, str) else " ".join(command)
    return text if len(text) <= 120 else f"{text[:119]}…"


_STEPS: Mapping[str, Callable[..., Awaitable[None]]] = {
    "sleep": GuestSetup._sleep,
    "download": GuestSetup._download,
    "upload_file": GuestSetup._upload,
    "launch": GuestSetup._launch,
    "open": GuestSetup._open,
    "execute": GuestSetup._execute,
    "command": GuestSetup._execute,
    "activate_window": GuestSetup._activate_window,
    "close_window": GuestSetup._close_window,
    "change_wallpaper": GuestSetup._change_wallpaper,
    "chrome_open_tabs": GuestSetup._open_tabs,
    "chrome_close_tabs": GuestSetup._close_tabs,
}
