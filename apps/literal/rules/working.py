"""Rules for opening elements in turn, transferring text, computing answers and setting sliders."""

import re
from collections.abc import Sequence

from apps.literal.moves import NotUnderstoodError
from apps.literal.rules.notation import KINDS, MARK, Rule, Said, compile_phrase, rule
from apps.literal.rules.words import target
from apps.literal.steps import (
    Click,
    CopyText,
    FillFromPage,
    LeaveUnsent,
    OpenUntil,
    PasteText,
    PlainStep,
    Report,
    SelectText,
    Slide,
    TypeAnswer,
    Work,
)
from apps.literal.target_phrase import ORDINALS
from apps.literal.targets import OpenerKind, Target

_HERE = "[below|above|here|shown|on the (page|left|right)|one by one|one after (the other|another)]"
_ALL = "[(all|each|every|any) [one] [of]] [the|these|those]"
_OPENERS: dict[OpenerKind, str] = {
    "tab": "(switch|go|move|click|cycle|flip|look|browse|search) (between|through|among|in|into|across|over)"
    f" {_ALL} [different|available] tabs {_HERE} {_HERE}",
    "section": "((expand|open|unfold|uncollapse)|(go|look|browse|search) (through|in|into|under|inside))"
    f" {_ALL} [collapsed|collapsible|expandable|closed] (sections?|panels?|accordions?|headings?|groups?)"
    f" {_HERE} {_HERE}",
    "node": "(navigate|go|look|browse|search|click) (through|in|into|around) [the|this]"
    " [file|folder|directory|navigation|site|category] (tree|folders?|directory|directories|hierarchy|outline) [view]"
    f" {_HERE} {_HERE}",
    "page": "(go|look|browse|page|click|flip|search) through [all] [of] [the] [result|next]"
    f" (pages|results|listing|entries) {_HERE} {_HERE}",
}
_OPENER_PATTERNS = {kind: compile_phrase(phrase)[0] for kind, phrase in _OPENERS.items()}
_LOOKED_FOR = re.compile(r"\b(?:find|locate|look\s+for|search\s+for)\b", re.I)


def read_opener(clause: str, following: str) -> OpenerKind | None:
    """Return the type of element that a clause opens if the next clause says what to find there; otherwise None."""
    if _LOOKED_FOR.search(following) is None:
        return None
    text = f" {clause.strip(' ,.')}"
    return next((kind for kind, pattern in _OPENER_PATTERNS.items() if pattern.fullmatch(text)), None)


def _open_until(kind: OpenerKind) -> Rule:
    def make(said: Said) -> Sequence[PlainStep]:
        found = OpenUntil(kind=kind, target=target(said))
        return [found, Click(target=found.target)] if said["act"] else [found]

    return rule(
        f"{_OPENERS[kind]}`[ ,]+(?:(?:in order )?to|and|until you|and then)` (find|locate|see|look for|search for)"
        " [<act: and [then] (click|press|tap|open|select|choose|hit) [on]>] <target>",
        make,
    )


def _ordinal(said: Said, what: str) -> int | None:
    """Return the number in a part; None if it is omitted."""
    word = said["ordinal"]
    digits = re.fullmatch(r"(\d{1,3})(?:st|nd|rd|th)", word.lower())
    ordinal = int(digits[1]) if digits is not None else ORDINALS.get(word.lower())
    if word and not ordinal:
        raise NotUnderstoodError(word, f"say which {what} by its number")
    return ordinal


_STYLES = {"b": "bold", "i": "ital", "u": "under"}
_STYLE = "<style: bold|italics?|underlined?>"


def _style(said: Said) -> PlainStep:
    style = next(letter for letter, word in _STYLES.items() if said["style"].lower().startswith(word))
    if re.fullmatch(r"everything|all|it all|all (?:of )?the text|the (?:whole|entire) text", said["what"], re.I):
        return SelectText(is_all=True, style=style)  # type: ignore[arg-type]
    text = re.sub(r"^(?:the\s+)?(?:(?:text|words?|phrase)\s+)?(?=\S)", "", said["what"], flags=re.I)
    return SelectText(text=said.quotes.unmask(text, quoted=False).strip(), style=style)  # type: ignore[arg-type]


def _mark_paragraph(said: Said) -> PlainStep:
    return SelectText(paragraph=_ordinal(said, "paragraph"))


def _word(said: Said) -> PlainStep:
    is_in_area = re.search(r"area|box|field", said["where"]) is not None
    return Work(kind="word", ordinal=_ordinal(said, "word") or 1, is_in_area=is_in_area)


def _slide(said: Said) -> PlainStep:
    value = said.unquoted("value")
    if re.fullmatch(KINDS["DECIMAL"], value) is None:
        raise NotUnderstoodError(value, "a number")
    is_spinner = re.search(r"spinner|stepper|number (?:field|input|box)", said["widget"], re.I) is not None
    return Slide(value=_decimal(value), number=_ordinal(said, "one"), is_spinner=is_spinner)


