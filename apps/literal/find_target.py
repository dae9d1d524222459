"""Find the target of a step: its text, told apart by relation and ordinal."""

from collections.abc import Collection
from dataclasses import dataclass

from apps.literal.field_boxes import find_field_boxes, find_home
from apps.literal.find_text import Found, find_button, find_text, keep_best
from apps.literal.screen import Screen
from apps.literal.targets import Relation, Role, Target
from apps.literal.text_match import CONTAINED, WHOLE, normalize, squash
from visual_tools.box import Box
from visual_tools.ocr import TextLine

_PRESSED: frozenset[Role] = frozenset({"button", "link", "tab", "menu"})
_ROW_REACH = 1.0
_NEAR_REACH = 3.0
_NEAR_SHARE = 0.5
_CARD_REACH = 14.0
"""How far apart, in heights of a line and in shares of the screen's width, two texts are one row, next to each other,
or in one card."""

_MAX_DEED_CHARS = 32
_ANY_NOUN = ("now", "it", "changes", "all changes", "this")
_LOG_IN = ("log in", "login", "sign in", "signin", "log on")
_SIGN_UP = ("sign up", "signup", "register", "create account")
_ALIKE_DEEDS = dict.fromkeys(_LOG_IN, _LOG_IN) | dict.fromkeys(_SIGN_UP[:3], _SIGN_UP)
"""What buttons are called that do the same."""

_OTHER_LINE_PX = 400.0
"""What counts against a text in another line when one is asked for next to something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The place chosen for a target, and why, for the thought."""

    place: Found
    why: str


def choose(screen: Screen, target: Target, *, to_press: bool = False, typed: Collection[str] = ()) -> Choice | None:
    """The place that a target means, or None when it is not on the screen.

    Args:
        screen: Where to look.
        target: What to find.
        to_press: Whether it is to be pressed: then buttons and links come before headings that hold their words.
        typed: What was typed before: a field that shows it is not what is meant when it stands somewhere else as well.
    """
    if target.deed:
        return _choose_deed(screen, target)
    if target.phrase and target.phrase != target.text:
        named = [place for place in find_text(screen, target.phrase) if place.fit >= WHOLE]
        if named and not (named[0].is_heading and target.role in _PRESSED):
            return Choice(place=named[0], why=f'"{target.phrase}" stands there word for word')
    found = find_text(screen, target.text)
    if to_press or target.role in _PRESSED:
        found = _without_field(screen, _pressable_first(found, target), typed)
    if target.relation is not None:
        return _choose_related(screen, found, target, target.relation)
    return _choose_ordinal(found, target)


def _choose_deed(screen: Screen, target: Target) -> Choice | None:
    """The button or link that does what is said: by all of the words, by verb and noun, or by the verb alone.

    Without a noun ("order it") any button with the verb will do ("Place order"), if there is only one. In a dialog that
    dims its page, only its own count.
    """
    texts = {normalize(line.text): line for line in reversed(screen.lines) if _may_do(screen, line)}
    verbs = _ALIKE_DEEDS.get(target.deed, (target.deed,))
    noun = target.text.removeprefix(target.deed).split()
    tiers = [
        [text for text in texts if text in {f"{verb} {' '.join(noun)}".strip() for verb in verbs}],
        [text for text in texts if noun and _begins(text, verbs) and _stem(noun[-1]) in map(_stem, text.split())],
        [
            text
            for text in texts
            if text in verbs or any(text == f"{verb} {more}" for verb in verbs for more in _ANY_NOUN)
        ],
        [text for text in texts if not noun and any(verb in text.split() or _begins(text, (verb,)) for verb in verbs)],
    ]
    found = next((tier for tier in tiers if tier), [])
    if len(found) != 1:
        return None
    line = texts[found[0]]
    place = next((place for place in find_text(screen, line.text) if place.line is line), None)
    return None if place is None else Choice(place=place, why=f'I see "{line.text}", which does that')


def _may_do(screen: Screen, line: TextLine) -> bool:
    is_inside = screen.dialog is None or screen.dialog.contains(line.box_px)
    return is_inside and len(line.text) <= _MAX_DEED_CHARS and find_button(screen, line.box_px) is not None


