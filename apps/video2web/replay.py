"""Replay of recorded interactions on our page in a browser, filmed and compared: act, end state, duration and curve.

An interaction is present when the act changes the region that changed in the recording, and the region is then closer
to the recorded end than the midpoint between recorded start and end. Duration and easing are measured on the frames of
Chromium's screencast, as they were measured on the recording. What a reader would miss in the end state costs as on a
page.
"""

import asyncio
import base64
import functools
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from apps.video2web.interactions import MAX_INTERACTIONS, Interaction, PageAction
from apps.video2web.layout.reading import read_page
from apps.video2web.losses import LostContent, SeenPage, find_losses, words_of_lines
from apps.video2web.pixels import RgbImage
from apps.video2web.recording.easing import ease, fit_easing, hold_frames, measure_progress
from apps.video2web.render import Renderer, Site, open_page
from cua.errors import CuaError
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images.files import load_image
from visual_tools.ocr import TextLine

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

END_SHARE, DURATION_SHARE, EASING_SHARE = 0.8, 0.15, 0.05
"""Weights of a present interaction: its end state, its duration and its curve; documented in docs/web.md, "The score".
"""

# No measurement is recorded for these limits; each comment states what it trades off.
_MIN_CLOSENESS = 0.5  # the end must be nearer to the recorded end than to the recorded start
_MIN_CHANGE = 0.6  # mean levels of 255; below it (or a quarter of a fainter recorded change) nothing changed
_REDUCED = 4  # factor of the reduction before comparison: tolerates shifts of a pixel or two
_AT_ONCE = 3  # pages at a time; more slow the animations down on two processors
_SETTLE_S, _MAX_WAIT_S, _LIMIT_S = 0.25, 2.0, 20.0  # pause after an action, longest recorded duration, time per replay
_MAX_FRAMES, _MAX_DECODED = 150, 40  # memory limit of a recording; frames that are compared
_QUALITY = 85  # of the JPEG frames; lower values add noise to the measured progress
_SURE_S = 0.25  # shorter durations are compared as if they were this long
_CURVE_SPAN = 0.25  # mean distance at which curves count as entirely different
_KEY_MS = 15
_NOTHING = "nothing happens"
_GUESSED = "no pointer is seen, so the place of the click is a guess"
_POINTER_PX = -8, -8, 20, 28  # what a pointer covers, from its tip
_FRAME_PX = 10  # space around text at the edge of a box improves recognition
_CONTROLS_JS = """() => {
  const found = [];
  const walk = (root) => root.querySelectorAll('*').forEach((element) => {
    if (element.shadowRoot) walk(element.shadowRoot);
    if (!element.matches('input, textarea, select')
      || !element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) return;
    const box = element.getBoundingClientRect();
    const top = root.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    if (!top || top === element) found.push([box.left, box.top, box.right, box.bottom].map(Math.round));
  });
  walk(document);
  return found;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Result of replaying an interaction on our page.

    Attributes:
        interaction: Replayed interaction.
        is_present: True if the page does the same.
        why: Reason why it does not count; "" if it does.
        duration_s: Duration on our page; None if not compared.
        easing: Easing on our page; "" if unknown.
        losses: What a reader would miss in the end state.
    """

    interaction: Interaction
    is_present: bool
    why: str = ""
    duration_s: float | None = None
    easing: str = ""
    losses: LostContent = field(default_factory=LostContent)

    @property
    def score(self) -> float:
        """Score: 0 if absent, else 0.8, plus up to 0.15 for the duration and 0.05 for the curve, times what is kept."""
        if not self.is_present:
            return 0.0
        lasts = compare_durations(self.interaction.duration_s, self.duration_s)
        eases = compare_curves(self.interaction.easing, self.easing)
        kept = 1.0 if self.losses.kept is None else self.losses.kept
        return kept * (END_SHARE + DURATION_SHARE * lasts + EASING_SHARE * eases)


def compare_durations(theirs_s: float, ours_s: float | None) -> float:
    """Return 1 for equal durations, 0 if they differ by the recorded one or more; 1 if not compared."""
    if ours_s is None:
        return 1.0
    return max(0.0, 1 - abs(ours_s - theirs_s) / max(theirs_s, _SURE_S))


def compare_curves(theirs: str, ours: str) -> float:
    """Return 1 for equal curves, less the farther apart they are; 1 if one of them is unknown."""
    if not (theirs and ours):
        return 1.0
    parts = np.linspace(0, 1, 41)
    return max(0.0, 1 - float(np.abs(ease(theirs, parts) - ease(ours, parts)).mean()) / _CURVE_SPAN)


def score_replays(replays: Sequence[Replay]) -> float | None:
    """Return the mean score of the interactions; None if none was recorded."""
    return sum(each.score for each in replays) / len(replays) if replays else None


