"""From recordings to facts, against what is known to happen in them.

    python -m benchmarks.video2web recordings [NAME ...] [--folder FOLDER]
    python -m benchmarks.video2web recordings --seeds 200-211 [--folder FOLDER]

Recordings are those of `benchmarks.web_recordings` (`scripts`), or are drawn from seeds (`drawn` there). They
are rendered again (ten to twenty seconds each) unless `--folder` holds them. A transition is found where one of
the same trigger or kind begins within 0.5 s and either overlaps the true box by half or has its middle in it.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from apps.video2web.recording import Storyboard, Transition, read_recording
from apps.video2web.render import Renderer
from benchmarks.web_recordings.drawn import draw_take
from benchmarks.web_recordings.filming import Recording, load_recording, record_take
from benchmarks.web_recordings.pointer_script import Happening
from benchmarks.web_recordings.scripts import record
from visual_tools.box import Box

START_S = 0.5
MIN_IOU = 0.5
_AROUND_PX = 6
VISIBLE_S = 0.2
"""Shorter ones have fewer than five frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    truth: Happening
    found: Transition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    matches: tuple[Match, ...]
    extra: tuple[Transition, ...]
    has_fixed: bool | None
    scroll_error: float | None
    seconds: float
    video_s: float

    @property
    def found(self) -> list[tuple[Happening, Transition]]:
        return [(match.truth, match.found) for match in self.matches if match.found is not None]


@dataclass(slots=True)
class Totals:
    rows: list[Row] = field(default_factory=list)

    def share(self, values: Sequence[bool]) -> str:
        return f"{sum(values)} of {len(values)} ({100 * sum(values) / max(len(values), 1):.0f} %)"


def overlap(first: Box, second: Box) -> float:
    common = first.intersection(second)
    return common / max(first.area + second.area - common, 1)


def match(truths: Sequence[Happening], found: Sequence[Transition]) -> tuple[tuple[Match, ...], tuple[Transition, ...]]:
    """Each true happening with the nearest transition that is in its place, each of those used once."""
    left, matches = list(found), []
    for truth in truths:
        box = Box(*truth.box_px)
        fits = [
            one
            for one in left
            if abs(one.start_s - truth.start_s) <= START_S
            and (one.kind == "scroll") == (truth.kind == "scroll")
            and (overlap(one.box_px, box) >= MIN_IOU or box.padded(_AROUND_PX).has_point(*one.box_px.center))
        ]
        best = min(fits, key=lambda one: (one.kind != truth.kind, abs(one.start_s - truth.start_s)), default=None)
        if best is not None:
            left.remove(best)
        matches.append(Match(truth=truth, found=best))
    return tuple(matches), tuple(left)


def measure(recording: Recording) -> Row:
    began = time.perf_counter()
    board = read_recording(recording.path)
    seconds = time.perf_counter() - began
    matches, extra = match(_seen(recording, board), board.transitions)
    return Row(
        name=recording.name,
        matches=matches,
        extra=extra,
        has_fixed=_has_fixed(recording, board),
        scroll_error=_scroll_error(recording, board),
        seconds=seconds,
        video_s=board.duration_s,
    )


def _seen(recording: Recording, board: Storyboard) -> list[Happening]:
    """What happens, in pixels of the storyboard, which cuts bars off and reduces large windows."""
    left, top = (
        bar - edge for bar, edge in zip(recording.bars_px, (board.crop_px.left, board.crop_px.top), strict=True)
    )
    moved = [(one, Box(*one.box_px).moved(left, top)) for one in recording.happenings]
    return [
        replace(one, box_px=tuple(round(edge * board.scale) for edge in (box.left, box.top, box.right, box.bottom)))
        for one, box in moved
    ]


def _has_fixed(recording: Recording, board: Storyboard) -> bool | None:
    if not recording.scrolled_px:
        return None
    sides = {side for state in board.states for side in state.fixed}
    return sides == set(recording.fixed)


