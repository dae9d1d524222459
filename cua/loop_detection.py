"""Notice an agent that does the same thing to the same screen again and again."""

import io
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from envs import Action

THUMBNAIL_PX = (64, 36)
SAME_SCREEN_LEVELS = 2.0
"""Mean grey-level difference (0 to 255) of two thumbnails below which screens count as the same:
a blinking caret stays far below, an opened menu far above."""


@dataclass(slots=True)
class LoopDetector:
    """Counts how often the same actions met the same screen within the last `window` steps.

    A window, not a streak: going back and forth between two screens is a loop as well.
    """

    window: int = 20
    _seen: deque[tuple[tuple[Action, ...], bytes]] = field(default_factory=deque)

    def count(self, actions: Sequence[Action], screenshot: bytes) -> int:
        """Add a step; how often this pair was seen, this time included.

        Pictures are decoded only when the same actions come back, so an ordinary step costs nothing.
        """
        key = tuple(actions)
        same = sum(
            seen_actions == key and _same_screen(seen_screenshot, screenshot)
            for seen_actions, seen_screenshot in self._seen
        )
        self._seen.append((key, screenshot))
        while len(self._seen) > self.window:
            self._seen.popleft()
        return same + 1


def _same_screen(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    left, right = _thumbnail(one), _thumbnail(other)
    return sum(abs(a - b) for a, b in zip(left, right, strict=True)) / len(left) < SAME_SCREEN_LEVELS


def _thumbnail(png: bytes) -> bytes:
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("L").resize(THUMBNAIL_PX, Image.Resampling.BOX).tobytes()
