"""What a kernel must do besides holding: the contract of `visual_tools.sandbox.contract`."""

import asyncio
import io
import time
from pathlib import Path

from PIL import Image

from visual_tools.errors import SandboxError
from visual_tools.sandbox.check.checks import find_processes, wait_for_none
from visual_tools.sandbox.check.context import LIMITS, CheckContext, CheckFailed, check, tell_end
from visual_tools.sandbox.contract import CellResult


def _expect(result: CellResult, **wanted: object) -> None:
    """Raise `CheckFailed` unless the named attributes have these values; `text` is compared without its edges."""
    for name, value in wanted.items():
        got = getattr(result, name)
        got = got.strip() if isinstance(got, str) else got
        if got != value:
            raise CheckFailed(f"{name} is {got!r}, expected {value!r}: {tell_end(result)}"[:600])


@check("behaviour", "state is kept from cell to cell")
async def state(context: CheckContext) -> None:
    """Variables, functions, imports; the number of the cell goes up."""
    first = await context.run("import math\nkept = [1, 2]\ndef double(x):\n    return 2 * x")
    second = await context.run("kept.append(double(math.floor(2.5)))\nkept")
    _expect(second, status="ok", text="[1, 2, 4]", is_state_lost=False)
    if second.execution_count is None or second.execution_count != (first.execution_count or 0) + 1:
        raise CheckFailed(f"cells are numbered {first.execution_count}, {second.execution_count}")


@check("behaviour", "output comes in order of time: both streams, displays, the last value")
async def order(context: CheckContext) -> None:
    """As it would stand in a notebook."""
    cell = """
    import sys
    from IPython.display import display
    print("one")
    print("two", file=sys.stderr)
    display("three")
    print("four")
    "five"
    """
    result = await context.run(cell)
    _expect(result, status="ok")
    if [word.strip("'") for word in result.text.split()] != ["one", "two", "three", "four", "five"]:
        raise CheckFailed(f"came as {result.text!r}")


@check("behaviour", "text of every script comes through")
async def unicode(context: CheckContext) -> None:
    """Beyond the basic plane, from right to left; half a surrogate pair and raw bytes that are no text do no harm."""
    text = "äß ☃ 漢字 🧭 \u202eשלום e\u0301 end"
    _expect(await context.run("print(planted.text)", text=text), status="ok", text=text)
    _expect(await context.run("value = '漢'\nvalue"), status="ok", text="'漢'")
    for cell in (r"print('\ud800 alone')", r"os.write(1, b'\xff\xfe raw\n')", r"'\ud800'", r"print('\x00\x07\x1b')"):
        result = await context.run(cell)
        if result.status not in ("ok", "error"):
            raise CheckFailed(tell_end(result))
    await context.check_usable(context.shared)


@check("behaviour", "images come back: of Pillow and of matplotlib")
async def images(context: CheckContext) -> str:
    """Their pixels, not only their size."""
    result = await context.run(
        """
        from PIL import Image
        from IPython.display import display
        display(Image.new("RGB", (40, 30), (10, 200, 30)))
        import matplotlib.pyplot as plt
        plt.plot([1, 3, 2])
        plt.show()
        """
    )
    if result.status != "ok" or len(result.images) != 2:
        raise CheckFailed(f"{len(result.images)} images came back: {tell_end(result)}")
    first = result.images[0]
    with Image.open(io.BytesIO(first.png)) as image:
        colour = image.convert("RGB").getpixel((5, 5))
    if (first.size_px, first.original_px, colour) != ((40, 30), (40, 30), (10, 200, 30)):
        raise CheckFailed(f"40x30 px of (10, 200, 30) came back as {first.size_px} of {colour}")
    return f"{result.images[1].size_px[0]}x{result.images[1].size_px[1]} px of matplotlib"


@check("behaviour", "errors come without noise: name, message, the cell's own lines")
async def errors(context: CheckContext) -> None:
    """No colour codes, no frames of IPython."""
    result = await context.run("def inner(x):\n    return 1 / x\nprint('before')\ninner(0)\nprint('after')")
    error = result.error
    if result.status != "error" or error is None or "before" not in result.text or "after" in result.text:
        raise CheckFailed(tell_end(result))
    told = (error.name, error.message, "inner" in error.traceback, "1 / x" in error.traceback)
    noise = [word for word in ("\x1b[", "IPython/", "ipykernel/", "run_code") if word in error.traceback]
    if told != ("ZeroDivisionError", "division by zero", True, True) or noise:
        raise CheckFailed(f"{error.name}: {error.message}; in the traceback: {noise or error.traceback[-300:]}")
    syntax = await context.run("def (:\n    pass")
    if syntax.error is None or syntax.error.name != "SyntaxError":
        raise CheckFailed(tell_end(syntax))


