"""Font and size of a line of text, among the free fonts that are installed, and words of it that look different."""

import functools
import itertools
import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.pixels import Levels, RgbImage
from visual_tools.box import Box
from visual_tools.ink import find_background, find_runs

T = TypeVar("T")
FAMILIES: Mapping[str, str] = {
    "DejaVu Sans": "sans-serif",
    "Liberation Sans": "Arial, Helvetica, sans-serif",
    "Nimbus Sans": "Arial, Helvetica, sans-serif",
    "Noto Sans": "sans-serif",
    "Open Sans": "sans-serif",
    "Roboto": "sans-serif",
    "Inter": "sans-serif",
    "Lato": "sans-serif",
    "Ubuntu": "sans-serif",
    "URW Gothic": "sans-serif",
    "DejaVu Serif": "serif",
    "Liberation Serif": '"Times New Roman", Times, serif',
    "Nimbus Roman": '"Times New Roman", Times, serif',
    "Noto Serif": "serif",
    "C059": "serif",
    "P052": "Palatino, serif",
    "DejaVu Sans Mono": "monospace",
    "Liberation Mono": '"Courier New", monospace',
    "Nimbus Mono PS": '"Courier New", monospace',
    "Noto Sans Mono": "monospace",
    "WenQuanYi Micro Hei": "sans-serif",
    "Noto Sans CJK SC": "sans-serif",
}
"""Free families, with the generic CSS family that a browser falls back to."""

_EM = 100
"""Font size at which text is measured, large enough that hinting has no effect."""

_FALLBACK_S = 5.0  # fontconfig may scan the fonts first
# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_OWN_FAMILY_GAIN = 0.04
"""Reduction of the error by which a line's own family must beat the family of the page."""

_NEW_FAMILY_GAIN = 0.012
_MAX_FAMILIES = 3
_TELLING_CHARS, _NUM_TELLING = 30, 32
"""Number of characters of a line, and number of lines, on which the choice of families is based."""

