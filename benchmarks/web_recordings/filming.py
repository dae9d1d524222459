"""Pages are filmed while a hand works on them, with what happens in them known: what a pointer does, where and when.

A pointer is drawn into the page (recordings of a headless browser have none), the frames are those of Chromium's own
screencast, and they are encoded as Playwright encodes its videos: VP8 at a constant 25 frames a second.
"""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from apps.video2web.render import Renderer, SitePages, open_page
from benchmarks.web_recordings.pointer_script import Happening, PointerScript, pointer_script
from cua.errors import CuaError
from visual_tools.errors import require

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

FPS = 25
VIEWPORT_PX = (960, 600)
_VP8_OPTIONS = {"crf": "8", "qmin": "0", "qmax": "50", "deadline": "realtime", "speed": "8"}
_BIT_RATE = 1_000_000
"""Source: Playwright's videoRecorder.ts, the options it gives FFmpeg; so is the quality of the screencast's JPEGs."""
_QUALITY = 90
_H264_OPTIONS = {"crf": "23", "preset": "veryfast"}
_MAX_S = 60
_TICKS = 1000  # a second, of videos that show each frame when it came


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording and its truth.

    Attributes:
        name: Its name.
        path: The video.
        happenings: What happens, in order.
        fixed: Sides where something stays while the page scrolls.
        scrolled_px: How far down the page was seen, its first page alone; 0 where it never scrolls.
        bars_px: Black bars around the page, at the left and right, and above and below.
    """

    name: str
    path: Path
    happenings: tuple[Happening, ...]
    fixed: tuple[str, ...] = ()
    scrolled_px: int = 0
    bars_px: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoForm:
    """How frames become a video.

    Attributes:
        codec: `vp8` in WebM, as Playwright records, or `h264` in MP4, as screen recorders do.
        fps: Frames a second; None for each frame when it came.
        bars_px: Black bars at the left and right, and above and below.
    """

    codec: str = "vp8"
    fps: int | None = FPS
    bars_px: tuple[int, int] = (0, 0)

    @property
    def suffix(self) -> str:
        """Of the file."""
        return ".webm" if self.codec == "vp8" else ".mp4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """A recording to be made.

    Attributes:
        name: What it is called.
        pages: The site, by name.
        first: The page that it begins with.
        play: Moves the pointer.
        viewport_px: Size of the window.
        pointer: One of `hand.POINTERS`.
        px_per_s: How fast the pointer is moved.
        fixed: Sides where something stays while the page scrolls.
        form: How it is encoded.
    """

    name: str
    pages: Mapping[str, str]
    first: str
    play: "Callable[[PointerScript], Awaitable[None]]"
    viewport_px: tuple[int, int] = VIEWPORT_PX
    pointer: str = "arrow"
    px_per_s: float = 900.0
    fixed: tuple[str, ...] = ()
    form: VideoForm = VideoForm()


@dataclass
class _Frames:
    """The frames of a screencast as they come, still compressed, each with its time."""

    session: "CDPSession"
    times: list[float] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    _sent: list[asyncio.Future[None]] = field(default_factory=list)

    async def start(self, size_px: tuple[int, int]) -> None:
        self.session.on("Page.screencastFrame", self._take)
        await self.session.send(
            "Page.startScreencast",
            {"format": "jpeg", "quality": _QUALITY, "maxWidth": size_px[0], "maxHeight": size_px[1]},
        )

    def _take(self, event: dict[str, Any]) -> None:
        self.times.append(float(event["metadata"].get("timestamp") or time.time()))
        self.images.append(base64.b64decode(event["data"]))
        self._sent.append(asyncio.ensure_future(self._acknowledge(event["sessionId"])))

    async def _acknowledge(self, number: int) -> None:
        from playwright.async_api import Error

        with contextlib.suppress(Error):  # the page may be gone
            await self.session.send("Page.screencastFrameAck", {"sessionId": number})


async def record_take(renderer: Renderer, take: Take, folder: Path) -> Recording:
    """Make a video of what a hand does on a page.

    Args:
        renderer: A browser.
        take: What is recorded.
        folder: Where the video and its truth go, NAME.webm (or .mp4) and NAME.json.

    Raises:
        CuaError: The browser sent no frames.
    """
    width, height = take.viewport_px
    at = (width / 2, height - 40.0)
    async with renderer.context(SitePages(take.pages), take.viewport_px) as context:
        await context.add_init_script(pointer_script(take.pointer))
        page = (await open_page(context, take.first)).page
        await page.mouse.move(*at)
        frames = _Frames(await context.new_cdp_session(page))
        await frames.start(take.viewport_px)
        await asyncio.sleep(0.4)
        if not frames.times:
            raise CuaError("the browser sends no frames of its screen")
        hand = PointerScript(page, time.time(), at=at, px_per_s=take.px_per_s)
        frames.times[:], frames.images[:] = [time.time()], frames.images[-1:]
        await hand.wait(0.5)
        await take.play(hand)
        await hand.wait(0.4)
        end = time.time()
    path = folder / f"{take.name}{take.form.suffix}"
    times_s = [moment - hand.started_s for moment in frames.times]
    await asyncio.to_thread(encode, frames.images, times_s, end - hand.started_s, path, take.form)
    recording = Recording(
        name=take.name,
        path=path,
        happenings=tuple(sorted(hand.happenings, key=lambda one: one.start_s)),
        fixed=take.fixed,
        scrolled_px=hand.scrolled_px,
        bars_px=take.form.bars_px,
    )
    path.with_suffix(".json").write_text(
        json.dumps({**asdict(recording), "path": path.name}, indent=1), encoding="utf-8"
    )
    return recording


def load_recording(path: Path) -> Recording:
    """A recording made before, from its NAME.json."""
    stored = json.loads(path.read_text("utf-8"))
    happenings = tuple(Happening(**{**one, "box_px": tuple(one["box_px"])}) for one in stored.pop("happenings"))
    return Recording(
        name=stored["name"],
        path=path.with_name(stored["path"]),
        happenings=happenings,
        fixed=tuple(stored["fixed"]),
        scrolled_px=stored["scrolled_px"],
        bars_px=tuple(stored.get("bars_px", (0, 0))),
    )


def encode(
    images: Sequence[bytes], times_s: Sequence[float], end_s: float, path: Path, form: VideoForm = VideoForm()
) -> None:
    """Frames that came at any time as a video, in which each is shown until the next.

    Args:
        images: JPEG files.
        times_s: When each was taken, ascending.
        end_s: Length of the video.
        path: The file.
        form: How.
    """
    av = require("av", "visual")
    end_s = min(max(end_s, 0.04), _MAX_S)
    with av.open(str(path), "w") as container:
        first = _decode(images[0], form.bars_px)
        is_vp8 = form.codec == "vp8"
        stream = container.add_stream(
            "libvpx" if is_vp8 else "libx264", rate=form.fps or 30, options=_VP8_OPTIONS if is_vp8 else _H264_OPTIONS
        )
        stream.height, stream.width = first.shape[0] // 2 * 2, first.shape[1] // 2 * 2
        stream.pix_fmt = "yuv420p"
        if is_vp8:
            stream.bit_rate = _BIT_RATE
        tick = Fraction(1, form.fps or _TICKS)
        stream.codec_context.time_base = tick
        shown, pixels = 0, first
        for number, latest in _plan_shown(times_s, end_s, form.fps):
            if latest != shown:
                shown, pixels = latest, _decode(images[latest], form.bars_px)
            frame = av.VideoFrame.from_ndarray(
                np.ascontiguousarray(pixels[: stream.height, : stream.width]), format="rgb24"
            )
            frame.pts, frame.time_base = number, tick
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _plan_shown(times_s: Sequence[float], end_s: float, fps: int | None) -> Iterator[tuple[int, int]]:
    """Time of each frame of a video, in its ticks, and the number of the image that it shows."""
    if fps is None:
        last = -1
        for number, time_s in enumerate(times_s):
            tick = max(round(time_s * _TICKS), 0)
            if tick > last and time_s < end_s:
                yield tick, number
                last = tick
        if round(end_s * _TICKS) > last:
            yield round(end_s * _TICKS), len(times_s) - 1
        return
    shown = 0
    for number in range(max(round(end_s * fps), 1)):
        while shown + 1 < len(times_s) and times_s[shown + 1] <= number / fps:
            shown += 1
        yield number, shown


def _decode(image: bytes, bars_px: tuple[int, int]) -> NDArray[np.uint8]:
    across, down = bars_px
    pixels = np.asarray(Image.open(BytesIO(image)).convert("RGB"))
    return np.pad(pixels, ((down, down), (across, across), (0, 0))) if across or down else pixels