@check("behaviour", "written files are listed and lie in the folder")
async def files(context: CheckContext) -> None:
    """New and changed ones, in subfolders too; what was not touched is not listed."""
    folder = context.shared.folder
    (folder / "given.txt").write_text("from outside", "utf-8")
    (folder / "changed.txt").write_text("before", "utf-8")
    await context.run("pass")
    cell = """
    text = open("given.txt").read()
    os.makedirs("deep/er", exist_ok=True)
    open("deep/er/made.txt", "w").write(text.upper())
    open("changed.txt", "w").write("afterwards")
    assert os.path.realpath(os.getcwd()) == os.path.realpath(planted.inside), os.getcwd()
    """
    result = await context.run(cell, inside=context.shared.inside_dir)
    _expect(result, status="ok", files_written=("changed.txt", "deep/er/made.txt"))
    if (folder / "deep/er/made.txt").read_text("utf-8") != "FROM OUTSIDE":
        raise CheckFailed("what was written inside reads otherwise outside")


@check("behaviour", "readable files can be read and not written", place="own")
async def readable(context: CheckContext) -> None:
    """At the same absolute path."""
    outside = context.canaries.base / "readable"
    outside.mkdir()
    (outside / "file.txt").write_text("to be read", "utf-8")
    single = context.canaries.base / "single.txt"
    single.write_text("alone", "utf-8")
    one, two = str(outside / "file.txt"), str(single)
    async with context.kernel(readable=(outside, single)) as kernel:
        cell = "print(open(planted.one).read(), open(planted.two).read())"
        _expect(await context.run(cell, kernel=kernel, one=one, two=two), status="ok", text="to be read alone")
        await context.attempt(
            """
            attempt("change", lambda: open(planted.one, "a").write("x"))
            attempt("single", lambda: open(planted.two, "w").close())
            attempt("add", lambda: open(os.path.dirname(planted.one) + "/new", "w").close())
            attempt("remove", lambda: os.unlink(planted.one))
            """,
            kernel=kernel,
            at_least=4,
            one=one,
            two=two,
        )


@check("behaviour", "interrupting stops a cell at once and keeps the state", place="own")
async def interrupting(context: CheckContext) -> str:
    """A loop, a sleep, a program."""
    slowest_s = 0.0
    async with context.kernel() as kernel:
        await context.run("kept = 'still here'", kernel=kernel)
        for cell in ("while True:\n    pass", "time.sleep(60)", "!sleep 60"):
            task = asyncio.create_task(context.run(f"print('begun')\n{cell}", kernel=kernel))
            await asyncio.sleep(0.4)
            started = time.monotonic()
            await kernel.interrupt()
            result = await task
            slowest_s = max(slowest_s, time.monotonic() - started)
            _expect(result, status="interrupted", text="begun", is_state_lost=False)
            _expect(await context.run("print(kept)", kernel=kernel), status="ok", text="still here")
        await kernel.interrupt()
        _expect(await context.run("print(kept)", kernel=kernel), status="ok", text="still here")
    if slowest_s > 4:
        raise CheckFailed(f"it took {slowest_s:.1f} s")
    return f"within {slowest_s:.2f} s"


@check("behaviour", "a cell is stopped at its time limit and the state is kept", place="own")
async def time_limit(context: CheckContext) -> None:
    """Output printed before the time limit is returned."""
    async with context.kernel() as kernel:
        await context.run("kept = 7", kernel=kernel)
        result = await context.run("print('begun')\nwhile True:\n    pass", kernel=kernel, timeout_s=1.0)
        if result.status != "interrupted" or "begun" not in result.text or not result.notes or result.duration_s > 5:
            raise CheckFailed(f"{result.duration_s:.1f} s: {tell_end(result)}")
        _expect(await context.run("print(kept)", kernel=kernel), status="ok", text="7")


