"""Rules for opening elements in turn, transferring text, computing answers and setting sliders."""

import re
from collections.abc import Sequence

from apps.literal.rules.clause_parts import number, target
from apps.literal.rules.notation import KINDS, MARK, ParsedClause, PhraseRule, compile_phrase, rule
from apps.literal.step_outcome import NotUnderstoodError
from apps.literal.steps import (
    ClickTarget,
    ComputeAnswer,
    CopyText,
    DoNotSubmit,
    FillFromPage,
    OpenUntil,
    PasteText,
    PlainStep,
    ReportValue,
    SelectText,
    SetSlider,
    TypeAnswer,
)
from apps.literal.target_phrase import ORDINALS
from apps.literal.targets import ElementTarget, OpenerKind

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


def _open_until(kind: OpenerKind) -> PhraseRule:
    def make(clause: ParsedClause) -> Sequence[PlainStep]:
        opening = OpenUntil(kind=kind, target=target(clause))
        return [opening, ClickTarget(target=opening.target)] if clause["act"] else [opening]

    return rule(
        f"{_OPENERS[kind]}`[ ,]+(?:(?:in order )?to|and|until you|and then)` (find|locate|see|look for|search for)"
        " [<act: and [then] (click|press|tap|open|select|choose|hit) [on]>] <target>",
        make,
    )


def _ordinal(clause: ParsedClause, noun: str) -> int | None:
    """Return the number in a part; None if it is omitted."""
    word = clause["ordinal"]
    digits = re.fullmatch(r"(\d{1,3})(?:st|nd|rd|th)", word.lower())
    ordinal = int(digits[1]) if digits is not None else ORDINALS.get(word.lower())
    if word and not ordinal:
        raise NotUnderstoodError(word, f"give the number of the {noun}")
    return ordinal


_STYLES = {"b": "bold", "i": "ital", "u": "under"}
_STYLE = "<style: bold|italics?|underlined?>"


def _style(clause: ParsedClause) -> PlainStep:
    style = next(letter for letter, word in _STYLES.items() if clause["style"].lower().startswith(word))
    if re.fullmatch(r"everything|all|it all|all (?:of )?the text|the (?:whole|entire) text", clause["text"], re.I):
        return SelectText(is_all=True, style=style)  # type: ignore[arg-type]
    text = re.sub(r"^(?:the\s+)?(?:(?:text|words?|phrase)\s+)?(?=\S)", "", clause["text"], flags=re.I)
    return SelectText(text=clause.quotes.unmask(text, quoted=False).strip(), style=style)  # type: ignore[arg-type]


def _mark_paragraph(clause: ParsedClause) -> PlainStep:
    return SelectText(paragraph=_ordinal(clause, "paragraph"))


def _word(clause: ParsedClause) -> PlainStep:
    is_in_area = re.search(r"area|box|field", clause["source"]) is not None
    return ComputeAnswer(kind="word", ordinal=_ordinal(clause, "word") or 1, is_in_area=is_in_area)


def _slide(clause: ParsedClause) -> PlainStep:
    value = clause.unquoted("value")
    if re.fullmatch(KINDS["DECIMAL"], value) is None:
        raise NotUnderstoodError(value, "expected a number")
    is_spinner = re.search(r"spinner|stepper|number (?:field|input|box)", clause["widget"], re.I) is not None
    return SetSlider(value=number(value), number=_ordinal(clause, "one"), is_spinner=is_spinner)


def _slide_all(clause: ParsedClause) -> Sequence[PlainStep] | None:
    if _VALUES.fullmatch(clause["values"]) is None:
        return None
    values = re.findall(KINDS["DECIMAL"], clause["values"])
    return [SetSlider(value=number(value), number=index) for index, value in enumerate(values, 1)]


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

WORKING: tuple[PhraseRule, ...] = (
    *map(_open_until, _OPENERS),
    rule(
        "(find|locate|look up) <target?> (in|on) the [WORD] (book|phone~book|contacts|contact list|list|directory"
        "|catalog|catalogue|index|search results|results|pages)",
        lambda clause: OpenUntil(kind="page", target=target(clause)),
    ),
    rule(f"copy {_CONTENT} (in|from|of|inside) <field>", lambda clause: CopyText(field=target(clause, "field"))),
    rule(
        f"paste (it|that|this|{_CONTENT}|the [copied] text|the clipboard) (into|in|to|on) <field>",
        lambda clause: PasteText(field=target(clause, "field")),
    ),
    rule(f"(give|set) <text?> (the|an?|in) (style [of]|font style) {_STYLE}", _style),
    rule(f"(make|format|style) <text?> [as|in|to] {_STYLE}", _style),
    rule(
        f"{_MARK} [all] [of] [the] (texts?|words|contents?) (in|of|inside) [the|this] {_NTH} paragraph [of text]"
        " [below|above|shown]",
        _mark_paragraph,
    ),
    rule(f"{_MARK} the {_NTH} paragraph [below|above]", _mark_paragraph),
    rule(
        "highlight [the] [text|words?|phrase|sentence] <text: QUOTED>",
        lambda clause: SelectText(text=clause.unquoted("text")),
    ),
    rule(
        "(find|read|locate|take|get|look up) the <ordinal: WORD> word (in|of|from|inside) (the|this)"
        " <source: (paragraph|text|sentence|text~area|text~box|text field|passage) [of text]> [below|above]",
        _word,
    ),
    rule(
        "(solve|work out|calculate|compute|evaluate|answer) [the|this]"
        " [[simple] (math|maths|mathematics|mathematical|arithmetic|algebra|addition)]"
        " (problem|sum|equation|expression|exercise|question|calculation) [below|above|shown]",
        ComputeAnswer(kind="sum"),
    ),
    rule("(solve [the equation] for|find the value of|work out|calculate) LETTER", ComputeAnswer(kind="unknown")),
    rule(f"{_TYPE} {_THAT} (into|in|to|as) <field>", lambda clause: TypeAnswer(field=target(clause, "field"))),
    rule(
        f"{_TYPE} the {_VALUE} {_OF} <source?> (into|in|to)` (?P<field>the .+|{MARK}.*)`",
        lambda clause: [ReportValue(target=target(clause, "source")), TypeAnswer(field=target(clause, "field"))],
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
    rule("[but] (do not|don't|never) (submit|send|save) [it|this|that|the form|anything] [yet]", DoNotSubmit()),
    rule(
        "submit [the form] (when|once|after) [you|you're|you are] (done|finished|ready)",
        ClickTarget(target=ElementTarget(text="Submit", role="button")),
    ),
    rule(f"{_PUT} <value: DECIMAL|QUOTED> (with|using|on|in|by) the {_NTH} {_WIDGET} [below|above]", _slide),
    rule(f"{_PUT} the {_NTH} {_WIDGET} [below|above] (to|at|on) [the value] <value: DECIMAL|QUOTED>", _slide),
    rule(f"{_PUT} the [WORD] sliders (to|at) [the] [combination|values|numbers|positions] [of] <values>", _slide_all),
)
