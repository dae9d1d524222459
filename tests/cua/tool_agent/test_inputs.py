"""The user's files, as they go into a run and before the model."""

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cua.errors import ConfigError
from cua.messages import ImagePart, TextPart
from cua.tool_agent import inputs as inputs_module
from cua.tool_agent.inputs import copy_inputs, find_inputs, kind_of, make_question, size_for_model
from tests.cua.tool_agent.files import make_pdf, make_video


def save(path: Path, size: tuple[int, int] = (40, 30)) -> Path:
    Image.new("RGB", size, "white").save(path)
    return path


def test_files_are_copied_twice_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first, second = save(tmp_path / "x.png"), save(tmp_path / "a" / "x.png", (20, 20))
    found = find_inputs([first, second])
    assert [file.name for file in found] == ["x.png", "x-2.png"]
    copy_inputs(found, tmp_path / "inputs", tmp_path / "files")
    for file, original in zip(found, (first, second), strict=True):
        assert (tmp_path / "inputs" / file.name).read_bytes() == original.read_bytes()
        assert (tmp_path / "files" / file.name).read_bytes() == original.read_bytes()
        assert file.sha256 == hashlib.sha256(original.read_bytes()).hexdigest()


def test_a_file_that_changes_meanwhile_is_told(tmp_path: Path) -> None:
    found = find_inputs([save(tmp_path / "x.png")])
    save(tmp_path / "x.png", (20, 20))
    with pytest.raises(ConfigError, match="was changed while the run began"):
        copy_inputs(found, tmp_path / "inputs", tmp_path / "files")


def test_pipes_and_devices_are_no_inputs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="is not a regular file"):
            find_inputs([path])


def test_a_name_that_no_record_can_hold_is_written_so_that_it_can(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.png"))
    odd.write_bytes(save(tmp_path / "x.png").read_bytes())
    (file,) = find_inputs([odd])
    copy_inputs([file], tmp_path / "inputs", tmp_path / "files")
    assert file.name == "caf\N{REPLACEMENT CHARACTER}.png"
    assert (tmp_path / "inputs" / file.name).is_file()


def test_a_large_file_is_read_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "MAX_COPIED_BYTES", 10)
    (file,) = find_inputs([save(tmp_path / "x.png")])
    copy_inputs([file], tmp_path / "inputs", tmp_path / "files")
    assert (file.name, file.is_copied, len(file.sha256)) == (str(tmp_path / "x.png"), False, 64)
    assert list((tmp_path / "files").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [("missing.png", None, "No such file"), ("empty.png", b"", "is empty"), (".", None, "is a folder")],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, content: bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        find_inputs([tmp_path / name])


def test_kinds_go_by_content(tmp_path: Path) -> None:
    save(tmp_path / "p.png")
    (tmp_path / "p.png").rename(tmp_path / "liar.txt")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    kinds = [kind_of(path) for path in (tmp_path / "liar.txt", tmp_path / "t.csv")]
    assert kinds == ["image", "other"]
    assert kind_of(make_pdf(tmp_path / "d.pdf", 2)) == "document"
    assert kind_of(make_video(tmp_path / "v.mp4", 8)) == "video"


def test_pictures_stand_before_the_words(tmp_path: Path) -> None:
    parts = make_question("How many?", find_inputs([save(tmp_path / "a.png"), save(tmp_path / "b.png", (10, 10))]))
    assert [part.text for part in parts if isinstance(part, TextPart)] == [
        "File a.png: image, 40x30 px.\n",
        "File b.png: image, 10x10 px.\n",
        "How many?",
    ]
    assert [type(part) for part in parts] == [TextPart, ImagePart, TextPart, ImagePart, TextPart]


def test_a_document_is_shown_by_its_first_pages(tmp_path: Path) -> None:
    parts = make_question("?", find_inputs([make_pdf(tmp_path / "d.pdf", 10)]))
    assert isinstance(parts[0], TextPart)
    assert parts[0].text == "File d.pdf: document of 10 pages, the first 8 of them below.\n"
    assert sum(isinstance(part, ImagePart) for part in parts) == 8


def test_a_video_is_shown_by_frames_over_its_length(tmp_path: Path) -> None:
    parts = make_question("?", find_inputs([make_video(tmp_path / "v.mp4", 48)]))
    assert isinstance(parts[0], TextPart)
    assert parts[0].text.startswith("File v.mp4: video, ")
    assert sum(isinstance(part, ImagePart) for part in parts) == 16


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert make_question("?", find_inputs([tmp_path / "t.csv"])) == (
        TextPart(text="File t.csv: 8 bytes.\n"),
        TextPart(text="?"),
    )


def test_a_broken_picture_is_told_before_anything_starts(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8)).save(buffer, "PNG")
    (tmp_path / "half.png").write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    with pytest.raises(ConfigError, match=r"half\.png cannot be read"):
        make_question("?", find_inputs([tmp_path / "half.png"]))


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ((1280, 720), (1280, 720)),
        ((1920, 1080), (1920, 1080)),
        ((2560, 1440), (2404, 1352)),
        ((3840, 2160), (2392, 1345)),
        ((3000, 3000), (1794, 1794)),
        ((1, 1), (1, 1)),
        ((20_000, 10), (7168, 3)),
    ],
)
def test_pictures_are_reduced_as_k25_does(size: tuple[int, int], shown: tuple[int, int]) -> None:
    assert size_for_model(size) == shown