@check("behaviour", "code that cannot be interrupted is killed, and that is told", place="own")
async def lock_holder(context: CheckContext) -> str:
    """One long computation in C that never lets go of the interpreter."""
    async with context.kernel() as kernel:
        await context.run("kept = 7", kernel=kernel)
        started = time.monotonic()
        result = await context.run("print('begun')\n7 ** 10 ** 9", kernel=kernel, timeout_s=1.0)
        took_s = time.monotonic() - started
        if result.status != "died" or not result.is_state_lost or not result.notes or took_s > 12:
            raise CheckFailed(f"{took_s:.1f} s: {tell_end(result)}")
        _expect(await context.run("print('kept' in globals())", kernel=kernel), status="ok", text="False")
    return f"after {took_s:.1f} s: {'; '.join(result.notes)}"


@check("behaviour", "input() fails at once")
async def asking(context: CheckContext) -> None:
    """Nobody is there to type."""
    for cell in ("input('name? ')", "import getpass\ngetpass.getpass()"):
        result = await context.run(cell, timeout_s=5)
        if result.status != "error" or result.error is None:
            raise CheckFailed(tell_end(result))


@check("behaviour", "cells sent at once run one after the other, in order")
async def queue(context: CheckContext) -> None:
    """None is lost, none overtakes."""
    await context.run("seen = []")
    cell = "seen.append(planted.number)\ntime.sleep(0.02)\nseen"
    results = await asyncio.gather(*(context.run(cell, number=number) for number in range(6)))
    for number, result in enumerate(results):
        _expect(result, status="ok", text=str(list(range(number + 1))))


@check("behaviour", "an error does not stop the cells that wait behind it")
async def queue_after_error(context: CheckContext) -> None:
    """Jupyter's own habit is to drop them."""
    results = await asyncio.gather(*(context.run(cell) for cell in ("1 / 0", "print('second')", "print('third')")))
    if [result.status for result in results] != ["error", "ok", "ok"] or "third" not in results[2].text:
        raise CheckFailed("; ".join(tell_end(result) for result in results))


@check("behaviour", "kernels run side by side", place="own")
async def side_by_side(context: CheckContext) -> str:
    """Two that sleep take as long as one, and know nothing of each other."""
    async with context.kernel() as first, context.kernel() as second:
        started = time.monotonic()
        cell = "mine = planted.word\ntime.sleep(1)\nprint(mine)"
        results = await asyncio.gather(
            context.run(cell, kernel=first, word="one"), context.run(cell, kernel=second, word="two")
        )
        took_s = time.monotonic() - started
    for result, word in zip(results, ("one", "two"), strict=True):
        _expect(result, status="ok", text=word)
    if took_s > 1.9:
        raise CheckFailed(f"it took {took_s:.1f} s")
    return f"{took_s:.2f} s"


@check("behaviour", "a kernel that ends itself is started anew, and that is told", place="own")
async def restart(context: CheckContext) -> str:
    """The folder stays, the variables go."""
    async with context.kernel() as kernel:
        await context.run("kept = 1\nopen('kept.txt', 'w').write('x')", kernel=kernel)
        result = await context.run("print('last words', flush=True)\ntime.sleep(0.2)\nos._exit(3)", kernel=kernel)
        if result.status != "died" or not result.is_state_lost or not result.notes:
            raise CheckFailed(tell_end(result))
        after = await context.run("print('kept' in globals(), os.path.exists('kept.txt'))", kernel=kernel)
        _expect(after, status="ok", text="False True", is_state_lost=False)
    return "; ".join(result.notes)


@check("behaviour", "closing leaves no process, and can be done twice", place="own")
async def closing(context: CheckContext) -> str:
    """Afterwards running a cell is an error; closing while a cell runs ends it."""
    mark = f"cl{context.canaries.token}"[:15]
    async with context.kernel() as kernel:
        cell = (
            "syscall('prctl', 15, planted.mark.encode(), 0, 0, 0)\nimport subprocess\nsubprocess.Popen(['sleep', '50'])"
        )
        await context.run(cell, kernel=kernel, mark=mark)
        if not find_processes(mark):
            raise CheckFailed("the kernel's process is not seen from outside, so nothing can be said")
        running = asyncio.create_task(context.run("time.sleep(30)", kernel=kernel))
        await asyncio.sleep(0.3)
        started = time.monotonic()
        await kernel.close()
        await kernel.close()
        took_s = time.monotonic() - started
        await asyncio.wait([running], timeout=5)
        if not running.done():
            running.cancel()
            raise CheckFailed("a running cell goes on after close")
        _note_end(running)
        try:
            await kernel.run("1")
        except SandboxError:
            pass
        else:
            raise CheckFailed("a closed kernel runs cells")
    if left := await wait_for_none(mark):
        raise CheckFailed(f"{len(left)} processes are left")
    return f"{took_s:.2f} s"


