"""Attacks on processes: signals, priorities, limits; and children that outstay their kernel."""

import asyncio
import os
import time
from pathlib import Path

from visual_tools.sandbox.check.context import CheckContext, CheckFailed, cell_attack, check, tell_end


def find_processes(token: str) -> list[int]:
    """Processes of this machine whose name or command line has a token."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                told = (folder / "comm").read_bytes() + (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in told:
                found.append(int(folder.name))
    return found


async def wait_for_none(token: str, limit_s: float = 5.0) -> list[int]:
    """Wait until no process has the token; those that are left."""
    end = time.monotonic() + limit_s
    while (left := find_processes(token)) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return left


@check("attack", "signals do not reach processes outside")
async def signals(context: CheckContext) -> str:
    """The planted process must live on; the checking process is only asked whether it could be reached."""
    answers = await context.ask(
        """
        for name in ("SIGCONT", "SIGTERM", "SIGKILL"):
            attempt(name, lambda: os.kill(planted.victim, getattr(signal, name)))
        attempt("group", lambda: os.killpg(planted.victim, signal.SIGKILL))
        attempt("thread", lambda: syscall("tgkill", planted.victim, planted.victim, signal.SIGKILL))
        attempt("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(planted.victim), signal.SIGKILL))
        told = struct.pack("=iii", 9, 0, -1) + bytes(116)
        attempt("queued", lambda: syscall("rt_sigqueueinfo", planted.victim, 9, told))
        attempt("the judge", lambda: os.kill(planted.checker, 0))
        """
    )
    await asyncio.sleep(0.1)
    damage = context.canaries.damage()
    context.canaries.restore()
    if damage or answers.open or len(answers.refused) < 8:
        raise CheckFailed("; ".join([*damage, *answers.open]) or tell_end(answers.result))
    return answers.why_refused()


@check("attack", "signals do not go out through the owner of a pipe")
async def owner_signals(context: CheckContext) -> str:
    """The owner is told by SIGIO that something arrived, which ends a process that does not expect it."""
    answers = await context.ask(
        """
        import fcntl
        def send():
            reading, writing = os.pipe()
            fcntl.fcntl(reading, fcntl.F_SETOWN, planted.victim)
            fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            os.write(writing, b"x")
        attempt("SIGIO", send)
        """
    )
    await asyncio.sleep(0.1)
    damage = context.canaries.damage()
    context.canaries.restore()
    if damage or not (answers.open or answers.refused):
        raise CheckFailed("; ".join(damage) or tell_end(answers.result))
    return answers.why_refused() or "nothing arrives"


foreign_limits = cell_attack(
    "limits of other processes cannot be changed",
    """
    import resource
    def set_again(pid):
        now = resource.prlimit(pid, resource.RLIMIT_CORE)
        resource.prlimit(pid, resource.RLIMIT_CORE, now)
    for pid in (planted.victim, planted.checker):
        attempt(str(pid), lambda: set_again(pid))
    """,
    at_least=2,
)

own_limits = cell_attack(
    "a kernel cannot raise its own hard limits",
    """
    import resource
    def raise_it(name):
        number = getattr(resource, name)
        soft, hard = resource.getrlimit(number)
        if hard == resource.RLIM_INFINITY:
            raise PermissionError(errno.EPERM, "there is no limit that could be raised")
        try:
            resource.setrlimit(number, (soft, hard + 1))
        except ValueError as error:
            raise PermissionError(errno.EPERM, str(error)) from None
        resource.setrlimit(number, (soft, hard))
    for name in ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_MEMLOCK"):
        attempt(name, lambda: raise_it(name))
    """,
    at_least=6,
)

priorities = cell_attack(
    "priorities and processors of other processes cannot be changed",
    """
    def renice(pid):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    attempt("priority", lambda: renice(planted.victim))
    attempt("processors", lambda: os.sched_setaffinity(planted.victim, os.sched_getaffinity(planted.victim)))
    attempt("scheduler", lambda: os.sched_setscheduler(planted.victim, os.SCHED_IDLE, os.sched_param(0)))
    """,
    at_least=3,
)

_KILL_ALL = """
for pid in (planted.victim, planted.checker):
    attempt(str(pid), lambda: os.kill(pid, 0))
    attempt(f"group {pid}", lambda: os.killpg(pid, 0))
"""
_KILL_ALL_FOR_GOOD = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    for pid in (1, os.getppid(), -1, 0):
        try:
            os.kill(pid, number)
        except OSError:
            pass
        time.sleep(0.05)
"""


@check("attack", "a kernel that kills its watchdog, its init and all it sees comes back, and it is told", place="own")
async def kill_everything(context: CheckContext) -> str:
    """Done only after it is certain that nothing outside can be reached: where it can, that is the answer."""
    async with context.kernel() as kernel:
        await context.attempt(_KILL_ALL, kernel=kernel, at_least=4)
        result = await context.run(_KILL_ALL_FOR_GOOD, kernel=kernel)
        if result.status != "died" or not result.is_state_lost or not result.notes:
            raise CheckFailed(f"nobody is told: {tell_end(result)}")
        await context.check_usable(kernel)
    await context.check_usable(context.neighbour)
    if damage := context.canaries.damage():
        raise CheckFailed("; ".join(damage))
    return "; ".join(result.notes)


_STAY = """
import subprocess, sys
code = '''
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
for _ in range(600):
    open("heartbeat", "a").write("x")
    time.sleep(0.1)
'''
subprocess.run([sys.executable, "-I", "-c", code, "daemon-" + planted.token], close_fds=True)
subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)", "daemon-" + planted.token])
assert until(lambda: os.path.exists("heartbeat"))
"""


def _size_of(path: Path) -> int:
    return path.stat().st_size


async def _check_ended(token: str, heartbeat: Path, why: str) -> None:
    left = await wait_for_none(token)
    size = _size_of(heartbeat)
    await asyncio.sleep(0.4)
    for pid in left:
        os.kill(pid, 9)
    if left or _size_of(heartbeat) != size:
        raise CheckFailed(f"{len(left)} processes live on after {why}")


@check("attack", "daemons do not outlive their kernel", place="own")
async def daemons(context: CheckContext) -> str:
    """Twice forked, in a session of its own, deaf to gentle signals; once the kernel is lost, once it is closed."""
    token = f"daemon-{context.canaries.token}"
    async with context.kernel() as kernel:
        heartbeat = kernel.folder / "heartbeat"
        lost = await context.run(_STAY + "os._exit(0)", kernel=kernel)
        if lost.status != "died" or not heartbeat.exists():
            raise CheckFailed(f"the daemon could not be started: {tell_end(lost)}")
        await _check_ended(token, heartbeat, "the loss of the kernel")
        result = await context.run(_STAY, kernel=kernel)
        num_processes = len(find_processes(token))
    if result.status != "ok":
        raise CheckFailed(f"the daemon could not be started again: {tell_end(result)}")
    await _check_ended(token, heartbeat, "close")
    return f"{num_processes} processes ended with the kernel"


CHECKS = (signals, owner_signals, foreign_limits, own_limits, priorities, kill_everything, daemons)