def _scroll_error(recording: Recording, board: Storyboard) -> float | None:
    if not recording.scrolled_px:
        return None
    highest = max(len(state.full_page) - len(state.image) for state in board.states)
    return abs(highest / board.scale - recording.scrolled_px) / recording.scrolled_px


async def make_recordings(names: Sequence[str], seeds: Sequence[int], folder: Path) -> list[Recording]:
    made = []
    async with Renderer() as renderer:
        for name in names:
            path = folder / f"{name}.json"
            made.append(load_recording(path) if path.is_file() else await record(renderer, name, folder))
        for take in map(draw_take, seeds):
            path = folder / f"{take.name}.json"
            made.append(load_recording(path) if path.is_file() else await record_take(renderer, take, folder))
    return made


def tell(rows: Sequence[Row]) -> str:
    pairs = [pair for row in rows for pair in row.found]
    matches = [one for row in rows for one in row.matches]
    acts = [one for one in matches if one.truth.kind != "scroll"]
    told = [pair for pair in pairs if pair[0].kind != "scroll"]
    timed = [pair for pair in told if pair[0].duration_s >= VISIBLE_S and pair[0].kind != "typing"]
    errors = [abs(found.duration_s - truth.duration_s) / truth.duration_s for truth, found in timed]
    eased = [pair for pair in timed if pair[1].easing]
    scrolls = [one.found is not None for one in matches if one.truth.kind == "scroll"]
    fixed = [row.has_fixed for row in rows if row.has_fixed is not None]
    stitched = [row.scroll_error for row in rows if row.scroll_error is not None]
    share = Totals().share
    lines = [
        "| quantity | figure |",
        "|---|---|",
        f"| recordings | {len(rows)} of {sum(row.video_s for row in rows):.0f} s together |",
        f"| interactions found | {share([one.found is not None for one in acts])} |",
        f"| of the found ones, right kind | {share([truth.kind == found.kind for truth, found in told])} |",
        f"| of the found ones, right trigger | {share([truth.trigger == found.trigger for truth, found in told])} |",
        f"| duration within 20 % | {share([error <= 0.2 for error in errors])}, median error "
        f"{100 * statistics.median(errors or [0]):.0f} % |",
        f"| easing named correctly | {share([truth.easing == found.easing for truth, found in eased])} |",
        f"| scrolls found | {share(scrolls)} |",
        f"| fixed elements found, and nothing else | {share([bool(one) for one in fixed])} |",
        f"| height error of the stitched page | {100 * statistics.mean(stitched or [0]):.0f} % on average |",
        f"| false transitions | {sum(len(row.extra) for row in rows)} |",
        f"| seconds per recording | {statistics.mean(row.seconds for row in rows):.0f} on average, "
        f"{max(row.seconds for row in rows):.0f} at most |",
        "",
        "| recording | true | found | right kind | others | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        right = sum(truth.kind == found.kind for truth, found in row.found)
        lines.append(
            f"| {row.name} | {len(row.matches)} | {len(row.found)} | {right} | {len(row.extra)} | {row.seconds:.0f} |"
        )
    missed = [
        f"{row.name}: {one.truth.kind} at {one.truth.start_s:.1f} s"
        + ("" if one.found is None else f" taken for {one.found.kind}")
        for row in rows
        for one in row.matches
        if one.found is None or one.found.kind != one.truth.kind
    ]
    lines += ["", "Not found or taken for something else: " + ("; ".join(missed) or "none") + "."]
    others = [f"{row.name}: {one.kind} at {one.start_s:.1f} s" for row in rows for one in row.extra]
    lines += ["", "Found and not there: " + ("; ".join(others) or "none") + "."]
    return "\n".join(lines)


async def run_recordings(names: Sequence[str], seeds: Sequence[int], folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    with tempfile.TemporaryDirectory() as scratch:
        made = await make_recordings(names, seeds, folder or Path(scratch))
        print(tell([await asyncio.to_thread(measure, recording) for recording in made]))