def _note_end(task: asyncio.Task[CellResult]) -> None:
    """A cell that was cut off by closing may end in a result or in an error of the sandbox, in nothing else."""
    if task.cancelled():
        raise CheckFailed("the running cell ended in CancelledError, which whoever waits for it takes for its own")
    error = task.exception()
    if error is not None and not isinstance(error, SandboxError):
        raise CheckFailed(f"the running cell ended in {type(error).__name__}: {error}")


@check("behaviour", "programs run and their output comes back")
async def programs(context: CheckContext) -> None:
    """By `!`, by `%%bash`, by subprocess; and they can be ended."""
    _expect(await context.run("!echo from a program"), status="ok", text="from a program")
    cell = """
    import subprocess, sys
    done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
    print(done.stdout.strip(), flush=True)
    sleeper = subprocess.Popen(["sleep", "50"])
    sleeper.kill()
    print(sleeper.wait())
    """
    _expect(await context.run(cell), status="ok", text="42\n-9")
    _expect(await context.run("get_ipython().run_cell_magic('bash', '', 'echo $((40 + 2))')"), status="ok", text="42")


@check("behaviour", "threads and processes of Python's own pools work")
async def pools(context: CheckContext) -> None:
    """Forked workers, threads and top-level await."""
    cell = """
    import asyncio, multiprocessing
    from concurrent.futures import ThreadPoolExecutor
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, [-1, -2]), flush=True)
    with ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(abs, range(-4, 0))))
    """
    _expect(await context.run(cell), status="ok", text="[1, 2]\n10")
    _expect(await context.run("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'"), status="ok", text="'awaited'")


@check("behaviour", "the packages for images are there")
async def packages(context: CheckContext) -> None:
    """And write where they like to."""
    cell = """
    import cv2, matplotlib, numpy, pandas, scipy, skimage
    import visual_tools
    print(int(numpy.ones((200, 200)).dot(numpy.ones((200, 200)))[0, 0]), visual_tools.Box.__name__)
    """
    _expect(await context.run(cell), status="ok", text="200 Box")
    result = await context.run("import pandas\npandas.DataFrame({'a': [1, 2]})")
    if result.status != "ok" or "a" not in result.text or result.text.count("\n") > 5:
        raise CheckFailed(tell_end(result))


@check("behaviour", "exit() does no harm that is not told")
async def leaving(context: CheckContext) -> None:
    """A model writes it now and then."""
    for cell in ("exit()", "import sys\nsys.exit(1)", "quit()"):
        result = await context.run(cell)
        if result.status == "died" and not result.notes:
            raise CheckFailed(f"{cell!r}: {tell_end(result)}")
        await context.check_usable(context.shared)


@check("behaviour", "an uncounted cell does not move the count")
async def uncounted(context: CheckContext) -> None:
    """For what tools run behind the model's back."""
    first = await context.shared.run("1")
    between = await context.shared.run("2", store_history=False)
    second = await context.shared.run("3")
    if (second.execution_count or 0) - (first.execution_count or 0) != 1 or "2" not in between.text:
        raise CheckFailed(f"numbered {first.execution_count}, {between.execution_count}, {second.execution_count}")


@check("behaviour", "an empty cell and a comment are fine")
async def nothing(context: CheckContext) -> None:
    """They give nothing."""
    for cell in ("", "   \n\n", "# only a comment"):
        result = await context.shared.run(cell)
        _expect(result, status="ok", text="", images=(), error=None)


@check("behaviour", "a folder that cannot be used is an error that says so", place="own")
async def bad_folder(context: CheckContext) -> str:
    """A file stands where the folder should be."""
    path = context.canaries.base / "a-file"
    path.write_text("x", "utf-8")
    try:
        kernel = await context.maker.make_kernel(path, limits=LIMITS)
    except (SandboxError, OSError) as error:
        return str(error)
    await kernel.close()
    raise CheckFailed(f"a kernel was made whose folder is the file {Path(path).name}")


CHECKS = (
    *(state, order, unicode, images, errors, files, readable, interrupting, time_limit, lock_holder, asking),
    *(queue, queue_after_error, side_by_side, restart, closing, programs, pools, packages, leaving, uncounted),
    *(nothing, bad_folder),
)
