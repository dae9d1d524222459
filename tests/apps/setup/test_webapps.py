"""`cua setup apps`: apps from packages by name, one that cannot be had keeps no other from it."""

import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import ClassVar

import pytest

from apps.setup.webapps import install_apps
from envs.suites.apps import Command, Facts, Packages, RunningApp, WebApp
from envs.suites.apps.app import remove_old_versions, run_tool

WHEEL = "tiny_app-1.0-py3-none-any.whl"


class _Tiny(WebApp):
    """A pip app that is one module; `packages` is set by each test."""

    name = "tiny"
    role = "page"
    packages: ClassVar[Packages] = Packages()

    def make_state(self, folder: Path) -> None:
        (folder / "greeting").write_text(run_tool(Command(argv=(self.python, "-m", "tiny_app")), folder), "utf-8")

    def command(self, folder: Path, port: int) -> Command:
        raise NotImplementedError

    def facts(self, app: RunningApp) -> Facts:
        raise NotImplementedError


def make_app(**packages: tuple[str, ...]) -> WebApp:
    return type("Tiny", (_Tiny,), {"packages": Packages(**packages)})()


@pytest.fixture(autouse=True)
def _data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def make_wheel(folder: Path) -> Path:
    info = "tiny_app-1.0.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as file:
        file.writestr("tiny_app.py", "print('hello')")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-app\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return folder / WHEEL


@pytest.mark.slow
async def test_an_app_is_installed_once_and_after_an_interruption_anew(tmp_path: Path) -> None:
    app, said = make_app(pip=(str(make_wheel(tmp_path)),)), list[str]()
    (app.home / "half").mkdir(parents=True)
    (row,) = await install_apps(said.append, [app])
    assert row.level == "ok" and "page, first state in " in row.actual
    assert (Path(row.actual.partition(" in ")[2]) / "greeting").read_text("utf-8") == "hello\n"
    assert not (app.home / "half").exists()
    assert [line.split()[0] for line in said] == ["installing", sys.executable, sys.executable, "tiny:"]
    said.clear()
    assert await install_apps(said.append, [app]) == (row,)
    assert [line.split()[0] for line in said] == ["tiny:"]


@pytest.mark.slow
async def test_what_cannot_be_had_says_what_to_type_and_the_others_go_on(tmp_path: Path) -> None:
    missing = make_app(needs=("no-such-program",))
    broken = make_app(pip=(str(tmp_path / "nowhere.whl"),))
    first, second = await install_apps(print, [missing, broken])
    assert (first.level, first.actual) == ("fail", "no-such-program not found")
    assert first.fix.endswith(" apt-get install -y --no-install-recommends no-such-program")
    assert second.level == "fail" and "nowhere.whl" in second.actual
    assert second.fix.startswith(f"{sys.executable} -m pip --python {broken.python} install")
    assert not (broken.home / "installed.json").exists()


async def test_an_app_from_npm_says_that_npm_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (row,) = await install_apps(print, [make_app(npm=("tiny@1.0",), apt=("nodejs", "npm"))])
    assert (row.level, row.actual) == ("fail", "npm not found, and there is no apt-get")
    assert row.fix == "install nodejs npm"


def test_of_old_versions_the_last_used_one_stays(tmp_path: Path) -> None:
    digests = [character * 10 for character in "abcd"]
    others = ["tiny", "tiny-begun", "tiny.lock", "tinier-0123456789", "tiny-0123456789-more"]
    for used_s, name in enumerate([*others, *(f"tiny-{digest}-{digest}" for digest in digests)], start=1000):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (used_s, used_s))
    os.utime(tmp_path / f"tiny-{digests[0]}-{digests[0]}")
    remove_old_versions(tmp_path, "tiny")
    left = [f"tiny-{digest}-{digest}" for digest in (digests[0], digests[3])]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, *left])


async def test_without_root_the_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (row,) = await install_apps(print, [make_app(apt=("tiny", "tiny-more"), needs=("/no/such/file",))])
    assert (row.level, row.actual) == ("fail", "/no/such/file not found, and apt-get needs root")
    assert row.fix == (
        "sudo apt-get update && sudo DEBIAN_FRONTEND=noninteractive "
        "apt-get install -y --no-install-recommends tiny tiny-more"
    )
