"""What a cell gives back: state, text in order, errors, images, files."""

import asyncio
import io

import nbformat
import pytest
from PIL import Image

from tests.visual_tools.sandbox.conftest import SMALL
from visual_tools.sandbox import CellError, CellResult, Kernel, Sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")


def told(result: CellResult) -> tuple[object, ...]:
    return result.status, result.text, result.error, result.files_written, result.notes, result.is_truncated


@pytest.mark.slow
async def test_state_is_kept_and_cells_are_counted(kernel: Kernel) -> None:
    first = await kernel.run("import math\nx = [1]")
    second = await kernel.run("x.append(math.floor(2.5))\nx")
    assert told(first) == ("ok", "", None, (), (), False)
    assert told(second) == ("ok", "[1, 2]\n", None, (), (), False)
    assert (first.execution_count, second.execution_count) == (1, 2)
    uncounted = await kernel.run("_", store_history=False)
    assert (uncounted.text, (await kernel.run("0")).execution_count) == ("[1, 2]\n", 3)
    assert 0 < second.duration_s < 30


@pytest.mark.long
async def test_text_comes_in_the_order_of_writing(shared: Kernel) -> None:
    code = """
import os, subprocess, sys
from IPython.display import display
print("a")
print("b", file=sys.stderr)
subprocess.run(["echo", "c"])
print("d", end="")
os.write(2, b"e\\n")
display("f")
!echo g
"h" """
    assert (await shared.run(code)).text == "a\nb\nc\nde\n'f'\ng\n'h'\n"


@pytest.mark.long
async def test_a_fork_prints_too(shared: Kernel) -> None:
    code = (
        "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as p: p.map(print, ['x', 'x'])\nprint('y')"
    )
    assert (await shared.run(code)).text == "x\nx\ny\n"


@pytest.mark.long
async def test_an_error_shows_the_lines_of_the_cells_only(kernel: Kernel) -> None:
    await kernel.run("import json\ndef parse(text):\n    return json.loads(text)")
    result = await kernel.run("\nparse('\\x1b[31m{')")
    assert (result.status, result.text, result.is_state_lost) == ("error", "", False)
    assert result.error == CellError(
        name="JSONDecodeError",
        message="Expecting value: line 1 column 1 (char 0)",
        traceback=(
            "Traceback (most recent call last):\n"
            '  File "<cell 2>", line 2, in <module>\n'
            "    parse('\\x1b[31m{')\n"
            '  File "<cell 1>", line 3, in parse\n'
            "    return json.loads(text)\n"
            "           ^^^^^^^^^^^^^^^^\n"
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
        ),
    )


@pytest.mark.parametrize(
    ("code", "name", "last_line"),
    [
        ("x ==", "SyntaxError", "SyntaxError: invalid syntax"),
        ("if 1:\nx", "IndentationError", "IndentationError: expected an indented block after 'if' statement on line 1"),
        ("raise KeyError('k') from ValueError('v')", "KeyError", "KeyError: 'k'"),
        ("raise ExceptionGroup('g', [ValueError('v')])", "ExceptionGroup", "    +------------------------------------"),
        ("import sys; sys.exit(2)", "SystemExit", "SystemExit: 2"),
        ("%nonsense", "UsageError", "IPython.core.error.UsageError: Line magic function `%nonsense` not found."),
    ],
)
async def test_errors_of_many_kinds(shared: Kernel, code: str, name: str, last_line: str) -> None:
    result = await shared.run(code)
    assert result.error is not None
    assert (result.status, result.error.name) == ("error", name)
    assert result.error.traceback.splitlines()[-1] == last_line
    assert "site-packages" not in result.error.traceback
    assert "\x1b" not in result.error.traceback


@pytest.mark.parametrize("code", ["input('name? ')", "import getpass; getpass.getpass()"])
async def test_input_fails_cleanly(shared: Kernel, code: str) -> None:
    result = await shared.run(code)
    assert result.error is not None
    assert (result.status, result.error.name) == ("error", "StdinNotImplementedError")
    assert (await shared.run("1")).text == "1\n"


