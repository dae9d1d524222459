"""Removes secrets from all output of a run: events, the result, questions to a person, screenshots.

The browser first masks by its document, exactly and immediately; other browser content (canvas, generated text, closed
shadow roots) and a desktop's whole screen are read by OCR, which can miss text. That costs about one second per step,
starting with the first step in which a secret was typed, and nothing for an unchanged image.
"""

import dataclasses
import difflib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cua.guard.guard import Approver, GuardVerdict
from cua.run.events import Event, Listener, Thinking, Watch
from cua.secrets import Secrets
from cua.step import Turn
from cua.trajectory.codec import open_fields
from envs import Action, Observation

T = TypeVar("T")


def redacted(value: T, redact: Callable[[str], str]) -> T:
    """Copy our data with all texts redacted, except the fixed values of `Literal` fields.

    Args:
        value: Dataclass, or a value that such a class may contain; bytes and other objects are unchanged.
        redact: Replaces secret values.
    """
    return _redacted(value, redact)  # type: ignore[no-any-return]


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if value is None or isinstance(value, int | float):  # most values of an event
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        old = {name: getattr(value, name) for name in open_fields(type(value))}
        new = {name: _redacted(item, redact) for name, item in old.items()}
        changed = {name: item for name, item in new.items() if item is not old[name] and item != old[name]}
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        return {_redacted(key, redact): _redacted(item, redact) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_redacted(item, redact) for item in value)
    return value


def redacting(watch: Watch, secrets: Secrets) -> Watch:
    """Wrap the callbacks so that they get placeholders instead of secret values, and URLs without passwords."""
    return dataclasses.replace(
        watch,
        listener=_redacting_listener(watch.listener, secrets) if watch.listener else None,
        approver=_redacting_approver(watch.approver, secrets) if watch.approver else None,
    )


def _redacting_listener(listener: Listener, secrets: Secrets) -> Listener:
    """Return a listener that holds streamed text back while a secret value could continue in the next piece."""
    held = ""

    def listen(event: Event) -> None:
        nonlocal held
        if isinstance(event, Thinking):
            held += event.text
            cut = secrets.forms.cut_at(held)
            ready, held = secrets.redact(held[:cut]), held[cut:]
        else:
            ready, held = secrets.redact(held), ""
        if ready:
            listener(Thinking(text=ready))
        if not isinstance(event, Thinking):
            listener(redacted(event, secrets.redact))

    return listen


def _redacting_approver(approver: Approver, secrets: Secrets) -> Approver:
    async def ask(verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        return await approver(
            redacted(verdict, secrets.redact), redacted(turn, secrets.redact), redacted(tuple(actions), secrets.redact)
        )

    return ask


MIN_ALIKE = 0.75
"""Minimum similarity of a part of a line to a secret that is masked: OCR confuses 1 and l."""
MIN_HALF_CHARS, MIN_HALF_ALIKE = 5, 0.9
"""Halves of a long value are searched as well, for values that wrap over two lines; with a higher similarity, because
they are short."""
_FOUND = "\0"
MIN_SECRET_CHARS = 3
"""Minimum length of values that are searched in parts of lines; shorter ones would mask half the screen."""


@dataclass(slots=True)
class Masker:
    """Masker of typed secrets in screenshots."""

    _typed: set[str] = field(default_factory=set)
    _last: tuple[bytes, bytes] = (b"", b"")

    def add_typed(self, values: Sequence[str]) -> None:
        """Register values that may be visible on the screen from now on."""
        new = {value for value in values if len(value) >= MIN_SECRET_CHARS} - self._typed
        if new:
            self._typed |= new
            self._last = (b"", b"")

    def mask(self, observation: Observation) -> Observation:
        """Return the observation with every typed secret blacked out. Blocks for the duration of an OCR pass."""
        if not self._typed or not observation.screenshot:
            return observation
        before, after = self._last
        if observation.screenshot != before:
            before, after = observation.screenshot, self._masked(observation.screenshot)
            self._last = before, after
        return observation if after is before or after == before else replace(observation, screenshot=after)

    def _masked(self, png: bytes) -> bytes:
        import numpy as np
        from PIL import Image, ImageDraw

        from visual_tools.ocr import read_text

        image = Image.open(io.BytesIO(png)).convert("RGB")
        draw = ImageDraw.Draw(image)
        hits = [
            line.span(*span)
            for line in read_text(np.asarray(image))
            for value in self._typed
            for span in find_parts(line.text, value)
        ]
        if not hits:
            return png
        for box in hits:
            draw.rectangle((box.left - 4, box.top - 4, box.right + 4, box.bottom + 4), fill="black")
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()


def find_parts(text: str, value: str) -> list[tuple[int, int]]:
    """Return start and end of all parts of a line that are similar to a value, or to one half of a long value."""
    wanted = "".join(value.split())
    middle = len(wanted) // 2
    halves = (wanted[:middle], wanted[middle:]) if middle >= MIN_HALF_CHARS else ()
    matches = []
    for part, min_alike in ((wanted, MIN_ALIKE), *((half, MIN_HALF_ALIKE) for half in halves)):
        while (span := find_like(text, part, min_alike)) is not None:
            matches.append(span)
            text = text[: span[0]] + _FOUND * (span[1] - span[0]) + text[span[1] :]
    return matches


def find_like(text: str, value: str, min_alike: float = MIN_ALIKE) -> tuple[int, int] | None:
    """Return start and end of the part of `text` most similar to `value`, ignoring spaces and case; None if none is."""
    places = [place for place, character in enumerate(text) if not character.isspace()]
    packed = "".join(text[place] for place in places).lower()
    wanted = "".join(value.split()).lower()
    best, best_ratio = None, min_alike
    for start in range(max(len(packed) - len(wanted), 0) + 1):
        stretch = packed[start : start + len(wanted)]
        ratio = difflib.SequenceMatcher(None, stretch, wanted, autojunk=False).ratio()
        if ratio >= best_ratio and stretch:
            best, best_ratio = (places[start], places[min(start + len(wanted), len(packed)) - 1] + 1), ratio
    return best