_MAX_ERROR = 0.5
_COVER_WEIGHT, _SHAPE_WEIGHT = 0.35, 0.5
_SHAPE_PX = 24
_SAME_SIZE = 1.09
_NEAR_WHOLE = 0.025
_SAME_RUN, _SAME_SHORT = 40, 80  # difference of a channel between words of one colour, and of one or two letters
_MIN_INK = 0.15  # of the strongest ink of a line; words may be paler
_MIN_WORD_GAP = 0.12  # of the font size
_SURE_WEIGHT = 0.05  # difference of the errors of both weights from which a word tells its weight
_MIXED_GAIN = 0.03  # reduction of the error by which two weights must beat one
_PLAIN_WEIGHT, _BOLD_WEIGHT = 400, 700
_WEIGHTS = {"75": _PLAIN_WEIGHT, "80": _PLAIN_WEIGHT, "180": _BOLD_WEIGHT, "200": _BOLD_WEIGHT}
"""CSS weight by fontconfig weight (book, regular, semibold, bold)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FontFace:
    """Font file.

    Attributes:
        family: Name of the family.
        weight: 400 or 700.
        path: Path of the file; "" is the font bundled with Pillow.
    """

    family: str
    weight: int
    path: str

    @property
    def css_family(self) -> str:
        """CSS font family with its fallback."""
        return f'"{self.family}", {FAMILIES.get(self.family, "sans-serif")}'


@dataclass(frozen=True, slots=True, kw_only=True)
class FontMetrics:
    """Measurements of a text in a face, for a font size of 1.

    Attributes:
        left: Left edge of the ink, from the origin of the text.
        top: Upper edge of the ink, from the baseline; negative is above.
        right: Right edge of the ink.
        bottom: Lower edge of the ink.
        cover: Area of the ink.
        ascent: Ascent of the face, above the baseline.
        descent: Descent of the face, below the baseline.
        shape: Rendered text, (24, W) uint8, 255 is ink.
    """

    left: float
    top: float
    right: float
    bottom: float
    cover: float
    ascent: float
    descent: float
    shape: Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """Measurements of a line on an image.

    Attributes:
        box_px: Tight box around the ink.
        cover: Sum of the ink, in pixels of full ink.
        rgb: Colour, 0 to 255.
        gradient: Pixels, (H, W) float32, 1 is full ink.
    """

    box_px: Box
    cover: float
    rgb: tuple[int, int, int]
    gradient: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FontFit:
    """Font fitted to a line.

    Attributes:
        face: Font face.
        size_px: Font size.
        error: Error of the fit; 0 is perfect.
    """

    face: FontFace
    size_px: float
    error: float


@functools.cache
def find_faces() -> tuple[FontFace, ...]:
    """Return the free faces that are installed, plain and bold; empty without fontconfig."""
    program = shutil.which("fc-list")
    if program is None:
        return ()
    try:
        listed = subprocess.run(
            [program, "--format", "%{family[0]}\t%{weight}\t%{slant}\t%{width}\t%{file}\n"],
            capture_output=True, text=True, timeout=_FALLBACK_S, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    faces: dict[tuple[str, int], FontFace] = {}
    for line in sorted(listed.splitlines()):
        family, weight, slant, width, path = line.split("\t")
        kind = _WEIGHTS.get(weight)
        is_plain = slant == "0" and width == "100" and path.endswith((".ttf", ".otf", ".ttc"))
        if family in FAMILIES and kind is not None and is_plain:
            faces.setdefault((family, kind), FontFace(family=family, weight=kind, path=path))
    return tuple(faces[key] for key in sorted(faces, key=lambda key: (list(FAMILIES).index(key[0]), key[1])))


@functools.lru_cache(maxsize=64)
def _load(path: str) -> Any:
    return ImageFont.truetype(path, _EM) if path else ImageFont.load_default(_EM)


@functools.lru_cache(maxsize=8_000)
def measure(face: FontFace, text: str) -> FontMetrics:
    """Measure a text in a face, for a font size of 1."""
    font = _load(face.path)
    left, top, right, bottom = font.getbbox(text, anchor="ls")
    ascent, descent = font.getmetrics()
    width, height = max(right - left, 1), max(bottom - top, 1)
    drawn = Image.new("L", (width, height), 0)
    ImageDraw.Draw(drawn).text((-left, -top), text, fill=255, font=font, anchor="ls")
    cover = float(np.asarray(drawn, np.float64).sum() / 255)
    small = drawn.resize((max(round(width * _SHAPE_PX / height), 4), _SHAPE_PX), Image.Resampling.BOX)
    return FontMetrics(
        left=left / _EM,
        top=top / _EM,
        right=max(right, left + 1) / _EM,
        bottom=max(bottom, top + 1) / _EM,
        cover=max(cover, 1) / _EM**2,
        ascent=ascent / _EM,
        descent=descent / _EM,
        shape=np.asarray(small),
    )


def measure_ink(image: RgbImage, box: Box, room: Box | None = None) -> Ink | None:
    """Measure the ink of a line on a page; None if there is none.

    Args:
        image: (H, W, 3) uint8 RGB.
        box: Box around the line.
        room: Flat area around the line; pixels outside it are not ink of the line.
    """
    height, width = image.shape[:2]
    area = box.padded(2, 3).clipped(width, height)
    if room is not None:
        inside = room.padded(-1)
        area = Box(
            max(area.left, inside.left),
            max(area.top, inside.top),
            min(area.right, inside.right),
            min(area.bottom, inside.bottom),
        )
        if area.width < 2 or area.height < 2:
            return None
    crop = image[area.slices].astype(np.float32)
    if not crop.size:
        return None
    background = find_background(crop.astype(np.uint8)).astype(np.float32)
    difference = np.abs(crop - background).max(axis=2)
    strongest = float(np.percentile(difference, 99.5))
    if strongest < 20:
        return None
    gradient = np.clip(difference / strongest, 0, 1)
    marked = gradient > 0.3
    rows, columns = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
    if not rows.size:
        return None
    core = crop[gradient > 0.85]
    red, green, blue = (int(level) for level in np.median(core, axis=0)) if core.size else (0, 0, 0)
    return Ink(
        box_px=Box(
            area.left + int(columns[0]),
            area.top + int(rows[0]),
            area.left + int(columns[-1]) + 1,
            area.top + int(rows[-1]) + 1,
        ),
        cover=float(gradient.sum()),
        rgb=(red, green, blue),
        gradient=gradient[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1],
    )


def fit_face(face: FontFace, text: str, ink: Ink) -> FontFit:
    """Fit a face to a line: the longer side gives the size; the other one, weight and shapes give the error."""
    of = measure(face, text)
    width, height = ink.box_px.width / (of.right - of.left), ink.box_px.height / (of.bottom - of.top)
    size = width if of.right - of.left > of.bottom - of.top else height
    error = abs(math.log(width / height)) + _COVER_WEIGHT * abs(math.log(ink.cover / (of.cover * size * size)))
    if error < _MAX_ERROR:
        error += _SHAPE_WEIGHT * (1 - _likeness(of.shape, ink.gradient))
    return FontFit(face=face, size_px=size, error=error)


def best_likeness(text: str, ink: Ink) -> float:
    """Return the correlation of a line's ink with its text in the installed font that fits best."""
    return max((_likeness(measure(face, text).shape, ink.gradient) for face in find_faces()), default=1.0)


