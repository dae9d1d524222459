"""Recordings by Playwright's own recorder (`record_video_dir`) of pages that list their acts.

A page of `acts/` holds its acts as JSON in `#acts`: `["click", SELECTOR]`, `["hover", SELECTOR]`, `["scroll", PIXELS]`.

Playwright pipes the screenshots of the page to FFmpeg. This module takes the place of FFmpeg, which need not be
installed: it encodes with the same codec and options by PyAV, each frame when it came.
"""

import asyncio
import itertools
import json
import math
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apps.video2web.render import ORIGIN, Renderer, SitePages
from benchmarks.web_recordings.filming import VideoForm, encode
from benchmarks.web_recordings.pointer_script import pointer_script
from visual_tools.errors import require
from visual_tools.video.sample import iter_frames

if TYPE_CHECKING:
    from playwright.async_api import Page

PAGES = Path(__file__).with_name("acts")
WORDS_JS = Path(__file__).with_name("visible_words.js").read_text("utf-8")
VIEWPORT_PX = (1000, 640)
_TICKS = 25  # a second, as Playwright asks FFmpeg for
_MAX_LATE_TICKS = -0.6  # frames that come later than this are dropped; source: ffmpeg_filter.c, VSYNC_VFR
_VP9_OPTIONS = {"crf": "8", "qmin": "0", "qmax": "50", "deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}
"""Source: Playwright's videoRecorder.ts, the options it gives FFmpeg; so is the bit rate."""
_MOVE_S, _REST_S, _STEP_S, _WHEEL_PX = 0.45, 0.4, 0.03, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleWord:
    """Word that a person sees in the window.

    Attributes:
        text: Lower-case letters and digits.
        x_px: Column of its centre, in the window.
        y_px: Row of its centre.
    """

    text: str
    x_px: float
    y_px: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneAct:
    """Act as it was done on the original, with the words seen before and after.

    Attributes:
        how: `click`, `hover` or `scroll`.
        x_px: Column of the pointer.
        y_px: Row of the pointer.
        by_px: Rows scrolled.
        before: Words before the act.
        after: Words after it.
    """

    how: str
    x_px: float
    y_px: float
    by_px: int
    before: tuple[VisibleWord, ...]
    after: tuple[VisibleWord, ...]


def page_names() -> list[str]:
    """Names of the pages, such as `modal-library`."""
    return sorted(path.stem for path in PAGES.glob("*.html"))


async def see_words(page: "Page") -> tuple[VisibleWord, ...]:
    """Return the words that are visible in the window: inside it, opaque, covered by nothing; of shadow roots too."""
    found = await page.evaluate(WORDS_JS)
    return tuple(VisibleWord(text=text, x_px=x, y_px=y) for text, x, y in found)


async def do_act(page: "Page", how: str, place: tuple[float, float], by_px: int = 0, settle_s: float = 1.2) -> None:
    """Move the mouse to a place, rest, and click or turn the wheel there."""
    steps = round(_MOVE_S / _STEP_S)
    start = await page.evaluate("window.lastPointer || [innerWidth / 2, innerHeight - 60]")
    for step in range(1, steps + 1):
        part = step / steps
        await page.mouse.move(*(begin + (end - begin) * part for begin, end in zip(start, place, strict=True)))
        await asyncio.sleep(_STEP_S)
    await page.evaluate("(at) => { window.lastPointer = at }", list(place))
    await asyncio.sleep(_REST_S)
    if how == "click":
        await page.mouse.click(*place)
    for _ in range(abs(by_px) // _WHEEL_PX if how == "scroll" else 0):
        await page.mouse.wheel(0, math.copysign(_WHEEL_PX, by_px))
        await asyncio.sleep(_STEP_S)
    await asyncio.sleep(settle_s)


async def record_acts(renderer: Renderer, name: str, folder: Path, pointer: str) -> tuple[Path, tuple[DoneAct, ...]]:
    """Record the acts of a page by Playwright, from the blank page on.

    Args:
        renderer: Browser whose Playwright was started with `take_ffmpegs_place`, or has its own FFmpeg.
        name: One of `page_names()`.
        folder: Folder of the video, NAME.webm, and of its acts, NAME.json; those that are there are used.
        pointer: One of `pointer_script.POINTERS`.
    """
    path, noted = folder / f"{name}.webm", folder / f"{name}.json"
    if noted.is_file():
        return path, tuple(map(_load_act, json.loads(noted.read_text("utf-8"))))
    html = (PAGES / f"{name}.html").read_text("utf-8")
    width, height = VIEWPORT_PX
    done = []
    size: Any = {"width": width, "height": height}
    more = {"record_video_dir": str(folder / "raw"), "record_video_size": size}
    async with renderer.context(SitePages({"index.html": html}), VIEWPORT_PX, **more) as context:
        await context.add_init_script(pointer_script(pointer))
        page = await context.new_page()
        await page.goto(ORIGIN)
        await asyncio.sleep(1.0)
        for how, given in await page.evaluate("JSON.parse(document.getElementById('acts').textContent)"):
            place = (width / 2, height / 2)
            if how != "scroll":
                box = await page.locator(given).bounding_box()
                place = (round(box["x"] + min(box["width"] / 2, 150)), round(box["y"] + box["height"] / 2))
            by_px = given if how == "scroll" else 0
            before = await see_words(page)
            await do_act(page, how, place, by_px)
            done.append(
                DoneAct(how=how, x_px=place[0], y_px=place[1], by_px=by_px, before=before, after=await see_words(page))
            )
        await asyncio.sleep(0.5)
        video = page.video
    assert video is not None
    await video.save_as(path)
    noted.write_text(json.dumps([asdict(act) for act in done]), "utf-8")
    return path, tuple(done)


def _load_act(facts: dict[str, Any]) -> DoneAct:
    words = {side: tuple(VisibleWord(**word) for word in facts.pop(side)) for side in ("before", "after")}
    return DoneAct(**facts, **words)


def write_form(video: Path, form: VideoForm, path: Path) -> Path:
    """Encode a video again at a constant frame rate, as a converter does; a file that is there is used."""
    if path.is_file():
        return path
    import io

    from PIL import Image

    images, times = [], []
    for frame in iter_frames(video, fps=_TICKS):
        buffer = io.BytesIO()
        Image.fromarray(frame.image).save(buffer, "JPEG", quality=95)
        images.append(buffer.getvalue())
        times.append(frame.timestamp_s)
    encode(images, times, times[-1] + 1.0, path, form)
    return path


def take_ffmpegs_place(folder: Path) -> None:
    """Make Playwright, started later by this process, use this module as its FFmpeg."""
    import playwright

    package = Path(playwright.__file__).parent / "driver" / "package"
    listed = json.loads((package / "browsers.json").read_text("utf-8"))["browsers"]
    revision = next(one["revision"] for one in listed if one["name"] == "ffmpeg")
    program = folder / f"ffmpeg-{revision}" / "ffmpeg-linux"
    program.parent.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).parents[2]
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" exec "{sys.executable}" -m {__spec__.name} "$@"\n', "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    os.environ["PLAYWRIGHT_BROWSERS_PATH"] = str(folder)


def _window(options: Mapping[str, str]) -> tuple[int, int]:
    """Return width and height from the filter `pad=WIDTH:HEIGHT:...`."""
    width, height = options["-vf"].removeprefix("pad=").split(":")[:2]
    return int(width), int(height)


def _encode_as_ffmpeg(arguments: Sequence[str]) -> None:
    """Encode the frames from standard input to the last argument, with the bit rate among the arguments."""
    av = require("av", "visual")
    options: Mapping[str, str] = dict(itertools.pairwise(arguments))
    with av.open(sys.stdin.buffer, format="matroska") as source, av.open(arguments[-1], "w") as target:
        stream = None
        last = -1
        for frame in source.decode(video=0):
            if stream is None:
                stream = target.add_stream("libvpx-vp9", rate=_TICKS, options=_VP9_OPTIONS)
                stream.width, stream.height = _window(options)
                stream.pix_fmt = "yuv420p"
                stream.bit_rate = int(options["-b:v"].removesuffix("k")) * 1000
                stream.codec_context.time_base = Fraction(1, _TICKS)
            time = float(frame.pts * frame.time_base) * _TICKS
            if time - last <= _MAX_LATE_TICKS:
                continue
            last = tick = max(round(time), last + 1)
            pixels = np.full((stream.height, stream.width, 3), 128, np.uint8)  # padded and cropped, not scaled
            image = frame.to_ndarray(format="rgb24")[: stream.height, : stream.width]
            pixels[: image.shape[0], : image.shape[1]] = image
            shown = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            shown.pts, shown.time_base = tick, Fraction(1, _TICKS)
            target.mux(stream.encode(shown))
        if stream is not None:
            target.mux(stream.encode(None))


if __name__ == "__main__":
    _encode_as_ffmpeg(sys.argv[1:])
