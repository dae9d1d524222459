"""Attacks that use up the machine. Each stops by itself at a few times the limit, where nothing else stops it."""

import asyncio
import tempfile
import time
from pathlib import Path

from visual_tools.sandbox.check.context import LIMITS, CheckContext, CheckFailed, check, parse_answers, tell_end
from visual_tools.sandbox.check.processes import find_processes, wait_for_none
from visual_tools.sandbox.contract import CellResult

MB = 2**20
MEMORY_SLACK = 2.0
"""Limits that are watched rather than enforced strike a moment late: at most this many times the limit is passed."""

_NAME = "syscall('prctl', 15, planted.mark.encode(), 0, 0, 0)  # the name that the check looks for\n"
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
_THREADS = """
import threading
threading.stack_size(65536)
threads, is_over = [], threading.Event()
try:
    for _ in range(planted.wanted):
        threads.append(threading.Thread(target=is_over.wait, args=(2,)))
        threads[-1].start()
except (RuntimeError, OSError) as error:
    tell("refused", "thread", error)
tell("fact", "started", threading.active_count())
is_over.set()
"""


@check("limit", "a fork bomb hurts neither machine nor neighbour", place="alone")
async def fork_bomb(context: CheckContext) -> str:
    """Counted from outside while it lasts; children of children too."""
    mark = f"fb{context.canaries.token}"[:15]
    async with context.kernel() as kernel:
        bomb = asyncio.create_task(context.run(_NAME + _FORKS, kernel=kernel, mark=mark, wanted=400))
        most, slowest_s = 0, 0.0
        while not bomb.done():
            started = time.monotonic()
            await context.check_usable(context.neighbour)
            slowest_s = max(slowest_s, time.monotonic() - started)
            most = max(most, len(find_processes(mark)))
            await asyncio.sleep(0.02)
        result = await bomb
        _check_told(result)
        if most > LIMITS.num_processes * 1.5:
            raise CheckFailed(f"{most} processes at once, the limit is {LIMITS.num_processes}")
        if slowest_s > 5:
            raise CheckFailed(f"the neighbour took {slowest_s:.1f} s to answer")
        await context.check_usable(kernel)
    if left := await wait_for_none(mark):
        raise CheckFailed(f"{len(left)} processes are left")
    return f"at most {most} processes; the neighbour answered within {slowest_s:.2f} s"


@check("limit", "a thread bomb is stopped", place="own")
async def thread_bomb(context: CheckContext) -> str:
    """Threads count as processes do."""
    async with context.kernel() as kernel:
        answers = await context.ask(_THREADS, kernel=kernel, wanted=400)
        _check_told(answers.result)
        started = answers.facts.get("started", 0)
        if answers.result.status != "died" and not 0 < started <= LIMITS.num_processes * 1.5:
            raise CheckFailed(
                f"{started} threads at once, the limit is {LIMITS.num_processes}: {tell_end(answers.result)}"
            )
        await context.check_usable(kernel)
    return f"{started} threads" if started else tell_end(answers.result)


_GRAB = """
import mmap
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

def grab_shared(num_steps):
    held = []
    for _ in range(num_steps):
        held.append(mmap.mmap(-1, step))
        held[-1].write(b"x" * step)
        count()
    return held

def grab_files(folder, num_steps):
    held = []
    for number in range(num_steps):
        held.append(os.open(os.path.join(folder, f"{planted.token}-{number}"), os.O_CREAT | os.O_RDWR))
        os.unlink(os.path.join(folder, f"{planted.token}-{number}"))
        os.write(held[-1], b"x" * step)
        count()
    return held

def grab_memfd(num_steps):
    held = []
    for number in range(num_steps):
        held.append(os.memfd_create("x"))
        os.write(held[-1], b"x" * step)
        count()
    return held
"""


async def _grab(context: CheckContext, cell: str, *, pause_s: float = 0.01) -> str:
    """Let a cell take memory in steps of 8 MB, each noted in a file, and compare with the limit."""
    async with context.kernel() as kernel:
        result = await context.run(_GRAB + cell, kernel=kernel, pause_s=pause_s)
        noted = kernel.folder / "grabbed"
        taken = noted.stat().st_size * 8 if noted.exists() else 0
        _check_told(result)
        if taken > MEMORY_SLACK * LIMITS.memory_bytes / MB:
            raise CheckFailed(f"{taken} MB were taken, the limit is {LIMITS.memory_bytes // MB} MB")
        if not noted.exists():
            raise CheckFailed(f"no attempt was made: {tell_end(result)}")
        await context.check_usable(kernel)
    return f"{taken} MB taken: {tell_end(result)[-120:]}"


def _check_told(result: CellResult) -> None:
    if result.status == "died" and not (result.is_state_lost and result.notes):
        raise CheckFailed(f"the kernel died and nobody is told: {tell_end(result)}")


