"""How many lines of turned text are read, and how long that takes, beside rapidocr's own pipeline in the same run.

    python -m benchmarks.visual.ocr_turned

Each layout is a sheet of four lines: upright, turned by up to 45 degrees, by quarters, upside down, and one with a line
in each of four directions. A line counts when its text is read exactly; both get the same images and two threads.
"""

import math
import statistics
import time

import numpy as np
from numpy.typing import NDArray

from tests.visual_tools.drawing import Canvas
from visual_tools.ocr import OcrEngine

TEXTS = ("Quarterly report", "Total: 1,284.50 EUR", "Room 14, second floor", "Please sign below")
ANGLES = (0, 2, 5, -5, 10, -10, 15, -20, 30, -30, 45, 90, 180, 270)
THREADS = 2


def draw_sheet(angle_deg: float, size: int) -> NDArray[np.uint8]:
    """Four lines, one under the other, turned together."""
    canvas, angle = Canvas(520, 520), math.radians(angle_deg)
    for index, text in enumerate(TEXTS):
        down = (index - 1.5) * 2.4 * size
        canvas.turned_text(
            round(260 - down * math.sin(angle)), round(260 + down * math.cos(angle)), text, angle_deg, size
        )
    return canvas.array


def draw_mixed(size: int) -> NDArray[np.uint8]:
    """Four lines, each in a direction of its own."""
    canvas = Canvas(520, 520)
    places = ((260, 40, 0), (480, 270, 90), (260, 480, 180), (40, 270, 270))
    for text, (x, y, angle_deg) in zip(TEXTS, places, strict=True):
        canvas.turned_text(x, y, text, angle_deg, size)
    return canvas.array


def main() -> None:
    from rapidocr import RapidOCR

    peer = RapidOCR(params={"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": THREADS})
    ours = OcrEngine(num_threads=THREADS)
    layouts = {f"{angle:4} degrees, {size} px": draw_sheet(angle, size) for size in (16, 22) for angle in ANGLES}
    layouts |= {f"mixed, {size} px": draw_mixed(size) for size in (16, 22)}
    ours.read_text(np.full((64, 200, 3), 255, np.uint8))
    peer(next(iter(layouts.values())))
    counts, ratios = [0, 0], []
    for name, image in layouts.items():
        started = time.perf_counter()
        mine = {line.text for line in ours.read_text(image)}
        middle = time.perf_counter()
        theirs = set(peer(image[:, :, ::-1]).txts or ())
        ratios.append((middle - started) / (time.perf_counter() - middle))
        read = [sum(text in found for text in TEXTS) for found in (mine, theirs)]
        counts = [one + more for one, more in zip(counts, read, strict=True)]
        print(f"  {name:22} ours {read[0]} of 4, rapidocr {read[1]} of 4, time {ratios[-1]:.2f}x")
    total = 4 * len(layouts)
    print(f"{len(layouts)} layouts, {total} lines: ours {counts[0]}, rapidocr {counts[1]} ", end="")
    print(f"(ratio {counts[0] / max(counts[1], 1):.2f}), time {statistics.median(ratios):.2f}x (median)")


if __name__ == "__main__":
    main()
