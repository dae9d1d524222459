"""Limits hold: a cell is interrupted, or the kernel is ended and started anew, and it is told."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.visual_tools.sandbox.conftest import SMALL
from visual_tools.errors import SandboxError
from visual_tools.sandbox import CellError, CellResult, Kernel, Sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOST = "the kernel was restarted: variables, imports and definitions of earlier cells are gone, files are kept"
ENDLESS = "while True: pass"


async def is_fresh(kernel: Kernel, result: CellResult) -> bool:
    """Whether the state of the earlier cell `kept = 1` is gone, and the kernel works."""
    assert (result.status, result.is_state_lost, result.notes[-1]) == ("died", True, LOST)
    after = await kernel.run("print('kept' in globals())")
    assert (after.status, after.notes, after.is_state_lost, after.execution_count) == ("ok", (), False, 1)
    return after.text == "False\n"


@pytest.mark.slow
@pytest.mark.parametrize("code", [ENDLESS, "import time; time.sleep(60)", "!sleep 60", "%%bash\nsleep 60"])
async def test_an_endless_cell_is_interrupted(kernel: Kernel, code: str) -> None:
    await kernel.run("kept = 1")
    result = await kernel.run("print('before')\n" + code if not code.startswith("%") else code, timeout_s=0.5)
    assert result.status == "interrupted"
    assert result.notes == ("the cell was interrupted: it ran for 0.5 s",)
    assert result.error is not None
    assert result.error.name == ("CalledProcessError" if "bash" in code else "KeyboardInterrupt")
    assert (await kernel.run("kept")).text == "1\n"


@pytest.mark.slow
async def test_a_call_that_holds_the_interpreter_ends_the_kernel(kernel: Kernel) -> None:
    await kernel.run("kept = 1; open('file', 'w').close()")
    result = await kernel.run("7**10**8", timeout_s=0.5)
    assert result.notes == ("the kernel ended: it ran for 0.5 s and could not be interrupted", LOST)
    assert await is_fresh(kernel, result)
    assert (kernel.folder / "file").exists()


@pytest.mark.long
async def test_a_cell_that_ignores_interrupts_ends_the_kernel(kernel: Kernel) -> None:
    await kernel.run("kept = 1")
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + ENDLESS
    assert await is_fresh(kernel, await kernel.run(code, timeout_s=0.5))


@pytest.mark.long
async def test_interrupt_on_request(kernel: Kernel) -> None:
    running = asyncio.create_task(kernel.run("print('began')\n" + ENDLESS))
    await asyncio.sleep(0.3)
    await kernel.interrupt()
    result = await running
    assert (result.status, result.text, result.notes) == ("interrupted", "began\n", ())
    await kernel.interrupt()  # nothing runs
    assert (await kernel.run("1")).status == "ok"


@pytest.mark.long
async def test_a_caller_that_goes_away_leaves_a_kernel_that_works(kernel: Kernel) -> None:
    await kernel.run("kept = 1")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(kernel.run("import time\nwhile True: print('late'); time.sleep(0.01)"), 0.3)
    assert (await kernel.run("kept")).text == "1\n"


async def test_late_output_stays_with_its_own_cell(kernel: Kernel) -> None:
    await kernel.run("import threading, time\nt = threading.Timer(0.2, print, ['late']); t.start()")
    await asyncio.sleep(0.5)
    assert (await kernel.run("t.join(); print('now')")).text == "now\n"


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np; a = np.ones(10**10)",
        "a = bytearray(10**11)",
        "import resource, mmap; m = mmap.mmap(-1, 10**11)",
    ],
)
async def test_too_much_memory_at_once_is_an_error(kernel: Kernel, code: str) -> None:
    result = await kernel.run(code)
    assert result.error is not None
    assert (result.status, result.error.name in ("MemoryError", "_ArrayMemoryError", "OSError")) == ("error", True)


async def test_memory_that_grows_ends_the_kernel(kernel: Kernel) -> None:
    await kernel.run("kept = 1")
    result = await kernel.run("import time\na = []\nwhile True: a.append(bytearray(b'x') * 10**7); time.sleep(0.005)")
    assert result.status in ("died", "error")
    if result.status == "died":
        assert result.notes[0] == "the kernel ended: its processes used more than 400 MB of memory"
        assert await is_fresh(kernel, result)


async def test_memory_of_all_processes_counts(kernel: Kernel) -> None:
    code = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        a = bytearray(b'x') * 150_000_000\n"
    code += "        time.sleep(60)\ntime.sleep(60)"
    result = await kernel.run(code)
    assert (result.status, result.notes[0]) == (
        "died",
        "the kernel ended: its processes used more than 400 MB of memory",
    )


async def test_processor_time_is_limited(sandbox: Sandbox, tmp_path: Path) -> None:
    kernel = await sandbox.make_kernel(tmp_path / "run", limits=replace(SMALL, cpu_s=1.0))
    result = await kernel.run(ENDLESS)
    assert (result.status, "processor time" in result.notes[0]) == ("died", True)
    await kernel.close()


async def test_processes_are_limited(sandbox: Sandbox, tmp_path: Path) -> None:
    # an ordinary user cannot see that they share their memory
    kernel = await sandbox.make_kernel(tmp_path / "run", limits=replace(SMALL, memory_bytes=4 * 2**30))
    code = "import os, time\nfor n in range(200):\n    if os.fork() == 0:\n        time.sleep(30); os._exit(0)"
    result = await kernel.run(code)
    assert result.error is not None
    assert result.error.name == "BlockingIOError"
    await kernel.close()


async def test_files_and_folders_are_limited(kernel: Kernel) -> None:
    large = await kernel.run("open('large', 'wb').write(bytes(8 * 2**20))")
    assert (large.status, large.error and large.error.message) == ("error", "[Errno 27] File too large")
    many = await kernel.run("for n in range(40):\n    open(f'{n}', 'wb').write(bytes(10**6))")
    assert (many.status, many.error and many.error.message) == ("error", "[Errno 28] No space left on device")
    assert many.notes == ("the working folder is full: it holds 8 MB, which is its limit",)
    again = await kernel.run("import os\nfor name in os.listdir('.'): os.remove(name)")
    assert (again.status, again.notes, list(kernel.folder.iterdir())) == ("ok", (), [])  # it can be removed
    empty = await kernel.run("for n in range(9000): open(f'{n}', 'w').close()")
    assert empty.notes == ("the working folder is full: it holds 3000 files and folders, which is its limit",)


async def test_a_flood_of_output_is_stopped(kernel: Kernel) -> None:
    result = await kernel.run("while True: print('x' * 10_000)")
    assert (result.status, result.is_truncated, len(result.text) < 3000) == ("interrupted", True, True)
    assert result.notes == ("the cell was interrupted: its output was too large",)
    displayed = await kernel.run("while True: display('x' * 10_000)")
    assert (displayed.status, displayed.is_truncated) == ("interrupted", True)
    assert (await kernel.run("1")).text == "1\n"


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("import os; os._exit(3)", "the kernel ended: the code made it exit with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the kernel ended: it was ended by SIGSEGV"),
    ],
)
async def test_a_kernel_that_ends_itself_is_started_anew(kernel: Kernel, code: str, note: str) -> None:
    await kernel.run("kept = 1")
    result = await kernel.run("print('before', flush=True)\n" + code)
    assert result.notes[0] == note
    assert await is_fresh(kernel, result)


async def test_a_kernel_that_ends_between_cells_is_started_anew(kernel: Kernel) -> None:
    await kernel.run("import os, threading\nthreading.Timer(0.1, os._exit, [0]).start()")
    await asyncio.sleep(0.5)
    result = await kernel.run("print('here')")
    assert (result.status, result.text, result.is_state_lost) == ("ok", "here\n", True)
    assert result.notes == ("the kernel had ended: the code made it exit with code 0", LOST)


async def test_exit_does_not_end_the_kernel(kernel: Kernel) -> None:
    assert (await kernel.run("exit()")).text == "exit() has no effect: the kernel keeps running\n"
    await asyncio.sleep(0.2)
    assert (await kernel.run("1")).text == "1\n"


async def test_messages_that_are_no_messages_are_ignored(kernel: Kernel) -> None:
    code = """
