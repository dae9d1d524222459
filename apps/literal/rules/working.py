"""Ways to say: open one thing after another and look, carry text elsewhere, work something out, slide."""

import re
from collections.abc import Sequence

from apps.literal.clauses import Quotes
from apps.literal.moves import NotUnderstoodError
from apps.literal.rules.words import MARK, Rule, fixed, rule
from apps.literal.steps import Click, PlainStep, Report
from apps.literal.target_phrase import parse_target
from apps.literal.target_words import ORDINALS
from apps.literal.targets import OpenerKind, Target
from apps.literal.work_steps import (
    CopyText,
    FillFromPage,
    LeaveUnsent,
    OpenUntil,
    PasteText,
    SelectText,
    Slide,
    TypeAnswer,
    Work,
)

_WHERE = (
    r"(?:\s+(?:below|above|here|shown|on\s+the\s+(?:page|left|right)"
    r"|one\s+(?:by\s+one|after\s+(?:the\s+other|another))))*"
)
_ALL = r"(?:(?:all|each|every|any)\s+(?:one\s+)?(?:of\s+)?)?(?:the\s+|these\s+|those\s+)?"
_OPENERS: tuple[tuple[OpenerKind, str], ...] = (
    (
        "tab",
        rf"(?:switch|go|move|click|cycle|flip|look|browse|search)\s+(?:between|through|among|in|into|across|over)\s+{_ALL}"
        r"(?:different\s+|available\s+)?tabs",
    ),
    (
        "section",
        rf"(?:(?:expand|open|unfold|uncollapse)\s+|(?:go|look|browse|search)\s+(?:through|in|into|under|inside)\s+){_ALL}"
        r"(?:collapsed\s+|collapsible\s+|expandable\s+|closed\s+)?(?:sections?|panels?|accordions?|headings?|groups?)",
    ),
    (
        "node",
        r"(?:navigate|go|look|browse|search|click)\s+(?:through|in|into|around)\s+(?:the\s+|this\s+)?"
        r"(?:(?:file|folder|directory|navigation|site|category)\s+)?(?:tree|folders?|director(?:y|ies)|hierarchy|outline)"
        r"(?:\s+view)?",
    ),
    (
        "page",
        r"(?:go|look|browse|page|click|flip|search)\s+through\s+(?:all\s+)?(?:of\s+)?(?:the\s+)?(?:result\s+|next\s+)?"
        r"(?:pages|results|listing|entries)",
    ),
)
_TO_FIND = r"[\s,]+(?:(?:in\s+order\s+)?to|and|until\s+you|and\s+then)\s+(?:find|locate|see|look\s+for|search\s+for)\s+"
_ACT = r"(?P<act>and\s+(?:then\s+)?(?:click|press|tap|open|select|choose|hit)(?:\s+on)?\s+)?"
_LOOKED_FOR = re.compile(r"\b(?:find|locate|look\s+for|search\s+for)\b", re.I)


def read_opener(clause: str, following: str) -> OpenerKind | None:
    """What a clause says to open when the next one says what to find there; None when it says something else."""
    if _LOOKED_FOR.search(following) is None:
        return None
    return next(
        (kind for kind, words in _OPENERS if re.fullmatch(rf"(?:{words}){_WHERE}", clause.strip(" ,."), re.I)), None
    )


