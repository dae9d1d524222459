"""Starting a browser, and making sure that it ends."""

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.browser.domains import DomainRules
from envs.browser.find import BrowserBinary, find_browser
from envs.browser.gate import Gate
from envs.browser.options import BrowserOptions
from envs.browser.upstream import read_upstream
from envs.errors import EnvSetupError
from envs.require import require

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright, ProxySettings

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
    # a whole Chromium asks these two on its own account even so; they are sent to nobody
    "--component-updater=url-source=http://127.0.0.1:9/",
    "--gaia-url=https://127.0.0.1:9/",
)
_CLOSE_TIMEOUT_S = 5.0
_LAUNCH_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedBrowser:
    """A running browser and its driver.

    Attributes:
        marker: An argument on the browser's command line that no other process has.
        gate: What everything goes through, when there are domain rules.
    """

    playwright: "Playwright"
    browser: "Browser"
    marker: str
    gate: Gate | None = None

    async def close(self) -> None:
        """End browser and driver; what does not end in time is killed."""
        for work in (self.browser.close(), self.playwright.stop()):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(work, _CLOSE_TIMEOUT_S)
        await asyncio.to_thread(_kill_marked, self.marker)
        if self.gate is not None:
            await asyncio.to_thread(self.gate.close)


async def launch(options: BrowserOptions, rules: DomainRules) -> LaunchedBrowser:
    """Start the browser of `options`.

    Raises:
        MissingDependencyError: Playwright is not installed.
        EnvSetupError: There is no browser, or it does not start.
    """
    api = require("playwright.async_api", "browser")
    path, how = _choose(options)
    marker = f"--k25-browser={uuid.uuid4().hex}"
    gate = Gate(rules, read_upstream(options.proxy) if options.proxy is not None else None) if rules else None
    try:
        return await _start(api, options, path, how, marker, gate)
    except BaseException:
        if gate is not None:
            await asyncio.to_thread(gate.close)
        raise


async def _start(
    api: Any, options: BrowserOptions, path: str | None, how: str, marker: str, gate: Gate | None
) -> LaunchedBrowser:
    if gate is not None:
        await gate.start()
    try:
        playwright = await api.async_playwright().start()
    except Exception as error:  # Playwright has no class of its own for a driver that cannot run
        raise EnvSetupError(
            f"Playwright's driver does not start: {error}. A library may be missing (libatomic1, say). "
            "Find out and mend it with: cua setup"
        ) from error
    try:
        browser = await playwright.chromium.launch(
            executable_path=path,
            headless=options.headless,
            args=[*_arguments(options, gate), marker],
            ignore_default_args=["--hide-scrollbars"],
            proxy=_proxy(options, gate),
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
        _kill_marked(marker)
        raise
    return LaunchedBrowser(playwright=playwright, browser=browser, marker=marker, gate=gate)


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
        raise EnvSetupError(f"K25_BROWSER is {wanted!r}, and there is no such program. Mend or unset it.")
    window = "" if options.headless else " that can show a window"
    raise EnvSetupError(
        f"found no browser{window}; expected Chromium, Chrome or the headless shell. "
        "Get one with: cua setup (or name one in K25_BROWSER)"
    )


def _arguments(options: BrowserOptions, gate: Gate | None) -> list[str]:
    arguments = [*_QUIET_ARGS]
    if sys.platform == "linux" and os.geteuid() == 0:
        arguments.append("--no-sandbox")
    if gate is not None:  # nothing goes around the gate, not even the question for a name
        arguments += [
            "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
            "--disable-quic",
            "--dns-prefetch-disable",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
    return [*arguments, *options.extra_args]


def _proxy(options: BrowserOptions, gate: Gate | None) -> "ProxySettings | None":
    # Chromium does not send loopback addresses through a proxy unless told to
    if gate is not None:
        return {"server": f"http://127.0.0.1:{gate.port}", "bypass": "<-loopback>"}
    if options.proxy is None:
        return None
    upstream = read_upstream(options.proxy)
    host = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    settings: Any = {"server": f"{upstream.scheme}://{host}:{upstream.port}", "bypass": "<-loopback>"}
    if upstream.username:
        settings |= {"username": upstream.username, "password": upstream.password}
    found: ProxySettings = settings
    return found


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
    """Kill the browser that has `marker` on its command line, if it is still there (Linux)."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in entry.read_bytes().split(b"\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)
