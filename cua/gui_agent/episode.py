"""The state of one run of the GUI agent, and the detection of loops."""

import io
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cua.step import Step
from cua.trajectory.run_record import forget_image
from envs import Action, Wait

CARET_PX = (3, 48)
"""A difference no larger than this (width, height) is a blinking caret: the screens count as the same.
Anything wider may be a digit that changed, and clicking "+" five times is not a loop."""


@dataclass(slots=True)
class LoopDetector:
    """Counts how often the same actions met the same screen within the last `window` steps.

    A window, not a streak: going back and forth between two screens is a loop as well. Waiting is no loop: a slow
    page looks the same for long, so that steps in a row that only wait count as one, and `num_waits` counts them.

    Attributes:
        window: How many steps are remembered.
        num_waits: How many steps in a row have only waited, on the same screen; 0 after any other step.
    """

    window: int = 20
    num_waits: int = 0
    _last: bytes = b""
    _seen: deque[tuple[tuple[Action, ...], bytes]] = field(default_factory=deque)

    def count(self, actions: Sequence[Action], screenshot: bytes) -> int:
        """Add a step; how often this pair was seen, this time included.

        Images are decoded only when the same actions come back, so an ordinary step costs nothing.
        """
        if self._goes_on_waiting(actions, screenshot):
            return 1
        key = tuple(actions)
        same = sum(
            seen_actions == key and _same_screen(seen_screenshot, screenshot)
            for seen_actions, seen_screenshot in self._seen
        )
        self._seen.append((key, screenshot))
        while len(self._seen) > self.window:
            self._seen.popleft()
        return same + 1

    def forget_last(self) -> None:
        """Take the last step back, because nothing of it was carried out."""
        if self._seen:
            self._seen.pop()

    def _goes_on_waiting(self, actions: Sequence[Action], screenshot: bytes) -> bool:
        """Count a step that only waits; whether the step before it did the same, on the same screen."""
        if not actions or not all(isinstance(action, Wait) for action in actions):
            self.num_waits = 0
            return False
        is_same = self.num_waits > 0 and _same_screen(self._last, screenshot)
        self.num_waits = self.num_waits + 1 if is_same else 1
        self._last = screenshot
        return is_same


def _same_screen(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    from PIL import Image, ImageChops

    left, right = (Image.open(io.BytesIO(png)).convert("L") for png in (one, other))
    if left.size != right.size:
        return False
    box = ImageChops.difference(left, right).getbbox()
    return box is None or (box[2] - box[0] <= CARET_PX[0] and box[3] - box[1] <= CARET_PX[1])


@dataclass(slots=True, kw_only=True)
class Episode:
    """Instruction and steps so far.

    Attributes:
        instruction: What the agent is told now; a redirect changes it.
        keep_images: How many of the last steps keep their image in memory.
        steps: Finished steps; only the last few hold a screenshot.
    """

    instruction: str
    keep_images: int
    steps: list[Step] = field(default_factory=list)
    loops: LoopDetector = field(default_factory=LoopDetector)

    @property
    def next_index(self) -> int:
        """Number of the step that comes next, from 1."""
        return self.steps[-1].index + 1 if self.steps else 1

    def add(self, steps: Iterable[Step]) -> None:
        """Append finished steps and let old images go, so that memory stays flat."""
        self.steps.extend(steps)
        for position in range(len(self.steps) - self.keep_images - 1, -1, -1):
            step = forget_image(self.steps[position])
            if step is self.steps[position]:  # this one and all before it have been let go already
                break
            self.steps[position] = step