async def test_a_picture_has_one_format(shared: Kernel) -> None:
    result = await shared.run("from PIL import Image\nImage.new('RGB', (30, 20), (255, 0, 0))")
    (image,) = result.images
    assert (result.text, image.size_px, image.original_px) == ("[image 1: 30x20 px]\n", (30, 20), (30, 20))
    with Image.open(io.BytesIO(image.png)) as decoded:
        assert (decoded.format, decoded.getpixel((3, 3))) == ("PNG", (255, 0, 0))
    assert [sorted(output["data"]) for output in result.outputs] == [["image/png", "text/plain"]]


@pytest.mark.parametrize(
    ("code", "size_px", "original_px"),
    [
        ("display(Image.new('RGB', (900, 600)))", (300, 200), (900, 600)),
        ("display(Image.new('I;16', (10, 600)))", (5, 300), (10, 600)),
        ("display(Image.new('CMYK', (10, 10)))", (10, 10), (10, 10)),
        ("display(Image.new('F', (10, 10), 1.5))", (10, 10), (10, 10)),
        ("Image.new('RGB', (40, 50)).save('/tmp/a.jpg'); import IPython.display as d; d.Image('/tmp/a.jpg')", (40, 50),
         (40, 50)),
        ("plt.figure(figsize=(4, 2), dpi=300); plt.plot([1, 2]); plt.show()", None, None),
    ],
)  # fmt: skip
async def test_pictures_are_reduced_and_it_is_said(
    shared: Kernel, code: str, size_px: tuple[int, int] | None, original_px: tuple[int, int] | None
) -> None:
    await shared.run("from PIL import Image\nimport matplotlib.pyplot as plt")
    result = await shared.run(code)
    (image,) = result.images
    assert max(image.size_px) <= SMALL.image_side_px
    if size_px:
        assert (image.size_px, image.original_px) == (size_px, original_px)
    was = f", reduced from {image.original_px[0]}x{image.original_px[1]}" if image.size_px != image.original_px else ""
    assert result.text == f"[image 1: {image.size_px[0]}x{image.size_px[1]} px{was}]\n"
    assert not result.is_truncated


async def test_a_picture_that_is_heavy_is_made_light(shared: Kernel) -> None:
    code = "import numpy as np\nfrom PIL import Image\n"
    code += "Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8))"
    (image,) = (await shared.run(code)).images
    assert len(image.png) <= SMALL.image_bytes
    assert image.original_px == (300, 300)
    assert image.size_px < (300, 300)


async def test_figures_appear_where_they_are_shown(shared: Kernel) -> None:
    result = await shared.run(
        "import matplotlib.pyplot as plt\nprint(1); plt.plot([1]); plt.show(); print(2); plt.plot([2]);"
    )
    assert [line.partition(":")[0] for line in result.text.splitlines()] == ["1", "[image 1", "2", "[image 2"]


async def test_too_many_pictures(shared: Kernel) -> None:
    result = await shared.run("from PIL import Image\nfor n in range(6): display(Image.new('L', (n + 1, 1)))")
    assert [image.size_px for image in result.images] == [(1, 1), (2, 1), (3, 1)]
    assert result.text.splitlines()[-1] == "[only the first 3 images are shown]"
    assert result.is_truncated


async def test_huge_text_keeps_head_and_tail(shared: Kernel) -> None:
    result = await shared.run("print('begin' + 'x' * 1_000_000 + 'end')")
    assert result.is_truncated
    assert result.text.startswith("beginxxx")
    assert result.text.endswith("xxxend\n")
    assert f"\n[... {1_000_009 - 2000} characters left out ...]\n" in result.text
    assert len(result.text) < 2100


@pytest.mark.parametrize("code", ["'x' * 50_000_000", "raise ValueError('x' * 50_000_000)"])
async def test_huge_values_and_errors_come_back_cut(shared: Kernel, code: str) -> None:
    result = await shared.run(code)
    text = result.text or (result.error.message if result.error else "")
    assert "characters left out" in text
    assert (len(text) < 10_000, result.notes, result.duration_s < 20) == (True, (), True)
    assert result.is_truncated is (result.status == "ok")


async def test_help_is_printed(shared: Kernel) -> None:
    assert "Return the absolute value of the argument." in (await shared.run("abs?")).text


