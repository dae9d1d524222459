"""The steps on frames that are drawn here."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.recording.changes import FrameFacts, RecordingScan
from apps.video2web.recording.easing import CURVES, ease, fit_easing, measure_progress
from apps.video2web.recording.frames import find_browser_bar, find_letterbox
from apps.video2web.recording.join_changes import join_late
from apps.video2web.recording.kinds import compare_edges, find_dialog
from apps.video2web.recording.motion import find_fold, find_push, find_slide
from apps.video2web.recording.pointer import PointerTracker
from apps.video2web.recording.scrolling import FixedParts, PageCanvas, find_shift
from apps.video2web.recording.transitions import MeasuredChange
from visual_tools.box import Box

Pixels = NDArray[np.uint8]


def draw_page(height: int = 1000, width: int = 480) -> Pixels:
    image = Image.new("RGB", (width, height), (250, 248, 240))
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(15)
    for row in range(height // 40):
        draw.text(
            (30 + 7 * (row % 5), 40 * row + 10), f"Line {row * row} of {row * 37 % 101} words", (30, 30, 40), font
        )
    return np.asarray(image)


def grey(image: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(image).convert("L"))


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_its_start_and_its_length_are_found(name: str) -> None:
    times = np.arange(0, 2, 0.04)
    fit = fit_easing(times.tolist(), ease(name, np.clip((times - 0.53) / 0.8, 0, 1)).tolist())
    assert fit.easing == name
    assert fit.start_s == pytest.approx(0.53, abs=0.04)
    assert fit.duration_s == pytest.approx(0.8, rel=0.08)


def test_a_change_without_frames_in_between_has_no_length() -> None:
    fit = fit_easing([0.0, 0.04, 0.08, 0.12], [0.0, 0.0, 1.0, 1.0])
    assert (fit.start_s, fit.duration_s, fit.easing) == (0.08, 0.0, "")


def test_progress_of_a_fade_and_of_an_edge_that_moves() -> None:
    before, after = np.full((20, 100, 3), 250, np.uint8), np.full((20, 100, 3), 50, np.uint8)
    fades = [np.full((20, 100, 3), level, np.uint8) for level in (250, 200, 100, 50)]
    assert measure_progress(fades, before, after) == pytest.approx([0, 0.25, 0.75, 1])
    edges = []
    for column in (0, 25, 75, 100):
        edge = before.copy()
        edge[:, :column] = 50
        edges.append(edge)
    assert measure_progress(edges, before, after) == pytest.approx([0, 0.25, 0.75, 1])


@pytest.mark.parametrize("shift", [7, 53, -21, 160])
def test_scrolling_is_found_below_a_fixed_header(shift: int) -> None:
    page = draw_page()
    frames = [page[300:700].copy(), page[300 + shift : 700 + shift].copy()]
    for frame in frames:
        frame[:44] = (40, 60, 90)
        frame[12:30, 20:400:3] = 240
    assert find_shift(grey(frames[0]), grey(frames[1])) == shift


def draw_cards() -> Pixels:
    """A heading and four cards of one height, 240 px apart, whose texts differ."""
    image = Image.new("RGB", (1000, 1160), (251, 253, 248))
    draw, title, text = ImageDraw.Draw(image), *(ImageFont.truetype("DejaVuSans.ttf", size) for size in (24, 16))
    draw.text((40, 90), "Month by month", (32, 48, 32), title)
    for number, (name, line) in enumerate(
        (
            ("March: sharpen and wait", "The soil is cold, so oil the shears and draw plans."),
            ("April: sow the hardy ones", "Peas, broad beans and spinach do not mind a late frost."),
            ("May: everything at once", "Plant out, weed, water, and sleep less than usual."),
            ("June: pick and share", "Lettuce does not keep, neighbours are grateful."),
        )
    ):
        top = 160 + 240 * number
        draw.rectangle((40, top, 900, top + 210), (232, 241, 225))
        draw.text((68, top + 30), name, (32, 48, 32), title)
        draw.text((68, top + 80), line, (32, 48, 32), text)
    return np.asarray(image)


@pytest.mark.parametrize("shift", [20, -20, 40, -40, -100])
def test_scrolling_along_equal_cards_is_not_off_by_one_of_them(shift: int) -> None:
    page, found = draw_cards(), {}
    for top in range(100, 420, 20):
        frames = [page[row : row + 640].copy() for row in (top, top + shift)]
        for frame in frames:
            frame[:60] = (41, 87, 58)
            frame[20:40, 40:600:5] = 240
        found[top] = find_shift(grey(frames[0]), grey(frames[1]))
    assert found == dict.fromkeys(found, shift)


def test_an_accordion_that_opens_is_no_scrolling() -> None:
    page = draw_page()[:400]
    opened = page.copy()
    opened[280:] = page[200:320]
    opened[200:280] = 255
    assert find_shift(grey(page), grey(opened)) == 0
    mask = (page != opened).any(axis=2)
    assert find_push(page[200:], opened[200:], mask[200:]) == 80
    first, end = find_fold(page[200:], opened[200:], mask[200:]) or (0, 0)
    assert end - first == 80 and first <= 20
    assert find_fold(opened[200:], page[200:], mask[200:]) == (first, end)
    assert find_fold(page[200:], page[200:], mask[200:]) is None


@pytest.mark.parametrize("step", [7, -16])
def test_a_dialog_that_moves_over_a_page_is_no_scrolling(step: int) -> None:
    page, dialog, rng = draw_page()[:600], draw_page()[40:300, 20:440], np.random.default_rng(1)
    frames = []
    for top, light in ((150, 0.4), (150 - step, 0.45)):  # the veil goes on, and an encoder adds its noise
        frame = light * page
        frame[top : top + 260, 30:450] = dialog
        frames.append(np.clip(frame + rng.normal(0, 2, frame.shape), 0, 255).astype(np.uint8))
    assert find_shift(grey(frames[0]), grey(frames[1])) == 0
    assert find_shift(grey(dialog), grey(np.roll(dialog, -step, axis=0))) == step


def test_fixed_parts_are_found_and_left_out_of_the_stitched_page() -> None:
    page, parts = draw_page(), FixedParts()
    frames = []
    for top in range(0, 500, 50):
        frame = page[top : top + 400].copy()
        frame[:48] = (20, 40, 80)
        frame[16:32, 20:460:4] = 230
        frames.append(frame)
    for first, second in itertools.pairwise(frames):
        parts.vote(grey(first), grey(second), 50)
    sides = parts.find_sides()
    assert sides.keys() == {"top"}
    assert sides["top"] == pytest.approx(48, abs=3)
    canvas = PageCanvas(frames[0])
    canvas.fix(sides)
    for number, frame in enumerate(frames):
        canvas.paste(frame, 50 * number)
    assert canvas.image.shape == (850, 480, 3)
    assert np.array_equal(canvas.image[48:], page[48:850])


def test_a_fixed_header_ends_where_the_page_begins_to_move() -> None:
    page, parts = draw_page(), FixedParts()
    header = np.full((54, 480, 3), 255, np.uint8)
    header[12:30, 20:90] = header[12:30, 380:460] = 40  # below it, padding and a pale line
    header[53] = 232
    frames = [np.concatenate([header, page[offset + 54 : offset + 300]]) for offset in range(0, 400, 45)]
    for before, after in itertools.pairwise(frames):
        parts.vote(grey(before), grey(after), 45)
    assert parts.find_sides() == {"top": 54}


def test_a_drawn_pointer_is_followed() -> None:
    page, tracker = draw_page(300), PointerTracker()
    before: Pixels | None = None
    for x, y in ((200, 100), (260, 140), (330, 190), (330, 190)):
        image = Image.fromarray(page)
        arrow = [
            (x, y),
            (x, y + 16),
            (x + 4, y + 13),
            (x + 6, y + 18),
            (x + 9, y + 17),
            (x + 6, y + 12),
            (x + 11, y + 12),
        ]
        drawn = image.resize((4 * image.width, 4 * image.height))
        shape = [(4 * column, 4 * row) for column, row in [*arrow, arrow[0], arrow[1]]]
        ImageDraw.Draw(drawn).polygon(shape, fill=(255, 255, 255))
        ImageDraw.Draw(drawn).line(shape, fill=(0, 0, 0), width=5, joint="curve")
        frame = np.asarray(drawn.resize(image.size, Image.Resampling.BOX))
        changed = None if before is None else np.abs(frame.astype(int) - before).max(axis=2).astype(np.uint8)
        place = tracker.follow(grey(frame), changed)
        before = frame
        assert place == pytest.approx((x, y), abs=2)


def test_a_dialog_over_a_dimmed_page_and_a_theme() -> None:
    page = draw_page(400)
    dimmed = (page * 0.5).astype(np.uint8)
    dimmed[120:280, 120:360] = 255
    dialog = find_dialog(page, dimmed)
    assert dialog is not None
    assert dialog.intersection(Box(120, 120, 360, 280)) > 0.9 * dialog.area
    inverted = 255 - page
    assert find_dialog(page, inverted) is None
    assert compare_edges(page, inverted) > 0.9
    assert compare_edges(page, draw_page()[417:817]) < 0.5


def test_contents_that_slide() -> None:
    page = np.roll(draw_page(200), 240, axis=1)
    belt = np.concatenate([page, 255 - page], axis=1)
    middle = [belt[:, at : at + 480] for at in (60, 150, 240)]
    assert find_slide(belt[:, :480], middle) == -240
    assert find_slide(belt[:, :480], [belt[:, :480]] * 3) == 0


def test_bars_of_a_film_are_cut_off_and_margins_of_a_page_are_not() -> None:
    page = draw_page(300)
    boxed = np.zeros((360, 480, 3), np.uint8)
    boxed[30:330] = page
    assert find_letterbox([boxed, boxed]) == Box(0, 30, 480, 330)
    assert find_letterbox([page, page]) == Box(0, 0, 480, 300)
    dark = page.copy()
    dark[:40] = 0
    assert find_letterbox([dark, dark]) == Box(0, 0, 480, 300)


def test_a_browser_is_known_by_its_address() -> None:
    image = Image.new("RGB", (640, 400), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 639, 75), fill=(222, 225, 230))
    draw.rectangle((90, 40, 560, 68), fill=(255, 255, 255))
    draw.text((104, 45), "https://plants.example.org/ferns", (40, 40, 40), ImageFont.load_default(16))
    draw.text((40, 120), "Plants for your flat", (20, 20, 20), ImageFont.load_default(26))
    frame = np.asarray(image)
    assert find_browser_bar([frame, frame]) == pytest.approx(76, abs=2)
    assert find_browser_bar([draw_page(400)]) == 0


@pytest.mark.parametrize("shape", ["hand", "dot"])
def test_a_pointer_that_is_no_arrow_is_learned_from_its_way(shape: str) -> None:
    page, tracker = draw_page(300), PointerTracker()
    frames: list[Pixels] = []
    places = [(60, 40)] * 2 + [(60 + 18 * step, 40 + 9 * step) for step in range(1, 12)] + [(258, 139)] * 3
    for x, y in places:
        drawn = Image.fromarray(page)
        draw = ImageDraw.Draw(drawn)
        if shape == "dot":
            draw.ellipse((x - 11, y - 11, x + 11, y + 11), (226, 120, 135), (226, 62, 87), 2)
        else:
            outline = [(0, 0), (3, 0), (4, 9), (12, 12), (10, 22), (0, 22), (-7, 13), (-4, 11), (0, 14)]
            draw.polygon([(x + right, y + down) for right, down in outline], (255, 255, 255), (0, 0, 0))
        frames.append(np.asarray(drawn))
        changed = np.abs(frames[-1].astype(int) - frames[-2]).max(axis=2).astype(np.uint8) if frames[1:] else None
        tracker.follow(grey(frames[-1]), changed, grey(frames[max(len(frames) - 5, 0)]))
    assert tracker.place == pytest.approx((258, 139), abs=4)


@pytest.mark.long
def test_what_blinks_or_grows_is_no_pointer() -> None:
    page, tracker = draw_page(300), PointerTracker()
    last = page
    for step in range(12):
        frame = page.copy()
        frame[100 : 110 + 4 * step, 200:230] = (30, 60, 200)
        frame[20:40, 20:40] = 255 * (step % 2)
        tracker.follow(grey(frame), np.abs(frame.astype(int) - last).max(axis=2).astype(np.uint8), grey(page))
        last = frame
    assert tracker.place is None


def test_the_last_pixels_of_a_motion_that_come_late_are_not_another_change() -> None:
    lines = draw_page()
    looks = [lines[300 - rows : 600 - rows] for rows in (0, 8, 11)]
    box, fit = Box(0, 0, 480, 300), fit_easing([0.0, 0.04], [0.0, 1.0])
    first, late = (
        MeasuredChange(
            start=at, end=at, box=box, page_box=box, before=before, after=after, middle=[],
            mask=(before != after).any(2), fit=fit, seen_s=(0.04 * at, 0.04 * at), is_scrolling=False,
        )
        for at, (before, after) in zip((10, 40), itertools.pairwise(looks), strict=True)
    )  # fmt: skip
    moments = tuple(
        FrameFacts(
            time_s=0.04 * at, pointer_px=(9, 9), pointer_box=None, scroll_px=0, shift_px=0, is_idle=at not in (10, 40)
        )
        for at in range(50)
    )  # fmt: skip
    scan = RecordingScan(moments=moments, changes=(), fixed={})
    assert len(join_late([first, late], scan)) == 1
    other = replace(late, after=np.flipud(late.before), mask=np.ones((300, 480), np.bool_))
    assert len(join_late([first, other], scan)) == 2
