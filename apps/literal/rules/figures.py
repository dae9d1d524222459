"""Rules for describing drawn figures, and for clicking, dragging, counting and naming them."""

import re
from collections.abc import Callable

from apps.literal.rules.notation import ParsedClause, PhraseRule, StepsOf, rule
from apps.literal.steps import ClickFigures, DescribeFigures, DragFigures, PlainStep
from apps.literal.targets import COLOURS, FigureStyle

_KINDS = {
    "circle": "circle", "disc": "circle", "disk": "circle", "dot": "circle", "ball": "circle", "square": "square",
    "rectangle": "rectangle", "triangle": "triangle", "box": "box", "boxes": "box", "letter": "letter",
    "digit": "digit", "number": "digit", "shape": "shape", "figure": "shape", "item": "item", "object": "item",
    "thing": "item", "swatch": "item", "polygon": "polygon",
}  # fmt: skip
_SIZES = {"small": "small", "little": "small", "tiny": "small", "large": "large", "big": "large", "huge": "large"}
_FILLERS = frozenset({"colored", "coloured", "color", "colour", "of", "the", "a", "an", "all", "any", "one", "shaded"})
_COLOUR = "|".join(sorted(COLOURS, key=len, reverse=True))
_KIND = "|".join(_KINDS)


def read_looks(words: str) -> FigureStyle | None:
    """Parse a description of a figure; None if it has an unknown word, or only a colour or size."""
    colour = size = kind = glyph = ""
    for word in re.findall(r"[\w]+", words.lower()):
        single = word[:-1] if word.endswith("s") and word not in _KINDS else word
        if word in COLOURS and not colour:
            colour = word
        elif word in _SIZES and not size:
            size = _SIZES[word]
        elif single in _KINDS and not kind:
            kind = _KINDS[single]
        elif word not in _FILLERS:
            return None
    lone = re.fullmatch(r"(?:an?)\s+(?:(?:small|large|big|little)\s+)?(?:\w+\s+)?([A-Za-z0-9])", words.strip())
    if lone is not None and not kind:
        glyph = lone[1]
    return FigureStyle(colour=colour, size=size, kind=kind, glyph=glyph) if kind or glyph else None  # type: ignore[arg-type]


def _is_drawn(looks: FigureStyle) -> bool:
    """Return True if words mean a drawn figure; "the box" is a field, "all items" may be entries of a list."""
    is_plain = looks.kind in ("box", "item", "digit", "letter")
    return bool(looks.colour or looks.size or looks.glyph) or not is_plain


_SOME_LOOKS = re.compile(rf"(?:[\w-]+ )*(?:{_KIND})s?", re.I)
_ONE_LOOK = re.compile(rf"(?:the|an?) (?:[\w-]+ )*?(?:{_KIND}|[A-Za-z0-9])", re.I)


def _press(clause: ParsedClause) -> PlainStep | None:
    words = clause["looks"]
    glyph = re.fullmatch(r"an?\s+(?P<looks>(?:[a-z]+\s+)*)(?P<glyph>[A-Za-z0-9])", words)
    looks = read_looks(f"{glyph['looks']} item") if glyph is not None else read_looks(words)
    if looks is None or _ONE_LOOK.fullmatch(words) is None:
        return None
    if glyph is not None:
        looks = FigureStyle(colour=looks.colour, size=looks.size, glyph=glyph["glyph"])
    if not _is_drawn(looks):
        return None
    return ClickFigures(looks=looks, phrase=re.sub(r"^(?:the|an?)\s+", "", words))


def _with_looks(make: Callable[[ParsedClause, FigureStyle], PlainStep], *, is_drawn: bool = False) -> StepsOf:
    """Return a function for clauses that describe figures; with `is_drawn`, only ones that mean drawn figures."""

    def read(clause: ParsedClause) -> PlainStep | None:
        words = clause["looks"]
        looks = read_looks(words) if not is_drawn or _SOME_LOOKS.fullmatch(words) else None
        return None if looks is None or (is_drawn and not _is_drawn(looks)) else make(clause, looks)

    return read


def _drag_into(clause: ParsedClause) -> list[PlainStep] | None:
    looks = read_looks(clause["looks"])
    if looks is None:
        return None
    steps: list[PlainStep] = [DragFigures(looks=looks, box=clause["box"].lower())]
    return [*steps, DragFigures(looks=looks, box=clause["other"].lower(), is_others=True)] if clause["other"] else steps


_COUNT = _with_looks(lambda clause, looks: DescribeFigures(looks=looks), is_drawn=True)
_CLICK = "(click|press|tap|select|choose|pick) [on]"
_BOX = f"[<box: {_COLOUR}|left|right>] (box|frame|rectangle|area)"
_INTO = "(into|in|to|onto|inside)"

LOOKS: tuple[PhraseRule, ...] = (
    rule(
        "(expand|open|unfold) the <name: (pie|radial|circular|round|context|hamburger) menu> [below|above]",
        lambda clause: ClickFigures(looks=FigureStyle(kind="item"), phrase=clause["name"], is_only=True),
    ),
    rule(
        f"{_CLICK} [in|at] the (center|centre|middle) of <looks>",
        _with_looks(lambda clause, looks: ClickFigures(looks=looks)),
    ),
    rule(
        f"{_CLICK} (all|every|each) [of] [the] (shades?|tones?|tints?) of <colour: {_COLOUR}>",
        lambda clause: ClickFigures(looks=FigureStyle(colour=clause["colour"].lower(), kind="item"), is_all=True),
    ),
    rule(
        f"{_CLICK} (all|every|each) [of] [the] <looks>",
        _with_looks(lambda clause, looks: ClickFigures(looks=looks, is_all=True), is_drawn=True),
    ),
    rule(
        f"{_CLICK} [the] button (that|which) [correctly|best] (describes?|names?|identify|identifies|tells?) [what] the"
        " (figure|shape|drawing|item) [is] [below|above|shown]",
        DescribeFigures(looks=FigureStyle(kind="item"), what="name"),
    ),
    rule(
        f"{_CLICK} [the] button (that|which) [correctly|best] (denotes|says|shows|tells|gives|indicates)"
        " (how many|the number of) sides (the|of the) (shape|figure|polygon) [below|above|shown] [has]",
        DescribeFigures(looks=FigureStyle(kind="item"), what="sides"),
    ),
    rule(f"{_CLICK} <looks>", _press),
    rule(
        "drag` (?P<looks>[\\w ]+?)` [(to|towards) the] <direction: left|right|up|down>`(?:wards?)?`",
        _with_looks(lambda clause, looks: DragFigures(looks=looks, direction=clause["direction"].lower())),  # type: ignore[arg-type]
    ),
    rule(
        f"drag [all|every|each] [of] [the]` (?P<looks>[\\w ]+?)` {_INTO} the {_BOX}"
        f" [`,?` and (everything|all) else {_INTO} the <other: left|right> box]",
        _drag_into,
    ),
    rule(
        "drag the (small|smaller) (box|square|rectangle) (so that (it|the (small|smaller) (box|one)) is"
        " [completely|fully|entirely] (inside [of]|within|in)|[completely] (into|inside|onto))"
        " the (larger|bigger|large|big) (box|square|rectangle|one)",
        DragFigures(looks=FigureStyle(kind="box", size="small"), box="larger"),
    ),
    rule("how many <looks?> (are|can you see|do you see) [there] [here|on the (page|screen)]`\\??`", _COUNT),
    rule("count [all] [the] <looks>", _COUNT),
)
