"""Try out whether kernels can be made as planned, before anything is imported for them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from visual_tools.sandbox.contract import Limits
from visual_tools.sandbox.zygote.filesystem import Disks
from visual_tools.sandbox.zygote.kernel_monitor import KernelMonitor
from visual_tools.sandbox.zygote.plan import HOST_ROOT, NOBODY, KernelSpec, Plan
from visual_tools.sandbox.zygote.spawn import fill_in_sizes, spawn_kernel

_LAST_LINE_CHARS = 300
_DISK = 10**9
_LOOK = (
    "import sys;sys.path[:0]=sys.argv[1:];from visual_tools.sandbox.zygote.preflight import find_unreadable;"
    "sys.exit(find_unreadable() or None)"
)


def preflight(plan: Plan, folder: str) -> str:
    """Why kernels cannot be made; "" when they can.

    Args:
        plan: How they would be.
        folder: An empty folder on the host to use as the working folder.
    """
    if plan.mode == "exec":
        return _try_bubblewrap(plan)
    place = Path((HOST_ROOT if plan.mode == "nested" else "") + folder)
    for name in ("work", "tmp"):
        (place / name).mkdir(exist_ok=True)
    spec = KernelSpec(
        folder=f"{folder}/work",
        inside_dir="/mnt/work" if plan.mode == "nested" else f"{folder}/work",
        readable=(),
        private_dir=f"{folder}/tmp",
        owner=NOBODY if plan.is_root else None,
        key="",
        limits=Limits(),
        disk=_DISK if plan.mode == "nested" else 0,
    )
    disks = Disks(is_root=plan.is_root)
    if spec.disk:
        os.close(disks.mount(spec.disk, Limits().disk_bytes, Limits().num_files))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        spawn_kernel(plan, spec, [write_end] * 3, write_end, _look_around)
    os.close(write_end)
    monitor = KernelMonitor(spec, child, read_end, [str(place)])
    errors = []
    while monitor.report >= 0:
        errors += [str(message["error"]) for message in monitor.read_reports() if "error" in message]
    os.waitpid(child, 0)
    if spec.disk:
        disks.unmount(spec.disk)
    return "; ".join(errors)


def _look_around(_: dict[str, int], __: KernelSpec, report: int) -> None:
    """In place of a kernel: can it read what it will import?"""
    if why := find_unreadable():
        os.write(report, json.dumps({"error": why}).encode() + b"\n")
    os._exit(0)


def find_unreadable() -> str:
    """What of Python, its packages or this one is closed to this process, and what to do; "" when nothing is."""
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    for path in (sys.executable, os.__file__, __file__, *packages):
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError as error:
            return (
                f"kernels cannot read {path} ({error.strerror}): Python and its packages must be readable without the "
                "rights that kernels give up. Use a Python in a folder that is open to this user (such as /usr or "
                "/opt), or open this one and the folders above it: chmod o+rx"
            )
    return ""


def _try_bubblewrap(plan: Plan) -> str:
    argv = [*fill_in_sizes(plan.wrapper, Limits().memory_bytes), sys.executable, "-I", "-c", _LOOK, *plan.import_paths]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    words = done.stderr.strip().splitlines()
    return (words[-1][:_LAST_LINE_CHARS] if words else f"exit code {done.returncode}") if done.returncode else ""
