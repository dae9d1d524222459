"""Selection, start and termination of a Chromium browser."""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from envs.browser.context import new_context
from envs.browser.filter_proxy import FilterProxy, read_upstream
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from envs.errors import EnvSetupError, require
from envs.playwright_driver import start_driver

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright, ProxySettings

BrowserKind = Literal["headless-shell", "chromium", "chrome", "playwright"]

_ON_PATH: tuple[tuple[str, BrowserKind], ...] = (
    ("chromium-headless-shell", "headless-shell"),
    ("chromium", "chromium"),
    ("chromium-browser", "chromium"),
    ("google-chrome", "chrome"),
    ("google-chrome-stable", "chrome"),
)
_UNPACKED: tuple[tuple[str, BrowserKind], ...] = (
    ("chrome-headless-shell", "headless-shell"),
    ("chromium-headless-shell", "headless-shell"),
    ("headless_shell", "headless-shell"),
    ("chromium", "headless-shell"),
    ("chrome", "chrome"),
)
_QUIET_ARGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-breakpad",
    "--disable-smooth-scrolling",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--password-store=basic",
    # A full Chromium sends these two requests despite the switches above; they go to a closed port.
    "--component-updater=url-source=http://127.0.0.1:9/",
    "--gaia-url=https://127.0.0.1:9/",
    # No paste by middle click: it would carry the selection past our clipboard to another site or session. The other
    # values are Playwright's own, which the last argument of this name replaces.
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4,"
    "selectionClipboardBufferAvailable=false",
)
_NOWHERE: "ProxySettings" = {"server": "http://127.0.0.1:9", "bypass": "<-loopback>"}
"""Proxy at the discard port, which does not answer: contexts without their own filter proxy reach nothing."""
_CLOSE_TIMEOUT_S = 5.0  # a browser that hangs is killed
_LAUNCH_TIMEOUT_S = 30.0  # a cold start on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserBinary:
    """Browser program that was found.

    Attributes:
        path: The program; None lets Playwright use its own.
        how: Where it was found, for people.
        kind: `headless-shell` cannot show a window.
    """

    path: str | None
    how: str
    kind: BrowserKind


def find_browser(*, headless: bool = True) -> BrowserBinary | None:
    """Find the browser to run.

    Order: `$K25_BROWSER`, headless shell, Chromium and Chrome on PATH, the copy unpacked by `cua setup`
    (`unpacked_dir()`), Playwright's own.

    Args:
        headless: False excludes programs that cannot show a window.

    Returns:
        The first one found, or None, also if `$K25_BROWSER` is invalid: it is not skipped and must be corrected.
    """
    wanted = os.environ.get("K25_BROWSER")
    if wanted:
        path = shutil.which(wanted)
        return BrowserBinary(path=path, how="$K25_BROWSER", kind=_kind_of(path)) if path else None
    for binary in _candidates():
        if headless or binary.kind != "headless-shell":
            return binary
    return None


def unpacked_dir() -> Path:
    """Return the folder into which `cua setup` unpacks a browser."""
    import platformdirs

    return Path(platformdirs.user_data_dir("k25")) / "browser"


def _candidates() -> Iterator[BrowserBinary]:
    for name, kind in _ON_PATH:
        path = shutil.which(name)
        if path:
            yield BrowserBinary(path=path, how=f"{name} on PATH", kind=kind)
    root = unpacked_dir()
    for name, kind in _UNPACKED:
        for file in sorted(root.glob(f"**/{name}")) if root.is_dir() else ():
            if file.is_file() and os.access(file, os.X_OK):
                yield BrowserBinary(path=str(file), how=f"unpacked by `cua setup` under {root}", kind=kind)
    if _playwright_has_its_own():
        yield BrowserBinary(path=None, how="Playwright's own", kind="playwright")


def _kind_of(path: str) -> BrowserKind:
    name = Path(path).name.lower()
    if "headless" in name:
        return "headless-shell"
    return "chrome" if "chrome" in name else "chromium"


def _playwright_has_its_own() -> bool:
    if importlib.util.find_spec("playwright") is None:
        return False
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    caches = (".cache", "Library/Caches", "AppData/Local")
    folders = [Path(named)] if named else [Path.home() / cache / "ms-playwright" for cache in caches]
    return any(True for folder in folders for _ in folder.glob("chromium*-*/INSTALLATION_COMPLETE"))