async def test_unicode_and_terminal_codes(shared: Kernel) -> None:
    result = await shared.run(
        "print('漢字 😀 \\x1b[1mé\\x1b[0m \\x07'); print('10%\\r20%\\r30%'); print('\\ud800')\n'ß'"
    )
    assert result.text == "漢字 😀 é \n30%\n?\n'ß'\n"
    assert (await shared.run("'\ud800'")).text == "'?'\n"


async def test_files_written_are_listed(kernel: Kernel) -> None:
    (kernel.folder / "old.txt").write_text("old")
    (kernel.folder / "kept.txt").write_text("kept")
    code = """
from pathlib import Path
Path("b/c").mkdir(parents=True)
for name in ("a.txt", "b/c/d.txt", "old.txt"):
    Path(name).write_text("new " + name)
Path("link").symlink_to("/usr")
print(Path("kept.txt").read_text(), Path.cwd())"""
    result = await kernel.run(code)
    notes = ("not handed out: 'link' (a link that leads out of the working folder)",)
    if kernel.inside_dir == str(kernel.folder):
        notes = ("not kept: 'link' (a link that leads out of the working folder)",)
    assert told(result) == (
        "ok", f"kept {kernel.inside_dir}\n", None, ("a.txt", "b/c/d.txt", "old.txt"), notes, False
    )  # fmt: skip
    assert not (kernel.folder / "link").is_symlink()
    assert (kernel.folder / "b/c/d.txt").read_text() == "new b/c/d.txt"
    assert (await kernel.run("1")).files_written == ()


async def test_outputs_make_a_notebook(shared: Kernel) -> None:
    result = await shared.run(
        "import sys\nprint(1)\nprint(2, file=sys.stderr)\nfrom PIL import Image\ndisplay(Image.new('L', (2, 2)))\n3"
    )
    kinds = [output["output_type"] for output in result.outputs]
    assert kinds == ["stream", "stream", "display_data", "execute_result"]
    failed = await shared.run("print(1)\n1/0")
    assert [output["output_type"] for output in failed.outputs] == ["stream", "error"]
    cell = nbformat.v4.new_code_cell("...")
    cell.outputs = [nbformat.from_dict(output) for output in (*result.outputs, *failed.outputs)]
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


async def test_readable_paths_keep_their_place(sandbox: Sandbox, tmp_path, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    outside = tmp_path_factory.mktemp("outside")
    (outside / "given.txt").write_text("given")
    (outside / "other.txt").write_text("other")
    kernel = await sandbox.make_kernel(tmp_path / "run", readable=[outside / "given.txt"])
    result = await kernel.run(
        f"import os; print(open({str(outside / 'given.txt')!r}).read(), os.listdir({str(outside)!r}))"
    )
    assert result.text == "given ['given.txt']\n"
    assert (await kernel.run(f"open({str(outside / 'given.txt')!r}, 'w')")).error.name == "OSError"  # type: ignore[union-attr]
    await kernel.close()


async def test_two_kernels_know_nothing_of_each_other(sandbox: Sandbox, tmp_path) -> None:  # type: ignore[no-untyped-def]
    names = ("one", "two", "three")
    kernels = await asyncio.gather(*(sandbox.make_kernel(tmp_path / name) for name in names))
    codes = [
        f"import os, time; x = {name!r}; open(x, 'w').close(); time.sleep(0.2); print(os.listdir('.'))"
        for name in names
    ]
    results = await asyncio.gather(*(kernel.run(code) for kernel, code in zip(kernels, codes, strict=True)))
    assert [result.text for result in results] == ["['one']\n", "['two']\n", "['three']\n"]
    seen = await kernels[0].run("sum(name.isdigit() for name in os.listdir('/proc'))")
    assert int(seen.text) <= 3
    for kernel in kernels:
        await kernel.close()


async def test_calls_at_the_same_time_run_in_order(kernel: Kernel) -> None:
    await kernel.run("seen = []")
    await asyncio.gather(*(kernel.run(f"import time; time.sleep(0.02); seen.append({n})") for n in range(5)))
    assert (await kernel.run("seen")).text == "[0, 1, 2, 3, 4]\n"