def _open_until(kind: OpenerKind) -> Rule:
    words = next(words for each, words in _OPENERS if each == kind)

    def make(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
        target = parse_target(match["target"], quotes)
        found = OpenUntil(kind=kind, target=target)
        return [found, Click(target=target)] if match["act"] else [found]

    return re.compile(rf"(?:{words}){_WHERE}{_TO_FIND}{_ACT}(?P<target>.+)", re.I | re.S), make


def _find_in_list(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return OpenUntil(kind="page", target=parse_target(match["target"], quotes))


def _copy(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return CopyText(field=parse_target(match["field"], quotes))


def _paste(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return PasteText(field=parse_target(match["field"], quotes))


_STYLES = {"b": "bold", "i": "ital", "u": "under"}
_STYLE = r"(?P<style>bold|italics?|underlined?)"


def _style(match: re.Match[str], quotes: Quotes) -> PlainStep:
    said = match["style"].lower()
    style = next(letter for letter, word in _STYLES.items() if said.startswith(word))
    what = match["what"].strip()
    if re.fullmatch(r"everything|all|it all|all (?:of )?the text|the (?:whole|entire) text", what, re.I):
        return SelectText(is_all=True, style=style)  # type: ignore[arg-type]
    named = re.fullmatch(r"(?:the\s+)?(?:(?:text|words?|phrase)\s+)?(?P<text>\S.*)", what, re.I | re.S)
    text = quotes.unmask(named["text"] if named is not None else what, quoted=False).strip()
    return SelectText(text=text, style=style)  # type: ignore[arg-type]


def _mark_paragraph(match: re.Match[str], quotes: Quotes) -> PlainStep:
    word = match["ordinal"]
    if word is not None and word.lower() not in ORDINALS:
        raise NotUnderstoodError(word, "say which paragraph by its number")
    return SelectText(paragraph=ORDINALS[word.lower()] if word is not None else None)


def _mark_text(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return SelectText(text=quotes.unmask(match["text"], quoted=False))


def _word(match: re.Match[str], quotes: Quotes) -> PlainStep:
    word = match["ordinal"].lower()
    digits = re.fullmatch(r"(\d{1,3})(?:st|nd|rd|th)", word)
    ordinal = int(digits[1]) if digits is not None else ORDINALS.get(word)
    if not ordinal:
        raise NotUnderstoodError(match["ordinal"], "say which word by its number")
    return Work(kind="word", ordinal=ordinal, is_in_area=re.search(r"area|box|field", match["where"]) is not None)


def _solve(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return Work(kind="sum")


def _solve_for(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return Work(kind="unknown")


def _type_answer(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return TypeAnswer(field=parse_target(match["field"], quotes))


def _type_value(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    return [
        Report(target=parse_target(match["source"], quotes)),
        TypeAnswer(field=parse_target(match["field"], quotes)),
    ]


def _fill_from_page(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return FillFromPage()


def _submit(match: re.Match[str], quotes: Quotes) -> PlainStep:
    return Click(target=Target(text="Submit", role="button"))


def _slide(match: re.Match[str], quotes: Quotes) -> PlainStep:
    said = quotes.unmask(match["value"], quoted=False)
    if re.fullmatch(_NUMBER, said) is None:
        raise NotUnderstoodError(said, "a number")
    word = match["ordinal"] or ""
    number = ORDINALS.get(word.strip().lower())
    if word and number is None:
        raise NotUnderstoodError(word, "say which one by its number")
    is_spinner = re.search(r"spinner|stepper|number (?:field|input|box)", match["widget"], re.I) is not None
    return Slide(value=float(said.replace("−", "-")), number=number, is_spinner=is_spinner)


def _slide_all(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    values = re.findall(_NUMBER, match["values"])
    return [Slide(value=float(value), number=index) for index, value in enumerate(values, 1)]


_NUMBER = r"[-−]?\d+(?:\.\d+)?"
_THAT = (
    r"(?:it|that|this|that word|this word|the (?:answer|result|word|solution|sum|value|number)"
    r"|your (?:answer|result|solution))"
)
_TYPE = r"(?:type(?: in)?|enter|write|put|insert|input|key in|fill in|copy|paste)"
_CONTENT = r"(?:(?:all )?(?:of )?the )?(?:text|contents?|value|words)"
_ORDINAL = r"(?:(?P<ordinal>\w+) )?"
_WIDGET = r"(?P<widget>slider|range(?: slider)?|spinner|stepper|number (?:field|input|box))"
_MARK_IT = r"(?:highlight|mark|select)"
_VALUE = r"(?:value|number|content|entry|text|amount)s?"
_OF = r"(?:of|for|next to|beside|right of|that (?:stands|is|is shown) (?:next to|beside|for)|shown (?:for|next to))"
_PUT = r"(?:select|set|choose|pick|enter|move|drag|adjust|slide|bring|change)"

WORKING: tuple[Rule, ...] = (
    *(_open_until(kind) for kind, _ in _OPENERS),
    rule(
        r"(?:find|locate|look up) (?P<target>.+?) (?:in|on) the (?:\w+ )?"
        r"(?:book|phone ?book|contacts|contact list|list|directory|catalog(?:ue)?|index|search results|results|pages)",
        _find_in_list,
    ),
    rule(rf"copy {_CONTENT} (?:in|from|of|inside) (?P<field>.+)", _copy),
    rule(
        rf"paste (?:it|that|this|{_CONTENT}|the (?:copied )?text|the clipboard) (?:into|in|to|on) (?P<field>.+)", _paste
    ),
    rule(rf"(?:give|set) (?P<what>.+?) (?:the|a|an|in) (?:style(?: of)?|font style) {_STYLE}", _style),
    rule(rf"(?:make|format|style) (?P<what>.+?)(?: (?:as|in|to))? {_STYLE}", _style),
    rule(
        rf"{_MARK_IT} (?:all )?(?:of )?(?:the )?(?:text|words|content)s? (?:in|of|inside) (?:the |this )?"
        rf"{_ORDINAL}paragraph(?: of text)?(?: below| above| shown)?",
        _mark_paragraph,
    ),
    rule(rf"{_MARK_IT} the {_ORDINAL}paragraph(?: below| above)?", _mark_paragraph),
    rule(rf"highlight (?:the )?(?:(?:text|words?|phrase|sentence) )?(?P<text>{MARK})", _mark_text),
    rule(
        r"(?:find|read|locate|take|get|look up) the (?P<ordinal>\w+) word (?:in|of|from|inside) (?:the|this) "
        r"(?P<where>(?:paragraph|text|sentence|text ?area|text ?box|text field|passage)(?: of text)?)"
        r"(?: below| above)?",
        _word,
    ),
    rule(
        r"(?:solve|work out|calculate|compute|evaluate|answer) (?:the |this )?"
        r"(?:(?:simple )?(?:math(?:s|ematical|ematics)?|arithmetic|algebra|addition) )?"
        r"(?:problem|sum|equation|expression|exercise|question|calculation)(?: below| above| shown)?",
        _solve,
    ),
    rule(r"(?:solve (?:the equation )?for|find the value of|work out|calculate) (?P<unknown>[a-z])", _solve_for),
    rule(rf"{_TYPE} {_THAT} (?:into|in|to|as) (?P<field>.+)", _type_answer),
    rule(rf"{_TYPE} the {_VALUE} {_OF} (?P<source>.+?) (?:into|in|to) (?P<field>the .+|{MARK}.*)", _type_value),
    rule(
        rf"(?:{_TYPE}|fill (?:in|out)) (?:the |each )?{_VALUE} (?:that |which )?(?:corresponds?|belongs?|belonging"
        r"|corresponding|match(?:es|ing)?)(?: (?:with|to))? (?:each|every|the|all)(?: of the)?"
        r" (?:labels?|fields?|names?)(?: (?:into|in) the (?:form|fields))?(?: below)?",
        _fill_from_page,
    ),
    rule(
        r"fill (?:in |out )?the (?:form|fields) (?:with|from|using) the values? (?:of|in|from) the table"
        r"(?: above| below)?",
        _fill_from_page,
    ),
    rule(
        r"(?:but )?(?:do not|don't|never) (?:submit|send|save)(?: (?:it|this|that|the form|anything))?(?: yet)?",
        fixed(LeaveUnsent()),
    ),
    rule(r"submit (?:the form )?(?:when|once|after) (?:you(?:'re| are)? )?(?:done|finished|ready)", _submit),
    rule(
        rf"{_PUT} (?P<value>{_NUMBER}|{MARK}) (?:with|using|on|in|by) the {_ORDINAL}{_WIDGET}(?: below| above)?", _slide
    ),
    rule(
        rf"{_PUT} the {_ORDINAL}{_WIDGET}(?: below| above)? (?:to|at|on)(?: the value)? (?P<value>{_NUMBER}|{MARK})",
        _slide,
    ),
    rule(
        rf"{_PUT} the (?:\w+ )?sliders (?:to|at)(?: the)?(?: (?:combination|values|numbers|positions))?(?: of)? "
        rf"[\[(]?(?P<values>{_NUMBER}(?:\s*(?:,|and|, and)\s*{_NUMBER})+)[\])]?",
        _slide_all,
    ),
)
