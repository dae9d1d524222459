"""Watch one span with detectors in a separate process, which releases its memory and isolates decoder crashes.

    python -m apps.video_showcase.watch ORDER.json RESULT.json

Progress goes to stdout, one JSON object per line. The process ends when its stdin is closed, that is, with its parent.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from apps.video_showcase.detectors.jumps import JumpDetector
from apps.video_showcase.detectors.motion import MotionDetector
from apps.video_showcase.detectors.sound import find_sounds, read_loudness
from apps.video_showcase.detectors.template import TemplateDetector
from apps.video_showcase.detectors.text import TextDetector
from apps.video_showcase.events import Event
from apps.video_showcase.samples import RATE, Sample, iter_samples
from apps.video_showcase.spans import Span, span_of
from apps.video_showcase.wish import KINDS
from visual_tools.errors import VisualError
from visual_tools.images import load_image
from visual_tools.ocr import shared_engine
from visual_tools.video.timeline import remember_timeline

_TELL_S = 1.0
_SMALL_PX = 320

Tell = Callable[[float], None]


class Detector(Protocol):
    """Detector of events in frames in order of time."""

    def feed(self, sample: Sample) -> None:
        """Process the next frame."""
        ...

    def finish(self, file: str) -> list[Event]:
        """Return the events of all frames, with times in seconds from the file's first frame."""
        ...


def watch(span: Span, detectors: tuple[str, ...], template: str = "", tell: Tell | None = None) -> dict[str, Any]:
    """Return what the detectors find in a span.

    Args:
        span: Span to watch.
        detectors: Names of the detectors.
        template: File of the image for the detector `template`.
        tell: Callback for the time reached, called periodically.

    Returns:
        `events` that begin in the span or continue into it; `problems`; and the elapsed `seconds`.
    """
    started = time.monotonic()
    events: list[Event] = []
    problems: list[str] = []
    if span.source.has_video and set(detectors) - {"sound"}:
        try:
            events += _look(span, detectors, template, tell or (lambda _: None))
        except VisualError as error:
            problems.append(f"{span.describe()}: {error}")
    if "sound" in detectors and span.source.has_audio:
        try:
            events += find_sounds(read_loudness(span), span.source.name)
        except VisualError as error:
            problems.append(f"{span.describe()}: {error}")
    wanted = {kind for name in detectors for kind in KINDS[name]}
    kept = [event for event in events if event.kind in wanted and _belongs(event, span)]
    return {
        "events": [event.to_json() for event in sorted(kept, key=lambda one: one.start_s)],
        "problems": problems,
        "seconds": round(time.monotonic() - started, 3),
    }


def _look(span: Span, names: tuple[str, ...], template: str, tell: Tell) -> list[Event]:
    detectors = _make(names, template, span)
    told_at = 0.0
    side_px = 640 if {"text", "template"} & set(names) else _SMALL_PX
    for sample in iter_samples(span, side_px=side_px):
        for detector in detectors:
            detector.feed(sample)
        if time.monotonic() - told_at >= _TELL_S:
            told_at = time.monotonic()
            tell(sample.time_s)
    return [event for detector in detectors for event in detector.finish(span.source.name)]


def _make(names: tuple[str, ...], template: str, span: Span) -> list[Detector]:
    made: list[Detector] = []
    if {"scene", "flash"} & set(names):
        made.append(JumpDetector(RATE))
    if "motion" in names:
        made.append(MotionDetector(RATE))
    if "text" in names:
        made.append(TextDetector(RATE, shared_engine().read_text))
    if "template" in names:
        made.append(TemplateDetector(load_image(template), span.source.width_px))
    return made


def _belongs(event: Event, span: Span) -> bool:
    """Return whether an event begins in the span, or continues into it from an earlier span to provide its end."""
    is_inside = span.start_s <= event.start_s < span.end_s or (span.is_last and event.start_s >= span.start_s)
    if event.began_before and not span.is_first:
        return event.end_s > span.start_s
    return is_inside


def main(order_file: str, result_file: str) -> int:
    """Execute an order and write its result atomically."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    order = json.loads(Path(order_file).read_text("utf-8"))
    span = span_of(order["span"])
    if order["timeline"]:
        remember_timeline(span.source.path, Path(order["timeline"]))

    def tell(time_s: float) -> None:
        sys.stdout.buffer.write(json.dumps({"time_s": round(time_s, 2)}).encode() + b"\n")  # the parent reads it
        sys.stdout.buffer.flush()

    result = watch(span, tuple(order["detectors"]), order["template"], tell)
    target = Path(result_file)
    partial = target.with_suffix(".part")
    partial.write_text(json.dumps(result), "utf-8")
    partial.replace(target)
    return 0


def _end_with_parent() -> None:
    while os.read(0, 4096):  # not through sys.stdin, whose lock would be held when Python ends
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
