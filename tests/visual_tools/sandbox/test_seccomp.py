"""The filter of system calls: what it refuses, what it lets through, and that it is for good."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from visual_tools.errors import SandboxError
from visual_tools.sandbox.seccomp import REFUSALS, Arg, Instruction, Refusal, assemble, make_refusals
from visual_tools.sandbox.syscall_numbers import NUMBERS, number_of

ALLOW, KILL, EPERM_RETURN = 0x7FFF0000, 0x80000000, 0x00050001
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

SCRIPT = """
import asyncio, ctypes, errno, json, os, signal, socket, subprocess, sys, threading, time
from visual_tools.sandbox.seccomp import install_filter

pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
victim = subprocess.Popen(["cat"], start_new_session=True, **pipe)  # ends when this process does
begin, late = threading.Event(), {}
libc = ctypes.CDLL(None, use_errno=True)
os.setpgid(0, 0)

def attempt(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "works"

def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) == -1:
        raise OSError(ctypes.get_errno(), "refused")

def listen():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\\0k25-" + str(os.getpid()))
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.getsockname())

def run():
    subprocess.run(["true"], check=True)

def change_mode():
    os.chmod(path, 0o604)
    if os.stat(path).st_mode & 0o777 != 0o604:
        raise OSError(errno.ENOTSUP, "without effect")

def make_late():
    begin.wait()
    late["inet"] = attempt(lambda: socket.socket(socket.AF_INET))