def _slide_all(said: Said) -> Sequence[PlainStep] | None:
    if _VALUES.fullmatch(said["values"]) is None:
        return None
    values = re.findall(KINDS["DECIMAL"], said["values"])
    return [Slide(value=_decimal(value), number=index) for index, value in enumerate(values, 1)]


def _decimal(text: str) -> float:
    return float(text.replace("−", "-"))


_VALUES = re.compile(rf"[\[(]?{KINDS['DECIMAL']}(?:\s*(?:,|and|, and)\s*{KINDS['DECIMAL']})+[\])]?", re.I)
_TYPE = "(type [in]|enter|write|put|insert|input|key in|fill in|copy|paste)"
_THAT = (
    "(it|that|this|that word|this word|the (answer|result|word|solution|sum|value|number)"
    "|your (answer|result|solution))"
)
_CONTENT = "[[all] [of] the] (text|contents?|value|words)"
_NTH = "[<ordinal: WORD>]"
_WIDGET = "<widget: slider|range [slider]|spinner|stepper|number (field|input|box)>"
_MARK = "(highlight|mark|select)"
_VALUE = "(values?|numbers?|contents?|entrys?|texts?|amounts?)"
_OF = "(of|for|next to|beside|right of|that (stands|is|is shown) (next to|beside|for)|shown (for|next to))"
_PUT = "(select|set|choose|pick|enter|move|drag|adjust|slide|bring|change)"

WORKING: tuple[Rule, ...] = (
    *map(_open_until, _OPENERS),
    rule(
        "(find|locate|look up) <target?> (in|on) the [WORD] (book|phone~book|contacts|contact list|list|directory"
        "|catalog|catalogue|index|search results|results|pages)",
        lambda said: OpenUntil(kind="page", target=target(said)),
    ),
    rule(f"copy {_CONTENT} (in|from|of|inside) <field>", lambda said: CopyText(field=target(said, "field"))),
    rule(
        f"paste (it|that|this|{_CONTENT}|the [copied] text|the clipboard) (into|in|to|on) <field>",
        lambda said: PasteText(field=target(said, "field")),
    ),
    rule(f"(give|set) <what?> (the|an?|in) (style [of]|font style) {_STYLE}", _style),
    rule(f"(make|format|style) <what?> [as|in|to] {_STYLE}", _style),
    rule(
        f"{_MARK} [all] [of] [the] (texts?|words|contents?) (in|of|inside) [the|this] {_NTH} paragraph [of text]"
        " [below|above|shown]",
        _mark_paragraph,
    ),
    rule(f"{_MARK} the {_NTH} paragraph [below|above]", _mark_paragraph),
    rule(
        "highlight [the] [text|words?|phrase|sentence] <text: QUOTED>",
        lambda said: SelectText(text=said.unquoted("text")),
    ),
    rule(
        "(find|read|locate|take|get|look up) the <ordinal: WORD> word (in|of|from|inside) (the|this)"
        " <where: (paragraph|text|sentence|text~area|text~box|text field|passage) [of text]> [below|above]",
        _word,
    ),
    rule(
        "(solve|work out|calculate|compute|evaluate|answer) [the|this]"
        " [[simple] (math|maths|mathematics|mathematical|arithmetic|algebra|addition)]"
        " (problem|sum|equation|expression|exercise|question|calculation) [below|above|shown]",
        Work(kind="sum"),
    ),
    rule("(solve [the equation] for|find the value of|work out|calculate) LETTER", Work(kind="unknown")),
    rule(f"{_TYPE} {_THAT} (into|in|to|as) <field>", lambda said: TypeAnswer(field=target(said, "field"))),
    rule(
        f"{_TYPE} the {_VALUE} {_OF} <source?> (into|in|to)` (?P<field>the .+|{MARK}.*)`",
        lambda said: [Report(target=target(said, "source")), TypeAnswer(field=target(said, "field"))],
    ),
    rule(
        f"({_TYPE}|fill (in|out)) [the|each] {_VALUE} [that|which]"
        " (corresponds?|belongs?|belonging|corresponding|match|matches|matching) [with|to]"
        " (each|every|the|all) [of the] (labels?|fields?|names?) [(into|in) the (form|fields)] [below]",
        FillFromPage(),
    ),
    rule(
        "fill [in|out] the (form|fields) (with|from|using) the values? (of|in|from) the table [above|below]",
        FillFromPage(),
    ),
    rule("[but] (do not|don't|never) (submit|send|save) [it|this|that|the form|anything] [yet]", LeaveUnsent()),
    rule(
        "submit [the form] (when|once|after) [you|you're|you are] (done|finished|ready)",
        Click(target=Target(text="Submit", role="button")),
    ),
    rule(f"{_PUT} <value: DECIMAL|QUOTED> (with|using|on|in|by) the {_NTH} {_WIDGET} [below|above]", _slide),
    rule(f"{_PUT} the {_NTH} {_WIDGET} [below|above] (to|at|on) [the value] <value: DECIMAL|QUOTED>", _slide),
    rule(
        f"{_PUT} the [WORD] sliders (to|at) [the] [combination|values|numbers|positions] [of] <values>",
        _slide_all,
    ),
)