async def replay(
    renderer: Renderer,
    site: Site,
    interactions: Sequence[Interaction],
    names: Sequence[str],
    viewport_px: tuple[int, int],
) -> tuple[Replay, ...]:
    """Replay the recorded interactions on a site, each on a fresh page.

    Args:
        renderer: Browser that shows the site.
        site: Files of the site.
        interactions: Recorded interactions; those that cannot be replayed are absent.
        names: File names of the pages.
        viewport_px: Width and height of the viewport.
    """
    places = asyncio.Semaphore(_AT_ONCE)
    ends: dict[int, EndState] = {}

    async def try_twice(interaction: Interaction) -> Replay:
        why = interaction.lost or (_GUESSED if interaction.is_guess else "")
        if why:
            return _absent(interaction, why)
        done = await try_one(interaction)  # a browser under load may have missed the act
        return await try_one(interaction) if done.why == _NOTHING else done

    async def try_one(interaction: Interaction) -> Replay:
        try:
            async with places, asyncio.timeout(_LIMIT_S + interaction.wait_s):
                recording = await _play(renderer, site, interaction, names[interaction.page], viewport_px)
        except (CuaError, TimeoutError) as error:
            return _absent(interaction, str(error) or "the page hangs")
        done = await asyncio.to_thread(compare_recording, interaction, recording)
        end = _end_of(interaction, recording)
        if done.is_present and end is not None:
            ends[id(interaction)] = end
        return done

    done = list(await asyncio.gather(*(try_twice(interaction) for interaction in interactions)))
    for number, each in enumerate(done):  # afterwards: reading text would slow the animations down
        end = ends.get(id(each.interaction))
        if end is not None:
            done[number] = replace(each, losses=await asyncio.to_thread(end.find_losses))
    return tuple(done)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndState:
    """End state of an interaction, recorded and ours.

    Attributes:
        recorded: (H, W, 3) uint8 RGB.
        ours: The same.
        controls: Boxes of our form controls.
        place_px: Left and upper edge on the page.
    """

    recorded: RgbImage
    ours: RgbImage
    controls: tuple[Box, ...]
    place_px: tuple[int, int]

    def find_losses(self) -> LostContent:
        """Return what a reader of our state would miss; words are those that OCR reads."""
        found = find_losses(_read_seen(self.recorded), _read_seen(self.ours, self.controls))
        marks, images, controls = (
            tuple(box.moved(*self.place_px) for box in boxes) for boxes in (found.marks, found.images, found.controls)
        )
        return replace(found, marks=marks, images=images, controls=controls)


