"""Black out typed secrets in a screenshot by reading it, for worlds that cannot tell where text stands.

The browser masks by its document, exactly and at once. A desktop cannot, so the picture is read by
OCR; that costs about a second a step, and only from the first step on in which a secret was typed.
"""

import difflib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from envs import Observation

MIN_ALIKE = 0.75
"""A stretch of a line that is at least this much like a secret is taken for it: OCR confuses 1 and l."""
MIN_CHARS = 3
"""Shorter values are not looked for in parts of lines; they would black out half the screen."""


@dataclass(slots=True)
class Masker:
    """Masks the secrets that have been typed so far."""

    _typed: set[str] = field(default_factory=set)

    def typed(self, values: Sequence[str]) -> None:
        """These values may stand on the screen from now on."""
        self._typed.update(value for value in values if len(value) >= MIN_CHARS)

    def mask(self, observation: Observation) -> Observation:
        """The observation with every typed secret blacked out. Blocks for the time of an OCR pass."""
        if not self._typed:
            return observation
        import numpy as np
        from PIL import Image, ImageDraw

        from visual_tools.ocr import read_text

        image = Image.open(io.BytesIO(observation.screenshot)).convert("RGB")
        draw = ImageDraw.Draw(image)
        hits = [
            line.span(*span)
            for line in read_text(np.asarray(image))
            for value in self._typed
            if (span := find_like(line.text, value)) is not None
        ]
        if not hits:
            return observation
        for box in hits:
            draw.rectangle((box.left - 4, box.top - 4, box.right + 4, box.bottom + 4), fill="black")
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=1)
        return replace(observation, screenshot=buffer.getvalue())


def find_like(text: str, value: str) -> tuple[int, int] | None:
    """Start and end of the stretch of `text` that reads like `value`, spaces and case aside; None if there is none."""
    places = [place for place, character in enumerate(text) if not character.isspace()]
    packed = "".join(text[place] for place in places).lower()
    wanted = "".join(value.split()).lower()
    best, best_ratio = None, MIN_ALIKE
    for start in range(max(len(packed) - len(wanted), 0) + 1):
        stretch = packed[start : start + len(wanted)]
        ratio = difflib.SequenceMatcher(None, stretch, wanted, autojunk=False).ratio()
        if ratio >= best_ratio and stretch:
            best, best_ratio = (places[start], places[min(start + len(wanted), len(packed)) - 1] + 1), ratio
    return best
