"""Check the isolation of a sandbox on this machine: files, network, processes, system calls, forged messages, limits of
processes, memory, disk and time.

Each limit is attacked up to a few times its size, so that the attack also ends when the limit is not enforced.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from textwrap import dedent

from visual_tools.errors import VisualError
from visual_tools.sandbox.check.canaries import plant
from visual_tools.sandbox.check.context import (
    LIMITS,
    CheckContext,
    CheckFailed,
    CheckOutcome,
    SandboxCheck,
    cell_attack,
    check,
    tell_end,
)
from visual_tools.sandbox.contract import CellResult, KernelMaker

files_outside = cell_attack(
    "files outside the working folder cannot be read",
    """
    for path in planted.canaries:
        attempt(path, lambda: open(path).read())
    """,
)


own_environment = cell_attack(
    "the parent's environment variables are not handed in",
    """
    import subprocess
    def look(environment):
        found = [name for name, value in environment.items() if planted.secret_halves[1] in value]
        if planted.variable not in environment and not found:
            raise FileNotFoundError(2, f"not among {len(environment)} variables")
        return found
    attempt("os.environ", lambda: look(os.environ))
    lines = subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines()
    attempt("env of a child", lambda: look(dict(line.partition("=")[::2] for line in lines)))
    """,
    at_least=2,
)


@check("attack", "files outside cannot be changed, cut, moved or removed")
async def existing_files(context: CheckContext) -> str:
    """Try to change the planted files, then compare them with the originals."""
    answers = await context.ask(
        """
        for path in planted.canaries:
            attempt("append to " + path, lambda: open(path, "a").write("x"))
            attempt("overwrite " + path, lambda: open(path, "r+").write("x"))
            attempt("truncate " + path, lambda: os.truncate(path, 0))
            attempt("move " + path, lambda: os.rename(path, path + ".moved"))
            attempt("replace " + path, lambda: os.rename("mine", path) if open("mine", "w").close() is None else 0)
            attempt("remove " + path, lambda: os.unlink(path))
        """
    )
    damage = context.canaries.damage()
    context.canaries.restore()
    if damage or len(answers.refused) < 6:
        raise CheckFailed("; ".join(damage) or f"attempts that worked: {answers.open}; {tell_end(answers.result)}")
    return answers.why_refused()


async def attempt_unheard(context: CheckContext, cell: str, *, at_least: int) -> str:
    """Run a cell whose attempts must all be refused and must not reach a planted listener."""
    context.canaries.heard()
    why = ""
    try:
        why = (await context.attempt(cell, at_least=at_least)).why_refused()
    finally:
        if reached := context.canaries.heard():
            raise CheckFailed(f"reached from inside: {', '.join(reached)}")
    return why


@check("attack", "no TCP connection to this machine, IPv4 or IPv6, loopback or outer address")
async def tcp(context: CheckContext) -> str:
    """Try to connect to listeners planted at each address."""
    cell = """
    import socket
    for host, port in [*planted.tcp, ("::1", 9), ("127.0.0.1", 22)]:
        attempt(f"{host}:{port}", lambda: socket.create_connection((host, port), timeout=1))
    """
    return await attempt_unheard(context, cell, at_least=3)


@check("attack", "Unix sockets of this machine cannot be reached by path")
async def unix_path(context: CheckContext) -> str:
    """Try to connect to Unix sockets by path, such as those of Docker, D-Bus or a database."""
    cell = """
    import socket
    for path in (planted.unix, f"/proc/self/cwd/../{os.path.basename(planted.unix)}", "/run/docker.sock"):
        attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
    """
    return await attempt_unheard(context, cell, at_least=3)


def find_processes(token: str) -> list[int]:
    """Return the processes of this machine whose name or command line contains a token."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                names = (folder / "comm").read_bytes() + (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in names:
                pids.append(int(folder.name))
    return pids


async def wait_for_none(token: str, limit_s: float = 5.0) -> list[int]:
    """Wait until no process has the token; return those that remain."""
    end = time.monotonic() + limit_s
    while (left := find_processes(token)) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return left


@check("attack", "signals do not reach processes outside")
async def signals(context: CheckContext) -> str:
    """Send signals to the planted process, which must survive; the checker is only probed for reachability."""
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
    """Start daemons: forked twice, in their own session, ignoring SIGTERM.

    Checked once when the kernel is lost and once when it is closed.
    """
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


tracing = cell_attack(
    "other processes cannot be traced",
    """
    for pid in others():
        attempt(f"seize {pid}", lambda: in_child(lambda: syscall("ptrace", 0x4206, pid, 0, 0)))
    attempt("pidfd_getfd", lambda: syscall("pidfd_getfd", os.pidfd_open(planted.victim), 0, 0))
    """,
    at_least=3,
)


