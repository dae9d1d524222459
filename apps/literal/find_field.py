"""Find the target of a step by text, relation and ordinal, and find the field of a label."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from apps.literal.field_boxes import (
    find_containing_field,
    find_field_boxes,
    find_fields,
    find_lists,
    is_button,
    is_cell,
    is_filled,
    is_frame,
    is_label_cell,
    is_list,
    is_tool,
    may_be_field,
)
from apps.literal.find_text import TextHit, find_button, find_named, find_text, find_whole, keep_best
from apps.literal.screen import OcrScreen, innermost, reading_order
from apps.literal.targets import AnchorRelation, ElementTarget, Role, nth
from apps.literal.text_match import CONTAINED, WHOLE, alphanumeric, fit_texts, normalize
from visual_tools.box import Box
from visual_tools.ocr import TextLine
from visual_tools.widgets import find_lines, find_rectangles

_PRESSED: frozenset[Role] = frozenset({"button", "link", "tab", "menu"})
_ROW_REACH = 1.0
_NEAR_REACH = 3.0
_NEAR_SHARE = 0.5
_CARD_REACH = 14.0
"""Limits of the distance between two texts in one row, near each other, or in one card.

In line heights; the share is of the screen's width.
"""

_MAX_BUTTON_CHARS = 32
_ANY_NOUN = ("now", "it", "changes", "all changes", "this")
_LOG_IN = ("log in", "login", "sign in", "signin", "log on")
_SIGN_UP = ("sign up", "signup", "register", "create account")
_VERB_SYNONYMS = dict.fromkeys(_LOG_IN, _LOG_IN) | dict.fromkeys(_SIGN_UP[:3], _SIGN_UP)
"""Button texts with the same meaning."""

_OTHER_LINE_PX = 400.0
"""Penalty in pixels for a text on another line when a text near an anchor is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """Element chosen for a target, and the reason, for the thought."""

    hit: TextHit
    why: str


def choose(
    screen: OcrScreen, target: ElementTarget, *, to_press: bool = False, typed: Collection[str] = ()
) -> TargetChoice | None:
    """Return the element that a target means, or None if it is not on the screen.

    Args:
        screen: Screen to search.
        target: Target to find.
        to_press: True to prefer buttons and links over headings that contain their words.
        typed: Texts typed before; a field that shows one of them is skipped if the text also occurs elsewhere.
    """
    if target.verb:
        return _choose_by_verb(screen, target)
    if target.phrase and target.phrase != target.text:
        named = find_whole(screen, target.phrase)
        if named and not (named[0].is_heading and target.role in _PRESSED):
            return TargetChoice(hit=named[0], why=f'"{target.phrase}" is visible word for word')
    hits = find_text(screen, target.text)
    if to_press or target.role in _PRESSED:
        hits = _without_field(screen, _pressable_first(hits, target), typed)
    if target.relation is not None:
        return _choose_related(screen, hits, target, target.relation)
    return _choose_ordinal(hits, target)


def _choose_by_verb(screen: OcrScreen, target: ElementTarget) -> TargetChoice | None:
    """Return the button or link for an action: by all of the words, by verb and noun, or by the verb alone.

    Without a noun ("order it") any button with the verb matches ("Place order"), if there is only one. In a dialog that
    dims its page, only the dialog's own buttons count.
    """
    panel = screen.dialog or screen.box
    short = [line for line in reversed(screen.lines) if len(line.text) <= _MAX_BUTTON_CHARS]
    buttons = [line for line in short if panel.contains(line.box_px) and find_button(screen, line.box_px) is not None]
    texts = {normalize(line.text): line for line in buttons}
    verbs = _VERB_SYNONYMS.get(target.verb, (target.verb,))
    noun = target.text.removeprefix(target.verb).split()
    tiers = [
        [text for text in texts if text in {f"{verb} {' '.join(noun)}".strip() for verb in verbs}],
        [
            text
            for text in texts
            if noun and _begins(text, verbs) and noun[-1].rstrip("s") in [word.rstrip("s") for word in text.split()]
        ],
        [text for text in texts if text in {*verbs, *(f"{verb} {more}" for verb in verbs for more in _ANY_NOUN)}],
        [text for text in texts if not noun and any(verb in text.split() or _begins(text, (verb,)) for verb in verbs)],
    ]
    candidates = next((tier for tier in tiers if tier), [])
    if len(candidates) != 1:
        return None
    line = texts[candidates[0]]
    hit = next((hit for hit in find_text(screen, line.text) if hit.line is line), None)
    return None if hit is None else TargetChoice(hit=hit, why=f'the button "{line.text}" does that')