path = sys.argv[2]
thread = threading.Thread(target=make_late)
thread.start()
install_filter(**json.loads(sys.argv[1]))
begin.set()
thread.join()
families = {"inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "vsock": 40, "unix": 1}
told = {name: attempt(lambda: socket.socket(number, socket.SOCK_STREAM)) for name, number in families.items()}
told["inet of a thread that ran"] = late["inet"]
told |= {
    "pair": attempt(lambda: [end.close() for end in socket.socketpair()]),
    "connect": attempt(listen),
    "datagram": attempt(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "clone3": attempt(lambda: call(435, 0, 0)),
    "io_uring": attempt(lambda: call(425, 1, 0)),
    "program": attempt(run),
    "loop": attempt(lambda: asyncio.run(asyncio.sleep(0))),
    "pipe": attempt(lambda: os.mkfifo(path + ".pipe")),
    "device": attempt(lambda: os.mknod(path + ".device", 0o20600, os.makedev(1, 3))),
    "memory file": attempt(lambda: os.memfd_create("x")),
    "mode": attempt(change_mode),
    "owner": attempt(lambda: os.chown(path, -1, -1)),
    "signal to itself": attempt(lambda: os.kill(os.getpid(), 0)),
    "signal to its group": attempt(lambda: os.killpg(os.getpid(), 0)),
    "signal to another": attempt(lambda: os.kill(victim.pid, signal.SIGKILL)),
}
print(json.dumps(told))
"""
BASE = {
    **dict.fromkeys(("inet", "inet6", "netlink", "packet", "vsock", "inet of a thread that ran"), "EPERM"),
    **dict.fromkeys(("unix", "pair", "connect", "datagram", "program", "loop", "pipe", "mode", "owner"), "works"),
    **dict.fromkeys(("io_uring", "device", "memory file"), "EPERM"),
    "clone3": "ENOSYS",
    **dict.fromkeys(("signal to itself", "signal to its group", "signal to another"), "works"),
}


@pytest.mark.parametrize(
    ("choices", "differs"),
    [
        ({"allow_inet": False}, {}),
        (
            {"allow_inet": True},
            {"inet": "works", "inet6": "works", "inet of a thread that ran": "works"},
        ),
        ({"allow_inet": False, "kill_only_self": True}, {"signal to another": "EPERM"}),
        ({"allow_inet": False, "allow_unix_connect": False}, {"connect": "EPERM", "datagram": "EPERM"}),
        ({"allow_inet": False, "allow_metadata": False}, {"mode": "ENOTSUP", "owner": "EPERM"}),
    ],
)
def test_what_is_refused(tmp_path: Path, choices: dict[str, bool], differs: dict[str, str]) -> None:
    path = tmp_path / "file"
    path.touch()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(choices), str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == BASE | differs


def run_program(program: list[Instruction], *, arch: int, number: int, args: tuple[int, ...] = ()) -> int:
    """What the kernel's interpreter would return for a call."""
    words = {0: number, 4: arch} | {16 + 8 * place: value & 0xFFFFFFFF for place, value in enumerate(args)}
    value = place = 0
    while True:
        code, if_true, if_false, constant = program[place]
        place += 1
        match code:
            case 0x20:
                value = words[constant]
            case 0x06:
                return constant
            case 0x15:
                place += if_true if value == constant else if_false
            case 0x35:
                place += if_true if value >= constant else if_false
            case 0x45:
                place += if_true if value & constant else if_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_call_on_both_machines(machine: str) -> None:
    program = assemble(make_refusals(allow_inet=False, kill_only_self=True, pid=77, pgid=70), machine)
    unconditional = {call for refusal in REFUSALS if refusal.when is None for call in refusal.calls.split()}
    for name in NUMBERS:
        number = number_of(name, machine)
        if number is None:
            continue
        returned = run_program(program, arch=ARCH[machine], number=number, args=(0, 0, 0, 0, 0, 0))
        if name in unconditional:
            assert returned & 0xFFFF0000 == 0x00050000, name
    assert run_program(program, arch=ARCH[machine], number=0, args=(0,) * 6) == ALLOW
    assert run_program(program, arch=0x40000003, number=0) == KILL
    assert run_program(program, arch=ARCH[machine], number=0x40000000 | 39) == KILL

    def ask(name: str, *args: int) -> int:
        return run_program(program, arch=ARCH[machine], number=number_of(name, machine) or 0, args=(*args, *(0,) * 6))

    assert [ask("kill", pid) for pid in (77, 0, -77, -70)] == [ALLOW] * 4
    assert [ask("kill", pid) for pid in (1, -1, 78, -78)] == [EPERM_RETURN] * 4
    assert ask("clone", 0x11) == ALLOW
    assert ask("clone", 0x10000011) == EPERM_RETURN
    assert ask("ioctl", 0, 0x5401) == ALLOW
    assert ask("ioctl", 0, 0x5412) == EPERM_RETURN
    assert ask("ioctl", 0, 0x8901) == EPERM_RETURN


def test_conditions() -> None:
    whens = {"in": Arg(1, "in", (3, 5)), "not in": Arg(1, "not in", (3, 5)), "has bit": Arg(1, "has bit", (4, 8))}
    for name, refused in (("in", {3, 5}), ("not in", {0, 4, 8, 9}), ("has bit", {4, 5, 8, 9})):
        program = assemble([Refusal("x", "kill tgkill", whens[name])], "x86_64")
        for call in ("kill", "tgkill"):
            number = number_of(call, "x86_64") or 0
            returned = {
                v: run_program(program, arch=ARCH["x86_64"], number=number, args=(0, v)) for v in (0, 3, 4, 5, 8, 9)
            }
            assert {value for value, code in returned.items() if code == EPERM_RETURN} == refused
            assert {value for value, code in returned.items() if code == ALLOW} == {0, 3, 4, 5, 8, 9} - refused


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 belongs to x86_64")
def test_another_architecture_ends_the_process() -> None:
    script = (
        "import ctypes; from visual_tools.sandbox.seccomp import install_filter; install_filter(allow_inet=False); "
        "ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39)); print('lives')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (-31, "")


def test_an_unknown_machine_is_said() -> None:
    with pytest.raises(SandboxError, match=r"riscv64.*known machines: x86_64, aarch64"):
        assemble(REFUSALS, "riscv64")
