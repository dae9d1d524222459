"""End every process below one, where no namespace does it."""

import contextlib
import os
import signal
import time

from visual_tools.sandbox.zygote.usage import find_tree

_GIVE_UP_S = 5.0  # a process in uninterruptible sleep cannot be killed by anybody
_PAUSE_S = 0.002


def kill_below(root: int) -> bool:
    """Send SIGKILL to every process below one, once. Whether there was any."""
    pids = find_tree(root)[1:]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them can fork in the meantime
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
    return bool(pids)


def end_below(root: int) -> None:
    """End every process below this one, which must adopt orphans."""
    until = time.monotonic() + _GIVE_UP_S
    while kill_below(root) and time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_PAUSE_S)