def _begins(text: str, verbs: Collection[str]) -> bool:
    return any(text == verb or text.startswith(f"{verb} ") for verb in verbs)


def _pressable_first(hits: list[TextHit], target: ElementTarget) -> list[TextHit]:
    """Return clickable elements before headings; for a button target, drop headings."""
    plain = [hit for hit in hits if not hit.is_heading]
    if target.role == "button":
        buttons = [hit for hit in plain if hit.button is not None and hit.fit >= CONTAINED]
        return buttons if target.ordinal is None and buttons else plain
    if target.role in _PRESSED:
        return plain or hits
    if hits and hits[0].is_heading:
        short = [hit for hit in plain if hit.button is not None and hit.fit >= CONTAINED]
        return [hit for hit in short if len(hit.line.text) <= 3 * len(target.text)] + hits
    return hits


def _without_field(screen: OcrScreen, hits: list[TextHit], typed: Collection[str]) -> list[TextHit]:
    """Drop the field that shows a typed text; it lies above its results and suggestions."""
    echoes = [hit for hit in hits if shows_typed_text(screen, hit, typed)]
    first = min(echoes, key=lambda hit: hit.box_px.top, default=None)
    others = [hit for hit in hits if hit is not first]
    return others if any(hit.fit >= WHOLE for hit in others) else hits


def shows_typed_text(screen: OcrScreen, hit: TextHit, typed: Collection[str]) -> bool:
    """Return True if a text was typed before and lies where a field shows its text."""
    is_typed = alphanumeric(hit.line.text) in {alphanumeric(text) for text in typed}
    return is_typed and find_containing_field(screen, hit.line.box_px, find_field_boxes(screen)) is not None


def _choose_ordinal(hits: list[TextHit], target: ElementTarget) -> TargetChoice | None:
    if not hits:
        return None
    if target.ordinal is None:
        best = hits[0]
        equals = [hit for hit in hits if hit.score >= best.score - 0.005]
        more = f"; {len(equals)} texts match equally well, this is the topmost" if len(equals) > 1 else ""
        return TargetChoice(hit=best, why=f'I see "{best.line.text}"{more}')
    pool = keep_best(hits, at_least=abs(target.ordinal))
    hit = nth(sorted(pool, key=lambda hit: reading_order(hit.box_px)), target.ordinal)
    return TargetChoice(hit=hit, why=f'"{target.text}" is visible {len(pool)} times') if hit is not None else None


def _choose_related(
    screen: OcrScreen, hits: list[TextHit], target: ElementTarget, relation: AnchorRelation
) -> TargetChoice | None:
    anchors = keep_best(find_text(screen, relation.anchor))
    if not anchors or not hits:
        return None
    ranked = sorted(
        (
            (distance(relation, hit.box_px, anchor.box_px, screen) - 60 * hit.score - 60 * anchor.score, index, hit)
            for anchor in anchors
            for index, hit in enumerate(keep_best(hits))
            if hit.box_px != anchor.box_px and satisfies_relation(relation, hit.box_px, anchor.box_px, screen)
        )
    )
    if not ranked:
        return None
    nearest = [hit for _, _, hit in ranked]
    if target.ordinal is not None:
        pool = sorted(dict.fromkeys(nearest), key=lambda hit: reading_order(hit.box_px))
        numbered = nth(pool, target.ordinal)
        why = f"selected by its number out of {len(pool)}"
        return TargetChoice(hit=numbered, why=why) if numbered is not None else None
    return TargetChoice(hit=nearest[0], why=f'it is the nearest one {relation.kind} "{relation.anchor}"')


