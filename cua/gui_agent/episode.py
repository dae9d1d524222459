"""State of one run of the GUI agent, and the detection of loops."""

import io
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cua.step import Step
from cua.trajectory.run_record import forget_image
from envs import Action, Wait

CARET_PX = (3, 48)
"""Largest difference (width, height) in pixels that counts as a blinking caret, so that the screens are the same.
A wider difference may be a digit that changed: clicking "+" five times is not a loop."""


@dataclass(slots=True)
class LoopDetector:
    """Counter of repeated actions on the same screen within the last `window` steps.

    A window and not a streak, because alternating between two screens is also a loop. Waiting is not a loop, because a
    slow page does not change for a long time: consecutive steps that only wait count once; `num_waits` is their number.

    Attributes:
        window: Number of steps that are remembered.
        num_waits: Number of consecutive steps that only waited on the same screen; 0 after any other step.
    """

    window: int = 20
    num_waits: int = 0
    _last: bytes = b""
    _seen: deque[tuple[tuple[Action, ...], bytes]] = field(default_factory=deque)

    def count(self, actions: Sequence[Action], screenshot: bytes) -> int:
        """Add a step and return how often this pair was seen, including this time.

        Images are decoded only when the same actions are repeated, so that an ordinary step costs nothing.
        """
        if self._is_still_waiting(actions, screenshot):
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
        """Remove the last step, because nothing of it was executed."""
        if self._seen:
            self._seen.pop()

    def _is_still_waiting(self, actions: Sequence[Action], screenshot: bytes) -> bool:
        """Count a step that only waits; return True if the previous step also waited on the same screen."""
        if not actions or not all(isinstance(action, Wait) for action in actions):
            self.num_waits = 0
            return False
        is_same = self.num_waits > 0 and _same_screen(self._last, screenshot)
        self.num_waits = self.num_waits + 1 if is_same else 1
        self._last = screenshot
        return is_same


def _same_screen(left: bytes, right: bytes) -> bool:
    if left == right:
        return True
    from PIL import Image, ImageChops

    images = [Image.open(io.BytesIO(png)).convert("L") for png in (left, right)]
    if images[0].size != images[1].size:
        return False
    box = ImageChops.difference(*images).getbbox()
    return box is None or (box[2] - box[0] <= CARET_PX[0] and box[3] - box[1] <= CARET_PX[1])


@dataclass(slots=True, kw_only=True)
class EpisodeState:
    """Instruction and finished steps.

    Attributes:
        instruction: Current instruction; a redirect replaces it.
        keep_images: Number of recent steps that keep their image in memory.
        steps: Finished steps; only the most recent ones hold a screenshot.
    """

    instruction: str
    keep_images: int
    steps: list[Step] = field(default_factory=list)
    loops: LoopDetector = field(default_factory=LoopDetector)

    @property
    def next_index(self) -> int:
        """Number of the next step, starting at 1."""
        return self.steps[-1].index + 1 if self.steps else 1

    def add(self, steps: Iterable[Step]) -> None:
        """Append finished steps and drop old images, so that memory use stays constant."""
        self.steps.extend(steps)
        for position in range(len(self.steps) - self.keep_images - 1, -1, -1):
            step = forget_image(self.steps[position])
            if step is self.steps[position]:  # the images of this step and all earlier ones are already dropped
                break
            self.steps[position] = step