import zmq
kernel = get_ipython().kernel
send = kernel.iopub_thread.socket.send_multipart
for frames in ([b"x"], [b"", b"<IDS|MSG>"], [b"<IDS|MSG>", b"", b"{", b"{}", b"{}", b"{}"], [b"\\xff"] * 9):
    kernel.iopub_thread.schedule(lambda frames=frames: send(frames))
session, parent = kernel.session, kernel.get_parent()
def forge(kind, content):
    session.send(kernel.iopub_socket, kind, content, parent=parent)
forge("stream", {"name": 3, "text": ["x"]})
forge("display_data", {"data": {"image/png": 5, "text/plain": {"a": 1}}, "metadata": []})
forge("display_data", {"data": {"image/png": "no base64 %%%"}})
listed = session.msg("display_data", {}, parent=parent)
listed["content"] = b"[]"
session.send(kernel.iopub_socket, listed)
forge("error", {"ename": None, "evalue": 5, "traceback": "x"})
forge("status", {"execution_state": ["idle"]})
print("done")"""
    result = await kernel.run(code)
    assert result.text.splitlines()[-1] == "done"
    assert result.error == CellError(name="", message="", traceback="")
    assert (await kernel.run("1")).text == "1\n"


async def test_a_closed_kernel_says_so(sandbox: Sandbox, tmp_path: Path) -> None:
    kernel = await sandbox.make_kernel(tmp_path / "run")
    running = asyncio.create_task(kernel.run("import time; time.sleep(30)"))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await kernel.close()
    await kernel.close()
    with pytest.raises(SandboxError, match="closed"):
        await running
    with pytest.raises(SandboxError, match="closed"):
        await kernel.run("1")
    assert time.monotonic() - began < 10
