"""Report page of a build: all its rounds side by side, in one self-contained file.

Text from pages and models is untrusted: the template engine escapes all of it, images are embedded as pixels, and the
page's content security policy forbids any request and any script other than its own.
"""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.video2web.recording import tell_facts
from apps.video2web.rounds import BuildFolder, best_number
from apps.video2web.score import PARTS
from apps.video2web.site_files import diff_code
from cua.errors import CuaError
from cua.trajectory.describe import printable
from cua.trajectory.report.shell import PageTemplate
from visual_tools.errors import ImageError
from visual_tools.images.files import load_image

REPORT = "report.html"
_PAGE = PageTemplate(package="apps.video2web", template="report.html", script="report.js", style="report.css")
_MAX_WIDTH_PX, _MAX_HEIGHT_PX = 1100, 4000
_QUALITY = 82
_MAX_FINDINGS, _MAX_CHARS = 60, 400
_CHART = (720, 150, 34)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """Page of a round: images as data URLs, parts of the score as text."""

    name: str
    score: str
    parts: tuple[tuple[str, str], ...]
    reference: str
    ours: str
    difference: str
    worst: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """Round; `lines` are the kinds and texts of its code diff, `replays` state which interactions are missing and why.

    `broken` are the axe-core rules that its pages violate.
    """

    number: int
    title: str
    verdict: str
    kind: str
    score: str
    gain: str
    summary: str
    facts: tuple[tuple[str, str], ...]
    pages: tuple[PageReport, ...]
    findings: tuple[str, ...]
    broken: tuple[str, ...]
    replays: tuple[tuple[bool, str], ...]
    lines: tuple[tuple[str, str], ...]
    is_best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """Point of a round on the chart."""

    x: float
    y: float
    kind: str
    label: str


def write_build_report(folder: BuildFolder, reason: str = "") -> Path:
    """Write `report.html` into a build's folder.

    Args:
        folder: Folder of the build.
        reason: Reason why the build ended.

    Raises:
        CuaError: If the build cannot be read or the report cannot be written.
    """
    rounds, facts, recorded = folder.rounds(), folder.facts(), folder.recorded_facts()
    best = best_number(rounds)
    if best is None:
        raise CuaError(f"{folder.path} has no finished round: there is nothing to report")
    recorded_lines = tell_facts(recorded) if recorded is not None else ()
    views = list(_views(folder, rounds, facts, best))
    return _PAGE.write(
        folder.path / REPORT,
        score=f"{rounds[best]['score']['score']:.4f}",
        draft=f"{rounds[0]['score']['score']:.4f}",
        best=best,
        reason=printable(reason),
        author=printable(str(facts.get("author", ""))),
        wish=printable(str(facts.get("wish", ""))),
        goal=f"{float(facts['goal']):g}",
        window="{} x {}".format(*facts["viewport_px"]),
        seconds=f"{sum(float(each['seconds']) for each in rounds):.0f}",
        storyboard=_image(folder.storyboard) if folder.storyboard.is_file() else "",
        happenings=[_clipped(line) for line in recorded_lines if not line.startswith(" ")],
        rounds=views,
        shown=views[best],
        points=_points(rounds, best),
        chart=_CHART,
        line=" ".join(f"{point.x:.1f},{point.y:.1f}" for point in _points(rounds, best) if point.kind != "bad"),
    )


