"""Find the target of a step: its text, told apart by relation and ordinal."""

from dataclasses import dataclass

from cua.models.literal.find_text import Found, find_text, keep_best
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Relation, Target
from cua.models.literal.text_match import WHOLE
from visual_tools.box import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The place chosen for a target, and why, for the thought."""

    place: Found
    why: str


def choose(screen: Screen, target: Target) -> Choice | None:
    """The place that a target means, or None when it is not on the screen."""
    if target.phrase and target.phrase != target.text:
        named = [place for place in find_text(screen, target.phrase) if place.fit >= WHOLE]
        if named:
            return Choice(place=named[0], why=f'"{target.phrase}" stands there word for word')
    found = find_text(screen, target.text)
    if target.relation is not None:
        return _choose_related(screen, found, target, target.relation)
    return _choose_ordinal(found, target)


def _choose_ordinal(found: list[Found], target: Target) -> Choice | None:
    if not found:
        return None
    if target.ordinal is None:
        best = found[0]
        equals = [place for place in found if place.score >= best.score - 0.005]
        more = f"; {len(equals)} places fit equally, this is the topmost" if len(equals) > 1 else ""
        return Choice(place=best, why=f'I see "{best.line.text}"{more}')
    pool = _in_reading_order(keep_best(found, at_least=abs(target.ordinal)))
    if target.ordinal > len(pool):
        return None
    place = pool[target.ordinal - 1] if target.ordinal > 0 else pool[-1]
    return Choice(place=place, why=f'I see "{target.text}" {len(pool)} times')


def _in_reading_order(places: list[Found]) -> list[Found]:
    return sorted(places, key=lambda place: (round(place.box_px.center[1] / 8), place.box_px.left))


def _choose_related(screen: Screen, found: list[Found], target: Target, relation: Relation) -> Choice | None:
    anchors = keep_best(find_text(screen, relation.anchor))
    if not anchors or not found:
        return None
    ranked = sorted(
        (
            (
                distance(relation, place.box_px, anchor.box_px, screen) - 60 * place.score - 60 * anchor.score,
                index,
                place,
            )
            for anchor in anchors
            for index, place in enumerate(keep_best(found))
            if place.box_px != anchor.box_px and _holds(relation, place.box_px, anchor.box_px, screen)
        ),
    )
    if not ranked:
        return None
    places = [place for _, _, place in ranked]
    if target.ordinal is not None:
        pool = _in_reading_order(list(dict.fromkeys(places)))
        if target.ordinal > len(pool):
            return None
        return Choice(place=pool[target.ordinal - 1 if target.ordinal > 0 else -1], why=f"counted {len(pool)} of them")
    return Choice(place=places[0], why=f'it is the nearest one that stands {relation.kind} "{relation.anchor}"')


def _holds(relation: Relation, place: Box, anchor: Box, screen: Screen) -> bool:
    (x, y), (anchor_x, anchor_y) = place.center, anchor.center
    match relation.kind:
        case "below":
            return y > anchor_y and place.top >= anchor.bottom - 4
        case "above":
            return y < anchor_y and place.bottom <= anchor.top + 4
        case "right":
            return x > anchor_x and place.overlap_y(anchor) > -anchor.height / 2
        case "left":
            return x < anchor_x and place.overlap_y(anchor) > -anchor.height / 2
        case _:
            return True


def distance(relation: Relation, place: Box, anchor: Box, screen: Screen) -> float:
    """How far a place is from an anchor, in pixels, as the relation counts it: smaller is better."""
    gap_x, gap_y = max(0, -place.overlap_x(anchor)), max(0, -place.overlap_y(anchor))
    match relation.kind:
        case "row":
            return (
                gap_x * 0.1
                + 8.0 * gap_y
                + (0 if place.overlap_y(anchor) > 0 else 150)
                - shared_box(place, anchor, screen)
            )
        case "below" | "above":
            return gap_y + 2.0 * gap_x
        case "left" | "right":
            return gap_x + 4.0 * gap_y
        case "inside":
            return gap_x + gap_y - shared_box(place, anchor, screen)
        case _:
            return gap_x + 2.0 * gap_y - 0.3 * shared_box(place, anchor, screen)


def shared_box(place: Box, anchor: Box, screen: Screen) -> float:
    """A bonus in pixels when both stand in one card, row or panel: the smaller it is, the larger the bonus."""
    for rectangle in screen.rectangles:
        if rectangle.box_px.contains(place) and rectangle.box_px.contains(anchor):
            return 400.0 * max(0.0, 1 - rectangle.box_px.area / (0.6 * screen.width * screen.height))
    return 0.0
