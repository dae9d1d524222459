"""The working folder's twin in memory: what goes in and comes out, what is left out, what a bound file's end does."""

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.visual_tools.sandbox.conftest import SMALL
from visual_tools.sandbox import Sandbox
from visual_tools.sandbox.backends import make_plan
from visual_tools.sandbox.work_folder import MAX_DEPTH, FolderInMemory, measure_need
from visual_tools.sandbox.zygote_client import ZygoteClient

MB = 2**20


class Twin:
    """A folder in memory between two plain ones: `disk` on this machine, `memory` where code writes."""

    def __init__(self, place: Path) -> None:
        self.disk, self.memory = place / "disk", place / "memory"
        for folder in (self.disk, self.memory):
            folder.mkdir()
        self.folder = FolderInMemory(self.disk, os.open(self.memory, os.O_RDONLY), None)

    def carry(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Out, as after a cell that found an empty folder."""
        return self.folder.end({})


@pytest.fixture
def twin(tmp_path: Path) -> Twin:
    return Twin(tmp_path)


def shape(folder: Path) -> dict[str, object]:
    """What lies below a folder: text of files, targets of links, None for folders."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_text()  # noqa: PTH115
    return found


def test_both_sides_become_the_same_and_stay_so(twin: Twin) -> None:
    (twin.disk / "given").mkdir()
    (twin.disk / "given" / "a").write_text("a")
    before, told = twin.folder.begin()
    assert (shape(twin.memory), told) == ({"given": None, "given/a": "a"}, ())
    (twin.memory / "given" / "a").write_text("changed")
    (twin.memory / "made").write_text("made")
    (twin.memory / "link").symlink_to("/nowhere")
    assert twin.folder.end(before) == (("given/a", "made"), ())
    assert shape(twin.disk) == {"given": None, "given/a": "changed", "link": "/nowhere", "made": "made"}
    (twin.disk / "made").unlink()
    (twin.memory / "link").unlink()
    (twin.disk / "later").write_text("later")
    before, _ = twin.folder.begin()
    twin.folder.end(before)
    assert shape(twin.disk) == shape(twin.memory) == {"given": None, "given/a": "changed", "later": "later"}


def test_a_kind_may_change(twin: Twin) -> None:
    (twin.memory / "x").mkdir()
    (twin.memory / "x" / "below").write_text("below")
    (twin.memory / "y").write_text("file")
    twin.carry()
    (twin.memory / "x" / "below").unlink()
    (twin.memory / "x").rmdir()
    (twin.memory / "x").write_text("now a file")
    (twin.memory / "y").unlink()
    (twin.memory / "y").mkdir()
    twin.carry()
    assert shape(twin.disk) == {"x": "now a file", "y": None}


def test_a_change_that_sets_size_and_time_back_is_seen(twin: Twin) -> None:
    (twin.memory / "file").write_text("one")
    twin.carry()
    about = (twin.memory / "file").stat()
    (twin.memory / "file").write_text("two")
    os.utime(twin.memory / "file", ns=(about.st_atime_ns, about.st_mtime_ns))
    twin.carry()
    assert shape(twin.disk) == {"file": "two"}


def test_names_of_one_file_are_one_file_outside_too(twin: Twin) -> None:
    """A thousand names of a megabyte are not a gigabyte."""
    (twin.memory / "0").write_bytes(b"x" * MB)
    for number in range(1, 50):
        os.link(twin.memory / "0", twin.memory / str(number))
    twin.carry()
    assert len({path.stat().st_ino for path in twin.disk.iterdir()}) == 1
    (twin.memory / "0").write_bytes(b"y" * MB)
    twin.carry()
    assert {path.read_bytes()[:1] for path in twin.disk.iterdir()} == {b"y"}


def test_holes_stay_holes(twin: Twin) -> None:
    with (twin.memory / "sparse").open("wb") as file:
        file.seek(500 * MB)
        file.write(b"end")
    twin.carry()
    about = (twin.disk / "sparse").stat()
    assert (about.st_size, about.st_blocks * 512 < MB) == (500 * MB + 3, True)


def test_what_is_no_file_stays_inside_and_names_are_bytes(twin: Twin) -> None:
    os.mkfifo(twin.memory / "pipe")
    name = os.fsencode(twin.memory) + b"/\xff\xfe"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    assert twin.carry() == (("\ufffd\ufffd",), ())
    assert os.listdir(os.fsencode(twin.disk)) == [b"\xff\xfe"]  # noqa: PTH208


def test_no_link_is_followed_on_either_side(twin: Twin, tmp_path: Path) -> None:
    """A folder outside, into which a link of the same name as a folder of the code leads."""
    (tmp_path / "outside").mkdir()
    (twin.memory / "folder").mkdir()
    twin.carry()
    (twin.disk / "folder").rmdir()
    (twin.disk / "folder").symlink_to(tmp_path / "outside")
    (twin.memory / "folder" / "file").write_text("x")
    _, (told,) = twin.carry()
    assert told.startswith("not handed out: 'folder/file'")
    assert shape(tmp_path / "outside") == {}


def test_special_modes_are_not_handed_out(twin: Twin) -> None:
    (twin.memory / "program").write_text("x")
    (twin.memory / "program").chmod(0o6711)
    twin.carry()
    assert (twin.disk / "program").stat().st_mode & 0o7777 == 0o711


def test_folders_that_are_too_deep_are_told(twin: Twin) -> None:
    deep = twin.memory.joinpath(*(["d"] * (MAX_DEPTH + 1)))
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (twin.memory / "file").write_text("x")
    written, (told,) = twin.carry()
    assert (written, told) == (
        ("file",), f"not handed out: '...' (there are folders deeper than {MAX_DEPTH}, or closed ones)"
    )  # fmt: skip


def test_a_closed_room_hands_out_what_was_written_last(twin: Twin) -> None:
    twin.folder.begin()
    (twin.memory / "late").write_text("late")
    twin.folder.close()
    twin.folder.close()
    assert shape(twin.disk) == {"late": "late"}


def test_what_is_there_has_room(tmp_path: Path) -> None:
    assert measure_need(tmp_path, 10 * MB, 100) == (10 * MB, 100)
    (tmp_path / "file").write_bytes(b"x" * 8 * MB)
    num_bytes, num_files = measure_need(tmp_path, 10 * MB, 100)
    assert (num_bytes >= 24 * MB, num_files) == (True, 100)


@pytest.mark.slow
async def test_kernels_made_at_once_have_the_room_of_their_folder(tmp_path: Path) -> None:
    """Two in each of six folders."""
    async with await Sandbox.start("bubblewrap", SMALL) as sandbox:
        folders = [tmp_path / str(number % 6) for number in range(12)]
        kernels = await asyncio.gather(*(sandbox.make_kernel(folder) for folder in folders))
        await asyncio.gather(*(kernel.run(f"open('{n}', 'w').close()") for n, kernel in enumerate(kernels)))
        results = await asyncio.gather(
            *(kernel.run("import os; print(*sorted(os.listdir('.')))") for kernel in kernels)
        )
        assert [set(result.text.split()) for result in results] == [{str(n % 6), str(n % 6 + 6)} for n in range(12)]
    assert [set(os.listdir(folder)) for folder in folders[:6]] == [{str(n), str(n + 6)} for n in range(6)]  # noqa: PTH208


@pytest.mark.slow
async def test_a_file_of_the_system_may_be_replaced(tmp_path: Path) -> None:
    """As ldconfig does with /etc/ld.so.cache: a new file takes the name of the one that kernels were shown."""
    shown = tmp_path / "shown.cache"
    shown.write_text("first")
    folder = Path(tempfile.mkdtemp(prefix="k25-kernels-"))
    wrapper, plan = make_plan("nested", str(folder))
    place = wrapper.index("--dev")
    wrapper[place:place] = ["--ro-bind", str(shown), str(shown)]
    plan = replace(plan, system_paths=(*plan.system_paths, str(shown)))
    zygote = await ZygoteClient.start(wrapper, plan, folder)
    async with Sandbox("bubblewrap", SMALL, folder, plan, zygote) as sandbox:
        (tmp_path / "new").write_text("second")
        (tmp_path / "new").rename(shown)
        kernel = await sandbox.make_kernel(tmp_path / "run")
        assert (await kernel.run(f"open({str(shown)!r}).read()")).text == "'first'\n"
