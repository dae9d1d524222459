"""Bring sliders and spinners to a value by the arrow keys, with the number that stands there as the measure."""

import re

import numpy as np

from apps.literal.field_boxes import find_inputs
from apps.literal.find_slider import Slider, find_sliders
from apps.literal.moves import Act, Already, Failed, Move, at
from apps.literal.progress import Progress
from apps.literal.screen import Screen, Sight
from apps.literal.work_steps import Slide
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs

_NUMBER = re.compile(r"[-−–一]?\d+(?:\.\d+)?")
_REACH_PX = 60
_MAX_NUDGES = 6
_SURE = 0.75
_MAX_PRESSES = 400


def read_number_beside(screen: Screen, slider: Slider, others: list[Slider]) -> float | None:
    """The number that stands nearest to a slider and not nearer to another one."""
    right = _read_lone(screen, _right_of(slider.box_px).clipped(screen.width, screen.height))
    if right is not None:
        return right
    ranked = []
    for line in screen.lines:
        number = _NUMBER.fullmatch(line.text.strip())
        gap = _gap(line.box_px, slider.box_px)
        if number is not None and gap <= _REACH_PX and _belongs(line.box_px, slider, others):
            ranked.append((gap, float(re.sub(r"[−–一]", "-", number[0]))))
    if ranked:
        return min(ranked)[1]
    return _read_below(screen, slider)


def _belongs(number: Box, slider: Slider, others: list[Slider]) -> bool:
    """Whether a number is a slider's own: of sliders below each other each has the one that stands under it."""
    middle = number.center[1]
    stacked = [other for other in others if other.box_px.overlap_x(slider.box_px) > 0 and not slider.is_vertical]
    if not stacked:
        return not any(_gap(number, other.box_px) < _gap(number, slider.box_px) for other in others)
    below = [other.box_px.center[1] for other in stacked if other.box_px.center[1] > slider.box_px.center[1]]
    return slider.box_px.center[1] < middle < min(below, default=middle + 1)


def _gap(one: Box, other: Box) -> float:
    return float(max(0, -one.overlap_x(other)) + max(0, -one.overlap_y(other)))


def _read_below(screen: Screen, slider: Slider) -> float | None:
    """A lone digit, which the detector of text may miss: what stands right below the slider's left half."""
    box = slider.box_px
    height = max(14, round(screen.text_height_px * 1.6))
    place = Box(box.left - 6, box.bottom, box.left + 48, box.bottom + height)
    return _read_lone(screen, place.clipped(screen.width, screen.height))


def _right_of(box: Box) -> Box:
    return Box(box.right + 2, box.top - 4, box.right + 48, box.bottom + 4)


def _read_lone(screen: Screen, place: Box) -> float | None:
    """The number that is all of the ink in a place."""
    ink = find_ink(screen.crop(place))
    rows = find_runs(ink.any(axis=1))
    if not rows:
        return None
    first, last = max(rows, key=lambda run: run[1] - run[0])
    columns = np.flatnonzero(ink[first:last].any(axis=0))
    tight = Box(place.left + int(columns[0]), place.top + first, place.left + int(columns[-1]) + 1, place.top + last)
    inside = ink[first:last, columns[0] : columns[-1] + 1]
    is_framed = min(inside[0].mean(), inside[-1].mean(), inside[:, 0].mean(), inside[:, -1].mean()) > 0.6
    if not 4 <= tight.height <= 40 or tight.width > 4 * tight.height or is_framed:
        return None
    crop = screen.crop(tight.padded(max(4, tight.height // 2), 1))
    text, confidence = screen.engine.read_crop(crop, scale=32 / tight.height, is_latin=True)
    number = _NUMBER.fullmatch(text.strip().replace("O", "0").replace("o", "0").replace("l", "1"))
    return float(re.sub(r"[−–一]", "-", number[0])) if number is not None and confidence > _SURE else None


def plan_slide(step: Slide, sight: Sight, progress: Progress) -> Move:
    """Press the handle and one arrow, see by how much the number changes, then press as often as it takes."""
    if step.is_spinner:
        return _plan_spinner(step, sight, progress)
    screen = sight.now
    sliders = find_sliders(screen)
    nudges = progress.count("nudge")
    if nudges and progress.last == "nudge" and not sliders:  # the ring of the focus hides it
        return Act(code=("pyautogui.press('tab')", "time.sleep(0.1)"), thought="I look again.", phase="part")
    if not sliders or (step.number is None and len(sliders) > 1) or (step.number or 1) > len(sliders):
        return Failed(reason=f"{step}: I see {len(sliders)} of these")
    index = (step.number or 1) - 1
    shown = _read(screen, index)
    if shown == step.value:
        return Already(thought=f"It stands at {shown:g}.")
    if nudges >= _MAX_NUDGES or (shown is None and nudges):
        return Failed(reason=f"{step}: no number beside it tells that it stands there; I read {shown}")
    key = "right" if shown is None or step.value > shown else "left"
    if not nudges:
        focus = f"pyautogui.click({at(screen, sliders[index].handle.center)})"
        code = (focus, f"pyautogui.press('{key}')", "time.sleep(0.1)")
        return Act(code=code, thought=f"It stands at {shown}; I try one step.", phase="nudge")
    earlier = sight.back(2 if progress.last == "part" else 1)
    before = _read(earlier, index) if earlier is not None else None
    width = abs(shown - before) if before is not None and shown is not None and nudges == 1 else 0.0
    presses = round(abs(step.value - (shown or 0.0)) / width) if width else 1
    press = f"pyautogui.press('{key}', presses={min(max(presses, 1), _MAX_PRESSES)})"
    back = ("pyautogui.hotkey('shift', 'tab')",) if progress.last == "part" else ()
    return Act(code=(*back, press, "time.sleep(0.1)"), thought=f"It stands at {shown}.", phase="nudge")


def _plan_spinner(step: Slide, sight: Sight, progress: Progress) -> Move:
    """Type the number, leave the field, read it back."""
    if progress.count("type"):
        boxes = find_inputs(sight.before) if sight.before is not None else []
        shown = _read_field(sight.now, boxes[0]) if len(boxes) == 1 else None
        if shown == step.value:
            return Already(thought=f"It shows {shown:g}.")
        return Failed(reason=f"{step}: after I typed it, the field does not show it; I read {shown}")
    boxes = find_inputs(sight.now)
    if len(boxes) != 1:
        return Failed(reason=f"{step}: I see {len(boxes)} fields")
    where = at(sight.now, (boxes[0].left + 0.3 * boxes[0].width, boxes[0].center[1]))
    typing = (f"pyautogui.click({where})", "pyautogui.hotkey('ctrl', 'a')", f"pyautogui.write('{step.value:g}')")
    return Act(code=(*typing, "pyautogui.press('tab')", "time.sleep(0.1)"), thought="I type it.", phase="type")


def _read(screen: Screen, index: int) -> float | None:
    sliders = find_sliders(screen)
    if index >= len(sliders):
        return None
    return read_number_beside(screen, sliders[index], [other for other in sliders if other is not sliders[index]])


def _read_field(screen: Screen, box: Box) -> float | None:
    """The number that a field holds; its arrows at the right are no part of it."""
    for line in screen.lines_in(box):
        number = _NUMBER.fullmatch(line.text.strip())
        if number is not None and line.confidence > _SURE:
            return float(re.sub(r"[−–一]", "-", number[0]))
    return _read_lone(screen, Box(box.left + 3, box.top + 2, box.left + round(0.6 * box.width), box.bottom - 2))
