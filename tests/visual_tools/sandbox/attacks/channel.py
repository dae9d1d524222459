"""Attacks on the line between kernel and caller: other kernels' keys and sockets, forged and broken messages."""

import asyncio
import resource
from pathlib import Path

from visual_tools.sandbox.check.checks import check_whole
from visual_tools.sandbox.check.context import CheckContext, CheckFailed, check, tell_end
from visual_tools.sandbox.zygote.plan import CHANNELS

_OWN_LINE = """
def find_line():
    key, paths = "", []
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is not None:
        key = kernel.session.key.decode("latin-1")
    for number in range(3, 256):
        try:
            with __import__("socket").socket(fileno=os.dup(number)) as own:
                name = own.getsockname()
        except OSError:
            continue
        if isinstance(name, str) and name.startswith("/"):
            paths.append(name)
    try:
        import ipykernel.connect
        told = json.loads(ipykernel.connect.get_connection_info())
        key = key or told.get("key", "")
        if told.get("transport") == "ipc":
            paths += [f"{told['ip']}-{told[name]}" for name in told if name.endswith("_port")]
        else:
            tell("fact", "ports", [told[name] for name in told if name.endswith("_port")])
    except (ImportError, RuntimeError, KeyError, ValueError, OSError):
        pass
    return key, sorted(set(paths))
"""


@check("attack", "the key of another kernel's line is found nowhere")
async def neighbours_key(context: CheckContext) -> str:
    """Every small file that can be read outside the system's and Python's folders is searched, and every environment.

    Python often lies in the home folder: thousands of files, which take longer to read than a cell may run.
    """
    asked = await context.ask(
        _OWN_LINE + '\ntell("fact", "key", find_line()[0])\ntell("fact", "file", str(__import__("sys").argv))',
        kernel=context.neighbour,
    )
    if (key := asked.facts.get("key")) is None:
        raise CheckFailed(f"the neighbour cannot be asked: {tell_end(asked.result)}")
    if not key:
        return "the neighbour itself knows no key"
    answers = await context.ask(
        """
        import sys
        key, num_files, until = "".join(planted.key_halves).encode(), 0, time.monotonic() + 6
        roots = (planted.around, planted.home, "/tmp", "/run", "/var/tmp", "/dev/shm", "..", "/proc")
        pythons = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
        for root in {os.path.realpath(root) for root in roots} - {"/"}:  # ".." may be: what is in it is the system's
            for folder, folders, names in os.walk(root):
                if folder.count("/") > 6 or folder in pythons:
                    folders.clear()
                for name in names:
                    if num_files > 20000 or time.monotonic() > until:
                        folders.clear()
                        break
                    path = os.path.join(folder, name)
                    wanted = name in ("environ", "cmdline") if root == "/proc" else True
                    try:
                        if not wanted or not os.path.isfile(path) or os.path.getsize(path) > 1 << 16:
                            continue
                        with open(path, "rb") as file:
                            num_files += 1
                            if key in file.read(1 << 16):
                                tell("open", path, "the key is in it")
                    except OSError:
                        continue
        tell("fact", "searched", num_files)
        """,
        key_halves=[key[:4], key[4:]],
        around=str(context.neighbour.folder.parent),
    )
    if answers.open or "searched" not in answers.facts:
        raise CheckFailed(f"found in {', '.join(answers.open)}" if answers.open else tell_end(answers.result))
    return f"not in {answers.facts['searched']} files"