def satisfies_relation(relation: AnchorRelation, box: Box, anchor: Box, screen: OcrScreen) -> bool:
    """Return True if a box is in the given relation to an anchor and close enough to it."""
    (x, y), (anchor_x, anchor_y) = box.center, anchor.center
    height = max(box.height, anchor.height)
    match relation.kind:
        case "below":
            return y > anchor_y and box.top >= anchor.bottom - 4
        case "above":
            return y < anchor_y and box.bottom <= anchor.top + 4
        case "right":
            return x > anchor_x and box.overlap_y(anchor) > -anchor.height / 2
        case "left":
            return x < anchor_x and box.overlap_y(anchor) > -anchor.height / 2
        case "row":
            return abs(y - anchor_y) <= _ROW_REACH * height or _share_row(box, anchor, screen)
        case "near":
            gap_x, gap_y = -box.overlap_x(anchor), -box.overlap_y(anchor)
            is_close = gap_y <= _NEAR_REACH * height and gap_x <= _NEAR_SHARE * screen.width
            return is_close or _share_row(box, anchor, screen)
        case _:
            return True


def _share_row(box: Box, anchor: Box, screen: OcrScreen) -> bool:
    """Return True if both boxes lie in one low rectangle, such as a row or a card of a list."""
    limit = _CARD_REACH * max(box.height, anchor.height)
    return any(row.contains(box) and row.contains(anchor) and row.height <= limit for row in screen.boxes)


def distance(relation: AnchorRelation, box: Box, anchor: Box, screen: OcrScreen) -> float:
    """Return the distance of a box from an anchor in pixels, weighted by the relation; smaller is better."""
    gap_x, gap_y = max(0, -box.overlap_x(anchor)), max(0, -box.overlap_y(anchor))
    match relation.kind:
        case "row":
            apart = 0 if box.overlap_y(anchor) > 0 else 150
            return gap_x * 0.1 + 8.0 * gap_y + apart - shared_box(box, anchor, screen)
        case "below" | "above":
            return gap_y + 2.0 * gap_x
        case "left" | "right":
            return gap_x + 4.0 * gap_y
        case "inside":
            return gap_x + gap_y - shared_box(box, anchor, screen)
        case _:
            is_in_line = abs(box.center[1] - anchor.center[1]) < 0.5 * max(box.height, anchor.height)
            near = gap_x + 2.0 * gap_y - 0.3 * shared_box(box, anchor, screen)
            return near + (0.0 if is_in_line else _OTHER_LINE_PX)


def shared_box(box: Box, anchor: Box, screen: OcrScreen) -> float:
    """Return a bonus in pixels if both boxes share a card, row or panel; larger for a smaller container."""
    for shared in screen.boxes:
        if shared.contains(box) and shared.contains(anchor):
            return 400.0 * max(0.0, 1 - shared.area / (0.6 * screen.width * screen.height))
    return 0.0


Kind = Literal["", "text", "list"]

