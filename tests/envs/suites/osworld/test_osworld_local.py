"""Local guests: what is held in, what a task can break and what it cannot; real bubblewrap, real screens."""

import asyncio
import contextlib
import functools
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from envs import Click, EnvDiedError, InstructionTask, TypeText, Wait
from envs.suites.osworld.env import GuestEnv, GuestOptions
from envs.suites.osworld.guest_client import GuestClient, UncertainError
from envs.suites.osworld.local import LocalGuest, LocalOptions, why_impossible
from envs.suites.osworld.local_sandbox import Files, bubblewrap_arguments, find_python_packages
from tests.envs.desktop.conftest import needs_program
from tests.ordinary_user import ROOT, as_ordinary_user, find_obstacle

SCREEN_PX = (800, 600)
SMALL = LocalOptions(
    template=Path("/none"),
    screen_px=SCREEN_PX,
    memory_bytes=2**30,
    disk_bytes=2**25,
    file_bytes=2**26,
    num_processes=200,
)
TASK = InstructionTask(instruction="Use the guest.")


def has_atspi() -> bool:
    code = "import gi; gi.require_version('Atspi', '2.0')"
    return subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True).returncode == 0


@functools.cache
def why_skip() -> str:
    """Why local guests cannot be made on this machine; "" when they can."""
    missing = why_impossible()
    if missing is not None:
        return missing
    bare = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true"]
    tried = subprocess.run(bare, capture_output=True, text=True)
    return f"bubblewrap does not work here: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = [
    pytest.mark.skipif(bool(why_skip()), reason=why_skip()),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[GuestEnv]:
    made = GuestEnv(GuestOptions(pause_s=0.05, settle_timeout_s=0.5), LocalGuest(SMALL))
    yield made
    await made.close()


async def said(env: GuestEnv, command: str) -> str:
    """What a command of the guest's shell prints."""
    return (await env.guest.execute(command, shell=True)).stdout.strip()


async def test_what_is_inside(env: GuestEnv) -> None:
    await env.reset(TASK)
    assert await said(env, "whoami; echo $HOME $DISPLAY; pwd") == "user\n/home/user :0\n/home/user"
    assert await said(env, "id -u") != "0"
    assert str(os.getpid()) not in await said(env, "ps -eo pid=")
    assert await said(env, "cat /proc/net/dev | tail -n +3 | cut -d: -f1") == "lo"
    assert await said(env, "command -v sudo && sudo -n true && echo power") in ("", "/usr/bin/sudo")
    assert await said(env, f"ls -d {Path(__file__).parents[1]} /root/.ssh /var/log 2>/dev/null") == ""
    tasks = Path(sys.modules[GuestEnv.__module__].__file__ or "").parent / "data"
    assert await said(env, f"ls {tasks}") == ""
    for folder in ("/", "/usr", "/etc", "/dev", "/k25", "/opt", str(tasks)):
        assert await said(env, f"touch {folder}/a-file 2>/dev/null && echo written") == "", folder


@pytest.mark.long
async def test_each_guest_begins_anew(env: GuestEnv) -> None:
    await env.reset(TASK)
    begun = await said(env, "ls -A ~ /tmp")
    await env.guest.upload("~/Desktop/note.txt", b"mine")
    await env.guest.execute("echo x > /tmp/x; xterm & rm -rf ~/Music", shell=True)
    await env.reset(TASK)
    assert await env.guest.read_file("~/Desktop/note.txt") is None
    assert (await said(env, "ls -A ~ /tmp")).split("k25")[0] == begun.split("k25")[0]
    assert await said(env, "ls /tmp/x; pgrep xterm") == ""


