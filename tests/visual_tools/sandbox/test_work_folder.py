"""The working folder's twin in memory: what goes in and comes out, what is left out, what a bound file's end does."""

import asyncio
import os
import shutil
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.visual_tools.sandbox.conftest import SMALL
from visual_tools.sandbox import Sandbox, work_folder
from visual_tools.sandbox.backends import make_plan
from visual_tools.sandbox.work_folder import MAX_DEPTH, FolderInMemory, FolderOnDisk, FolderSide, measure_need
from visual_tools.sandbox.zygote_client import ZygoteClient

MB = 2**20


class Twin:
    """A folder in memory between two plain ones: `disk` on this machine, `memory` where code writes."""

    def __init__(self, place: Path) -> None:
        self.disk, self.memory = place / "disk", place / "memory"
        for folder in (self.disk, self.memory):
            folder.mkdir()
        self.folder = FolderInMemory(self.disk, os.open(self.memory, os.O_RDONLY), None, "/mnt/work")

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
    assert twin.folder.end(before) == (("given/a", "made"), ())
    assert shape(twin.disk) == {"given": None, "given/a": "changed", "made": "made"}
    (twin.disk / "made").unlink()
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
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(twin.memory / "socket"))
    names = [b"\xff\xfe", b"-rf", b"a\nb\x1b[31m"]
    for name in names:
        os.close(os.open(os.fsencode(twin.memory) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    written, (told,) = twin.carry()
    assert written == ("-rf", "a\nb\x1b[31m", "\ufffd\ufffd")
    assert told.startswith("not handed out: ") and "'pipe' (a pipe" in told and "'socket' (a pipe" in told
    assert sorted(os.listdir(os.fsencode(twin.disk))) == sorted(names)  # noqa: PTH208
    assert twin.carry()[1] == ()  # said once


LINKS = {
    "passwd": "/etc/passwd",
    "above": "../secret",
    "around": "sub/../../secret",
    "again": "passwd",
    "folder": "sub",
    "circle": "circle",
    "ping": "pong",
    "pong": "ping",
    "nothing": "no such file",
    "this process": "/proc/self/environ",
    "the name of the folder": "/mnt/workshop/file",
    "long": "/".join(["sub/.."] * 200) + "/file",
}
"""Links in a working folder that lead to no file of it."""


def test_a_link_comes_out_as_its_file_of_the_folder_or_not_at_all(twin: Twin, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (twin.disk / "given").symlink_to("/etc/hostname")  # of the user: it stays as it is
    (twin.memory / "sub").mkdir()
    (twin.memory / "file").write_text("text")
    good = {"relative": "file", "absolute": "/mnt/work/file", "sub/up": "../file", "over": "sub/up", "-dash": "./file"}
    for name, target in {**LINKS, **good}.items():
        (twin.memory / name).symlink_to(target)
    twin.folder.begin()
    written, (told,) = twin.carry()
    assert written == tuple(sorted(["file", *good]))
    assert f"and {len(LINKS) - 3} more" in told
    files = dict.fromkeys(["file", *good], "text")
    assert shape(twin.disk) == {"given": "/etc/hostname", "sub": None, **files}
    assert len({(twin.disk / name).stat().st_ino for name in files}) == 1

    (twin.memory / "file").write_text("changed")
    (twin.memory / "relative").unlink()
    (twin.memory / "relative").symlink_to("/etc/passwd")
    _, (told,) = twin.carry()
    assert told == "not handed out: 'relative' (a link that leads out of the working folder)"
    del files["relative"]
    assert shape(twin.disk) == {"given": "/etc/hostname", "sub": None, **dict.fromkeys(files, "changed")}


def test_a_link_in_a_folder_on_disk_is_replaced_by_its_file_or_removed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "given").symlink_to("/etc/hostname")
    (tmp_path / "secret").write_text("secret")
    place = FolderOnDisk(str(work), None)
    before, _ = place.begin()
    (work / "file").write_text("text")
    for name, target in {**LINKS, "relative": "file", "absolute": f"{work}/file", "sub/up": "../file"}.items():
        (work / name).symlink_to(target)
    os.mkfifo(work / "pipe")
    written, (told,) = place.end(before)
    assert written == ("absolute", "file", "relative", "sub/up")
    assert told.startswith("not kept: ") and f"and {len(LINKS) - 2} more" in told
    texts = dict.fromkeys(["file", "relative", "absolute", "sub/up"], "text")
    assert shape(work) == {"given": "/etc/hostname", "sub": None, **texts}


def test_a_link_that_takes_the_place_of_a_file_or_folder_meanwhile_is_not_followed(
    twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there after the folder was listed and before the file is opened."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "b").write_text("secret")
    (twin.memory / "a").mkdir()
    (twin.memory / "a" / "b").write_text("mine")
    (twin.memory / "c").write_text("mine")
    (twin.memory / "d").symlink_to("a/b")

    def list_and_swap(side: FolderSide) -> object:
        found = list_below(side)
        shutil.rmtree(twin.memory / "a")
        (twin.memory / "a").symlink_to(secrets)
        (twin.memory / "c").unlink()
        (twin.memory / "c").symlink_to(secrets / "b")
        return found

    list_below = work_folder._list_below
    monkeypatch.setattr(work_folder, "_list_below", list_and_swap)
    twin.carry()
    assert "secret" not in shape(twin.disk).values()


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
