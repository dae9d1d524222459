"""Attacks by what lies in the working folder: on whoever walks through it, and on the disk behind it."""

import time

from visual_tools.sandbox.check.case import Breach, check
from visual_tools.sandbox.check.scene import Scene, tell_end

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


@check("attack", "no shape of a kernel's folder ends or holds up anybody", place="own")
async def shapes_of_folders(scene: Scene) -> str:
    """Too deep, too long, closed, unnamed, moving; then the neighbour, a new kernel and this one go on."""
    async with scene.kernel() as kernel:
        for name, cell in _FOLDERS.items():
            began = time.monotonic()
            result = await scene.run(cell, kernel=kernel)
            if result.status != "ok":
                raise Breach(f"{name}: {tell_end(result)}")
            await scene.run("time.sleep(0.5)", kernel=kernel)  # while it is looked at what the folder holds
            for other in (kernel, scene.neighbour):
                await scene.check_usable(other)
            if time.monotonic() - began > 15:
                raise Breach(f"{name}: held up for {time.monotonic() - began:.0f} s")
        result = await scene.run("os._exit(0)", kernel=kernel)
        await scene.check_usable(kernel)
        async with scene.kernel() as fresh:
            await scene.check_usable(fresh)
    return f"{len(_FOLDERS)} shapes"


@check("limit", "empty files cannot be made without end", place="own")
async def empty_files(scene: Scene) -> str:
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
    async with scene.kernel(num_files=5000) as kernel:
        result = await scene.run(cell, kernel=kernel, wanted=40_000)
        made = sum(1 for _ in kernel.folder.iterdir())
        if made > 4 * 5000 or (result.status == "ok" and made > 5000):
            raise Breach(f"{made} files, the limit is 5000: {tell_end(result)}")
        await scene.check_usable(kernel)
    return f"{made} files: {tell_end(result)[-120:]}"


CHECKS = (shapes_of_folders, empty_files)