def _begins(text: str, verbs: Collection[str]) -> bool:
    return any(text == verb or text.startswith(f"{verb} ") for verb in verbs)


def _stem(word: str) -> str:
    return word.rstrip("s")


def _pressable_first(found: list[Found], target: Target) -> list[Found]:
    """What may be pressed, before headings; a button that was asked for is no heading at all."""
    plain = [place for place in found if not place.is_heading]
    if target.role == "button":
        buttons = [place for place in plain if place.button is not None and place.fit >= CONTAINED]
        return buttons if target.ordinal is None and buttons else plain
    if target.role in _PRESSED:
        return plain or found
    if found and found[0].is_heading:
        short = [place for place in plain if place.button is not None and place.fit >= CONTAINED]
        return [place for place in short if len(place.line.text) <= 3 * len(target.text)] + found
    return found


def _without_field(screen: Screen, found: list[Found], typed: Collection[str]) -> list[Found]:
    """The places without the field that shows what was typed, which stands above its results and suggestions."""
    echoes = [place for place in found if is_echo(screen, place, typed)]
    first = min(echoes, key=lambda place: place.box_px.top, default=None)
    others = [place for place in found if place is not first]
    return others if any(place.fit >= WHOLE for place in others) else found


def is_echo(screen: Screen, place: Found, typed: Collection[str]) -> bool:
    """Whether a text was typed before and stands where a field shows its text."""
    is_typed = squash(place.line.text) in {squash(text) for text in typed}
    return is_typed and find_home(screen, place.line.box_px, find_field_boxes(screen)) is not None


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
            if place.box_px != anchor.box_px and stands_so(relation, place.box_px, anchor.box_px, screen)
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


def stands_so(relation: Relation, place: Box, anchor: Box, screen: Screen) -> bool:
    """Whether a place stands to an anchor as a relation says, and near enough for it."""
    (x, y), (anchor_x, anchor_y) = place.center, anchor.center
    height = max(place.height, anchor.height)
    match relation.kind:
        case "below":
            return y > anchor_y and place.top >= anchor.bottom - 4
        case "above":
            return y < anchor_y and place.bottom <= anchor.top + 4
        case "right":
            return x > anchor_x and place.overlap_y(anchor) > -anchor.height / 2
        case "left":
            return x < anchor_x and place.overlap_y(anchor) > -anchor.height / 2
        case "row":
            return abs(y - anchor_y) <= _ROW_REACH * height or _share_row(place, anchor, screen)
        case "near":
            gap_x, gap_y = -place.overlap_x(anchor), -place.overlap_y(anchor)
            return (gap_y <= _NEAR_REACH * height and gap_x <= _NEAR_SHARE * screen.width) or _share_row(
                place, anchor, screen
            )
        case _:
            return True


def is_in_line(place: Box, anchor: Box) -> bool:
    """Whether two texts stand in one line."""
    return abs(place.center[1] - anchor.center[1]) < 0.5 * max(place.height, anchor.height)


def _share_row(place: Box, anchor: Box, screen: Screen) -> bool:
    """Whether both stand in one low box, such as a row or a card of a list."""
    limit = _CARD_REACH * max(place.height, anchor.height)
    return any(
        rectangle.box_px.contains(place) and rectangle.box_px.contains(anchor) and rectangle.box_px.height <= limit
        for rectangle in screen.rectangles
    )


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
            apart = 0.0 if is_in_line(place, anchor) else _OTHER_LINE_PX
            return gap_x + 2.0 * gap_y - 0.3 * shared_box(place, anchor, screen) + apart


def shared_box(place: Box, anchor: Box, screen: Screen) -> float:
    """A bonus in pixels when both stand in one card, row or panel: the smaller it is, the larger the bonus."""
    for rectangle in screen.rectangles:
        if rectangle.box_px.contains(place) and rectangle.box_px.contains(anchor):
            return 400.0 * max(0.0, 1 - rectangle.box_px.area / (0.6 * screen.width * screen.height))
    return 0.0
