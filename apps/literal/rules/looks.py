"""Ways to say what drawn figures look like, and to press, drag, count and name them."""

import re

from apps.literal.clauses import Quotes
from apps.literal.colours import COLOURS
from apps.literal.rules.words import Rule, rule
from apps.literal.steps import PlainStep
from apps.literal.targets import Looks
from apps.literal.work_steps import DragFigures, PressFigures, TellFigures

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


def read_looks(words: str) -> Looks | None:
    """What words say of a figure's looks when each of them does; a kind alone does, a colour alone does not."""
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
    return Looks(colour=colour, size=size, kind=kind, glyph=glyph) if kind or glyph else None  # type: ignore[arg-type]


def _is_drawn(looks: Looks) -> bool:
    """Whether words mean a drawn figure: "the box" is a field, "all items" may be entries of a list."""
    is_plain = looks.kind in ("box", "item", "digit", "letter")
    return bool(looks.colour or looks.size or looks.glyph) or not is_plain


def _press(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    words = match["looks"].strip()
    glyph = re.fullmatch(r"an?\s+(?P<looks>(?:[a-z]+\s+)*)(?P<glyph>[A-Za-z0-9])", words)
    looks = read_looks(f"{glyph['looks']} item") if glyph is not None else read_looks(words)
    if looks is None:
        return None
    if glyph is not None:
        looks = Looks(colour=looks.colour, size=looks.size, glyph=glyph["glyph"])
    if not _is_drawn(looks):
        return None
    return PressFigures(looks=looks, phrase=re.sub(r"^(?:the|an?)\s+", "", words))


def _press_all(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    colour = match.groupdict().get("colour")
    looks = Looks(colour=colour.lower(), kind="item") if colour else read_looks(match["looks"])
    return PressFigures(looks=looks, is_all=True) if looks is not None and (colour or _is_drawn(looks)) else None


def _drag(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    looks = read_looks(match["looks"])
    return None if looks is None else DragFigures(looks=looks, direction=match["direction"].lower())  # type: ignore[arg-type]


def _drag_into(match: re.Match[str], quotes: Quotes) -> PlainStep | list[PlainStep] | None:
    looks = read_looks(match["looks"])
    if looks is None:
        return None
    first = DragFigures(looks=looks, box=(match["box"] or "").lower())
    if match["other"] is None:
        return first
    return [first, DragFigures(looks=looks, box=match["other"].lower(), is_others=True)]


def _drag_smaller(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return DragFigures(looks=Looks(kind="box", size="small"), box="larger")


def _count(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    looks = read_looks(match["looks"])
    return TellFigures(looks=looks) if looks is not None and _is_drawn(looks) else None


def _name(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return TellFigures(looks=Looks(kind="item"), what="name")


def _sides(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return TellFigures(looks=Looks(kind="item"), what="sides")


def _centre(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    looks = read_looks(match["looks"])
    return None if looks is None else PressFigures(looks=looks)


def _open_menu(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return PressFigures(looks=Looks(kind="item"), phrase=match["name"].strip(), is_only=True)


_CLICK = r"(?:click|press|tap|select|choose|pick)(?: on)?"
_BOX = rf"(?:(?P<box>{_COLOUR}|left|right) )?(?:box|frame|rectangle|area)"

LOOKS: tuple[Rule, ...] = (
    rule(
        r"(?:expand|open|unfold) the (?P<name>(?:pie|radial|circular|round|context|hamburger) menu)(?: below| above)?",
        _open_menu,
    ),
    rule(rf"{_CLICK} (?:in |at )?the (?:center|centre|middle) of (?P<looks>.+)", _centre),
    rule(
        rf"{_CLICK} (?:all|every|each)(?: of)?(?: the)? (?:shades?|tones?|tints?) of (?P<colour>{_COLOUR})", _press_all
    ),
    rule(rf"{_CLICK} (?:all|every|each)(?: of)?(?: the)? (?P<looks>(?:[\w-]+ )*(?:{_KIND})s?)", _press_all),
    rule(
        rf"{_CLICK} (?:the )?button (?:that|which) (?:correctly |best )?(?:describes?|names?|identif(?:y|ies)|tells?)"
        r" (?:what )?the (?:figure|shape|drawing|item)(?: is)?(?: below| above| shown)?",
        _name,
    ),
    rule(
        rf"{_CLICK} (?:the )?button (?:that|which) (?:correctly |best )?(?:denotes|says|shows|tells|gives|indicates)"
        r" (?:how many|the number of) sides (?:the|of the) (?:shape|figure|polygon)(?: below| above| shown)?(?: has)?",
        _sides,
    ),
    rule(rf"{_CLICK} (?P<looks>(?:the|an?) (?:[\w-]+ )*?(?:{_KIND}|[A-Za-z0-9]))", _press),
    rule(
        r"drag (?P<looks>(?:the |an? )?[\w ]+?) (?:to(?:wards)? the )?(?P<direction>left|right|up|down)(?:wards?)?",
        _drag,
    ),
    rule(
        rf"drag (?:all |every |each )?(?:of )?(?:the )?(?P<looks>[\w ]+?) (?:into|in|to|onto|inside) the {_BOX}"
        r"(?:,? and (?:everything|all) else (?:into|in|to|onto|inside) the (?P<other>left|right) box)?",
        _drag_into,
    ),
    rule(
        r"drag the small(?:er)? (?:box|square|rectangle) (?:so that (?:it|the small(?:er)? (?:box|one)) is"
        r" (?:completely |fully |entirely )?(?:inside(?: of)?|within|in)|(?:completely )?(?:into|inside|onto))"
        r" the (?:larger|bigger|large|big)"
        r" (?:box|square|rectangle|one)",
        _drag_smaller,
    ),
    rule(
        rf"how many (?P<looks>(?:[\w-]+ )*(?:{_KIND})s?) (?:are|can you see|do you see)(?: there)?"
        r"(?: here| on the (?:page|screen))?\??",
        _count,
    ),
    rule(rf"count (?:all )?(?:the )?(?P<looks>(?:[\w-]+ )*(?:{_KIND})s?)", _count),
)