@check("limit", "a memory bomb is stopped", place="alone")
async def memory_bomb(context: CheckContext) -> str:
    """One process, three times the limit."""
    return await _grab(context, "held = grab(192)\ntime.sleep(1)\ndel held")


@check("limit", "a memory bomb in several processes is stopped", place="alone")
async def memory_of_children(context: CheckContext) -> str:
    """Four processes, each within the limit, three times the limit together."""
    cell = """
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        try:
            held = grab(48)
            time.sleep(1)
        finally:
            os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""
    return await _grab(context, cell, pause_s=0.05)


@check("limit", "a memory bomb in mapped pages that processes share is stopped", place="alone")
async def shared_pages(context: CheckContext) -> str:
    """These are no process's own."""
    return await _grab(context, "held = grab_shared(192)\ntime.sleep(1)\ndel held")


@check("limit", "a memory bomb in files that lie in memory is stopped", place="alone")
async def files_in_memory(context: CheckContext) -> str:
    """In each folder that is none of this machine's disks, and without a folder; the files are removed at once."""
    cell = """
for folder in ("/dev/shm", "/tmp", "/var/tmp", "/run", "/dev", "/"):
    try:
        if os.statvfs(folder).f_bsize and os.stat(folder).st_dev != os.stat(".").st_dev:
            grab_files(folder, 32)
    except OSError as error:
        tell("refused", folder, error)
try:
    held = [grab_memfd(128)]
except OSError as error:
    tell("refused", "memfd", error)
folders = ("/dev/shm", "/tmp", "/var/tmp", "/run", "/dev", "/")
for folder in folders:
    try:
        if os.stat(folder).st_dev != os.stat(".").st_dev:
            held.append(grab_files(folder, 128))
    except (OSError, NameError) as error:
        tell("refused", folder, error)
"""
    return await _grab(context, cell)


_WRITE = """
def write(name, size):
    with open(name, "wb") as file:
        for _ in range(size >> 20):
            file.write(b"x" * (1 << 20))
    return size
"""


@check("limit", "one huge file cannot be written", place="own")
async def huge_file(context: CheckContext) -> str:
    """By writing, by reserving, by a hole; and the kernel survives it."""
    async with context.kernel() as kernel:
        answers = await context.attempt(
            _WRITE
            + """
attempt("write", lambda: write("big", planted.size))
attempt("reserve", lambda: os.posix_fallocate(os.open("reserved", os.O_CREAT | os.O_RDWR), 0, planted.size))
attempt("hole", lambda: os.truncate("big", 1 << 40))
""",
            kernel=kernel,
            at_least=3,
            size=LIMITS.file_bytes + 8 * MB,
        )
        largest = max(path.stat().st_size for path in kernel.folder.iterdir() if path.is_file())
        if largest > LIMITS.file_bytes:
            raise CheckFailed(f"a file of {largest // MB} MB, the limit is {LIMITS.file_bytes // MB} MB")
        await context.check_usable(kernel)
    return answers.why_refused()


@check("limit", "many files cannot fill the disk", place="alone")
async def many_files(context: CheckContext) -> str:
    """Four times what the folder may hold, in files of 4 MB; then the folder may be cleared and used again."""
    async with context.kernel() as kernel:
        result = await context.run(
            _WRITE
            + """
for number in range(planted.num_files):
    write(f"many-{number}", 4 << 20)
    time.sleep(0.05)
""",
            kernel=kernel,
            num_files=4 * LIMITS.disk_bytes // (4 * MB),
        )
        used = sum(path.stat().st_blocks * 512 for path in kernel.folder.iterdir() if path.is_file())
        _check_told(result)
        if used > 2 * LIMITS.disk_bytes or result.status == "ok":
            raise CheckFailed(f"the folder holds {used // MB} MB, the limit is {LIMITS.disk_bytes // MB} MB")
        _remove_many(kernel.folder)
        await context.check_usable(kernel)
    return f"{used // MB} MB written: {tell_end(result)[-120:]}"


def _remove_many(folder: Path) -> None:
    for path in folder.glob("many-*"):
        path.unlink()


