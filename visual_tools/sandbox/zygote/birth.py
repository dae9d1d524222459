"""From a fork of the zygote to a running kernel: process 1 of its namespaces, and the kernel below it."""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from visual_tools.sandbox.zygote import confine, rooms, system
from visual_tools.sandbox.zygote.plan import CHANNELS, HOST_ROOT, KernelSpec, Plan

Serve = Callable[[dict[str, int], KernelSpec], None]
_HOSTNAME = "sandbox"


def give_birth(plan: Plan, spec: KernelSpec, sockets: Sequence[int], report: int, serve: Serve) -> NoReturn:
    """Runs in a fork of the zygote; never returns.

    Args:
        plan: Of the zygote.
        spec: Of the kernel.
        sockets: Listening sockets, in the order of `CHANNELS`.
        report: Pipe to the zygote, one JSON object a line.
        serve: Becomes the kernel: runs until it ends.
    """
    try:
        sockets, report = _keep_only(sockets, report)
        os.setsid()
        if plan.mode == "nested":
            _enter_namespaces(plan, spec, report)
        else:
            _stay_outside(plan, spec, report)
        confine.limit(spec.limits)
        confine.filter_calls()
        _split(spec, sockets, report, serve)
    except BaseException as error:  # the edge of this process
        _tell(report, {"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        os._exit(1)


def _tell(report: int, message: dict[str, object]) -> None:
    os.write(report, json.dumps(message).encode() + b"\n")


def _keep_only(sockets: Sequence[int], report: int) -> tuple[list[int], int]:
    """Close every descriptor but these, which get the numbers from 3 on."""
    high = [os.dup2(fd, 100 + place, inheritable=False) for place, fd in enumerate([*sockets, report])]
    os.closerange(3, 100)
    kept = [os.dup2(fd, 3 + place, inheritable=False) for place, fd in enumerate(high)]
    os.closerange(3 + len(kept), os.sysconf("SC_OPEN_MAX"))
    return kept[:-1], kept[-1]


def _enter_namespaces(plan: Plan, spec: KernelSpec, report: int) -> None:
    if plan.is_root:
        rooms.hand_over(HOST_ROOT + spec.folder)
    confine.offer_to_oom_killer()
    confine.leave_namespaces(is_root=plan.is_root)
    init = os.fork()
    if init:
        _tell(report, {"pid": init})
        os._exit(0)
    _tell(report, {"host_pid": int(os.readlink("/proc/self"))})
    rooms.move_in(plan, spec)
    system.set_hostname(_HOSTNAME)
    confine.drop_privileges(is_root=plan.is_root)


def _stay_outside(plan: Plan, spec: KernelSpec, report: int) -> None:
    raise NotImplementedError(plan.mode)


def _split(spec: KernelSpec, sockets: Sequence[int], report: int, serve: Serve) -> NoReturn:
    """Fork the kernel proper; stay behind to collect what it leaves."""
    kernel = os.fork()
    if kernel:
        os.closerange(3, 3 + len(sockets) + 1)
        os._exit(_reap_until(kernel))
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__"))
    serve(dict(zip(CHANNELS, sockets, strict=True)), spec)
    os._exit(0)


def _reap_until(kernel: int) -> int:
    """Collect ended processes until the kernel ends; its exit code as a shell gives it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == kernel:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