namespaces = cell_attack(
    "new namespaces cannot be made or entered",
    """
    new_user = 0x10000000
    attempt("unshare user", lambda: in_child(lambda: syscall("unshare", new_user)))
    attempt("unshare mount", lambda: in_child(lambda: syscall("unshare", 0x00020000)))
    attempt("unshare net", lambda: in_child(lambda: syscall("unshare", 0x40000000)))
    def clone(name, *arguments):
        pid = syscall(name, *arguments)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    attempt("clone", lambda: in_child(lambda: clone("clone", new_user | signal.SIGCHLD, 0, 0, 0, 0)))
    flags = struct.pack("=11Q", new_user, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    attempt("clone3", lambda: in_child(lambda: clone("clone3", flags, 88)))
    attempt("setns", lambda: in_child(lambda: syscall("setns", os.pidfd_open(os.getpid()), 0x40000000)))
    """,
    at_least=6,
)


async def check_whole(context: CheckContext, cells: dict[str, str]) -> str:
    """Run cells that corrupt the connection; caller, next cell, a new kernel and the neighbour must still work."""
    ends = []
    async with context.kernel(wall_s=3.0) as kernel:
        for name, cell in cells.items():
            started = time.monotonic()
            result = await context.run(cell, kernel=kernel, timeout_s=2.0)
            took_s = time.monotonic() - started
            ends.append(f"{name}: {result.status}")
            if took_s > 20:
                raise CheckFailed(f"{name}: the call came back after {took_s:.0f} s")
            if result.status != "died":  # the damage may only show now
                result = await context.run("1", kernel=kernel)
            if result.status == "died" and not (result.is_state_lost and result.notes):
                raise CheckFailed(f"{name}: the kernel died and its result does not say so")
            await context.check_usable(kernel)
    await context.check_usable(context.neighbour)
    if damage := context.canaries.damage():
        raise CheckFailed("; ".join(damage))
    return "; ".join(ends)


@check("attack", "forged messages hurt only the kernel that sends them", place="own")
async def forged_messages(context: CheckContext) -> str:
    """Send messages forged with the kernel's own key.

    They contain a premature end, unknown kinds, contents of wrong types and a pickle that would create a file.
    """
    prepare = """
    kernel = get_ipython().kernel
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    def send(kind, content, parent=parent, **more):
        topic = b"kernel.x." + kind.encode()
        kernel.session.send(kernel.iopub_socket, kind, content, parent=parent, ident=topic, **more)
    """
    forgeries = {
        "an early end": "send('status', {'execution_state': 'idle'})\ntime.sleep(0.2)\nprint('after the end')",
        "an early death": "send('status', {'execution_state': 'dead'})\nsend('status', {'execution_state': 7})",
        "wrong types": """
    for kind in ("stream", "display_data", "execute_result", "error", "status", "clear_output", "update_display_data"):
        for content in ({}, {"text": 5, "name": []}, {"data": []}, {"data": {"image/png": {"a": 1}, "text/plain": 3}},
                        {"traceback": 5, "ename": None, "evalue": []}, {"traceback": [1, None]},
                        {"execution_count": "x"},
                        {"data": {"image/png": "x" * 100, "text/html": None}, "metadata": 3, "transient": "x"}):
            send(kind, content)
    """,
        "unknown kinds": "send('shutdown_reply', {'restart': True})\nsend('x' * 1000, {})\nsend('', {})",
        "another's answer": "send('stream', {'name': 'stdout', 'text': 'not mine'}, {'header': {'msg_id': 'x'}})",
        "a pickle": """
    import pickle
    class Evil:
        def __reduce__(self):
            return os.mkdir, (planted.base + "/pickled",)
    send("stream", {"name": "stdout", "text": ""}, buffers=[pickle.dumps(Evil())])
    data = {"application/x-python-pickle": pickle.dumps(Evil()).decode("latin-1")}
    send("display_data", {"data": data, "metadata": {}})
    if hasattr(kernel.iopub_socket, "send_multipart"):
        kernel.iopub_socket.send_multipart([b"kernel", pickle.dumps(Evil())])
        kernel.iopub_socket.send_multipart([b"", b"<IDS|MSG>", b"wrong", b"{", b"{", b"{", b"{"])
        kernel.iopub_socket.send_multipart([b"<IDS|MSG>"])
    """,
        "a wrong key": "kernel.session.key = b'another key'\nprint('signed wrongly')",
    }
    cells = {name: dedent(prepare) + dedent(cell) for name, cell in forgeries.items()}
    why = await check_whole(context, cells)
    if (context.canaries.base / "pickled").exists():
        raise CheckFailed("a pickle that a kernel sent was loaded")
    return why


