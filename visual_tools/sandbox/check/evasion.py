"""Attacks that go around limits: what no folder shows, what is written later, what lies in sockets, what never ends."""

import asyncio

from visual_tools.sandbox.check.case import Breach, cell_attack, check
from visual_tools.sandbox.check.scene import LIMITS, Scene, tell_end

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


@check("limit", "files without a name do not hide what they hold", place="alone")
async def hidden_files(scene: Scene) -> str:
    """Removed while they are open, in the working folder and in the one for temporary files."""
    told = []
    for place, allowed in ((".", LIMITS.disk_bytes), ("", max(LIMITS.disk_bytes, LIMITS.memory_bytes // 4))):
        async with scene.kernel() as kernel:
            result = await scene.run(_HIDE, kernel=kernel, place=place, most=4 * allowed)
            note = kernel.folder / "written"
            written = int(note.read_text() or 0) if note.exists() else 0
            if written == 0 or written * MB > _SLACK * allowed:
                raise Breach(f"{written} MB without a name, {allowed // MB} MB are allowed: {tell_end(result)}")
            await scene.check_usable(kernel)
            told.append(f"{written} MB")
    return "; ".join(told)


@check("limit", "what is written after a cell's end counts too", place="alone")
async def late_writes(scene: Scene) -> str:
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
    async with scene.kernel() as kernel:
        await scene.run(cell, kernel=kernel)
        await asyncio.sleep(5)
        await scene.run("pass", kernel=kernel)
        used = sum(path.stat().st_blocks * 512 for path in kernel.folder.iterdir() if path.is_file())
        if not 0 < used <= _SLACK * LIMITS.disk_bytes:
            raise Breach(f"the folder holds {used // MB} MB, the limit is {LIMITS.disk_bytes // MB} MB")
        await scene.run("for name in os.listdir('.'): os.unlink(name)", kernel=kernel)
        await scene.check_usable(kernel)
    return f"{used // MB} MB"


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


@check("limit", "a memory bomb in the buffers of sockets is stopped", place="alone")
async def sockets(scene: Scene) -> str:
    """No process owns them: 1600 in eight processes, enlarged and full, a quarter of them in messages."""
    async with scene.kernel() as kernel:
        result = await scene.run(_SOCKETS, kernel=kernel, wanted=100)
        if result.status == "ok":
            raise Breach(f"1600 full sockets were made: {tell_end(result)}")
        await scene.check_usable(kernel)
    return tell_end(result)[-160:]


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


@check("limit", "nothing of a cell runs on past the cell's time limit, and it is told", place="own")
async def running_on(scene: Scene) -> str:
    """Threads, processes and tasks; each beats, and is listened to from the next cell."""

    async def run(name: str, cell: str) -> None:
        async with scene.kernel(wall_s=2.0) as kernel:
            await scene.run(_BEAT + cell, kernel=kernel, timeout_s=2.0)
            await asyncio.sleep(6)
            look = "print(os.path.getsize('beat')); time.sleep(0.5); print(os.path.getsize('beat'))"
            result = await scene.run(look, kernel=kernel)
            first, *more = result.text.split()
            if more != [first]:
                raise Breach(f"{name} runs on: {tell_end(result)}")
            if not any("time limit" in note for note in result.notes):
                raise Breach(f"{name} was ended and nobody is told: {tell_end(result)}")

    await asyncio.gather(*(run(name, cell) for name, cell in _RUN_ON.items()))
    return "; ".join(_RUN_ON)


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

CHECKS = (hidden_files, late_writes, sockets, running_on, watching_files, traces_of_the_machine)