async def test_the_home_is_that_of_the_template(tmp_path: Path) -> None:
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "app").write_text("set")
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    async with LocalGuest(replace(SMALL, template=tmp_path)) as guest:
        client = GuestClient((await guest.fresh(GuestOptions())).base_url)
        assert await client.read_file("~/.config/app") == b"set"
        await client.execute("echo other > ~/.config/app", shell=True)
        await client.close()
    assert (tmp_path / ".config" / "app").read_text() == "set"


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_this_python_may_lie_where_the_guest_has_a_folder_of_its_own(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.access(place, os.W_OK):
        pytest.skip(f"{place} cannot be written to")
    with tempfile.TemporaryDirectory(dir=place) as name, ExitStack() as opened:
        (Path(name) / "venv").mkdir()
        for file in ("venv/python3", "private"):
            (Path(name) / file).write_text(file)
        monkeypatch.setattr(sys, "prefix", f"{name}/venv")
        files = Files(opened)
        arguments = bubblewrap_arguments(files, template=Path("/none"), disk_bytes=2**20, user=None)
        argv = ["bwrap", *arguments, "--", "/bin/sh", "-c", f"cat {name}/venv/python3; ls {name}; echo > {name}/venv/x"]
        done = await asyncio.to_thread(subprocess.run, argv, pass_fds=files.fds, capture_output=True, text=True)
    assert (done.stdout, "Read-only" in done.stderr) == ("venv/python3venv\n", True), done.stderr


async def test_guests_do_not_meet(env: GuestEnv) -> None:
    await env.reset(TASK)
    async with LocalGuest(SMALL) as other:
        options = await other.fresh(GuestOptions())
        ports = [[one.server_port, one.chromium_port, one.vlc_port] for one in (options, env.options)]
        assert len({*ports[0], *ports[1]}) == 6
        client = GuestClient(options.base_url)
        await client.launch(["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1", "-d", "/dev/shm"])
        async with httpx.AsyncClient(trust_env=False) as web:
            while True:  # in the place of VLC's web interface
                with contextlib.suppress(httpx.HTTPError):
                    assert (await web.get(f"http://127.0.0.1:{options.vlc_port}/")).status_code == 200
                    break
                await asyncio.sleep(0.1)
            with pytest.raises(httpx.HTTPError):
                await web.get(f"http://127.0.0.1:{env.options.vlc_port}/")
        await client.upload("/tmp/other", b"1")
        with contextlib.suppress(UncertainError):  # the guest may end before it answers
            await client.execute(["pkill", "-9", "Xvfb"])
        assert await env.guest.read_file("/tmp/other") is None
        assert await env.guest.screen_size_px() == SCREEN_PX
        await client.close()
        assert await env.guest.platform() == "Linux"


@needs_program("mousepad")
@pytest.mark.skipif(not has_atspi(), reason="gir1.2-atspi-2.0 is not installed")
async def test_text_is_typed_and_read(env: GuestEnv) -> None:
    await env.reset(TASK)
    await env.guest.launch(["mousepad"])
    while not await env.guest.window_size_px("mousepad"):
        await asyncio.sleep(0.1)
    result = await env.step([Click(x_px=400, y_px=300), TypeText(text="plain <text> ä")])
    assert result.observation.last_action_error is None
    tree = ElementTree.fromstring(await env.guest.accessibility_tree())
    assert [node.text for node in tree.iter("text") if node.text] == ["plain <text> ä"]


ATTACKS = {
    "kills all that it can": "pkill -9 -f .",
    "signals everybody": "kill -9 -1",
    "removes its home": "rm -rf ~ ~/* ~/.[a-z]*",
    "removes everything": "timeout 3 rm -rf --no-preserve-root /",
    "kills the screen": "pkill -9 Xvfb",
    "shuts down": "shutdown -h now; poweroff; reboot -f; systemctl poweroff; kill -9 1",
    "fills the disk": "dd if=/dev/zero of=~/zeros bs=1M & dd if=/dev/zero of=/tmp/zeros bs=1M & wait",
    "writes one large file": "truncate -s 100G ~/large; fallocate -l 2G /tmp/large",
    "forks for ever": "bomb() { bomb | bomb & }; bomb; sleep 1",
    "takes all memory": "python3 -c 'x = bytearray(b\"1\") * 3 * 2**30'",
}


QUICK = ("kills all that it can", "forks for ever")


@pytest.mark.parametrize(
    "attack",
    [pytest.param(code, id=name, marks=() if name in QUICK else pytest.mark.slow) for name, code in ATTACKS.items()],
)
async def test_what_a_task_breaks_is_mended_by_the_next_reset(env: GuestEnv, attack: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    await env.reset(TASK)
    with contextlib.suppress(UncertainError, EnvDiedError):
        await env.guest.execute(attack, shell=True, timeout_s=20.0)
    await env.reset(TASK)
    assert await said(env, "ls -d ~/Desktop") == "/home/user/Desktop"
    assert kept.read_text() == "kept"


@pytest.mark.long
async def test_a_guest_that_is_gone_is_told(env: GuestEnv) -> None:
    await env.reset(TASK)
    with contextlib.suppress(UncertainError):
        await env.guest.execute("pkill -9 Xvfb", shell=True)
    with pytest.raises(EnvDiedError, match=r"does not answer.*it ended; its last output:\n.*the X server ended"):
        await env.step([Click(x_px=1, y_px=1)])


@pytest.mark.slow
async def test_a_guest_that_takes_too_much_is_ended(env: GuestEnv) -> None:
    await env.reset(TASK)
    take = "x = bytearray(b'1') * (400 * 2**20); import time; time.sleep(1000)"
    await env.guest.execute('for i in 1 2 3 4; do python3 -c "' + take + '" >/dev/null 2>&1 & done', shell=True)
    with pytest.raises(EnvDiedError, match=r"at most 1024 MB .* so it was ended"):
        while True:
            await env.step([Wait(duration_s=0.2)])


@pytest.mark.slow
async def test_more_than_300_programs_use_one_screen(env: GuestEnv) -> None:
    await env.reset(TASK)
    code = (
        "import Xlib.display as d; x = [d.Display() for _ in range(320)]; print(len({i.screen().root.id for i in x}))"
    )
    assert await said(env, f'python3 -c "{code}"') == "1"


HOLD = """
import asyncio, sys
from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.local import LocalGuest
async def main():
    guest = LocalGuest()
    options = await guest.fresh(GuestOptions())
    print(guest._sandbox._init.pid, options.server_port, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


async def test_a_guest_ends_with_whoever_started_it() -> None:
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, stdout=asyncio.subprocess.PIPE)
    assert holder.stdout is not None
    first = os.pidfd_open(int((await holder.stdout.readline()).split()[0]))
    holder.kill()
    await holder.wait()
    assert await asyncio.to_thread(select.select, [first], [], [], 60.0) != ([], [], [])
    os.close(first)


OF_AN_ORDINARY_USER = """
import asyncio, json, os
from pathlib import Path
from envs import InstructionTask, TypeText
from envs.suites.osworld.env import GuestEnv, GuestOptions
from envs.suites.osworld.local import LocalGuest, LocalOptions
async def main():
    options = LocalOptions(template=Path("/none"), screen_px=(800, 600))
    env = GuestEnv(GuestOptions(pause_s=0.05, settle_timeout_s=0.5), LocalGuest(options))
    told = {"user": os.geteuid()}
    for number in range(2):
        await env.reset(InstructionTask(instruction="Use the guest."))
        told["left"] = await env.guest.read_file("~/mine") is not None
        await env.guest.upload("~/mine", b"1")
    result = await env.step([TypeText(text="a")])
    told["screen"], told["error"] = env.screen_px, result.observation.last_action_error
    asked = "whoami; id -u; echo ~; grep CapEff /proc/self/status; unshare -U true 2>&1 >/dev/null | wc -l"
    told["said"] = (await env.guest.execute(asked, shell=True)).stdout.split()
    await env.close()
    print(json.dumps(told))
asyncio.run(main())
"""


def open_to_all(folder: Path) -> None:
    """Let everybody read a folder, and have pyautogui for guests in there."""
    folder.chmod(0o755)
    shutil.copytree(find_python_packages() or "", folder / "k25" / "osworld-local" / "python")


@pytest.mark.long
async def test_an_ordinary_user_has_guests() -> None:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    with tempfile.TemporaryDirectory(prefix="k") as name:
        open_to_all(Path(name))
        argv = [*as_ordinary_user(Path(name)), sys.executable, "-c", OF_AN_ORDINARY_USER]
        places = {"HOME": name, "XDG_DATA_HOME": name, "PYTHONDONTWRITEBYTECODE": "1"}
        done = await asyncio.to_thread(
            subprocess.run, argv, env={**os.environ, **places}, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("user") != 0
    assert told.pop("said") == ["user", "1000", "/home/user", "CapEff:", "0000000000000000", "1"]
    assert told == {"left": False, "screen": [800, 600], "error": None}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("slirp4netns") is None, reason="slirp4netns is not installed")
async def test_a_network_when_it_is_allowed() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        here = probe.getsockname()[0]
    server = await asyncio.start_server(lambda _, writer: writer.close(), here, 0)
    secret = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    places = [(here, server.sockets[0].getsockname()[1]), ("10.0.2.2", secret.sockets[0].getsockname()[1])]
    code = f"""import socket
for place in {places}:
    try: socket.create_connection(place, 5).close(); print("reached")
    except OSError: print("not")
"""
    async with LocalGuest(replace(SMALL, allow_net=True)) as guest:
        client = GuestClient((await guest.fresh(GuestOptions())).base_url)
        assert (await client.execute(["python3", "-c", code])).stdout.split() == ["reached", "not"]
        network = guest._sandbox._network  # type: ignore[union-attr]
        await client.close()
    assert network is not None and network.returncode is not None
    server.close()
    secret.close()
