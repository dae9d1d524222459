"""The zygote's watch over one kernel: each guard strikes past its limit and not before, on real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from visual_tools.sandbox import KernelLimits
from visual_tools.sandbox.zygote.main import KernelMonitor
from visual_tools.sandbox.zygote.plan import KernelSpec

MB = 2**20
WIDE = KernelLimits(num_processes=10**6, memory_bytes=2**50, disk_bytes=2**50, num_files=10**6, cpu_s=10**6)
MakeMonitor = Callable[..., KernelMonitor]


@pytest.fixture
def make_monitor(tmp_path: Path) -> Iterator[MakeMonitor]:
    """Monitors of a Python that first becomes idle, and then runs the code; nothing but the monitor limits it."""
    children: list[subprocess.Popen[bytes]] = []

    def make(code: str, limits: KernelLimits) -> KernelMonitor:
        gate = tmp_path / f"gate-{len(children)}"
        wait = f"import os, threading, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        end = "\nopen(GATE + '-done', 'w').close()\ntime.sleep(100)".replace("GATE", repr(str(gate)))
        child = subprocess.Popen([sys.executable, "-I", "-c", wait + code + end], start_new_session=True)
        children.append(child)
        reading, writing = os.pipe()
        os.write(writing, f'{{"pid": {child.pid}, "host_pid": {child.pid}}}\n'.encode())
        os.close(writing)
        (tmp_path / "work").mkdir(exist_ok=True)
        spec = KernelSpec(folder="", inside_dir="", readable=(), private_dir="", owner=None, key="", limits=limits)
        monitor = KernelMonitor(spec, child.pid, reading, [str(tmp_path / "work")])
        monitor.read_reports()
        monitor.set_busy(True, 30.0)
        assert monitor.look(time.monotonic()) == ""
        gate.touch()
        until = time.monotonic() + 60
        while not Path(f"{gate}-done").exists() and child.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return monitor

    yield make
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def look(monitor: KernelMonitor) -> str:
    """What it says within a few looks."""
    return next(filter(None, (monitor.look(time.monotonic()) for _ in range(5))), "")


def limits(**changed: float) -> KernelLimits:
    return KernelLimits(**{name: changed.get(name, getattr(WIDE, name)) for name in WIDE.__slots__})


@pytest.mark.parametrize(("num_threads", "told"), [(5, ""), (6, "it had more than 4 processes and threads")])
def test_threads_are_counted_to_the_last(make_monitor: MakeMonitor, num_threads: int, told: str) -> None:
    """Two of them are a kernel's own: its init and itself."""
    code = f"for _ in range({num_threads}): threading.Thread(target=time.sleep, args=(100,)).start()"
    assert look(make_monitor(code, limits(num_processes=4))) == told


@pytest.mark.parametrize(("num_children", "told"), [(5, ""), (6, "it had more than 4 processes and threads")])
def test_processes_are_counted_to_the_last(make_monitor: MakeMonitor, num_children: int, told: str) -> None:
    code = f"for _ in range({num_children}):\n    if os.fork() == 0: time.sleep(100)"
    assert look(make_monitor(code, limits(num_processes=4))) == told


@pytest.mark.parametrize(("size_mb", "told"), [(20, ""), (200, "its processes used more than 100 MB of memory")])
def test_memory_is_watched(make_monitor: MakeMonitor, size_mb: int, told: str) -> None:
    code = f"held = bytearray(b'x') * {size_mb * MB}"
    assert look(make_monitor(code, limits(memory_bytes=100 * MB))) == told


def test_memory_of_several_processes_is_one_sum(make_monitor: MakeMonitor) -> None:
    code = f"for _ in range(3):\n    if os.fork() == 0:\n        held = bytearray(b'x') * {45 * MB}; time.sleep(100)\n"
    code += "time.sleep(1)"
    assert look(make_monitor(code, limits(memory_bytes=100 * MB))) == "its processes used more than 100 MB of memory"


@pytest.mark.parametrize(
    ("cpu_s", "told"), [(30.0, ""), (0.5, "it had used 0.5 s of processor time, which is its limit")]
)
@pytest.mark.long
def test_processor_time_is_watched_with_that_of_ended_children(
    make_monitor: MakeMonitor, cpu_s: float, told: str
) -> None:
    code = "import subprocess, sys\n"
    code += "burn = 'import time\\nwhile time.process_time() < 0.4: pass'\n"
    code += "for _ in range(2): subprocess.run([sys.executable, '-I', '-c', burn])"
    assert look(make_monitor(code, limits(cpu_s=cpu_s))) == told


