"""How many texts of a page `find_text` finds where the page has them, on screenshots of the demo app.

    python -m benchmarks.visual.ocr_boxes

The page's own rectangles (DOM ranges) are the truth. A text is found when a match's box covers the middle of its
rectangle. Beside it, on the same screenshots, rapidocr's own pipeline with a plain search of the text in its lines, and
the overlap of both with the truth (intersection over union, mean over the texts that both found).
"""

import asyncio
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.demo import DemoApp
from envs import InstructionTask
from envs.browser import BrowserEnv, BrowserOptions
from tests.visual_tools.search.dom import PageText, read_page_texts
from visual_tools.box import Box
from visual_tools.images.files import load_image
from visual_tools.search.texts import find_text

PATHS = ("/", "/summary", "/expenses/1/edit")
SIZES = ((1280, 720), (1920, 1080), (800, 600))


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    name: str
    image: NDArray[np.uint8]
    texts: list[PageText]


async def take_screens(sizes: tuple[tuple[int, int], ...] = SIZES) -> list[Screen]:
    screens = []
    with DemoApp() as app:
        for width, height in sizes:
            env = BrowserEnv(BrowserOptions(start_url=app.url, viewport_px=(width, height)))
            try:
                await env.reset(InstructionTask(instruction=""))
                for path in PATHS:
                    await env.goto(app.url.rstrip("/") + path)
                    image = load_image((await env.step([])).observation.screenshot)
                    name = f"{width}x{height} {path}"
                    screens.append(Screen(name=name, image=image, texts=await read_page_texts(env.page)))
            finally:
                await env.close()
    return screens


def covering(boxes: list[Box], text: PageText) -> Box | None:
    return next((box for box in boxes if box.has_point(*text.center)), None)


def overlap(box: Box, text: PageText) -> float:
    truth = Box(round(text.left), round(text.top), round(text.right), round(text.bottom))
    both = box.intersection(truth)
    return both / (box.area + truth.area - both)


def read_as_peer(engine: Any, image: NDArray[np.uint8]) -> list[tuple[str, Box]]:
    """Lines of rapidocr's own pipeline."""
    read = engine(image[:, :, ::-1])
    lines = []
    for text, corners in zip(read.txts or (), read.boxes if read.boxes is not None else (), strict=True):
        left, top = corners.min(axis=0)
        right, bottom = corners.max(axis=0)
        lines.append((text, Box(round(left), round(top), round(right), round(bottom))))
    return lines


def main() -> None:
    from rapidocr import RapidOCR

    engine = RapidOCR(params={"Global.log_level": "critical", "Global.use_cls": False})
    total, ours_found, peer_found = 0, 0, 0
    overlaps: list[tuple[float, float]] = []
    took: list[tuple[float, float]] = []
    for screen in asyncio.run(take_screens()):
        started = time.perf_counter()
        ours = {text.text: [match.box for match in find_text(screen.image, text.text)] for text in screen.texts}
        middle = time.perf_counter()
        lines = read_as_peer(engine, screen.image)
        took.append((middle - started, time.perf_counter() - middle))
        for text in screen.texts:
            peer = [box for read, box in lines if text.text.casefold() in read.casefold()]
            mine, theirs = covering(ours[text.text], text), covering(peer, text)
            total, ours_found, peer_found = total + 1, ours_found + bool(mine), peer_found + bool(theirs)
            if mine and theirs:
                overlaps.append((overlap(mine, text), overlap(theirs, text)))
            if not mine:
                print(f"missed on {screen.name}: {text}")
    mine_iou, peer_iou = (statistics.mean(column) for column in zip(*overlaps, strict=True))
    ratio = statistics.median(mine_s / peer_s for mine_s, peer_s in took)
    print(f"{total} texts on {len(took)} screenshots")
    print(f"  find_text:  {ours_found / total:.1%} found ({ours_found}), overlap {mine_iou:.2f}")
    print(f"  rapidocr:   {peer_found / total:.1%} found ({peer_found}), overlap {peer_iou:.2f}")
    print(f"  ratios:     found {ours_found / max(peer_found, 1):.2f}, overlap {mine_iou / peer_iou:.2f}, ", end="")
    print(f"time for all texts of a screen {ratio:.2f}x of its one reading (median)")


if __name__ == "__main__":
    main()