MB = 2**20


MEMORY_SLACK = 2.0
"""Maximum ratio of measured use to the limit, for limits that are polled rather than enforced."""


_SET_NAME = "syscall('prctl', 15, planted.mark.encode(), 0, 0, 0)  # the name that the check looks for\n"


_FORKS = """
children = []
try:
    for _ in range(planted.wanted):
        pid = os.fork()
        if pid == 0:
            time.sleep(1.5)
            os._exit(0)
        children.append(pid)
except OSError as error:
    tell("refused", "fork", error)
tell("fact", "forked", len(children))
for pid in children:
    os.waitpid(pid, 0)
"""


def check_loss_reported(result: CellResult) -> None:
    """Raise `CheckFailed` if a kernel died and the result does not say so."""
    if result.status == "died" and not (result.is_state_lost and result.notes):
        raise CheckFailed(f"the kernel died and its result does not say so: {tell_end(result)}")


@check("limit", "a fork bomb hurts neither machine nor neighbour", place="alone")
async def fork_bomb(context: CheckContext) -> str:
    """Run a fork bomb, counting its processes from outside while it runs; children fork too."""
    mark = f"fb{context.canaries.token}"[:15]
    async with context.kernel() as kernel:
        bomb = asyncio.create_task(context.run(_SET_NAME + _FORKS, kernel=kernel, mark=mark, wanted=400))
        most, slowest_s = 0, 0.0
        while not bomb.done():
            started = time.monotonic()
            await context.check_usable(context.neighbour)
            slowest_s = max(slowest_s, time.monotonic() - started)
            most = max(most, len(find_processes(mark)))
            await asyncio.sleep(0.02)
        result = await bomb
        check_loss_reported(result)
        if most > LIMITS.num_processes * 1.5:
            raise CheckFailed(f"{most} processes at once, the limit is {LIMITS.num_processes}")
        if slowest_s > 5:
            raise CheckFailed(f"the neighbour took {slowest_s:.1f} s to answer")
        await context.check_usable(kernel)
    if left := await wait_for_none(mark):
        raise CheckFailed(f"{len(left)} processes are left")
    return f"at most {most} processes; the neighbour answered within {slowest_s:.2f} s"


_GRAB = """
grabbed = os.open("grabbed", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
step = 8 << 20

def count():
    os.write(grabbed, b"x")
    time.sleep(planted.pause_s)

def grab(num_steps):
    held = []
    for _ in range(num_steps):
        held.append(b"x" * step)
        count()
    return held
"""


async def grab_memory(context: CheckContext, cell: str, *, pause_s: float = 0.01) -> str:
    """Run a cell that allocates memory in steps of 8 MB, each logged to a file, and compare with the limit."""
    async with context.kernel() as kernel:
        result = await context.run(_GRAB + cell, kernel=kernel, pause_s=pause_s)
        noted = kernel.folder / "grabbed"
        taken = noted.stat().st_size * 8 if noted.exists() else 0
        check_loss_reported(result)
        if taken > MEMORY_SLACK * LIMITS.memory_bytes / MB:
            raise CheckFailed(f"{taken} MB were taken, the limit is {LIMITS.memory_bytes // MB} MB")
        if not noted.exists():
            raise CheckFailed(f"no attempt was made: {tell_end(result)}")
        await context.check_usable(kernel)
    return f"{taken} MB taken: {tell_end(result)[-120:]}"


@check("limit", "a memory bomb is stopped", place="alone")
async def memory_bomb(context: CheckContext) -> str:
    """Allocate three times the memory limit in one process."""
    return await grab_memory(context, "held = grab(192)\ntime.sleep(1)\ndel held")


WRITE = """
def write(name, size):
    with open(name, "wb") as file:
        for _ in range(size >> 20):
            file.write(b"x" * (1 << 20))
    return size
"""


@check("limit", "many files cannot fill the disk", place="alone")
async def many_files(context: CheckContext) -> str:
    """Write four times the capacity of the folder in files of 4 MB; the folder must then be clearable and reusable."""
    async with context.kernel() as kernel:
        result = await context.run(
            WRITE
            + """
for number in range(planted.num_files):
    write(f"many-{number}", 4 << 20)
    time.sleep(0.05)
""",
            kernel=kernel,
            num_files=4 * LIMITS.disk_bytes // (4 * MB),
        )
        used = sum(path.stat().st_blocks * 512 for path in kernel.folder.iterdir() if path.is_file())
        check_loss_reported(result)
        if used > 2 * LIMITS.disk_bytes or result.status == "ok":
            raise CheckFailed(f"the folder holds {used // MB} MB, the limit is {LIMITS.disk_bytes // MB} MB")
        _remove_many(kernel.folder)
        await context.check_usable(kernel)
    return f"{used // MB} MB written: {tell_end(result)[-120:]}"


