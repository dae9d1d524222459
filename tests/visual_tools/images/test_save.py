from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.visual_tools.images.files import COLOURS, corners, four_colours
from visual_tools.errors import ImageError
from visual_tools.images.files import load_image, save_image

PICTURE = np.asarray(four_colours(32, 24))


@pytest.mark.parametrize("suffix", [".png", ".PNG", ".webp", ".bmp", ".tif", ".tiff"])
def test_what_was_saved_is_loaded_again(tmp_path: Path, suffix: str) -> None:
    path = save_image(PICTURE, str(tmp_path / f"out{suffix}"))

    assert path == tmp_path / f"out{suffix}"
    assert np.array_equal(load_image(path), PICTURE)
    assert [entry.name for entry in tmp_path.iterdir()] == [f"out{suffix}"]


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".gif"])
def test_formats_with_loss_are_near(tmp_path: Path, suffix: str) -> None:
    image = load_image(save_image(PICTURE, tmp_path / f"out{suffix}"))

    assert np.abs(np.array(corners(image)) - np.array(COLOURS)).max() <= 6


def test_masks_are_saved_and_folders_made(tmp_path: Path) -> None:
    path = save_image(np.eye(3, dtype=bool), tmp_path / "a" / "b" / "mask.png")

    assert load_image(path)[:, :, 0].tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]


@pytest.mark.parametrize("name", ["out.xyz", "out", "out.mp4"])
def test_an_unknown_suffix_is_told_with_the_choices(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageError, match=r"\.png, \.jpg"):
        save_image(PICTURE, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = save_image(PICTURE, tmp_path / "out.webp")
    before = path.read_bytes()
    too_wide = np.zeros((1, 20_000, 3), np.uint8)

    with pytest.raises(ImageError, match="20000x1 pixels, WEBP"):
        save_image(too_wide, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ImageError, match="cannot be written"):
        save_image(PICTURE, path / "inside.png")


def test_what_is_no_picture_is_not_saved(tmp_path: Path) -> None:
    wrong: Any = [1, 2]
    with pytest.raises(ImageError, match="found list"):
        save_image(wrong, tmp_path / "out.png")
