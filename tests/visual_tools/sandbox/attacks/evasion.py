"""Attacks that go around limits: shapes of folders, what no folder shows, what is written later, what never ends."""

import asyncio
import time

from visual_tools.sandbox.check.context import LIMITS, CheckContext, CheckFailed, cell_attack, check, tell_end

_NEST = """
def nest(depth, name):
    there = os.open(".", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=there)
        below = os.open(name, os.O_RDONLY, dir_fd=there)
        os.close(there)
        there = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=there))
    os.close(there)
"""
_FOLDERS = {
    "a nest of 1500 folders": _NEST + "nest(1500, 'd')",
    "a nest with a path of 300 kB": _NEST + "nest(1500, 'x' * 200)",
    "names that are no text": "for n in range(128, 256): open(os.fsencode('') + bytes([n]) * 50, 'w').close()",
    "folders that nobody may enter": """
for n in range(20):
    os.makedirs(f"closed{n}/below")
    os.chmod(f"closed{n}/below", 0)
    os.chmod(f"closed{n}", 0)
""",
    "pipes, sockets and circles": """
os.mkfifo("pipe")
os.symlink(".", "circle")
os.symlink("circle/circle/circle", "rings")
__import__("socket").socket(__import__("socket").AF_UNIX).bind("socket")
""",
    "folders that move all the time": """
import threading
os.makedirs("a/b/c/d/e", exist_ok=True)
os.makedirs("z", exist_ok=True)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    os.rename("a/b", "z/b")
    os.rename("z/b", "a/b")
""",
}
MB = 2**20
_SLACK = 2.0
"""Limits that are watched rather than enforced strike a moment late: at most this many times the limit is passed."""
_HIDE = """
import tempfile
held, written = [], 0
note = open("written", "w")
place = planted.place or tempfile.gettempdir()
try:
    while written < planted.most:
        held.append(os.open(f"{place}/h{len(held)}", os.O_CREAT | os.O_RDWR))
        os.unlink(f"{place}/h{len(held) - 1}")
        for _ in range(4):
            written += os.write(held[-1], b"x" * (4 << 20))
        note.seek(0)
        note.write(f"{written >> 20:6}")
        note.flush()
        time.sleep(0.1)
except OSError as error:
    tell("refused", "hide", error)
"""
_SOCKETS = """
import socket
def fill(one):
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
        try:
            one.setsockopt(socket.SOL_SOCKET, option, 8 << 20)
        except OSError:
            pass
    one.setblocking(False)
    try:
        while True:
            one.send(b"x" * 65536)
    except OSError:
        pass
def bomb():
    held, carrier = [], socket.socketpair()
    for number in range(planted.wanted):
        pair = socket.socketpair()
        for one in pair:
            fill(one)
        if number % 4 == 3:  # on the way in a message, in no table of any process
            socket.send_fds(carrier[0], [b"x"], [one.fileno() for one in pair])
            for one in pair:
                one.close()
        else:
            held.append(pair)
        time.sleep(0.02)
    time.sleep(2)
for _ in range(7):
    if os.fork() == 0:
        try:
            bomb()
        finally:
            os._exit(0)
bomb()
tell("fact", "made", 16 * planted.wanted)
"""
_RUN_ON = {
    "a thread": "import threading\nthreading.Thread(target=beat).start()",
    "a process": "if os.fork() == 0:\n    beat()",
    "a task": """
import asyncio
async def beat_softly():
    while True:
        open("beat", "a").write("x")
        await asyncio.sleep(0.05)
task = asyncio.get_running_loop().create_task(beat_softly())
await asyncio.sleep(0)
""",
    "a thread of an interrupted cell": "import threading\nthreading.Thread(target=beat).start()\nwhile True: pass",
}
_BEAT = """
def beat():
    while True:
        open("beat", "a").write("x")
        time.sleep(0.05)
"""
watching_files = cell_attack(
    "what others do with files cannot be watched",
    """
    for path in ("/usr/bin", planted.base, os.path.dirname(planted.base), planted.home, "."):
        attempt(path, lambda: syscall("inotify_add_watch", syscall("inotify_init1", 0), path.encode(), 0xFFF))
    """,
    at_least=4,
)
traces_of_the_machine = cell_attack(
    "what names this machine, this start of it and its folders is hidden",
    """
    def look(path):
        with open(path) as file:
            text = file.read()
        if not text.strip():
            raise FileNotFoundError(2, "empty")
        return text[:60]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/cmdline", "/etc/machine-id", "/etc/hostname", "/proc/keys"):
        attempt(path, lambda: look(path))
    def find_folder():
        with open("/proc/self/mountinfo") as file:
            found = [line for line in file if planted.token in line]
        if not found:
            raise FileNotFoundError(2, "not among the mounts")
        return found
    attempt("mounts", find_folder)
    """,
    at_least=6,
)


