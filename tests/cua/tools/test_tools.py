"""The tools at work, in a real sandbox."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cua.messages import ImagePart
from tests.cua.tools.conftest import Bench

pytestmark = pytest.mark.asyncio(loop_scope="module")


def arguments(**given: object) -> str:
    return json.dumps(given)


def picture_sizes(result: object) -> list[tuple[int, int]]:
    import io

    parts = getattr(result, "parts", ())
    return [Image.open(io.BytesIO(part.data)).size for part in parts if isinstance(part, ImagePart)]


class TestIPython:
    @pytest.mark.slow
    async def test_variables_stay_and_pictures_come_back(self, bench: Bench) -> None:
        await bench.call("ipython", arguments(code="import numpy as np\nfrom PIL import Image\na = 20"))
        result = await bench.call("ipython", arguments(code="print(a + 1)\nImage.new('RGB', (a, 30), 'red')"))
        assert not result.is_error
        assert "21" in result.text
        assert picture_sizes(result) == [(20, 30)]
        assert result.data["kind"] == "ipython"
        assert result.data["execution_count"] == 2

    @pytest.mark.long
    async def test_a_picture_stands_once_in_the_record(self, bench: Bench) -> None:
        result = await bench.call("ipython", arguments(code="from PIL import Image\nImage.new('RGB', (9, 9))"))
        assert [output["data"]["image/png"] for output in result.data["outputs"] if "data" in output] == [0]

    async def test_an_error_is_told_without_noise(self, bench: Bench) -> None:
        result = await bench.call("ipython", arguments(code="def f():\n    return 1 / 0\nf()"))
        assert result.is_error
        assert result.text.rstrip().endswith("ZeroDivisionError: division by zero")
        assert "\x1b" not in result.text
        assert "site-packages" not in result.text

    async def test_files_that_a_cell_wrote_are_listed(self, bench: Bench) -> None:
        result = await bench.call("ipython", arguments(code="open('out.txt', 'w').write('x')"))
        assert "[files written: out.txt]" in result.text
        assert (bench.folder / "out.txt").read_text() == "x"

    async def test_a_cell_without_output_says_so(self, bench: Bench) -> None:
        assert (await bench.call("ipython", arguments(code="x = 1"))).text == "(no output)"


class TestFiles:
    async def test_write_list_and_read(self, bench: Bench) -> None:
        text = "".join(f"line {number} ä\n" for number in range(1, 8))
        written = await bench.call("files", arguments(action="write", path="notes/a.txt", content=text))
        assert "to notes/a.txt" in written.text
        assert (bench.folder / "notes" / "a.txt").read_text("utf-8") == text
        listed = await bench.call("files", arguments(action="list"))
        assert "notes/a.txt" in listed.text
        read = await bench.call("files", arguments(action="read", path="notes/a.txt", offset=3, limit=2))
        assert read.text.splitlines()[:3] == [
            "     3  line 3 ä",
            "     4  line 4 ä",
            "... 3 more lines, go on with offset 5",
        ]

    async def test_missing_files_are_told_with_what_is_there(self, bench: Bench) -> None:
        (bench.folder / "there.txt").write_text("x")
        result = await bench.call("files", arguments(action="read", path="their.txt"))
        assert result.is_error
        assert "there is no file 'their.txt' here; the folder has: there.txt" in result.text

    async def test_a_planted_link_leads_nowhere(self, bench: Bench, tmp_path: Path) -> None:
        outside = tmp_path / "outside.txt"
        outside.write_text("canary 123")
        (bench.folder / "link.txt").symlink_to(outside)
        result = await bench.call("files", arguments(action="read", path="link.txt"))
        assert result.is_error
        assert "canary" not in result.text

    async def test_binary_files_are_not_read_as_text(self, bench: Bench) -> None:
        (bench.folder / "b.bin").write_bytes(bytes(range(256)))
        result = await bench.call("files", arguments(action="read", path="b.bin"))
        assert result.is_error
        assert "is not text (256 bytes)" in result.text


class TestViewImage:
    async def test_a_part_is_enlarged(self, bench: Bench) -> None:
        image = np.zeros((60, 80, 3), np.uint8)
        image[10:20, 30:50] = (255, 0, 0)
        Image.fromarray(image).save(bench.folder / "p.png")
        whole = await bench.call("view_image", arguments(path="p.png"))
        assert picture_sizes(whole) == [(80, 60)]
        part = await bench.call("view_image", arguments(path="p.png", box=[30, 10, 50, 20]))
        assert "enlarged 51 times" in part.text
        assert picture_sizes(part) == [(1020, 510)]

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"path": "no.png"}, "there is no file 'no.png' here"),
            ({"path": "p.png", "box": [1, 2]}, "box has 2 numbers"),
            ({"path": "p.png", "box": [500, 0, 600, 10]}, "does not lie on the image, which is 80x60 px"),
        ],
    )
    async def test_mistakes_are_told(self, bench: Bench, given: dict[str, object], told: str) -> None:
        Image.new("RGB", (80, 60)).save(bench.folder / "p.png")
        result = await bench.call("view_image", json.dumps(given))
        assert result.is_error
        assert told in result.text


class TestShell:
    async def test_output_exit_code_and_folder(self, bench: Bench) -> None:
        result = await bench.call("shell", arguments(command="echo out; echo err >&2; echo x > made.txt; exit 3"))
        assert result.text.splitlines()[:3] == ["out", "err", "(exit code 3)"]
        assert (bench.folder / "made.txt").read_text() == "x\n"

    @pytest.mark.long
    async def test_a_command_that_takes_too_long_is_ended_with_its_children(self, bench: Bench) -> None:
        result = await bench.call("shell", arguments(command="echo begun; (sleep 77 & sleep 77)"))
        assert result.is_error
        assert "begun" in result.text
        assert "it took longer than 3 s and was ended" in result.text
        left = await bench.call(
            "shell", arguments(command="grep -al sleep /proc/[0-9]*/cmdline | xargs -n1 cat | tr '\\0' ' '")
        )
        assert "sleep 77" not in left.text

    async def test_a_command_in_the_background_does_not_hold_the_call(self, bench: Bench) -> None:
        async with asyncio.timeout(3):
            result = await bench.call("shell", arguments(command="sleep 50 & echo done"))
        assert result.text.startswith("done")

    async def test_a_flood_is_cut(self, bench: Bench) -> None:
        result = await bench.call("shell", arguments(command="yes"))
        assert result.is_error
        assert "it wrote more than 200000 bytes and was ended" in result.text
        assert len(result.text) < 40_000

    @pytest.mark.long
    async def test_it_does_not_wait_for_python(self, bench: Bench) -> None:
        await bench.call("shell", arguments(command="true"))
        sleeping = asyncio.create_task(bench.call("ipython", arguments(code="import time; time.sleep(2)")))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(1.5):
            result = await bench.call("shell", arguments(command="echo quick"))
        assert result.text.startswith("quick")
        await sleeping
