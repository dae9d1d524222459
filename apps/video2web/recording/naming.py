"""The kinds of all changes of a recording: by the shape of each, and by what else happens in the same place."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from apps.video2web.recording.changes import Scan
from apps.video2web.recording.frames import FramePlan
from apps.video2web.recording.kinds import Kind, find_kind
from apps.video2web.recording.transitions import Measured

_HOVER_S = 0.5
_UNSURE, _SURE = ("change", "menu"), 0.8
_SAME_PLACE, _TURNED_SHARE, _ROW_PX = 0.6, 0.4, 28
_MIN_LOOKS, _OTHER_LOOK = 3, 3.0


def find_kinds(found: Sequence[Measured], scan: Scan, plan: FramePlan) -> dict[int, Kind]:
    """The kind of each change; what is taken back by a click is closed, and of the same kind."""
    kinds: dict[int, Kind] = {}
    for one in found:
        earlier = one.undo_of
        kind = find_kind(one, plan.size_px, pointer_of(one, scan))
        if (
            earlier is not None
            and id(earlier) in kinds
            and kinds[id(earlier)].name in ("menu", "modal", "accordion", "toast")
        ):
            first = kinds[id(earlier)]
            kind = Kind(name=first.name, box=first.box, confidence=first.confidence, shift_px=kind.shift_px)
        if kind.name == "change" and one.trigger == "time" and _is_turning(one, found, kinds):
            kind = Kind(name="carousel", box=kind.box, confidence=0.6)
        kinds[id(one)] = kind
    for one in found:
        if _is_unsure(kinds[id(one)]) and one.trigger == "click":
            name = _find_series(one, found, kinds, scan)
            if name:
                kinds[id(one)] = replace(kinds[id(one)], name=name)
    return kinds


def _find_series(one: Measured, found: Sequence[Measured], kinds: dict[int, Kind], scan: Scan) -> str:
    """What the same place does again and again: a carousel turned by a button, tabs by their labels; else ""."""
    alike = [
        other
        for other in found
        if other is not one
        and other.trigger == "click"
        and (_is_unsure(kinds[id(other)]) or kinds[id(other)].name in ("carousel", "tabs"))
        and other.page_box.intersection(one.page_box) > _SAME_PLACE * max(other.page_box.area, one.page_box.area)
    ]
    if not alike or _count_looks([one, *alike]) < _MIN_LOOKS:
        return ""  # nothing else happens there, or it opens and closes
    known = {kinds[id(other)].name for other in alike if not _is_unsure(kinds[id(other)])}
    if known:
        return known.pop()
    here = scan.moments[one.start].pointer_px
    places = [place for other in alike if (place := scan.moments[other.start].pointer_px) is not None]
    if here is None or not places:
        return "carousel" if one.mask.mean() > _TURNED_SHARE else ""
    is_row = all(abs(place[1] - here[1]) <= _ROW_PX and abs(place[0] - here[0]) >= _ROW_PX for place in places)
    is_above = here[1] < one.box.top + _ROW_PX
    if is_row and is_above:
        return "tabs"
    return "carousel" if one.mask.mean() > _TURNED_SHARE else ""


def pointer_of(one: Measured, scan: Scan) -> tuple[int, int] | None:
    """Where the pointer is that sets a change off; of a hover, where it comes to rest."""
    if one.trigger != "hover":
        return scan.moments[one.start].pointer_px
    return scan.resting_place(one.start, _HOVER_S)


def _is_unsure(kind: Kind) -> bool:
    """Whether what else happens in the same place may tell better what it is."""
    return kind.name in _UNSURE or (kind.name == "navigation" and kind.confidence < _SURE)


def _count_looks(changes: Sequence[Measured]) -> int:
    """How many different looks a place has, before and after all of its changes."""
    looks: list[NDArray[np.float64]] = []
    for crop in (image for one in changes for image in (one.before, one.after)):
        look = _reduced(crop)
        if all(np.abs(look - other).mean() > _OTHER_LOOK for other in looks):
            looks.append(look)
    return len(looks)


def _reduced(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """An image as 24 x 16 colours."""
    shown = Image.fromarray(image).resize((24, 16), Image.Resampling.BOX)
    return np.asarray(shown, np.float64)


def _is_turning(one: Measured, found: Sequence[Measured], kinds: dict[int, Kind]) -> bool:
    """Whether another change of the same place is a carousel that moves by itself."""
    return any(
        id(other) in kinds
        and kinds[id(other)].name == "carousel"
        and other.trigger == "time"
        and other.page_box.intersection(one.page_box) > 0.7 * max(other.page_box.area, one.page_box.area)
        for other in found
    )