@check("attack", "no shape of a kernel's folder ends or holds up anybody", place="own")
async def shapes_of_folders(context: CheckContext) -> str:
    """Too deep, too long, closed, unnamed, moving; then the neighbour, a new kernel and this one go on."""
    async with context.kernel() as kernel:
        for name, cell in _FOLDERS.items():
            began = time.monotonic()
            result = await context.run(cell, kernel=kernel)
            if result.status != "ok":
                raise CheckFailed(f"{name}: {tell_end(result)}")
            await context.run("time.sleep(0.5)", kernel=kernel)  # while it is looked at what the folder holds
            for other in (kernel, context.neighbour):
                await context.check_usable(other)
            if time.monotonic() - began > 15:
                raise CheckFailed(f"{name}: held up for {time.monotonic() - began:.0f} s")
        result = await context.run("os._exit(0)", kernel=kernel)
        await context.check_usable(kernel)
        async with context.kernel() as fresh:
            await context.check_usable(fresh)
    return f"{len(_FOLDERS)} shapes"


@check("limit", "empty files cannot be made without end", place="own")
async def empty_files(context: CheckContext) -> str:
    """They take no byte of the folder, and a number each of the disk behind it."""
    cell = """
    made = 0
    try:
        for made in range(planted.wanted):
            os.close(os.open(f"e{made}", os.O_CREAT | os.O_WRONLY))
            if made % 1000 == 0:
                time.sleep(0.05)
    except OSError as error:
        tell("refused", "empty file", error)
    tell("fact", "made", made)
    """
    async with context.kernel(num_files=5000) as kernel:
        result = await context.run(cell, kernel=kernel, wanted=40_000)
        made = sum(1 for _ in kernel.folder.iterdir())
        if made > 4 * 5000 or (result.status == "ok" and made > 5000):
            raise CheckFailed(f"{made} files, the limit is 5000: {tell_end(result)}")
        await context.check_usable(kernel)
    return f"{made} files: {tell_end(result)[-120:]}"


@check("limit", "files without a name do not hide what they hold", place="alone")
async def hidden_files(context: CheckContext) -> str:
    """Removed while they are open, in the working folder and in the one for temporary files."""
    told = []
    for place, allowed in ((".", LIMITS.disk_bytes), ("", max(LIMITS.disk_bytes, LIMITS.memory_bytes // 4))):
        async with context.kernel() as kernel:
            result = await context.run(_HIDE, kernel=kernel, place=place, most=4 * allowed)
            note = kernel.folder / "written"
            written = int(note.read_text() or 0) if note.exists() else 0
            if written == 0 or written * MB > _SLACK * allowed:
                raise CheckFailed(f"{written} MB without a name, {allowed // MB} MB are allowed: {tell_end(result)}")
            await context.check_usable(kernel)
            told.append(f"{written} MB")
    return "; ".join(told)


@check("limit", "what is written after a cell's end counts too", place="alone")
async def late_writes(context: CheckContext) -> str:
    """By a thread and by a process that outlive the cell; four times what the folder may hold."""
    cell = """
    import threading
    def fill():
        for number in range(32):
            with open(f"late-{number}-{os.getpid()}", "wb") as file:
                file.write(b"x" * (4 << 20))
            time.sleep(0.1)
    if os.fork() == 0:
        fill()
        os._exit(0)
    threading.Thread(target=fill).start()
    """
    async with context.kernel() as kernel:
        await context.run(cell, kernel=kernel)
        await asyncio.sleep(5)
        await context.run("pass", kernel=kernel)
        used = sum(path.stat().st_blocks * 512 for path in kernel.folder.iterdir() if path.is_file())
        if not 0 < used <= _SLACK * LIMITS.disk_bytes:
            raise CheckFailed(f"the folder holds {used // MB} MB, the limit is {LIMITS.disk_bytes // MB} MB")
        await context.run("for name in os.listdir('.'): os.unlink(name)", kernel=kernel)
        await context.check_usable(kernel)
    return f"{used // MB} MB"


@check("limit", "a memory bomb in the buffers of sockets is stopped", place="alone")
async def sockets(context: CheckContext) -> str:
    """No process owns them: 1600 in eight processes, enlarged and full, a quarter of them in messages."""
    async with context.kernel() as kernel:
        result = await context.run(_SOCKETS, kernel=kernel, wanted=100)
        if result.status == "ok":
            raise CheckFailed(f"1600 full sockets were made: {tell_end(result)}")
        await context.check_usable(kernel)
    return tell_end(result)[-160:]


@check("limit", "nothing of a cell runs on past the cell's time limit, and it is told", place="own")
async def running_on(context: CheckContext) -> str:
    """Threads, processes and tasks; each beats, and is listened to from the next cell."""

    async def run(name: str, cell: str) -> None:
        async with context.kernel(wall_s=2.0) as kernel:
            await context.run(_BEAT + cell, kernel=kernel, timeout_s=2.0)
            await asyncio.sleep(6)
            look = "print(os.path.getsize('beat')); time.sleep(0.5); print(os.path.getsize('beat'))"
            result = await context.run(look, kernel=kernel)
            first, *more = result.text.split()
            if more != [first]:
                raise CheckFailed(f"{name} runs on: {tell_end(result)}")
            if not any("time limit" in note for note in result.notes):
                raise CheckFailed(f"{name} was ended and nobody is told: {tell_end(result)}")

    await asyncio.gather(*(run(name, cell) for name, cell in _RUN_ON.items()))
    return "; ".join(_RUN_ON)


CHECKS = (
    *(shapes_of_folders, empty_files),
    *(hidden_files, late_writes, sockets, running_on, watching_files, traces_of_the_machine),
)