@check("attack", "the line of another kernel cannot be joined")
async def neighbours_line(context: CheckContext) -> str:
    """Sockets are compared by inode: both kernels may have their own at the same path."""
    asked = await context.ask(
        _OWN_LINE
        + """
tell("fact", "paths", find_line()[1])
tell("fact", "inodes", [os.stat(path).st_ino if os.path.exists(path) else 0 for path in find_line()[1]])
""",
        kernel=context.neighbour,
    )
    paths, inodes = asked.facts.get("paths", []), asked.facts.get("inodes", [])
    answers = await context.ask(
        """
        import socket
        for port in planted.ports:
            attempt(f"port {port}", lambda: socket.create_connection(("127.0.0.1", port), timeout=1))
        for path, inode in zip(planted.paths, planted.inodes):
            try:
                is_same = os.stat(path).st_ino == inode
            except OSError as error:
                tell("refused", path, error)
                continue
            if is_same:
                attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
        tell("fact", "tried", len(planted.paths) + len(planted.ports))
        """,
        paths=paths,
        inodes=inodes,
        ports=asked.facts.get("ports", []),
    )
    if answers.open or "tried" not in answers.facts:
        raise CheckFailed("; ".join(answers.open) or tell_end(answers.result))
    return answers.why_refused() or f"{answers.facts['tried']} known addresses, none is reached"


@check("attack", "garbage on every socket and pipe of a kernel hurts only itself", place="own")
async def garbage(context: CheckContext) -> str:
    """Also on the one through which kernels are asked for, should it be there."""
    spoil = """
    import random, stat
    for number in range(3, 256):
        try:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                os.set_blocking(number, False)
                for data in (b"\\0" * 64, b"\\xff\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x7f", random.randbytes(4096)):
                    os.write(number, data)
        except OSError:
            continue
    """
    close = "for number in range(256):\n    try:\n        os.close(number)\n    except OSError:\n        pass"
    why = await check_whole(context, {"writing": spoil, "closing": close})
    async with context.kernel() as fresh:
        await context.check_usable(fresh)
    return why


@check("attack", "a message without an end fills no memory outside", place="own")
async def endless_message(context: CheckContext) -> str:
    """Frames of no length that each say that one more follows, written to each connection by hand."""
    before_bytes = _resident_bytes()
    cells = {
        name: f"""
    import socket
    lines = []
    for number in range(3, 256):
        try:
            line = socket.socket(fileno=os.dup(number))
            if str(line.getsockname()).endswith("/{name}") and line.getpeername() is not None:
                lines.append(line)
        except OSError:
            continue
    while lines:
        for line in lines:
            try:
                line.send(b"\\1\\0" * 32768)
            except OSError:
                lines.remove(line)
                break
    """
        for name in CHANNELS
    }
    why = await check_whole(context, cells)
    grown_bytes = _resident_bytes() - before_bytes
    if grown_bytes > 100 * 2**20:
        raise CheckFailed(f"this process grew by {grown_bytes >> 20} MiB")
    return why


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@check("attack", "a kernel that breaks its own machinery is started anew", place="own")
async def broken_kernel(context: CheckContext) -> str:
    """It mutes its answers, ends itself, crashes."""
    cells = {
        "mute": "get_ipython().kernel.session.send = lambda *_, **__: None\nprint('unheard')",
        "exit": "os._exit(0)",
        "abort": "os.abort()",
        "crash": "ctypes.string_at(0)",
        "deaf": "import threading\nget_ipython().kernel.dispatch_shell = None\nget_ipython().run_cell_async = None",
    }
    return await check_whole(context, cells)


@check("attack", "cells of one kernel never show up in another's answers", place="own")
async def mixed_answers(context: CheckContext) -> str:
    """Two kernels print at the same time."""
    async with context.kernel() as first, context.kernel() as second:
        cell = "for _ in range(40):\n    print(planted.word)\n    time.sleep(0.005)"
        results = await asyncio.gather(
            context.run(cell, kernel=first, word="one"), context.run(cell, kernel=second, word="two")
        )
    if [result.text.split() for result in results] != [["one"] * 40, ["two"] * 40]:
        raise CheckFailed(f"{results[0].text[-100:]!r} and {results[1].text[-100:]!r}")
    return "each has its own"


CHECKS = (neighbours_key, neighbours_line, garbage, endless_message, broken_kernel, mixed_answers)