class RunningBrowser(Protocol):
    """Browser of an env: launched for it, or a slot in a shared one."""

    @property
    def browser(self) -> "Browser":
        """Playwright browser."""
        ...

    @property
    def filter_proxy(self) -> FilterProxy | None:
        """Proxy of all traffic of this env; None without domain rules."""
        ...

    @property
    def is_shared(self) -> bool:
        """True if others have contexts in it too; each context then has its own filter proxy."""
        ...

    async def new_context(self, options: BrowserOptions, episode: int) -> "BrowserContext":
        """Open a fresh context with a blank page, see `envs.browser.context.new_context`."""
        ...

    async def close(self) -> None:
        """Close the browser, or return the slot. May be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedBrowser:
    """Running browser and its driver.

    Attributes:
        marker: Argument on the browser's command line that no other process has.
        filter_proxy: Proxy of all traffic, if there are domain rules.
    """

    playwright: "Playwright"
    browser: "Browser"
    marker: str
    filter_proxy: FilterProxy | None = None
    is_shared: ClassVar[bool] = False

    async def new_context(self, options: BrowserOptions, episode: int) -> "BrowserContext":
        """Open a fresh context with a blank page."""
        return await new_context(self.browser, options, episode)

    async def close(self) -> None:
        """Close browser and driver; kill the browser if it does not end in time."""
        for work in (self.browser.close(), self.playwright.stop()):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(work, _CLOSE_TIMEOUT_S)
        await asyncio.to_thread(_kill_marked, self.marker)
        if self.filter_proxy is not None:
            await asyncio.to_thread(self.filter_proxy.close)


async def launch(options: BrowserOptions, rules: DomainRules, *, is_shared: bool = False) -> LaunchedBrowser:
    """Start the browser of `options`.

    Args:
        options: Settings of the browser.
        rules: Domain rules.
        is_shared: True if many sessions use it; a context then reaches nothing without its own filter proxy.

    Raises:
        MissingDependencyError: If Playwright is not installed.
        EnvSetupError: If no browser was found, or it does not start.
    """
    api = require("playwright.async_api", "browser")
    path, how = _choose(options)
    marker = f"--k25-browser={uuid.uuid4().hex}"
    filter_proxy = (
        FilterProxy(rules, read_upstream(options.proxy) if options.proxy is not None else None) if rules else None
    )
    is_filtered = filter_proxy is not None or is_shared
    try:
        if filter_proxy is not None:
            await filter_proxy.start()
        proxy: ProxySettings | None = _NOWHERE if is_shared else _proxy(options, filter_proxy)
        arguments = [*_arguments(options, is_filtered), marker]
        playwright, browser = await _start(api, options, path, how, arguments, proxy)
        return LaunchedBrowser(playwright=playwright, browser=browser, marker=marker, filter_proxy=filter_proxy)
    except BaseException:
        if filter_proxy is not None:
            await asyncio.to_thread(filter_proxy.close)
        raise


async def _start(
    api: Any, options: BrowserOptions, path: str | None, how: str, arguments: list[str], proxy: "ProxySettings | None"
) -> "tuple[Playwright, Browser]":
    playwright = await start_driver()
    try:
        browser = await playwright.chromium.launch(
            executable_path=path,
            headless=options.headless,
            args=arguments,
            ignore_default_args=["--hide-scrollbars"],
            proxy=proxy,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=_LAUNCH_TIMEOUT_S * 1000,
            env=dict(options.env) if options.env is not None else None,
        )
    except api.Error as error:
        await playwright.stop()
        raise EnvSetupError(_explain(path, how, error), retryable=True) from error
    except BaseException:
        await playwright.stop()
        _kill_marked(arguments[-1])
        raise
    return playwright, browser


def _choose(options: BrowserOptions) -> tuple[str | None, str]:
    if options.executable_path is not None:
        if not Path(options.executable_path).is_file():
            raise EnvSetupError(f"there is no browser at {options.executable_path} (executable_path)")
        return str(options.executable_path), "executable_path"
    binary: BrowserBinary | None = find_browser(headless=options.headless)
    if binary is not None:
        return binary.path, binary.how
    wanted = os.environ.get("K25_BROWSER")
    if wanted:
        raise EnvSetupError(
            f"K25_BROWSER is {wanted!r}, and there is no such program. Set it to the path of a Chromium, or unset it."
        )
    window = "" if options.headless else " that can show a window"
    raise EnvSetupError(
        f"found no browser{window}; expected Chromium, Chrome or the headless shell. "
        "Get one with: cua setup (or name one in K25_BROWSER)"
    )


def _arguments(options: BrowserOptions, is_filtered: bool) -> list[str]:
    arguments = [*_QUIET_ARGS]
    if sys.platform == "linux" and os.geteuid() == 0:
        arguments.append("--no-sandbox")
    if is_filtered:  # nothing bypasses the filter proxy, not even a DNS lookup
        arguments += [
            "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
            "--disable-quic",
            "--dns-prefetch-disable",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
    return [*arguments, *options.extra_args]


def _proxy(options: BrowserOptions, filter_proxy: FilterProxy | None) -> "ProxySettings | None":
    # Chromium does not send loopback addresses through a proxy by default
    if filter_proxy is not None:
        return filter_proxy.proxy
    if options.proxy is None:
        return None
    upstream = read_upstream(options.proxy)
    host = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    settings: Any = {"server": f"{upstream.scheme}://{host}:{upstream.port}", "bypass": "<-loopback>"}
    if upstream.username:
        settings |= {"username": upstream.username, "password": upstream.password}
    proxy: ProxySettings = settings
    return proxy


def _explain(path: str | None, how: str, error: Exception) -> str:
    text = str(error)
    name = path or "Playwright's own browser"
    if "Executable doesn't exist" in text:
        return f"{name} ({how}) is not there. Get a browser with: cua setup"
    if "Missing X server" in text or "$DISPLAY" in text:
        return f"{name} ({how}) needs a display to show a window and there is none; leave out --headed or set DISPLAY"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{name} ({how}) did not start: {' '.join(lines[:3])}. See what is wrong with: cua doctor"


def _kill_marked(marker: str) -> None:
    """Kill the browser that has `marker` on its command line, if it still runs (Linux)."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in entry.read_bytes().split(b"\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)