_NO_FIELDS: frozenset[Role] = frozenset({"button", "link", "tab", "menu", "result"})
_GOOD_COST = 1.1
_MAX_COST = 2.2
_DATE = re.compile(r"\b(?:[dmyjt]{2}|[yja]{4})\s*[./-]\s*[dmyjt]{2}\b|\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b", re.I)
_BUTTON_COST = 1.0
_OTHER_KIND_COST = 0.6
_SMALL_PX = 56
_HOME_COST = 0.3
_PAIR_PX = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Input field.

    Attributes:
        box_px: Box inside the border.
        label: Text that names the field, if any.
        texts: Contents, including placeholders, one for each line or part of a line.
        why: How the field was found, for the thought.
    """

    box_px: Box
    label: TextLine | None
    texts: tuple[str, ...]
    why: str

    @property
    def text(self) -> str:
        """Contents in one line."""
        return " ".join(self.texts)


_NAMED_FIELD = re.compile(r"(?:password|search|date)(?=\s)", re.I)
"""Field types whose word may also be the label."""


def find_field(screen: OcrScreen, target: ElementTarget, kind: Kind = "") -> Field | None:
    """Return the field that a target means, or None if neither field nor label is on the screen.

    Args:
        screen: Screen to search.
        target: Target to find.
        kind: "text" to type into it, which ranks lists last; "list" for the reverse.
    """
    boxes = find_field_boxes(screen)
    if not target.text and target.phrase and target.role in _NO_FIELDS:
        target = replace(target, text=target.phrase)  # "Link" is the name of a field if the step fills it
    named = _NAMED_FIELD.match(target.phrase) if not target.text and target.ordinal is None else None
    if named is not None and _find_labels(screen, ElementTarget(text=named[0], role="field")):
        target = ElementTarget(text=named[0], role="field", relation=target.relation)  # "the password field"
    if not target.text:
        return _find_unnamed(screen, target, boxes)
    labels = _find_labels(screen, target)
    if not labels:
        return _find_by_format(screen, target)
    ranked = sorted(
        (
            (cost + 2.0 * (1 - label.fit), box, label, how)
            for label in labels
            for cost, box, how in _costs_of(screen, label, boxes, kind)
        ),
        key=lambda item: item[0],
    )
    names = [label.line.text for label in labels if target.phrase]
    fits = [fit.score for name in names for fit in fit_texts(target.phrase, name)]
    if target.ordinal is not None and max(fits, default=0.0) < WHOLE:  # in "First name" it is part of the name
        ranked = _by_ordinal(ranked, target.ordinal)
    bare = None if ranked and ranked[0][0] <= _GOOD_COST else _find_bare(screen, labels[0])
    if bare is not None:
        return bare
    if ranked and ranked[0][0] <= _MAX_COST:
        _, box, label, how = ranked[0]
        return _make(screen, box, label.line, f'the box {how} the label "{label.line.text}"')
    line = labels[0].line
    why = f'"{line.text}", near which no box is seen: pressing it focuses its field'
    return _make(screen, labels[0].box_px, line, why)


def _find_by_format(screen: OcrScreen, target: ElementTarget) -> Field | None:
    """Return the field for "the date" or "the time" without a label: the only field, or the field that shows a date."""
    if target.text.lower() not in ("date", "time") or target.relation is not None or target.ordinal is not None:
        return None
    boxes = find_fields(screen)
    if target.text.lower() == "date":
        dated = [box for box in boxes if any(_DATE.search(line.text) for line in screen.lines_in(box))]
        boxes = dated or boxes
    return _make(screen, boxes[0], None, f"the only field for a {target.text.lower()}") if len(boxes) == 1 else None


def _find_labels(screen: OcrScreen, target: ElementTarget) -> list[TextHit]:
    labels = keep_best(find_named(screen, target))
    if target.relation is None or (
        labels and labels[0].fit >= WHOLE and target.phrase != target.text and labels[0].line.text != target.text
    ):
        return labels
    anchors = keep_best(find_text(screen, target.relation.anchor))
    relation = target.relation

    def apart(label: TextHit) -> float:
        return min((distance(relation, label.box_px, anchor.box_px, screen) for anchor in anchors), default=0.0)

    return sorted(labels, key=apart)[:1]


def _costs_of(screen: OcrScreen, label: TextHit, boxes: list[Box], kind: Kind) -> list[tuple[float, Box, str]]:
    """Return candidate boxes for a text with their costs: the field that shows it, or the fields it may label."""
    home = find_containing_field(screen, label.line.box_px, boxes)
    if home is None:
        return _costs(screen, label, boxes, kind)
    cost = _HOME_COST + min(0.1, (label.box_px.left - home.left) / 400) + _kind_cost(screen, home, kind)
    return [(cost, home, "with")]


def _costs(screen: OcrScreen, label: TextHit, boxes: list[Box], kind: Kind) -> list[tuple[float, Box, str]]:
    costs = []
    # The cell next to a label's cell may contain a field and more.
    cells = [*boxes, *(box for box in screen.boxes if is_frame(screen, box))]
    for box in boxes:
        cost_and_reason = _cost(screen, label.box_px, box)
        if cost_and_reason is None or is_filled(screen, box) or is_label_cell(screen, box, boxes):
            continue
        cost, how = cost_and_reason
        cost += _BUTTON_COST if is_button(screen, box) or is_tool(screen, box, boxes) else 0.0
        cost += 0.7 if is_cell(box, cells) else 0.0
        cost += 0.5 if len(screen.lines_in(box)) > 1 and box.height < 60 else 0.0
        if kind == "text" and is_list(screen, box):
            costs += [(cost + 0.1, beside, how) for beside in boxes if _follows(screen, box, beside)]
        cost += _kind_cost(screen, box, kind)
        costs.append((cost, box, how))
    return costs


def _follows(screen: OcrScreen, box: Box, beside: Box) -> bool:
    """Return True if a field is right of a list that shares its label, such as a phone number after a country code."""
    is_in_row = abs(beside.center[1] - box.center[1]) < 0.4 * box.height
    return is_in_row and 0 <= beside.left - box.right < _PAIR_PX and not is_list(screen, beside)


def _kind_cost(screen: OcrScreen, box: Box, kind: Kind) -> float:
    if not kind:
        return 0.0
    small = 0.3 if kind == "text" and box.width < _SMALL_PX else 0.0
    return small + (_OTHER_KIND_COST if is_list(screen, box) == (kind == "text") else 0.0)


def _cost(screen: OcrScreen, label: Box, box: Box) -> tuple[float, str] | None:
    """Return the cost of a box for a label (0 is certain) and its position; None if it cannot belong to the label."""
    if box.contains(label, slack_px=2):
        beside = label.left - box.left
        if len(screen.lines_in(box)) > 1 or screen.is_large(label):
            return None  # a card; the text is its heading or a part of it
        return (0.5 + beside / 200, "with") if beside < 0.5 * box.width and box.height < 400 else None
    gap_x, gap_y = box.left - label.right, box.top - label.bottom
    line_height = max(label.height, 10)
    if (
        gap_x >= -4
        and (
            abs(label.center[1] - min(box.center[1], box.top + 20)) <= max(box.height / 2, line_height * 0.8)
            or abs(label.bottom - box.bottom) <= line_height  # a large field aligned with its label's baseline
        )
        and box.top < label.bottom
    ):
        if _lines_between(screen, Box(label.right + 2, label.top, box.left - 2, label.bottom)):
            return None
        return 0.1 + gap_x / 300, "right of"
    if gap_y >= -line_height and box.overlap_x(label) > 0 and label.center[1] <= box.top + 2:
        between = _lines_between(screen, Box(label.left, label.bottom + 2, label.right, box.top - 2))
        if gap_y > 4 * line_height or not all(_is_hint(screen, line.box_px, label) for line in between):
            return None
        cost = 0.1 + max(gap_y, 0) / (4 * line_height) + abs(box.left - label.left) / 250
        return cost + 0.2 * len(between), "below"
    if 0 <= label.left - box.right < 60 and abs(label.center[1] - box.center[1]) < box.height / 2:
        return 1.2, "left of"
    return None


def _lines_between(screen: OcrScreen, gap: Box) -> list[TextLine]:
    """Return texts in the gap between a label and a box, except stars, colons and similar marks."""
    if gap.width <= 0 or gap.height <= 0:
        return []
    return [
        line
        for line in screen.lines
        if line.box_px.intersection(gap) > 0.3 * line.box_px.area and len(line.text.strip("*:()")) > 1
    ]


def _is_hint(screen: OcrScreen, line: Box, label: Box) -> bool:
    """Return True if a text below a label is an explanation, smaller or paler than the label."""
    return line.height < 0.85 * label.height or screen.contrast(line) < 0.85 * screen.contrast(label)


def _by_ordinal(ranked: list[tuple[float, Box, TextHit, str]], ordinal: int) -> list[tuple[float, Box, TextHit, str]]:
    best: dict[int, tuple[float, Box, TextHit, str]] = {}
    for item in ranked:
        best.setdefault(id(item[2]), item)
    numbered = nth(sorted(best.values(), key=lambda item: (item[2].box_px.top, item[2].box_px.left)), ordinal)
    return [numbered] if numbered is not None else []


def _find_bare(screen: OcrScreen, label: TextHit) -> Field | None:
    """Return a field without a closed box: its label interrupts the border, or it is the space above the next rule."""
    box = label.box_px
    framed = _find_framed(screen, box)
    if framed is not None:
        return _make(screen, framed, label.line, f'the box whose border bears the label "{label.line.text}"')
    for rule in find_lines(screen.image):
        gap = rule.top - box.bottom
        if -2 <= gap < 3.5 * max(box.height, 12) and rule.left - 12 <= box.left <= rule.left + 0.5 * rule.width:
            space = Box(rule.left, max(box.bottom, rule.top - 26) if gap > 14 else box.top - 4, rule.right, rule.top)
            return _make(screen, space, label.line, f'the line below "{label.line.text}"')
        beside = rule.left - box.right
        if 0 <= beside < 300 and -4 <= rule.top - box.bottom < 16:
            return _make(
                screen,
                Box(rule.left, rule.top - 24, rule.right, rule.top),
                label.line,
                f'the line right of "{label.line.text}"',
            )
    return None


def _find_framed(screen: OcrScreen, label: Box) -> Box | None:
    """Return the box whose border is interrupted by a label."""
    around = Box(label.left - 60, label.top - 10, label.right + 700, label.bottom + 120)
    around = around.clipped(screen.width, screen.height)
    barrier = label.padded(6, 2).moved(-around.left, -around.top)
    for rectangle in find_rectangles(screen.crop(around), barriers=(barrier,)):
        box = rectangle.box_px.moved(around.left, around.top)
        if (
            box.width > 40
            and 15 < box.height < 110
            and label.top - 4 < box.top < label.bottom + 6
            and box.left < label.left
            and box.right > label.right
        ):
            return box
    return None


def _find_unnamed(screen: OcrScreen, target: ElementTarget, boxes: list[Box]) -> Field | None:
    """Return an unnamed field ("the editor", "the field below Notes"): the largest, or the nearest to an anchor."""
    usable = [box for box in boxes if may_be_field(screen, box, boxes)]
    if target.relation is not None:
        anchors = keep_best(find_text(screen, target.relation.anchor))
        relation = target.relation
        ranked = sorted(
            (distance(relation, box, anchor.box_px, screen), box)
            for box in usable
            for anchor in anchors
            if not box.contains(anchor.box_px)
        )
        why = f'the nearest box {relation.kind} "{relation.anchor}"'
        return _make(screen, ranked[0][1], anchors[0].line, why) if ranked else None
    if target.role == "area" or not usable:
        large = [box for box in screen.boxes if box.height > 40]
        usable = innermost(large) or large or [screen.box]
        return _make(screen, max(usable, key=lambda box: box.area), None, "the largest empty area")
    usable = find_lists(screen) if target.role == "list" else find_fields(screen) or usable
    if target.ordinal is None and len(usable) > 1:
        return None  # ambiguous
    box = nth(sorted(usable, key=lambda box: (round(box.top / 8), box.left)), target.ordinal or 1)
    return _make(screen, box, None, "the field with that number") if box is not None else None


def _make(screen: OcrScreen, box: Box, label: TextLine | None, why: str) -> Field:
    inside = [line for line in screen.lines_in(box) if line is not label or box.contains(line.box_px, slack_px=2)]
    return Field(box_px=box, label=label, texts=tuple(line.text for line in inside), why=why)