def _views(
    folder: BuildFolder, rounds: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], best: int
) -> Iterator[RoundReport]:
    references = [_image(folder.reference(number)) for number in range(1, len(facts["names"]) + 1)]
    for each in rounds:
        number, base = int(each["number"]), int(each["base"])
        gain = float(each["score"]["score"]) - float(rounds[base]["score"]["score"])
        usage = each["usage"]
        details = [("seconds", f"{float(each['seconds']):.1f}"), ("bytes of code", f"{int(each['code_bytes']):,}")]
        details += [("elements", str(count)) for count in each["elements"] if count is not None]
        broken = [line for page in each.get("accessibility", ()) for line in page or ()]
        if any(page is not None for page in each.get("accessibility", ())):
            details += [("rules of axe-core broken", str(len(broken)))]
        tokens = int(usage["input_tokens"]) + int(usage["output_tokens"])
        details += [("tokens", f"{tokens:,}")] if tokens else []
        yield RoundReport(
            number=number,
            title=f"Round {number}" if number else "Draft",
            verdict=each["verdict"],
            kind="good" if each["verdict"] == "kept" else "bad",
            score=f"{float(each['score']['score']):.4f}",
            gain=f"{gain:+.4f}" if number else "",
            summary=_clipped(str(each["said"])),
            facts=tuple(details),
            pages=tuple(_pages(folder.round_dir(number), each, facts["names"], references)),
            findings=tuple(_clipped(str(line)) for line in each["findings"][:_MAX_FINDINGS]),
            broken=tuple(_clipped(str(line)) for line in broken[:_MAX_FINDINGS]),
            replays=tuple(
                (
                    bool(replay["is_there"]) and not replay.get("lost"),
                    _clipped(f"{replay['name']}: {replay['why'] or replay.get('lost') or 'as recorded'}"),
                )
                for replay in each["score"].get("replays", ())
            ),
            lines=tuple(_diff(folder, number, base)) if number else (),
            is_best=number == best,
        )


def _pages(
    folder: Path, facts: Mapping[str, Any], names: Sequence[str], references: Sequence[str]
) -> Iterator[PageReport]:
    images = facts["images"] or [{}] * len(names)
    for name, score, image, reference in zip(names, facts["score"]["pages"], images, references, strict=False):
        yield PageReport(
            name=_clipped(str(name)),
            score=f"{float(score['score']):.4f}",
            parts=tuple(
                (part.replace("_", " "), f"{float(score[part]):.3f}") for part in PARTS if score.get(part) is not None
            ),
            reference=reference,
            ours=_image(folder / image["ours"]) if image else "",
            difference=_image(folder / image["difference"]) if image else "",
            worst=tuple(_image(folder / each) for each in image.get("worst", ())),
        )


def _diff(folder: BuildFolder, number: int, base: int) -> Iterator[tuple[str, str]]:
    try:
        text = diff_code(folder.site(base), folder.site(number))
    except CuaError as error:
        text = str(error)
    kinds = {"+": "add", "-": "cut", "@": "at"}
    for line in text.split("\n"):
        is_name = line.startswith(("+++", "---"))
        yield ("name" if is_name else kinds.get(line[:1], "same")), _clipped(line)


def _points(rounds: Sequence[Mapping[str, Any]], best: int) -> list[ChartPoint]:
    width, height, margin = _CHART
    scores = [float(each["score"]["score"]) for each in rounds]
    low, high = min(scores), max(scores)
    span, step = max(high - low, 0.005), (width - 2 * margin) / max(len(rounds) - 1, 1)
    points = []
    for number, (each, score) in enumerate(zip(rounds, scores, strict=True)):
        kind = "best" if number == best else "good" if each["verdict"] == "kept" else "bad"
        y = height - margin - (score - low) / span * (height - 2 * margin)
        points.append(ChartPoint(x=margin + number * step, y=y, kind=kind, label=f"{score:.4f}"))
    return points


def _image(path: Path) -> str:
    """Return a reduced image of a build as a data URL; "" if the file is missing."""
    from PIL import Image

    try:
        pixels = Image.fromarray(load_image(path))
    except (ImageError, OSError):
        return ""
    pixels = pixels.crop((0, 0, pixels.width, min(pixels.height, _MAX_HEIGHT_PX)))
    if pixels.width > _MAX_WIDTH_PX:
        pixels = pixels.resize((_MAX_WIDTH_PX, round(pixels.height * _MAX_WIDTH_PX / pixels.width)))
    buffer = io.BytesIO()
    pixels.save(buffer, "WEBP", quality=_QUALITY, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _clipped(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MAX_CHARS else f"{shown[:_MAX_CHARS]}…"
