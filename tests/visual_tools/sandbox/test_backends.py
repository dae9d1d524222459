"""Every backend runs cells and ends cleanly; who is killed leaves nothing behind; an ordinary user can do it all."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import visual_tools
from tests.ordinary_user import UID, as_ordinary_user, find_obstacle
from tests.visual_tools.sandbox.conftest import SMALL
from visual_tools.errors import SandboxError
from visual_tools.sandbox import Backend, Sandbox
from visual_tools.sandbox.backends import describe_backends, is_open_to_all, try_mode
from visual_tools.sandbox.inside import describe_inside
from visual_tools.sandbox.zygote.plan import Mode

ROOT = Path(visual_tools.__file__).parents[1]
MODES: list[tuple[Backend, Mode]] = [
    ("bubblewrap", "nested"),
    ("bubblewrap", "exec"),
    ("landlock", "landlock"),
    ("none", "none"),
]
ATTACKS = {
    "network": "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
    "write outside": "open('/usr/planted', 'w')",
    "read outside": "import pathlib; pathlib.Path({secret!r}).read_text()",
    "kill outside": "import os; os.kill({pid}, 9)",
    "namespace": "import ctypes\nif ctypes.CDLL(None, use_errno=True).unshare(0x10000000): raise OSError('refused')",
}


def find_leftovers(mark: str) -> list[str]:
    """Processes that have something to do with a folder, and what is left of the sandboxes' own folders."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode("utf-8", "replace")
            links = [os.readlink(process / "cwd")]  # noqa: PTH115
        except OSError:
            continue
        if mark in command or any(mark in link for link in links):
            found.append(f"{process.name} {command[:200]}")
    return found + [str(path) for path in Path(mark).glob("tmp/k25-kernels-*")]


def find_logs(folder: str) -> list[Path]:
    """Logs of the zygotes whose temporary files are in a folder."""
    return list(Path(folder).glob("k25-kernels-*/zygote.log"))