def _likeness(shape: Levels, gradient: NDArray[np.float32]) -> float:
    """Return the correlation of a line drawn in a face, (24, W) uint8, with the image scaled to that size: -1 to 1."""
    height, width = shape.shape
    seen = Image.fromarray((gradient * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BOX)
    first, second = shape.astype(np.float32), np.asarray(seen, np.float32)
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float((first * second).sum()) / norm if norm else 0.0


def fit_fonts(texts: Sequence[str], inks: Sequence[Ink]) -> list[FontFit]:
    """Fit the font of each line: one family for the page, another one only where it fits clearly better.

    Args:
        texts: Texts of the lines.
        inks: Measurements of the lines.
    """
    faces = find_faces() or (FontFace(family="sans-serif", weight=_PLAIN_WEIGHT, path=""),)
    if not texts:
        return []
    telling = sorted(range(len(texts)), key=lambda index: abs(len(texts[index]) - _TELLING_CHARS))[:_NUM_TELLING]
    tried = [[fit_face(face, texts[index], inks[index]) for face in faces] for index in telling]
    errors = {
        family: np.array([min(fit.error for fit in of_line if fit.face.family == family) for of_line in tried])
        for family in {face.family for face in faces}
    }
    families = _choose_families(errors, np.array([len(texts[index]) for index in telling]))
    likely = [face for face in faces if face.family in families]
    fits = [[fit_face(face, text, ink) for face in likely] for text, ink in zip(texts, inks, strict=True)]
    chosen = []
    for of_line in fits:
        first, *others = (min((fit for fit in of_line if fit.face.family == name), key=lambda fit: fit.error)
                          for name in families)  # fmt: skip
        best = min(others, key=lambda fit: fit.error, default=first)
        chosen.append(best if best.error < first.error - _OWN_FAMILY_GAIN else first)
    return _even_sizes(texts, chosen)


def _choose_families(errors: Mapping[str, NDArray[np.float64]], weights: NDArray[np.int64]) -> list[str]:
    """Return the family that fits the page best, then families that reduce the remaining error considerably."""
    names = sorted(errors)
    capped = {name: np.minimum(errors[name], _MAX_ERROR) for name in names}
    chosen = [min(names, key=lambda name: float((capped[name] * weights).sum()))]
    left = capped[chosen[0]]
    while len(chosen) < min(_MAX_FAMILIES, len(names)):
        rest = {name: np.minimum(left, capped[name] + _OWN_FAMILY_GAIN) for name in names if name not in chosen}
        best = min(rest, key=lambda name: float((rest[name] * weights).sum()))
        if float(((left - rest[best]) * weights).sum()) < _NEW_FAMILY_GAIN * float(weights.sum()):
            break
        chosen.append(best)
        left = rest[best]
    return chosen


def _even_sizes(texts: Sequence[str], fits: Sequence[FontFit]) -> list[FontFit]:
    """Unify sizes of one face that differ by measurement error, rounded to a whole number where near."""
    evened: list[FontFit | None] = [None] * len(fits)
    ordered = sorted(
        range(len(fits)), key=lambda index: (fits[index].face.family, fits[index].face.weight, fits[index].size_px)
    )
    group: list[int] = []
    for index in [*ordered, None]:
        known = fits[group[0]] if group else None
        fit = fits[index] if index is not None else None
        if known and (fit is None or fit.face != known.face or fit.size_px > known.size_px * _SAME_SIZE):
            long = sorted(group, key=lambda each: fits[each].size_px)
            weights = np.cumsum([len(texts[each]) for each in long])
            size = fits[long[int(np.searchsorted(weights, weights[-1] / 2))]].size_px
            size = round(size) if abs(size - round(size)) <= _NEAR_WHOLE * size else round(size, 1)
            for each in group:
                evened[each] = replace(fits[each], size_px=float(size))
            group = []
        if index is not None:
            group.append(index)
    return [fit for fit in evened if fit is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InkRun:
    """Words of a line in one colour and weight.

    Attributes:
        start: First character in the text of the line.
        end: Character after the last one.
        rgb: Colour, 0 to 255; None for that of the line.
        face: Face.
    """

    start: int
    end: int
    rgb: tuple[int, int, int] | None
    face: FontFace


def find_ink_runs(
    image: RgbImage, text: str, ink: Ink, fits: Sequence[FontFit], room: Box | None = None
) -> tuple[tuple[InkRun, ...], FontFit]:
    """Return the runs of words of a line by colour and weight, and its font; no runs if all of it looks the same.

    Args:
        image: (H, W, 3) uint8 RGB.
        text: Text of the line.
        ink: Its measurements.
        fits: Its font, fitted as if it had one weight, and the usual font of the page.
        room: Flat area around the line.
    """
    fit = fits[0]
    spans = [word.span() for word in re.finditer(r"\S+", text)]
    inks = [measure_ink(image, box, room) for box in _find_word_boxes(ink, len(spans), _MIN_WORD_GAP * fit.size_px)]
    words = [(text[start:end], each) for (start, end), each in zip(spans, inks, strict=False) if each is not None]
    if len(words) < max(len(spans), 2):
        return (), fit
    mixed = [_mix_weights(words, family, ink.box_px.width) for family in {each.face.family for each in fits}]
    best = min((mix for mix in mixed if mix is not None), key=lambda mix: mix.error, default=None)
    if best is None or best.error > _errors(words, [fit.face] * len(words), fit.size_px) - _MIXED_GAIN:
        best = _MixedFit(faces=(fit.face,) * len(words), size_px=fit.size_px, error=fit.error)
    runs: list[InkRun] = []
    for (start, end), rgb, face in zip(spans, _word_colors(words), best.faces, strict=True):
        if runs and (runs[-1].rgb, runs[-1].face) == (rgb, face):
            runs[-1] = replace(runs[-1], end=end)
        else:
            runs.append(InkRun(start=start, end=end, rgb=rgb, face=face))
    usual = commonest((run.face, run.end - run.start) for run in runs)
    return (tuple(runs) if len(runs) > 1 else ()), replace(fit, face=usual, size_px=best.size_px)


def commonest(weighted: Iterable[tuple[T, int]]) -> T:
    """Return the value with the largest sum of weights."""
    sums: Counter[T] = Counter()
    for value, weight in weighted:
        sums[value] += weight
    return sums.most_common(1)[0][0]


def _find_word_boxes(ink: Ink, count: int, min_gap_px: float) -> list[Box]:
    """Return the boxes of the words of a line, which lie between its widest gaps; none if these are not clear."""
    runs = find_runs(ink.gradient.max(axis=0) > _MIN_INK)
    gaps = sorted(((right[0] - left[1], left[1], right[0]) for left, right in itertools.pairwise(runs)), reverse=True)
    if len(gaps) < count - 1 or count < 2 or gaps[count - 2][0] < min_gap_px:
        return []
    if len(gaps) >= count and gaps[count - 1][0] >= gaps[count - 2][0]:
        return []
    ends = sorted((start, end) for _, start, end in gaps[: count - 1])
    lefts, rights = [runs[0][0], *(end for _, end in ends)], [*(start for start, _ in ends), runs[-1][1]]
    box = ink.box_px
    return [
        Box(box.left + left, box.top, box.left + right, box.bottom) for left, right in zip(lefts, rights, strict=True)
    ]


def _word_colors(words: Sequence[tuple[str, Ink]]) -> list[tuple[int, int, int]]:
    """Return the colour of each word, nearly equal ones unified; longer words show their colour better."""
    known: list[tuple[int, int, int]] = []
    colors: dict[int, tuple[int, int, int]] = {}
    for at in sorted(range(len(words)), key=lambda at: -len(words[at][0])):
        text, ink = words[at]
        least = _SAME_RUN if sum(map(str.isalnum, text)) > 2 else _SAME_SHORT
        off = [max(abs(a - b) for a, b in zip(rgb, ink.rgb, strict=True)) for rgb in known]
        if not off or min(off) > least:
            known.append(ink.rgb)
            off.append(0)
        colors[at] = known[off.index(min(off))]
    return [colors[at] for at in range(len(words))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MixedFit:
    """Faces of the words of a line, their size and the mean error."""

    faces: tuple[FontFace, ...]
    size_px: float
    error: float


def _mix_weights(words: Sequence[tuple[str, Ink]], family: str, width_px: int) -> _MixedFit | None:
    """Return the fit of a line by words of both weights of a family; None if all are of one weight."""
    faces = [face for face in find_faces() if face.family == family]
    if len(faces) < 2:
        return None
    chosen = [faces[0]] * len(words)
    size = 0.0
    for _ in range(3):  # the size depends on the weights, and the other way round
        size = width_px / _width_of([text for text, _ in words], chosen)
        sure = [_sure_face(text, ink, faces, size) for text, ink in words]
        weighted = [(face, len(text)) for (text, _), face in zip(words, sure, strict=True) if face is not None]
        usual = commonest(weighted) if weighted else faces[0]
        chosen = [face or usual for face in sure]
    if len(set(chosen)) < 2:
        return None
    size = float(round(size)) if abs(size - round(size)) <= _NEAR_WHOLE * size else round(size, 1)
    return _MixedFit(faces=tuple(chosen), size_px=size, error=_errors(words, chosen, size))


def _width_of(words: Sequence[str], faces: Sequence[FontFace]) -> float:
    """Return the width of the ink of a line whose words have their own faces, for a font size of 1."""
    ends = [
        measure(face, f"{word} n").right - measure(face, "n").right for word, face in zip(words, faces, strict=True)
    ]
    return sum(ends[:-1]) + measure(faces[-1], words[-1]).right - measure(faces[0], words[0]).left


def _sure_face(text: str, ink: Ink, faces: Sequence[FontFace], size_px: float) -> FontFace | None:
    """Return the face of a word at a known size; None if both weights fit."""
    if sum(map(str.isalnum, text)) < 2:
        return None
    errors = [_error(text, ink, face, size_px) for face in faces]
    best, other = sorted(range(len(errors)), key=lambda at: errors[at])[:2]
    return faces[best] if errors[other] - errors[best] >= _SURE_WEIGHT else None


def _error(text: str, ink: Ink, face: FontFace, size_px: float) -> float:
    """Return the error of a word in a face of a known size: of its width, its ink and its shape."""
    of = measure(face, text)
    width, cover = (of.right - of.left) * size_px, of.cover * size_px**2
    error = abs(math.log(ink.box_px.width / width)) + _COVER_WEIGHT * abs(math.log(ink.cover / cover))
    return error + _SHAPE_WEIGHT * (1 - _likeness(of.shape, ink.gradient))


def _errors(words: Sequence[tuple[str, Ink]], faces: Sequence[FontFace], size_px: float) -> float:
    """Return the mean error of the characters of words."""
    errors = [len(text) * _error(text, ink, face, size_px) for (text, ink), face in zip(words, faces, strict=True)]
    return sum(errors) / sum(len(text) for text, _ in words)
