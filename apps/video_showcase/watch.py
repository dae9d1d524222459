"""Watch one span with detectors in a separate process, which releases its memory and isolates decoder crashes.

    python -m apps.video_showcase.watch JOB.json RESULT.json

Progress goes to stdout, one JSON object per line. The process ends when its stdin is closed, that is, with its parent.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from apps.video_showcase.detectors.jumps import JumpDetector
from apps.video_showcase.detectors.motion import MotionDetector
from apps.video_showcase.detectors.sound import find_sounds, read_loudness
from apps.video_showcase.detectors.template import TemplateDetector
from apps.video_showcase.detectors.text import OnScreenTextDetector
from apps.video_showcase.events import VideoEvent
from apps.video_showcase.request import KINDS
from apps.video_showcase.samples import RATE, Sample, frame_at, iter_samples
from apps.video_showcase.spans import NEAR_S, VideoSpan, span_from_json
from cua.trajectory.images import write_atomically
from visual_tools.errors import VisualError
from visual_tools.images.files import load_image
from visual_tools.ocr import shared_engine
from visual_tools.video.timeline import remember_timeline

_TELL_S = 1.0
_SMALL_PX = 320

OnTime = Callable[[float], None]


class Detector(Protocol):
    """Detector of events in frames in order of time."""

    def feed(self, sample: Sample) -> None:
        """Process the next frame."""
        ...

    def finish(self, file: str) -> list[VideoEvent]:
        """Return the events of all frames, with times in seconds from the file's first frame."""
        ...


def watch(
    span: VideoSpan, detectors: tuple[str, ...], template: str = "", on_time: OnTime | None = None
) -> dict[str, Any]:
    """Return what the detectors find in a span.

    Args:
        span: Span to watch.
        detectors: Names of the detectors.
        template: File of the image for the detector `template`.
        on_time: Callback for the time reached, called periodically.

    Returns:
        `events` that begin in the span, near its borders, or continue into it; `problems`; and the elapsed `seconds`.
    """
    started = time.monotonic()
    events: list[VideoEvent] = []
    problems: list[str] = []
    if span.source.has_video and set(detectors) - {"sound"}:
        try:
            events += _look(span, detectors, template, on_time or (lambda _: None))
        except VisualError as error:
            problems.append(f"{span.describe()}: {error}")
    if "sound" in detectors and span.source.has_audio:
        try:
            events += find_sounds(read_loudness(span), span.source.name)
        except VisualError as error:
            problems.append(f"{span.describe()}: {error}")
    wanted = {kind for name in detectors for kind in KINDS[name]}
    kept = [event for event in events if event.kind in wanted and belongs(event, span)]
    return {
        "events": [event.to_json() for event in sorted(kept, key=lambda event: event.start_s)],
        "problems": problems,
        "seconds": round(time.monotonic() - started, 3),
    }


def _look(span: VideoSpan, names: tuple[str, ...], template: str, on_time: OnTime) -> list[VideoEvent]:
    detectors = _make(names, template, span)
    reported_at = 0.0
    side_px = 640 if {"text", "template"} & set(names) else _SMALL_PX
    for sample in iter_samples(span, side_px=side_px):
        for detector in detectors:
            detector.feed(sample)
        if time.monotonic() - reported_at >= _TELL_S:
            reported_at = time.monotonic()
            on_time(sample.time_s)
    return [event for detector in detectors for event in detector.finish(span.source.name)]


def _make(names: tuple[str, ...], template: str, span: VideoSpan) -> list[Detector]:
    detectors: list[Detector] = []
    if {"scene", "flash"} & set(names):
        detectors.append(JumpDetector(RATE))
    if "motion" in names:
        detectors.append(MotionDetector(RATE))
    if "text" in names:
        detectors.append(OnScreenTextDetector(RATE, shared_engine().read_text, partial(frame_at, span)))
    if "template" in names:
        detectors.append(TemplateDetector(load_image(template), span.source.width_px))
    return detectors


def belongs(event: VideoEvent, span: VideoSpan) -> bool:
    """Return whether an event begins in or near the span, or continues into it from an earlier one to provide its end.

    Two spans may date an event at their border differently: both keep it, and the merge joins the two.
    """
    if event.began_before and not span.is_first:
        return event.end_s > span.start_s
    return span.start_s - NEAR_S <= event.start_s and (span.is_last or event.start_s < span.end_s + NEAR_S)


def main(job_file: str, result_file: str) -> int:
    """Run a job and write its result atomically."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    job = json.loads(Path(job_file).read_text("utf-8"))
    span = span_from_json(job["span"])
    if job["timeline"]:
        remember_timeline(span.source.path, Path(job["timeline"]))

    def on_time(time_s: float) -> None:
        sys.stdout.buffer.write(json.dumps({"time_s": round(time_s, 2)}).encode() + b"\n")  # the parent reads it
        sys.stdout.buffer.flush()

    result = watch(span, tuple(job["detectors"]), job["template"], on_time)
    write_atomically(Path(result_file), json.dumps(result).encode())
    return 0


def _end_with_parent() -> None:
    while os.read(0, 4096):  # not through sys.stdin, whose lock would be held when Python ends
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