def wait_for_none(mark: str, limit_s: float = 20) -> list[str]:
    until = time.monotonic() + limit_s
    while (left := find_leftovers(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


@pytest.fixture(params=MODES, ids=[mode for _, mode in MODES])
def way(request: pytest.FixtureRequest) -> tuple[Backend, Mode]:
    backend, mode = request.param
    why = try_mode(mode)
    if why:
        pytest.skip(f"{mode} does not work here: {why}")
    return backend, mode


def make_sleeper(mark: str) -> str:
    """A cell that leaves a process behind, in a session of its own."""
    return f"import subprocess; subprocess.Popen(['setsid', 'sh', '-c', 'sleep 300; exit 0', {mark!r}])"


@pytest.mark.slow
async def test_each_way_runs_cells_within_limits_and_refuses(way: tuple[Backend, Mode], tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_text("given")
    (tmp_path / "secret.txt").write_text("secret")
    async with await Sandbox.start_as(*way, SMALL) as sandbox:
        kernel = await sandbox.make_kernel(tmp_path / "run", readable=[tmp_path / "given.txt"])
        code = f"import os, tempfile\nopen('file', 'w').close()\nopen({str(tmp_path / 'given.txt')!r}).read()"
        first = await kernel.run(code)
        assert (first.error, first.text, first.files_written) == (None, "'given'\n", ("file",))
        shown = await kernel.run("from PIL import Image\nprint(os.getcwd())\nImage.new('L', (2, 3))")
        assert (shown.text, len(shown.images)) == (f"{kernel.inside_dir}\n[image 1: 2x3 px]\n", 1)
        assert (await kernel.run("with tempfile.TemporaryFile() as file: file.write(b'x')")).error is None
        assert (await kernel.run("while True: pass", timeout_s=0.3)).status == "interrupted"
        died = await kernel.run(f"{make_sleeper(str(tmp_path))}\n7**10**8", timeout_s=0.3)
        assert (died.status, (await kernel.run("'tempfile' in globals()")).text) == ("died", "False\n")
        if way[0] != "none":
            for name, code in ATTACKS.items():
                result = await kernel.run(code.format(secret=str(tmp_path / "secret.txt"), pid=os.getpid()))
                assert (name, result.status) == (name, "error")
        environment = await kernel.run("import os; [name for name in os.environ if name.startswith('PYTEST')]")
        assert environment.text == "[]\n"
        await kernel.run(make_sleeper(str(tmp_path)))
    assert wait_for_none(str(tmp_path)) == []


HOST = """
import asyncio, json, sys
from pathlib import Path
from tests.visual_tools.sandbox.conftest import SMALL
from tests.visual_tools.sandbox.test_backends import make_sleeper
from visual_tools.sandbox import Sandbox

async def main():
    backend, mode, folder, is_waiting = json.loads(sys.argv[1])
    sandbox = await Sandbox.start_as(backend, mode, SMALL)
    kernel = await sandbox.make_kernel(Path(folder) / "run")
    await kernel.run(make_sleeper(folder))
    print((await kernel.run("import os; os.getuid()")).text, flush=True)
    if is_waiting:
        await kernel.run("while True: pass")
    await sandbox.close()

asyncio.run(main())
"""


def start_host(
    way: tuple[Backend, Mode], folder: Path, *, is_waiting: bool, wrapper: Sequence[str] = ()
) -> "subprocess.Popen[str]":
    (folder / "tmp").mkdir(exist_ok=True)
    arguments = json.dumps([*way, str(folder), is_waiting])
    return subprocess.Popen(
        [*wrapper, sys.executable, "-c", HOST, arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_killed_host_leaves_nothing(way: tuple[Backend, Mode]) -> None:
    with tempfile.TemporaryDirectory(prefix="k") as folder:  # a short path: sockets lie below it
        host = start_host(way, Path(folder), is_waiting=True)
        try:
            assert host.stdout is not None
            assert host.stdout.readline().strip().isdigit()
            assert any("sleep 300" in line for line in find_leftovers(folder))
            os.kill(host.pid, signal.SIGKILL)
            host.wait()
            assert wait_for_none(folder) == []
        finally:
            host.kill()
            host.stdout.close()  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_start_that_is_cancelled_ends_soon_and_leaves_nothing(
    way: tuple[Backend, Mode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of its imports, which take seconds."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        (Path(folder) / "tmp").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", f"{folder}/tmp")
        starting = asyncio.create_task(Sandbox.start_as(*way, SMALL))
        while not find_logs(f"{folder}/tmp"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        began = time.monotonic()
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled()
        assert time.monotonic() - began < 3
        assert find_leftovers(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "mode"), MODES[:3])
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
def test_an_ordinary_user_can(backend: Backend, mode: Mode) -> None:
    with tempfile.TemporaryDirectory(prefix="k") as name:
        folder = Path(name)
        if obstacle := find_obstacle():
            pytest.skip(obstacle)
        wrapper = as_ordinary_user(folder)
        for path in (folder, folder / "tmp"):
            path.mkdir(exist_ok=True)
            os.chown(path, UID, UID)
        host = start_host((backend, mode), folder, is_waiting=False, wrapper=wrapper)
        text, _ = host.communicate(timeout=100)
        assert (host.returncode, text.strip()) == (0, str(UID) if mode == "landlock" else "65534")
        assert wait_for_none(name) == []


CLOSED_PYTHON = """
import asyncio, sys
from visual_tools.errors import SandboxError
from visual_tools.sandbox import KernelLimits, Sandbox

async def main():
    try:
        await Sandbox.start_as(*sys.argv[1:], KernelLimits())
    except SandboxError as error:
        print(error)

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a right that kernels give up")
@pytest.mark.skipif(is_open_to_all([sys.base_prefix]), reason="Python lies where everybody can read it")
def test_a_python_that_kernels_cannot_read_is_told_at_the_start(tmp_path: Path) -> None:
    """An ordinary user who reads it by a capability, which a kernel does not keep."""
    if shutil.which("setpriv") is None:
        pytest.skip("not installed: setpriv")
    become = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
    rights = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        os.chown(folder, UID, UID)
        done = subprocess.run(
            [*become, *rights, "--", sys.executable, "-c", CLOSED_PYTHON, "landlock", "landlock"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": folder, "HOME": folder},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    assert done.stdout.startswith("kernels cannot read ")
    assert "chmod o+rx" in done.stdout


@pytest.mark.slow
async def test_a_sandbox_is_closed_twice(tmp_path: Path) -> None:
    sandbox = await Sandbox.start("none", SMALL)
    kernel = await sandbox.make_kernel(tmp_path / "run")
    await sandbox.close()
    await sandbox.close()
    await kernel.close()
    with pytest.raises(SandboxError, match="closed"):
        await sandbox.make_kernel(tmp_path / "run")
    with pytest.raises(SandboxError, match="closed"):
        await kernel.run("1")


@pytest.mark.slow
async def test_a_kernel_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with await Sandbox.start("none", SMALL) as sandbox:
        with pytest.raises(SandboxError, match="a kernel needs a folder"):
            await sandbox.make_kernel(tmp_path / "file")
        with pytest.raises(SandboxError, match="missing"):
            await sandbox.make_kernel(tmp_path / "run", readable=[tmp_path / "missing"])
        kernel = await sandbox.make_kernel(tmp_path / "run")
        assert (await kernel.run("1")).text == "1\n"


@pytest.mark.slow
async def test_a_lost_zygote_is_told(tmp_path: Path) -> None:
    async with await Sandbox.start("none", SMALL) as sandbox:
        kernel = await sandbox.make_kernel(tmp_path / "run")
        found = [line for line in find_leftovers(str(sandbox._folder)) if "zygote.main" in line]
        os.kill(min(int(line.split()[0]) for line in found), signal.SIGKILL)
        await asyncio.sleep(0.3)
        with pytest.raises(SandboxError, match="start a new Sandbox"):
            await kernel.run("1")
    assert wait_for_none(str(tmp_path)) == []


def test_backends_are_described() -> None:
    reports = describe_backends()
    assert [report.backend for report in reports] == ["bubblewrap", "landlock", "none"]
    assert all(report.reason for report in reports)
    assert reports[-1].works
    assert describe_inside().startswith(f"Python {sys.version_info[0]}.{sys.version_info[1]}.")
