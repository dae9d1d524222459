"""Attacks on processes: signals, priorities, limits; and children that outstay their kernel."""

import asyncio

from visual_tools.sandbox.check.context import CheckContext, CheckFailed, cell_attack, check, tell_end


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


CHECKS = (
    owner_signals,
    foreign_limits,
    own_limits,
    priorities,
    kill_everything,
)
