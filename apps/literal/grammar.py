"""Parse an instruction into a list of plain steps."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from apps.literal.clauses import MAX_CLAUSE_CHARS, Quotes, mask_quotes, split_clauses
from apps.literal.rules import rules_for
from apps.literal.rules.clause_parts import AMBIGUOUS_BUTTON_VERBS, BUTTON_VERBS
from apps.literal.rules.notation import compile_phrase
from apps.literal.rules.text_and_answers import read_opener
from apps.literal.step_outcome import NotUnderstoodError
from apps.literal.steps import (
    CheckShown,
    ClearField,
    ClickTarget,
    ComputeAnswer,
    OpenUntil,
    PlainStep,
    ReportValue,
    ScrollUntil,
    SetToggle,
    SetValue,
    TypeAnswer,
    TypeInto,
    Unreadable,
    WaitFor,
)
from apps.literal.targets import ElementTarget, OpenerKind

FORMS = (
    'click "Save"',
    'type "12.50" into Amount',
    "select Travel in Category",
    "tick Reimbursable",
    "press Enter",
    'scroll until "Terms" is seen',
    'wait until "Saved" appears',
    "tell me the Total",
)
"""Examples of supported steps, for error messages."""

_POLITE_WORDS, _ = compile_phrase(
    "(please|now|next|then|afterwards|finally|lastly|also|and|(first|firstly|second|secondly)`(?=\\s*,)`"
    "|first`(?=\\s+(?:click|type|open|go|select|press|fill|enter|set|choose|scroll|wait|tick|check)\\b)`"
    "|(could|can|would|will) you [please]|you (should|must|can|need to|have to)|(i|we) (want|need|would like) [you] to"
    "|i'd like you to|try to|go ahead and|after that|in the end|your task is to|the task is to|again|just|simply|to"
    "|(find|locate|look for|search for) and"
    "`(?=\\s+(?:click|tap|press|select|pick|choose|open|double|right|tick|check)\\b)`)` ?[,:]?(?=\\s)`"
)
_POLITE = re.compile(f"(?:{_POLITE_WORDS.pattern})+ ", re.I)
_VERB, _ = compile_phrase(
    "((left|double|triple|right|middle|context)`[ -]*click`|click|tap|push|press|hit|type|enter|write|input|insert|put"
    "|paste|fill|complete|populate|set|change|update|replace|overwrite|clear|empty|erase|select|choose|pick|un-?tick"
    "|un-?check|tick|check|deselect|enable|disable|turn (on|off)|switch|hover|move the|drag|scroll|wait|pause|open|go"
    "|visit|navigate|browse|load|reload|refresh|accept|dismiss|confirm|cancel the|reject|decline|tell|report|read"
    "|answer|what is|what's|how much|return|give|verify|assert|ensure|make sure|append|add|search for|copy|cut|undo"
    "|submit|focus|expand|close|launch|start|toggle|use|log~in|sign~in|back`$`|make certain"
    "|[but] (do not|don't|never) (submit|send|save)|note|find out|print|highlight|make (everything|all|the|it)"
    "|make` \ue000`|underline|solve|calculate|compute|slide|adjust)`\\b`"
)
_THE_NOUN = "(it|them|this|that|(the|your|my|all) [COMPOUND] COMPOUND|changes)"
_BUTTON_VERB, _ = compile_phrase(
    f"({BUTTON_VERBS} [{_THE_NOUN}]|{AMBIGUOUS_BUTTON_VERBS} {_THE_NOUN})`(?=\\s*(?:$|[,.;!]|\\s(?:and|then)\\s))`"
)
"""Button verb that ends the preceding text: "... and save", "... and update the cart"."""
_PRESSING = re.compile(r"(?:left\s|double\s)?(?:click|tap|press|hit|push)\b|(?:button|link|tab)\b.*$", re.I)
_PAIR_VERB = re.compile(
    r"(?:set|change|update)\b.*\s(?P<to>to)\s|(?:fill|complete|replace)\b.*\s(?P<with>with)\s"
    r"|(?:type|enter|write|put|input|insert|fill\s+in|select|choose|pick)\b.*\ue001\s+(?P<into>into|in|from|as|for)\s",
    re.I | re.S,
)
_FIELD_VERB = re.compile(
    r"(?:type|enter|write|put|input|insert|fill\s+in)\b.*\s(?:into|in)\s.*\b(?:field|box|input)$", re.I
)
_FIELD_PAIR = re.compile(r"\S+(?:\s\S+){0,3}?\s(?:into|in)\s+(?:the\s+)?(?:[\w-]+\s+){1,3}(?:field|box|input)\b", re.I)
_PAIR = re.compile(
    r"(?:the\s+)?(?:(?P<quoted>\ue000\d+\ue001)|\w+(?:\s\w+)?)\s+(?P<joint>to|with|into|in|from|as|for)\s"
)
_PRONOUNS = frozenset({"it", "that", "this", "them", "there"})
_NOTHING = re.compile(
    r"that(?:'s|\s+is)\s+(?:it|all)|done|stop(?:\s+there)?|finish(?:\s+the\s+task)?|end|you\s+are\s+done|thank(?:s|\s+you)+"
    r"|(?:using|with|in)\s+the\s+(?:rich\s+)?(?:text\s+)?editor(?:\s+below)?|etc|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|then|finally|lastly|please|and",
    re.I,
)


_MAX_CHARS = 20_000


@lru_cache(maxsize=64)
def read_instruction(instruction: str) -> tuple[PlainStep | Unreadable, ...]:
    """Return the cached steps of an instruction, as parsed by `parse_instruction`.

    Raises:
        ValueError: If the instruction is too long.
    """
    if len(instruction) <= _MAX_CHARS:
        return tuple(parse_instruction(instruction))
    raise ValueError(
        f"the instruction ({len(instruction)} characters) cannot be read as plain steps: the limit is {_MAX_CHARS} "
        f"characters. Write short steps, one a line, such as: {'; '.join(FORMS)}"
    )


def parse_instruction(instruction: str) -> list[PlainStep | Unreadable]:
    """Return the steps of an instruction, in order; parts that are not a step become `Unreadable`.

    Takes time linear in the instruction's length: each step, and the text that decides where it begins, is bounded.
    """
    masked, quotes = mask_quotes(instruction)
    clauses = split_clauses(masked, _starts_step_after)
    steps: list[PlainStep | Unreadable] = []
    verb = ""
    opener: OpenerKind | None = None
    has_answer = False
    for index, clause in enumerate(clauses):
        if len(clause) > MAX_CLAUSE_CHARS:
            hint = f"a step has at most {MAX_CLAUSE_CHARS} characters outside quotes: split it into several steps"
            steps.append(Unreadable(text=quotes.unmask(clause), hint=hint))
            continue
        text = _without_politeness(clause).strip(" ,.")
        is_heading = text.endswith(":") and index < len(clauses) - 1 and "\ue000" not in text
        if not text or _NOTHING.fullmatch(text) or is_heading:
            verb = _first_words(text) or verb
            continue
        if opener is None and (opener := read_opener(text, clauses[index + 1] if index + 1 < len(clauses) else "")):
            continue
        parsed = _read(text, quotes)
        if parsed is None and verb and not starts_step(text):
            parsed = _read_with(verb, text, quotes)
        if (
            (parsed is None or isinstance(parsed, NotUnderstoodError))
            and ":" in text
            and starts_step(text.partition(":")[2])
        ):
            parsed = _read(text.partition(":")[2].strip(), quotes)
        if parsed is None or isinstance(parsed, NotUnderstoodError):
            steps.append(_explain(clause, parsed, quotes))
            continue
        if starts_step(text):
            verb = _first_words(text)
        if opener is not None:
            steps.append(_look_for(opener, parsed[0], clauses[index - 1]))
            opener = None
        for step in parsed:
            is_baseless = isinstance(step, TypeAnswer) and not has_answer
            hint = "put the text to type in quotes"
            steps.append(Unreadable(text=clause, hint=hint) if is_baseless else _resolve_it(step, steps))
            has_answer = has_answer or isinstance(step, (ComputeAnswer, ReportValue))
    return steps


def _look_for(kind: OpenerKind, step: PlainStep, clause: str) -> PlainStep | Unreadable:
    """Return the step that opens elements one after another until the target of the next step is visible."""
    match step:
        case (
            ClickTarget(target=target)
            | SetToggle(target=target)
            | ReportValue(target=target)
            | CheckShown(target=target)
        ):
            return OpenUntil(kind=kind, target=target)
        case _:
            return Unreadable(text=clause, hint="say what to find and click there")


def starts_step(text: str) -> bool:
    """Return True if a text begins with a verb that can start a step."""
    return _VERB.match(f" {_without_politeness(text)}") is not None


def _without_politeness(text: str) -> str:
    text = text.strip()
    polite = _POLITE.match(f" {text}")
    return text if polite is None else text[polite.end() - 1 :]


def _starts_step_after(before: str, text: str) -> bool:
    """Return True if a step begins here; after "set A to B" it may be "C to D", without a verb."""
    if starts_step(text):
        return True
    if _BUTTON_VERB.match(f" {text}") is not None and not _PRESSING.match(_without_politeness(before)):
        return True
    if _FIELD_PAIR.match(text) and _FIELD_VERB.match(_without_politeness(before)):
        return True
    pair = _PAIR.match(text)
    verb = None if pair is None else _PAIR_VERB.match(_without_politeness(before))
    if pair is None or verb is None:
        return False
    joint = next(word for word in (verb["to"], verb["with"], verb["into"]) if word)
    return pair["joint"] == joint and (pair["quoted"] is not None or not verb["into"])


def _resolve_it(step: PlainStep, before: Sequence[PlainStep | Unreadable]) -> PlainStep:
    """Replace the pronoun in "click it" by the target that was named last."""
    if not isinstance(step, ClickTarget) or step.target.text.lower() not in _PRONOUNS:
        return step
    for earlier in reversed(before):
        match earlier:
            case (
                ClickTarget(target=target)
                | ScrollUntil(target=target)
                | CheckShown(target=target)
                | SetToggle(target=target)
            ):
                return replace(step, target=target)
            case TypeInto(field=ElementTarget() as target) | SetValue(field=target) | ClearField(field=target):
                return replace(step, target=target)
            case WaitFor(text=text):
                return replace(step, target=ElementTarget(text=text))
            case _:
                continue
    return step


def _first_words(text: str) -> str:
    match = _VERB.match(f" {text}")
    return match[0].strip() if match is not None else ""


def _explain(clause: str, error: NotUnderstoodError | None, quotes: Quotes) -> Unreadable:
    text = quotes.unmask(clause)
    if error is None or error.words == text:
        return Unreadable(text=text, hint=error.hint if error is not None else "")
    return Unreadable(text=text, words=error.words, hint=error.hint)


def _read(text: str, quotes: Quotes) -> list[PlainStep] | NotUnderstoodError | None:
    """Parse one clause: its steps, the error of the first rule that partly matched, or None if no rule did."""
    leftover: NotUnderstoodError | None = None
    for rule in rules_for(text):
        try:
            result = rule.read(text, quotes)
        except NotUnderstoodError as error:
            leftover = leftover or error
            continue
        if result is not None:
            return list(result) if isinstance(result, Sequence) else [result]
    return leftover


def _read_with(verb: str, text: str, quotes: Quotes) -> list[PlainStep] | NotUnderstoodError | None:
    """Parse a clause without its own verb: "fill Amount with 3 and Date with 4", "Amount: 3"."""
    if re.match(r"fill|enter|set|type|complete|populate|change", verb, re.I):
        pair = re.fullmatch(r"([^:=]{1,60}?)\s*[:=]\s+(.+)", text, re.S)
        if pair is not None:
            return _read(f"set {pair[1]} to {pair[2]}", quotes)
    if text[0].islower() and not quotes.marks(text) and not _FIELD_PAIR.match(text):
        return None  # more likely an unknown verb than a name
    return _read(f"{verb} {text}", quotes)
