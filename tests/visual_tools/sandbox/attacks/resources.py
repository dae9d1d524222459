"""Attacks that use up the machine. Each stops by itself at a few times the limit, where nothing else stops it."""

import asyncio
import tempfile
import time
from pathlib import Path

from visual_tools.sandbox.check.checks import MB, WRITE, check_loss_reported, grab_memory
from visual_tools.sandbox.check.context import LIMITS, CheckContext, CheckFailed, check, parse_answers, tell_end

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


@check("limit", "a thread bomb is stopped", place="own")
async def thread_bomb(context: CheckContext) -> str:
    """Threads count as processes do."""
    async with context.kernel() as kernel:
        answers = await context.ask(_THREADS, kernel=kernel, wanted=400)
        check_loss_reported(answers.result)
        started = answers.facts.get("started", 0)
        if answers.result.status != "died" and not 0 < started <= LIMITS.num_processes * 1.5:
            raise CheckFailed(
                f"{started} threads at once, the limit is {LIMITS.num_processes}: {tell_end(answers.result)}"
            )
        await context.check_usable(kernel)
    return f"{started} threads" if started else tell_end(answers.result)


_GRAB_MORE = """
import mmap

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
    return await grab_memory(context, cell, pause_s=0.05)


@check("limit", "a memory bomb in mapped pages that processes share is stopped", place="alone")
async def shared_pages(context: CheckContext) -> str:
    """These are no process's own."""
    return await grab_memory(context, _GRAB_MORE + "held = grab_shared(192)\ntime.sleep(1)\ndel held")


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
    return await grab_memory(context, _GRAB_MORE + cell)


@check("limit", "one huge file cannot be written", place="own")
async def huge_file(context: CheckContext) -> str:
    """By writing, by reserving, by a hole; and the kernel survives it."""
    async with context.kernel() as kernel:
        answers = await context.attempt(
            WRITE
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
        check_loss_reported(result)
        if result.status == "ok":
            raise CheckFailed(f"six seconds were burnt: {tell_end(result)}")
        await context.check_usable(kernel)
    return tell_end(result)


CHECKS = (
    *(thread_bomb, memory_of_children, shared_pages, files_in_memory),
    *(
        huge_file,
        crowded_folder,
        output_bomb,
        image_bomb,
        processor_time,
    ),
)
