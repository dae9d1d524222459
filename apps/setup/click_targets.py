"""Targets for the click test: drawn by somebody else, found in the screenshot, and clicked.

The whole coordinate path is walked: position in the image, fractions as text, `cua.gui_agent.interpreter.run`,
`ScreenGeometry`, `env.step`, the device, and back from whoever received the click.
"""

import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cua.gui_agent.interpreter import run
from envs import Env, EnvError, InstructionTask, Observation

TARGET_SIDE_PX = 9
_MAX_LOOKS = 20
_FRACTIONS = (
    (0.01, 0.02),
    (0.5, 0.02),
    (0.97, 0.02),
    (0.02, 0.5),
    (0.5, 0.5),
    (0.37, 0.73),
    (0.02, 0.96),
    (0.97, 0.96),
)

Point = tuple[float, float]
ReadHits = Callable[[int], Awaitable[Sequence[Point]]]
"""All clicks that arrived so far, in screen px; waits a bounded time until there are that many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A square of one colour: its middle in screen px, and the colour that nothing else on the screen has."""

    middle_px: Point
    rgb: tuple[int, int, int]


def make_targets(size_px: tuple[int, int]) -> tuple[Target, ...]:
    """Targets at the edges, in the middle and at odd places of a screen."""
    half = TARGET_SIDE_PX // 2
    return tuple(
        Target(middle_px=(round(x * size_px[0]) + half, round(y * size_px[1]) + half), rgb=(201, 17 + 23 * number, 67))
        for number, (x, y) in enumerate(_FRACTIONS)
    )


async def click_all(env: Env, targets: Sequence[Target], read_hits: ReadHits) -> list[float | None]:
    """Click each target once; returns for each the error in px, None where no click arrived.

    Args:
        env: A world that shows the targets.
        targets: What to click; `middle_px` is where the click should arrive.
        read_hits: Asks whoever is clicked.
    """
    seen = await _look_until_drawn(env, targets)
    errors: list[float | None] = []
    for target in targets:
        before = len(await read_hits(0))
        await env.step(run(_code_for(target, seen), seen.geometry))
        hits = (await read_hits(before + 1))[before:]
        errors.append(_distance(hits[0], target.middle_px) if len(hits) == 1 else None)
    return errors


async def reset_and_close(env: Any, work: Callable[[], Awaitable[list[float | None]]]) -> list[float | None]:
    """Start a world, do the work, and stop the world whatever happened."""
    try:
        await env.reset(InstructionTask(instruction="Click every target."))
        return await work()
    finally:
        await env.close()


async def _look_until_drawn(env: Env, targets: Sequence[Target]) -> Observation:
    """The first image that shows every target.

    Raises:
        EnvError: One is still missing after `_MAX_LOOKS` looks.
    """
    for _ in range(_MAX_LOOKS):
        seen = (await env.step(())).observation
        places = [_find(target, seen.screenshot) for target in targets]
        if None not in places:
            return seen
    raise EnvError(f"target {places.index(None) + 1} does not show in the screenshot")


def _code_for(target: Target, seen: Observation) -> str:
    """What a model that sees the target writes."""
    x, y = _find(target, seen.screenshot) or (0.0, 0.0)
    width, height = seen.geometry.sent_px
    return f"pyautogui.click(x={x / width:.4f}, y={y / height:.4f})"


def _find(target: Target, png: bytes) -> Point | None:
    """Middle of the target in the image, its px; None when the image does not show it."""
    import numpy as np
    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    rows, columns = np.nonzero((picture == target.rgb).all(axis=2))
    if rows.size == 0:
        return None
    return float(columns.mean()), float(rows.mean())


def _distance(hit: Point, wanted: Point) -> float:
    return max(abs(hit[0] - wanted[0]), abs(hit[1] - wanted[1]))
