import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.ocr import OcrEngine, read_text
from visual_tools.text_detection import TextArea


@pytest.fixture(scope="module")
def engine() -> OcrEngine:
    return OcrEngine()


def test_lines_are_read_from_top_to_bottom_with_tight_boxes(engine: OcrEngine) -> None:
    lines = engine.read_text(Canvas().text(20, 100, "Second line").text(40, 20, "First").array)

    assert [line.text for line in lines] == ["First", "Second line"]
    assert all(line.confidence > 0.9 for line in lines)
    assert Box(38, 18, 90, 44).contains(lines[0].box_px)
    assert lines[0].box_px.height >= 10


def test_words_have_boxes_of_their_own(engine: OcrEngine) -> None:
    canvas = Canvas().text(20, 20, "Edit Delete")
    split_x = 20 + canvas.draw.textlength("Edit ", font_size=18)

    words = engine.read_text(canvas.array)[0].words

    assert [word for word, _ in words] == ["Edit", "Delete"]
    assert words[0][1].right <= split_x + 3 and words[1][1].left >= split_x - 5


def test_columns_of_a_table_are_lines_of_their_own(engine: OcrEngine) -> None:
    lines = engine.read_text(Canvas().text(20, 20, "Coffee").text(110, 20, "3.50").text(180, 20, "Total").array)

    assert sorted(line.text for line in lines) == ["3.50", "Coffee", "Total"]


def test_light_text_on_dark_is_read(engine: OcrEngine) -> None:
    lines = engine.read_text(Canvas(colour="#102030").text(20, 20, "Dark mode", colour="#e0e0e0").array)

    assert [line.text for line in lines] == ["Dark mode"]


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 3), (40, 40)])
def test_pictures_without_text_have_no_lines(engine: OcrEngine, size: tuple[int, int]) -> None:
    assert engine.read_text(np.full((*size, 3), 255, np.uint8)) == []


class TornDetector:
    """Finds areas whose boxes were told beforehand."""

    def __init__(self, *boxes: Box) -> None:
        self.areas = [TextArea.from_box(box) for box in boxes]

    def detect(self, image: NDArray[np.uint8]) -> list[TextArea]:
        return self.areas


def test_a_line_that_was_torn_within_a_letter_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    canvas = Canvas().text(20, 20, "May 2024")
    tear = 20 + round(canvas.draw.textlength("Ma", font_size=18))
    engine = OcrEngine()
    torn = TornDetector(Box(14, 12, tear + 12, 50), Box(tear, 12, 115, 50))
    monkeypatch.setattr(engine, "_detector", torn)

    assert [line.text for line in engine.read_text(canvas.array)] == ["May 2024"]


def test_neighbours_whose_areas_overlap_stay_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    canvas = Canvas().text(20, 20, "Sun").text(90, 20, "Mon")
    engine = OcrEngine()
    monkeypatch.setattr(engine, "_detector", TornDetector(Box(14, 12, 80, 50), Box(70, 12, 140, 50)))

    assert [line.text for line in engine.read_text(canvas.array)] == ["Sun", "Mon"]


def test_crop_of_one_line_is_read(engine: OcrEngine) -> None:
    text, confidence = engine.read_crop(Canvas(120, 30).text(5, 4, "hello").array)

    assert text == "hello"
    assert confidence > 0.9


def test_shared_engine_reads() -> None:
    assert [line.text for line in read_text(Canvas().text(20, 20, "Shared").array)] == ["Shared"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in /proc")
def test_a_released_engine_returns_its_memory() -> None:
    code = (
        "import numpy, psutil; from visual_tools import ocr; of = lambda: psutil.Process().memory_info().rss >> 20; "
        "image = numpy.full((720, 1280, 3), 255, numpy.uint8); ocr.read_text(image); held = of(); "
        "ocr.release_engine(); print(held, of()); assert not ocr.read_text(image)"
    )
    held, left = map(int, subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split())
    assert left < 0.75 * held, (held, left)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_the_ocr_engine_reports_to_nobody() -> None:
    """onnxruntime 1.32 sends usage data from its import on, in a thread of its own, unless a variable forbids it."""
    code = (
        "import os; from visual_tools.text_detection import make_session; "
        "make_session('PP-OCRv6_det_small.onnx', 1); print(len(os.listdir('/proc/self/task')))"
    )
    plain = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    threads = [
        int(subprocess.run([sys.executable, "-c", code], env={**plain, **more}, capture_output=True, check=True).stdout)
        for more in ({}, {"ORT_DISABLE_TELEMETRY": "1"})
    ]
    assert threads[0] == threads[1]