@dataclass(slots=True)
class Recording:
    """Window before and after an act, and the frames in between, still compressed.

    Attributes:
        before: (H, W, 3) uint8 RGB.
        after: The same once the page is at rest.
        whole: Then the whole page, for a recorded state that is higher than the window; None otherwise.
        controls: Then the boxes of the form controls, in the window.
        times_s: Time of each frame since the act.
        frames: JPEG files.
        scrolls_px: Scroll offset of each frame.
    """

    before: RgbImage
    after: RgbImage
    times_s: list[float] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    scrolls_px: list[float] = field(default_factory=list)
    whole: RgbImage | None = None
    controls: tuple[Box, ...] = ()

    def crops(self, box: Box) -> list[RgbImage]:
        """Return a region of all frames, (h, w, 3) uint8 RGB each."""
        area = (box.left, box.top, box.right, box.bottom)
        return [np.asarray(Image.open(io.BytesIO(frame)).convert("RGB").crop(area)) for frame in self.frames]

    def thinned(self, end_s: float) -> "Recording":
        """Return the frames until a time, thinned to a number that can be decoded."""
        kept = [number for number, at in enumerate(self.times_s) if at <= end_s]
        return self._only(kept[:: max(-(-len(kept) // _MAX_DECODED), 1)])

    def at_rest(self) -> "Recording":
        """Return the frames with the same scroll offset as the last one."""
        return self._only([number for number, row in enumerate(self.scrolls_px) if abs(row - self.scrolls_px[-1]) < 1])

    def _only(self, kept: Sequence[int]) -> "Recording":
        return replace(
            self,
            times_s=[self.times_s[number] for number in kept],
            frames=[self.frames[number] for number in kept],
            scrolls_px=[self.scrolls_px[number] for number in kept],
        )


async def _play(
    renderer: Renderer, site: Site, interaction: Interaction, name: str, viewport_px: tuple[int, int]
) -> Recording:
    """Replay an interaction and film it."""
    from playwright.async_api import Error

    try:
        async with renderer.context(site, viewport_px) as context:
            opened = await open_page(context, f"/{name}")
            page = opened.page
            for act in interaction.acts[:-1]:
                await _do(page, act)
                await _settle(page, _SETTLE_S)
            if interaction.act.trigger in ("hover", "click", "type"):
                await _point(page, interaction.act, is_away=interaction.act.trigger == "hover")
            if interaction.act.trigger != "wait":
                await _settle(page, _SETTLE_S)
            recording = Recording(load_image(await page.screenshot()), np.zeros((1, 1, 3), np.uint8))
            if interaction.duration_s or interaction.act.trigger in ("wait", "scroll"):
                await _start_filming(context, page, recording)
            await _do(page, interaction.act)
            await _settle(page, interaction.wait_s + min(interaction.duration_s, _MAX_WAIT_S) + _SETTLE_S)
            recording.after = load_image(await page.screenshot())
            recording.controls = tuple(Box(*edges) for edges in await opened.look(_CONTROLS_JS))
            end = _whole_end(interaction)
            if end is not None and len(end) > len(recording.after):
                await opened.photograph()  # elements that appear when scrolled into view appear now
                await _settle(page, _SETTLE_S)
                recording.whole = await opened.photograph()
            return recording
    except Error as error:
        raise CuaError(error.message.splitlines()[0]) from error


async def _start_filming(context: "BrowserContext", page: "Page", recording: Recording) -> None:
    from playwright.async_api import Error

    session = await context.new_cdp_session(page)
    began = time.time()
    sent: set[asyncio.Task[None]] = set()

    async def acknowledge(number: int) -> None:
        try:
            await session.send("Page.screencastFrameAck", {"sessionId": number})
        except Error:  # the page is gone
            return

    def take(event: dict[str, Any]) -> None:
        if len(recording.frames) < _MAX_FRAMES:
            recording.times_s.append(float(event["metadata"].get("timestamp") or time.time()) - began)
            recording.frames.append(base64.b64decode(event["data"]))
            recording.scrolls_px.append(float(event["metadata"].get("scrollOffsetY") or 0))
        task = asyncio.ensure_future(acknowledge(event["sessionId"]))
        sent.add(task)
        task.add_done_callback(sent.discard)

    session.on("Page.screencastFrame", take)
    await session.send("Page.startScreencast", {"format": "jpeg", "quality": _QUALITY})


async def _point(page: "Page", act: PageAction, *, is_away: bool) -> None:
    await page.evaluate("top => window.scrollTo(0, top)", act.scroll_px)
    await page.mouse.move(*((0, 0) if is_away else (act.x_px, act.y_px)))


async def _do(page: "Page", act: PageAction) -> None:
    if act.trigger == "wait":
        return
    if act.trigger == "scroll":
        await page.evaluate("top => window.scrollTo({top, behavior: 'instant'})", act.scroll_px)
        return
    await _point(page, act, is_away=False)
    if act.trigger in ("click", "type"):
        await page.mouse.down()
        await page.mouse.up()
    if act.trigger == "type":
        await page.keyboard.type(act.text, delay=_KEY_MS)


async def _settle(page: "Page", seconds: float) -> None:
    await page.wait_for_timeout(1000 * seconds)
    await page.wait_for_load_state("load")


def compare_recording(interaction: Interaction, recording: Recording) -> Replay:
    """Judge whether the window changed as recorded, and how fast.

    Args:
        interaction: Recorded interaction.
        recording: Film of our window.
    """
    box = interaction.box_px.clipped(recording.before.shape[1], recording.before.shape[0])
    recording = recording.thinned(interaction.wait_s + min(interaction.duration_s, _MAX_WAIT_S) + _SETTLE_S + 0.5)
    if interaction.act.trigger == "wait" or interaction.kind == "reveal":
        return _compare_by_itself(interaction, recording, box)
    result = compare_change(interaction, recording.before, recording.after)
    if not (result.is_present and interaction.duration_s and recording.frames) or interaction.act.trigger in (
        "type",
        "scroll",
    ):
        return result
    ends = [image[box.slices] for image in (recording.before, recording.after)]
    crops = [ends[0], *recording.crops(box), ends[1]]
    times = [-0.02, *recording.times_s, max(recording.times_s[-1], 0.0) + 0.04]
    if any(crop.shape != ends[0].shape for crop in crops):
        return result
    # the screencast sends frames only on changes
    fit = fit_easing(*hold_frames(times, measure_progress(crops, *ends), gap_s=0.06, before_s=0.02))
    return replace(result, duration_s=round(fit.duration_s, 3), easing=fit.easing)


def _compare_by_itself(interaction: Interaction, recording: Recording, box: Box) -> Replay:
    """Judge a change without an act: it must be absent first and appear later."""
    crops = recording.at_rest().crops(box)
    if not crops:
        return _absent(interaction, _NOTHING)
    closeness = [_closeness(interaction, crop) for crop in [*crops, recording.after[box.slices]]]
    first = next((number for number, value in enumerate(closeness) if value < _MIN_CLOSENESS), None)
    if first is None:
        return _absent(interaction, "it is there from the start")
    if max(closeness[first:]) < _MIN_CLOSENESS:
        return _absent(interaction, "it does not come")
    return Replay(interaction=interaction, is_present=True)


def _whole_end(interaction: Interaction) -> RgbImage | None:
    """Return the whole recorded state; None for a window that is scrolled, in which a header may hide other rows."""
    return None if any(act.scroll_px for act in interaction.acts) else interaction.end_page


def _end_of(interaction: Interaction, recording: Recording) -> EndState | None:
    """Return the end state to compare; None for what is compared as a page, and for what has gone again."""
    if interaction.act.trigger == "scroll" or interaction.leads_to is not None:
        return None
    box = interaction.box_px.clipped(recording.after.shape[1], recording.after.shape[0])
    if _closeness(interaction, recording.after[box.slices]) < _MIN_CLOSENESS:
        return None
    whole = _whole_end(interaction)
    recorded, left, top = (interaction.after, box.left, box.top) if whole is None else (whole, 0, 0)
    ours = (recording.after if recording.whole is None else recording.whole)[top:, left:]
    height, width = (min(sides) for sides in zip(recorded.shape[:2], ours.shape[:2], strict=True))
    recorded, ours = recorded[:height, :width].copy(), np.ascontiguousarray(ours[:height, :width])
    if interaction.act.trigger != "wait":  # what the pointer covers is not known
        x, y = interaction.act.x_px - left, interaction.act.y_px - top
        hidden = Box(*_POINTER_PX).moved(x, y).clipped(width, height)
        recorded[hidden.slices] = ours[hidden.slices]
    controls = (control.moved(-left, -top) for control in recording.controls)
    seen = tuple(control for control in controls if Box(0, 0, width, height).contains(control))
    return EndState(recorded=recorded, ours=ours, controls=seen, place_px=(left, top + interaction.act.scroll_px))


def _read_seen(image: RgbImage, controls: Sequence[Box] = ()) -> SeenPage:
    lines = _read_lines(_pack(image))
    return SeenPage(image=image, words=words_of_lines(lines), lines=lines, controls=controls)


@functools.lru_cache(maxsize=4 * MAX_INTERACTIONS)
def _read_lines(png: bytes) -> tuple[TextLine, ...]:
    """Return the lines of an image; a state looks the same in every round."""
    sides = (_FRAME_PX, _FRAME_PX)
    lines = read_page(np.pad(load_image(png), (sides, sides, (0, 0)), mode="edge"))
    return tuple(line.moved(-_FRAME_PX, -_FRAME_PX) for line in lines)


def _pack(image: RgbImage) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def compare_change(interaction: Interaction, before: RgbImage, after: RgbImage) -> Replay:
    """Judge whether the window changed as recorded.

    Args:
        interaction: Recorded interaction.
        before: Our window before the act, (H, W, 3).
        after: Our window after it.
    """
    box = interaction.box_px.clipped(before.shape[1], before.shape[0])
    if min(box.width, box.height, *interaction.after.shape[:2]) < 1:
        return _absent(interaction, "it lies outside of the window")
    recorded = _distance(interaction.before, interaction.after)
    if _distance(before[box.slices], after[box.slices]) < min(_MIN_CHANGE, recorded / 4):
        return _absent(interaction, _NOTHING)
    if _closeness(interaction, after[box.slices]) < _MIN_CLOSENESS:
        return _absent(interaction, "it ends differently")
    return Replay(interaction=interaction, is_present=True)


def _absent(interaction: Interaction, why: str) -> Replay:
    return Replay(interaction=interaction, is_present=False, why=why)


def _closeness(interaction: Interaction, ours: RgbImage) -> float:
    """Return 1 if a region equals the recorded end, 0 if it is as far from it as the recorded start."""
    return 1 - _distance(ours, interaction.after) / max(_distance(interaction.before, interaction.after), 1e-6)


def _distance(first: RgbImage, second: RgbImage) -> float:
    """Return the mean difference of the common part of two crops, reduced to tolerate shifts of a pixel."""
    cv2 = require("cv2", "visual")
    height, width = min(len(first), len(second)), min(first.shape[1], second.shape[1])
    size = max(width // _REDUCED, 1), max(height // _REDUCED, 1)
    small = [
        cv2.resize(image[:height, :width], size, interpolation=cv2.INTER_AREA).astype(np.float32)
        for image in (first, second)
    ]
    return float(np.abs(small[0] - small[1]).mean())
