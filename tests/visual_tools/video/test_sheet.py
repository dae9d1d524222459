"""Contact sheets: the right frames in the right places, with times that can be read."""

from pathlib import Path

import pytest

import visual_tools as vt
from tests.visual_tools.video.making import Picture, Recipe, make_video, read_number
from visual_tools.errors import VideoError
from visual_tools.video.sample import ContactSheet


def cut_tiles(sheet: ContactSheet, width_px: int, height_px: int) -> list[Picture]:
    """The images of a sheet, row by row."""
    places = [divmod(position, sheet.columns) for position in range(len(sheet.indices))]
    corners = [(4 + row * (height_px + 4), 4 + column * (width_px + 4)) for row, column in places]
    return [sheet.image[top : top + height_px, left : left + width_px] for top, left in corners]


@pytest.mark.long
def test_frames_stand_in_order(tmp_path: Path) -> None:
    path = make_video(tmp_path, 100, Recipe(size=(320, 240)))
    sheet = vt.contact_sheet(path, n=10, columns=4)
    assert (sheet.columns, sheet.rows, sheet.image.shape) == (4, 3, (3 * 244 + 4, 4 * 324 + 4, 3))
    assert sheet.indices == (0, 11, 22, 33, 44, 55, 66, 77, 88, 99)
    assert sheet.timestamps_s == pytest.approx([index / 10 for index in sheet.indices])
    assert [read_number(tile) for tile in cut_tiles(sheet, 320, 240)] == list(sheet.indices)


@pytest.mark.long
def test_times_can_be_read(tmp_path: Path) -> None:
    path = make_video(tmp_path, 100, Recipe(size=(320, 240)))
    sheet = vt.contact_sheet(path, n=4, tile_px=320)
    read = [box.text for box in vt.read_text(sheet.image)]
    for text in ("00:00:00.000", "00:00:03.300", "00:00:06.600", "00:00:09.900"):
        assert any(text in one for one in read), read


def test_given_frames(tmp_path: Path) -> None:
    path = make_video(tmp_path, 30)
    frames = vt.sample_frames(path, timestamps_s=[2.0, 1.0])
    for given in (frames, list(frames)):
        sheet = vt.contact_sheet(given, columns=2)
        assert (sheet.indices, sheet.columns, sheet.rows) == ((20, 10), 2, 1)
        assert [read_number(tile) for tile in cut_tiles(sheet, 128, 96)] == [20, 10]
    assert vt.contact_sheet(frames, tile_px=64).image.shape[0] in (48 + 8, 2 * 52 + 4)


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, (16, 4, 4)),
        ({"n": 9}, (9, 3, 3)),
        ({"columns": 5, "rows": 2}, (10, 5, 2)),
        ({"rows": 2}, (16, 8, 2)),
        ({"n": 7, "rows": 3}, (7, 3, 3)),
        ({"n": 1}, (1, 1, 1)),
    ],
)
def test_shapes(tmp_path: Path, settings: dict[str, int], shape: tuple[int, int, int]) -> None:
    sheet = vt.contact_sheet(make_video(tmp_path, 40, Recipe(size=(96, 96))), **settings)
    assert (len(sheet.indices), sheet.columns, sheet.rows) == shape
    assert "array" not in repr(sheet)


def test_wrong_requests(tmp_path: Path) -> None:
    path = make_video(tmp_path, 3)
    for wrong in ({"n": 0}, {"columns": 0}, {"tile_px": 3}):
        with pytest.raises(VideoError, match="must be 1 or more"):
            vt.contact_sheet(path, **wrong)
    with pytest.raises(VideoError, match="no frame to put on the sheet"):
        vt.contact_sheet([])