def _time_files(folder: Path, number: int) -> float:
    """Seconds that this disk takes, at this moment, to make so many files; a tenth of them is made."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        began = time.monotonic()
        for position in range(number // 10):
            (Path(name) / f"f{position}").touch()
        return 10 * (time.monotonic() - began)


@check("limit", "a folder of 20000 files does not hold up the caller", place="own")
async def crowded_folder(context: CheckContext) -> str:
    """They are all new, all are handed out and listed. How long a machine takes to make them says nothing."""
    cell = """
    began = time.monotonic()
    for number in range(20000):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))
    tell("fact", "milliseconds", int(1000 * (time.monotonic() - began)))
    """
    async with context.kernel() as kernel:
        began = time.monotonic()
        result = await context.run(cell, kernel=kernel, timeout_s=60.0)
        held_up_s = time.monotonic() - began - parse_answers(result).facts.get("milliseconds", 0) / 1000
        held_up_s -= await asyncio.to_thread(_time_files, kernel.folder.parent, 20000)
        if result.status != "ok" or held_up_s > 20:
            raise CheckFailed(f"held up for {held_up_s:.1f} s: {tell_end(result)}")
        if (num_made := sum(1 for _ in kernel.folder.iterdir())) < 20000:
            raise CheckFailed(f"only {num_made} files were made: {tell_end(result)}")
    return f"{held_up_s:.2f} s, {len(result.files_written)} listed"


@check("limit", "an output bomb is cut, and it is said", place="own")
async def output_bomb(context: CheckContext) -> str:
    """Fifty million characters at once, a line without end, the pipe itself, and printing for ever."""
    async with context.kernel(output_chars=5000) as kernel:
        for cell, timeout_s in (
            ("print('head')\nprint('x' * 50_000_000)\nprint('tail')", None),
            ("for _ in range(30_000):\n    print('many lines')", None),
            ("for _ in range(200):\n    os.write(1, b'x' * 100_000)", None),
            ("'x' * 50_000_000", None),
            ("while True:\n    print('for ever')", 1.0),
        ):
            result = await context.run(cell, kernel=kernel, timeout_s=timeout_s)
            size = len(result.text) + sum(len(str(output)) for output in result.outputs)
            if size > 8 * 5000 or (len(result.text) > 4000 and not result.is_truncated):
                raise CheckFailed(f"{cell[:40]!r}: {size} characters come back, truncated: {result.is_truncated}")
            if result.duration_s > 15 or result.status == "died":
                raise CheckFailed(f"{cell[:40]!r} took {result.duration_s:.1f} s: {tell_end(result)[-200:]}")
            await context.check_usable(kernel)
    return "head and tail come back"


@check("limit", "an image bomb is cut: too many, too large, not images at all", place="own")
async def image_bomb(context: CheckContext) -> str:
    """The last ones claim to be PNG: nonsense, and a header that promises 60000 x 60000 pixels."""
    async with context.kernel(num_images=3, image_side_px=256) as kernel:
        many = await context.run(
            """
            from PIL import Image
            from IPython.display import display
            for _ in range(20):
                display(Image.new("RGB", (640, 320)))
            """,
            kernel=kernel,
        )
        sizes = [(image.size_px, image.original_px) for image in many.images]
        if sizes != [((256, 128), (640, 320))] * 3 or not many.is_truncated:
            raise CheckFailed(
                f"20 images of 640x320 came back as {sizes}, truncated: {many.is_truncated}: {tell_end(many)}"
            )
        forged = await context.run(
            """
            import base64, zlib
            from IPython.display import publish_display_data
            def chunk(name, data):
                return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            size = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
            huge = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(10_000_000)))
            for data in (b"nonsense", huge, huge[:40], b""):
                publish_display_data({"image/png": base64.b64encode(data).decode()})
            publish_display_data({"image/png": "not base64 \\u2603"})
            publish_display_data({"image/jpeg": base64.b64encode(huge).decode()})
            """,
            kernel=kernel,
        )
        if forged.status != "ok" or any(max(image.size_px) > 256 for image in forged.images):
            raise CheckFailed(f"forged images: {[image.size_px for image in forged.images]} {tell_end(forged)}")
        await context.check_usable(kernel)
    return f"3 of 20 images came back, reduced; of 6 forged ones {len(forged.images)}"


@check("limit", "processor time is limited over the whole life, and it is told", place="alone")
async def processor_time(context: CheckContext) -> str:
    """Two seconds for the kernel and its children together; two processes burn six."""
    async with context.kernel(cpu_s=2.0) as kernel:
        cell = """
        pid = os.fork()
        while time.process_time() < 3:
            pass
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        """
        result = await context.run(cell, kernel=kernel)
        _check_told(result)
        if result.status == "ok":
            raise CheckFailed(f"six seconds were burnt: {tell_end(result)}")
        await context.check_usable(kernel)
    return tell_end(result)


@check("limit", "a cell that ignores interrupts is ended at the time limit", place="own")
async def deaf_cell(context: CheckContext) -> str:
    """It catches KeyboardInterrupt, then takes a handler that does nothing."""
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
            _check_told(result)
            await context.check_usable(kernel)
    return tell_end(result)


CHECKS = (
    *(fork_bomb, thread_bomb, memory_bomb, memory_of_children, shared_pages, files_in_memory),
    *(huge_file, many_files, crowded_folder, output_bomb, image_bomb, processor_time, deaf_cell),
)