def _remove_many(folder: Path) -> None:
    for path in folder.glob("many-*"):
        path.unlink()


@check("limit", "a cell that ignores interrupts is ended at the time limit", place="own")
async def deaf_cell(context: CheckContext) -> str:
    """Run a cell that catches KeyboardInterrupt, then installs a handler that does nothing."""
    cells = (
        "while True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    time.sleep(60)",
        "import threading\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.pthread_sigmask(signal.SIG_BLOCK, "
        "set(signal.Signals))\nwhile True:\n    time.sleep(60)",
    )
    async with context.kernel() as kernel:
        for cell in cells:
            started = time.monotonic()
            result = await context.run(cell, kernel=kernel, timeout_s=1.0)
            if result.status not in ("died", "interrupted") or time.monotonic() - started > 12:
                raise CheckFailed(f"{time.monotonic() - started:.1f} s: {tell_end(result)}")
            check_loss_reported(result)
            await context.check_usable(kernel)
    return tell_end(result)


CHECKS: tuple[SandboxCheck, ...] = (
    *(files_outside, own_environment, existing_files, tcp, unix_path, signals, daemons, tracing, namespaces),
    *(forged_messages, fork_bomb, memory_bomb, many_files, deaf_cell),
)
"""All checks, in the order in which they are reported."""


Say = Callable[[str], None]
MakeSandbox = Callable[[], Awaitable[KernelMaker]]

_NUM_OWN_AT_ONCE = 6  # checks with their own kernel that run at once; more slow each other down beyond their limits


async def check_sandbox(
    make: MakeSandbox | KernelMaker, *, say: Say | None = None, checks: Sequence[SandboxCheck] = CHECKS
) -> list[CheckOutcome]:
    """Try to break out of a sandbox, exhaust the machine, and violate the sandbox's contract.

    Files, listeners, a process and a secret are planted outside, and code in real kernels attacks them. A successful
    attack harms only the planted objects: bombs stop at a few times the limit, and calls that would change the machine
    are made such that they fail after the permission check.

    Args:
        make: Function that creates the sandbox after the secret is planted; the sandbox is closed at the end. Or a
            sandbox, which stays open; if it was started before, its processes do not know the secret.
        say: Called with one line when a check ends.
        checks: Checks to run.

    Raises:
        SandboxError: If the first kernels cannot be created.
    """
    outcomes: dict[str, CheckOutcome] = {}

    async def report(check: SandboxCheck, context: CheckContext) -> None:
        outcome = outcomes[check.name] = await _run_check(check, context)
        if say is not None:
            say(f"{'ok  ' if outcome.passed else 'FAIL'} {check.kind:<9}  {check.name} ({outcome.duration_s:.1f} s)")

    async with _open_context(make) as context:
        gate = asyncio.Semaphore(_NUM_OWN_AT_ONCE)

        async def in_turn() -> None:
            for check in checks:
                if check.place == "shared":
                    await report(check, context)

        async def through_gate(check: SandboxCheck) -> None:
            async with gate:
                await report(check, context)

        async with asyncio.TaskGroup() as group:
            group.create_task(in_turn())
            for check in checks:
                if check.place == "own":
                    group.create_task(through_gate(check))
        for check in checks:
            if check.place == "alone":
                await report(check, context)
    return [outcomes[check.name] for check in checks]


async def _run_check(check: SandboxCheck, context: CheckContext) -> CheckOutcome:
    started, passed = time.monotonic(), False
    try:
        detail = await check.function(context) or ""
        passed = True
    except CheckFailed as error:
        detail = str(error)
    except (VisualError, OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        detail = f"the sandbox raised {type(error).__name__}: {error}"
    took_s = time.monotonic() - started
    return CheckOutcome(name=check.name, kind=check.kind, passed=passed, detail=detail, duration_s=took_s)


@contextlib.asynccontextmanager
async def _open_context(make: MakeSandbox | KernelMaker) -> AsyncIterator[CheckContext]:
    async with contextlib.AsyncExitStack() as stack:
        canaries = stack.enter_context(plant())
        if callable(make):
            maker = await make()
            stack.push_async_callback(maker.close)
        else:
            maker = make
        shared, neighbour = [
            await maker.make_kernel(canaries.base / name, limits=LIMITS) for name in ("shared", "neighbour")
        ]
        stack.push_async_callback(shared.close)
        stack.push_async_callback(neighbour.close)
        yield CheckContext(maker=maker, canaries=canaries, shared=shared, neighbour=neighbour)
