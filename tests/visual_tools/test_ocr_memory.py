"""The same image has the same lines, whatever was read before it, by whom, and by how many at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.visual_tools.drawing import Canvas
from visual_tools.ocr import OcrEngine, TextLine

WORDS = ("export all", "Export all tiddlers", "new tiddler", "Delete", "24.50", "Tools")
TONES = ("white", "#102030")

_cold: dict[tuple[tuple[int, ...], bytes], list[TextLine]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A small screen: rows of words in two columns, and a panel that opens, moves and goes."""

    rows: tuple[str, ...] = WORDS
    scroll_px: int = 0
    panel_x: int | None = None
    panel_text: str = "Save"
    tone: str = "white"
    crop_px: int = 0

    def draw(self) -> NDArray[np.uint8]:
        ink = "black" if self.tone == "white" else "#e0e0e0"
        canvas = Canvas(480, 320, self.tone)
        for index, row in enumerate(self.rows):
            canvas.text(10 + 150 * (index % 3), 8 + 18 * index - self.scroll_px, row, 14, ink)
        if self.panel_x is not None:
            canvas.box(self.panel_x, 40, self.panel_x + 120, 100, fill="#d0d8e0", outline="#405060")
            canvas.text(self.panel_x + 12, 60, self.panel_text, 15)
        return np.ascontiguousarray(canvas.array[:, self.crop_px :])


@st.composite
def sequences(draw: st.DrawFn) -> list[Scene]:
    """What a screen goes through: scrolled, words changed, a panel opened, moved and closed, the window cut."""
    scene = Scene(rows=tuple(draw(st.lists(st.sampled_from(WORDS), min_size=8, max_size=16))))
    scenes = [scene]
    for _ in range(draw(st.integers(1, 3))):
        change = draw(
            st.sampled_from(
                (
                    {"scroll_px": draw(st.sampled_from((0, 7, 13, 26)))},
                    {"panel_x": draw(st.sampled_from((None, 20, 31, 160)))},
                    {"panel_text": draw(st.sampled_from(("Save", "Saved at 09:15")))},
                    {"tone": draw(st.sampled_from(TONES))},
                    {"crop_px": draw(st.sampled_from((0, 0, 40)))},
                    {"rows": (draw(st.sampled_from(WORDS)), *scene.rows[1:])},
                    {"rows": (*scene.rows[:-1], draw(st.sampled_from(WORDS)))},
                )
            )
        )
        scene = replace(scene, **change)
        scenes.append(scene)
    return scenes


def read_cold(image: NDArray[np.uint8]) -> list[TextLine]:
    """Lines read by an engine that has never seen an image."""
    key = (image.shape, image.tobytes())
    if key not in _cold:
        _cold[key] = OcrEngine().read_text(image)
    return _cold[key]


@pytest.mark.slow
@settings(max_examples=5)
@given(sequences())
@example([Scene(rows=("export all",) * 15), Scene(rows=(*("export all",) * 14, "Export all tiddlers"))])
def test_what_was_read_before_changes_nothing(scenes: list[Scene]) -> None:
    warm = OcrEngine()

    for scene in scenes:
        picture = scene.draw()
        assert warm.read_text(picture) == read_cold(picture)


def test_equal_bytes_of_another_shape_are_another_picture() -> None:
    picture = Scene(rows=("Tools", "Delete")).draw()
    reshaped = picture.reshape(picture.shape[0] * 2, -1, 3)
    warm = OcrEngine()
    assert warm.read_text(picture)

    assert warm.read_text(reshaped) == read_cold(reshaped)


def test_caller_may_change_a_picture_that_was_read() -> None:
    picture = Scene(rows=("Tools", "Delete")).draw().copy()
    warm = OcrEngine()
    assert warm.read_text(picture)
    picture[:] = 255

    assert warm.read_text(picture) == []


@pytest.mark.long
def test_readers_in_threads_do_not_disturb_each_other() -> None:
    pictures = [Scene(scroll_px=shift).draw() for shift in (0, 5, 9)]
    shared, own = OcrEngine(num_images=1), OcrEngine(num_images=1)

    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda index: (shared, own)[index % 2].read_text(pictures[index % 3]), range(12)))

    assert read == [read_cold(pictures[index % 3]) for index in range(12)]


def test_number_of_threads_changes_nothing() -> None:
    picture = Scene().draw()

    assert OcrEngine(num_threads=1).read_text(picture) == OcrEngine(num_threads=3).read_text(picture)
