"""Walks through folders that were made to break whoever walks: deep, crowded, closed, moved, strangely named."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from visual_tools.sandbox.walk import Walk, open_folder, remove_tree
from visual_tools.sandbox.work_folder import find_written, take_snapshot
from visual_tools.sandbox.zygote.filesystem import hand_over
from visual_tools.sandbox.zygote.process_tree import FolderMeasurement

DEPTH = 3000  # with names of 200 bytes: 600 kB of path, PATH_MAX is 4 kB


@contextlib.contextmanager
def few_descriptors() -> Iterator[None]:
    kept = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, kept)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with a nest of `DEPTH` folders, a file of 8 kB at its bottom."""
    top = tmp_path / "top"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for number in range(DEPTH):
        name = b"%d-\xff" % number + b"x" * 190
        os.mkdir(name, dir_fd=fd)
        below = open_folder(name, fd)
        os.close(fd)
        fd = below
    file = os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
    os.write(file, bytes(8192))
    os.close(file)
    os.close(fd)
    yield top
    remove_tree(str(top))


@pytest.mark.long
def test_every_walk_goes_through_a_nest_deeper_than_recursion_paths_and_descriptors(deep: Path) -> None:
    (deep / "file").write_text("x")
    with few_descriptors():
        walk = Walk()
        assert sum(1 for _ in walk.below(str(deep))) == DEPTH + 1
        assert (walk.num_entries, walk.is_whole) == (DEPTH + 2, True)
        measure = FolderMeasurement(str(deep))
        assert measure.go_on(60.0)
        assert (measure.num_bytes >= 8192, measure.num_entries) == (True, DEPTH + 2)
        hand_over(str(deep), os.getuid())
        before = take_snapshot(str(deep))
        (deep / "new").write_text("x")
        assert find_written(before, take_snapshot(str(deep))) == ("new",)
        assert remove_tree(str(deep))
    assert not deep.exists()


def test_a_walk_is_bounded_and_says_so(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}" / "below").mkdir(parents=True)
    walk = Walk(max_entries=20)
    assert sum(len(folder.entries) for folder in walk.below(str(tmp_path))) == 20
    assert (walk.num_entries, walk.is_whole) == (20, False)
    shallow = Walk(max_depth=1)
    assert sum(1 for _ in shallow.below(str(tmp_path))) == 31
    assert not shallow.is_whole


def test_a_walk_does_not_leave_its_folder(tmp_path: Path) -> None:
    """Links, pipes, and a folder that is moved out while the walk stands in it."""
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(top / "pipe")
    seen = []
    walk = Walk(has_parts=True)
    for folder in walk.below(str(top)):
        seen.append((folder.parts, sorted(folder.entries)))
        if folder.parts == (b"a", b"b"):
            (top / "a").rename(tmp_path / "outside" / "a")
    assert seen == [((), [b"a", b"link", b"pipe"]), ((b"a",), [b"b"]), ((b"a", b"b"), [])]
    assert not walk.is_whole


def test_a_closed_folder_is_opened_only_for_its_owner(tmp_path: Path) -> None:
    (tmp_path / "top" / "closed" / "below").mkdir(parents=True)
    (tmp_path / "top" / "closed").chmod(0)
    assert remove_tree(str(tmp_path / "top"))


def test_removing_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "kept")
    assert remove_tree(str(tmp_path / "top"))
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert not remove_tree(str(tmp_path / "link"))
    assert (tmp_path / "kept" / "file").read_text() == "kept"