@pytest.mark.parametrize(("size_mb", "told"), [(15, ""), (18, "its folder held more than 16 MB")])
def test_the_disk_is_watched(make_monitor: MakeMonitor, tmp_path: Path, size_mb: int, told: str) -> None:
    """A monitor leaves 16 MB beside what it found at first."""
    (tmp_path / "work" / "deep").mkdir(parents=True)
    code = f"open({str(tmp_path / 'work/deep/file')!r}, 'wb').write(b'x' * {size_mb * MB})"
    assert look(make_monitor(code, limits(disk_bytes=MB))) == told


@pytest.mark.parametrize(("num_files", "told"), [(998, ""), (1002, "its folder held more than 1000 files and folders")])
def test_files_are_counted(make_monitor: MakeMonitor, tmp_path: Path, num_files: int, told: str) -> None:
    code = f"for n in range({num_files}): open({str(tmp_path / 'work')!r} + f'/{{n}}', 'w').close()"
    assert look(make_monitor(code, limits(num_files=10))) == told


def test_a_file_with_many_names_counts_once(make_monitor: MakeMonitor, tmp_path: Path) -> None:
    place = str(tmp_path / "work")
    code = f"open({place!r} + '/file', 'wb').write(b'x' * {10 * MB})\n"
    code += f"for n in range(20): os.link({place!r} + '/file', {place!r} + f'/{{n}}')"
    assert look(make_monitor(code, limits(disk_bytes=MB))) == ""


@pytest.mark.parametrize(("num_pairs", "told"), [(250, ""), (260, "it had more than 512 sockets")])
def test_sockets_are_counted(make_monitor: MakeMonitor, num_pairs: int, told: str) -> None:
    code = f"import socket\nheld = [socket.socketpair() for _ in range({num_pairs})]"
    assert look(make_monitor(code, WIDE)) == told


@pytest.mark.parametrize("keep", ["os.open(NAME, os.O_RDWR)", "__import__('mmap').mmap(os.open(NAME, os.O_RDWR), 0)"])
def test_a_file_without_a_name_counts(make_monitor: MakeMonitor, tmp_path: Path, keep: str) -> None:
    name = repr(str(tmp_path / "work" / "hidden"))
    code = f"NAME = {name}\nopen(NAME, 'wb').write(b'x' * {18 * MB})\nheld = {keep}\n"
    code += "if not isinstance(held, int): os.closerange(3, 100)\n"
    code += "os.unlink(NAME)"
    assert look(make_monitor(code, limits(disk_bytes=MB))) == "its folder held more than 16 MB"


def look_later(monitor: KernelMonitor) -> str:
    """What it says in the seconds after the end of a cell, as if they had gone by."""
    monitor.set_busy(False)
    now = time.monotonic() + 30.0
    for number in range(1, 5):
        time.sleep(0.3)  # in which a thread that runs on does so
        if told := monitor.look(now + number):
            return told
    return ""


RUN_ON = "threading.Thread(target=lambda: [time.sleep(0.002) for _ in range(10**5)]).start()"
SLEEP_ON = "threading.Thread(target=time.sleep, args=(100,)).start()"


@pytest.mark.parametrize(
    ("code", "told"),
    [(RUN_ON, "threads or tasks of a cell ran on after its time limit of 30 s"), (SLEEP_ON, "")],
)
def test_threads_that_run_on_end_the_kernel(make_monitor: MakeMonitor, code: str, told: str) -> None:
    monitor = make_monitor(code, WIDE)
    monitor.set_busy(False)
    assert look(monitor) == ""  # the time limit is not over
    assert look_later(monitor) == told


def test_processes_that_are_left_are_ended_and_told_once(make_monitor: MakeMonitor, tmp_path: Path) -> None:
    code = f"if os.fork() == 0:\n    time.sleep(100)\nopen({str(tmp_path / 'alive')!r}, 'w').close()"
    monitor = make_monitor(code, WIDE)
    assert look_later(monitor) == ""
    assert (monitor.set_busy(True, 30.0), monitor.set_busy(True, 30.0)) == (1, 0)
