"""Read an instruction as a list of plain steps."""

import re
from collections.abc import Sequence
from dataclasses import replace

from cua.models.literal.clauses import Quotes, mask_quotes, split_clauses
from cua.models.literal.rules import RULES
from cua.models.literal.steps import (
    CheckShown,
    ClearField,
    Click,
    PlainStep,
    Report,
    ScrollUntil,
    SelectOption,
    SetValue,
    Target,
    Tick,
    TypeText,
    Unreadable,
    WaitFor,
)

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
"""Examples of what can be read, for error messages."""

_POLITE = re.compile(
    r"^(?:(?:please|now|next|then|afterwards|finally|lastly|also|and|first(?:ly)?(?=\s*,)|first(?=\s+(?:click|type|open|go|select|press|fill|enter|set|choose|scroll|wait|tick|check)\b)|second(?:ly)?(?=\s*,)|"
    r"(?:could|can|would|will)\s+you(?:\s+please)?|you\s+(?:should|must|can|need\s+to|have\s+to)|(?:i|we)\s+(?:want|need|would\s+like)\s+(?:you\s+)?to|"
    r"i'd\s+like\s+you\s+to|try\s+to|go\s+ahead\s+and|after\s+that|in\s+the\s+end|your\s+task\s+is\s+to|the\s+task\s+is\s+to|again|just|simply|to)\s*[,:]?\s+)+",
    re.I,
)
_VERB = re.compile(
    r"(?:(?:left|double|triple|right|middle|context)[\s-]*click|click|tap|push|press|hit|type|enter|write|input|insert|put|paste|fill|complete|populate|set|"
    r"change|update|replace|overwrite|clear|empty|erase|select|choose|pick|tick|untick|check|uncheck|deselect|enable|disable|turn\s+(?:on|off)|switch|"
    r"hover|move\s+the|drag|scroll|wait|pause|open|go|visit|navigate|browse|load|reload|refresh|accept|dismiss|confirm|cancel\s+the|reject|decline|tell|report|read|answer|"
    r"what\s+is|what's|how\s+much|return|give|verify|assert|ensure|make\s+sure|append|add|search\s+for|copy|cut|undo|submit|focus|expand|close|launch|start|toggle|un-tick|un-check|"
    r"back$|make\s+certain|note|find\s+out|print)\b",
    re.I,
)
_PAIR_VERB = re.compile(r"(?:set|change|update)\b.*\sto\s|(?:fill|complete|replace)\b.*\swith\s", re.I | re.S)
_PRONOUNS = frozenset({"it", "that", "this", "them", "there"})
_NOTHING = re.compile(
    r"that(?:'s|\s+is)\s+(?:it|all)|done|stop(?:\s+there)?|finish(?:\s+the\s+task)?|end|you\s+are\s+done|thank(?:s|\s+you)+"
    r"|etc|first(?:ly)?|second(?:ly)?|third(?:ly)?|next|then|finally|lastly|please|and",
    re.I,
)


def parse_instruction(instruction: str) -> list[PlainStep | Unreadable]:
    """The steps of an instruction, in order; parts that are no step stand among them as `Unreadable`."""
    masked, quotes = mask_quotes(instruction)
    clauses = split_clauses(masked, _starts_step_after)
    steps: list[PlainStep | Unreadable] = []
    verb = ""
    for index, clause in enumerate(clauses):
        text = _POLITE.sub("", clause).strip(" ,.")
        if not text or _NOTHING.fullmatch(text) or _is_heading(text, is_last=index == len(clauses) - 1):
            verb = _first_words(text) or verb
            continue
        found = _read(text, quotes)
        if found is None and verb:
            found = _read_with(verb, text, quotes)
        if found is None and ":" in text and starts_step(text.partition(":")[2]):
            found = _read(text.partition(":")[2].strip(), quotes)
        if found is None:
            steps.append(Unreadable(text=quotes.unmask(clause)))
            continue
        if starts_step(text):
            verb = _first_words(text)
        steps.extend(_resolve_it(step, steps) for step in found)
    return steps


def starts_step(text: str) -> bool:
    """Whether a text begins with a verb that can begin a step."""
    return _VERB.match(_POLITE.sub("", text.strip())) is not None


def _starts_step_after(before: str, text: str) -> bool:
    """Whether a step begins here; after "set A to B" that may be "C to D", without a verb."""
    if starts_step(text):
        return True
    verb = _PAIR_VERB.match(_POLITE.sub("", before.strip()))
    if verb is None:
        return False
    joint = "with" if verb[0].rstrip().lower().endswith("with") else "to"
    return re.match(rf"(?:the\s+)?(?:\ue000\d+\ue001|\w+(?:\s\w+)?)\s+{joint}\s", text) is not None


def _resolve_it(step: PlainStep, before: Sequence[PlainStep | Unreadable]) -> PlainStep:
    """For "click it": the target that was named last."""
    if not isinstance(step, Click) or step.target.text.lower() not in _PRONOUNS:
        return step
    for earlier in reversed(before):
        match earlier:
            case Click(target=target) | ScrollUntil(target=target) | CheckShown(target=target) | Tick(target=target):
                return replace(step, target=target)
            case TypeText(field=Target() as target) | SetValue(field=target) | ClearField(field=target):
                return replace(step, target=target)
            case WaitFor(text=text):
                return replace(step, target=Target(text=text))
            case _:
                continue
    return step


def _is_heading(text: str, *, is_last: bool) -> bool:
    return text.endswith(":") and not is_last and "\ue000" not in text


def _first_words(text: str) -> str:
    match = _VERB.match(text)
    return match[0] if match is not None else ""


def _read(text: str, quotes: Quotes) -> list[PlainStep] | None:
    for pattern, make in RULES:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        step = make(match, quotes)
        if step is not None:
            return _expand(step, text, quotes)
    return None


def _read_with(verb: str, text: str, quotes: Quotes) -> list[PlainStep] | None:
    """Read a clause that leaves its verb out: "fill Amount with 3 and Date with 4", "Amount: 3"."""
    if re.match(r"fill|enter|set|type|complete|populate|change", verb, re.I):
        pair = re.fullmatch(r"([^:=]{1,60}?)\s*[:=]\s+(.+)", text, re.S)
        if pair is not None:
            return _read(f"set {pair[1]} to {pair[2]}", quotes)
    if text[0].islower() and not quotes.marks(text):
        return None  # more likely a verb that is not known than a name
    return _read(f"{verb} {text}", quotes)


def _expand(step: PlainStep, text: str, quotes: Quotes) -> list[PlainStep]:
    """One step for each quoted text of a list: click "7", "+" and "8"."""
    marks = quotes.marks(text)
    rest = re.sub("|".join(map(re.escape, marks)) or "$^", "", text)
    words = re.sub(
        r"\b(?:and|then|the|buttons?|keys?|boxes|checkboxes|options?|on)\b|[,&\s]", " ", rest, flags=re.I
    ).split()
    if len(marks) < 2 or len(words) > 1 + bool(re.match(r"(?:turn|switch|left|right|double)\b", text, re.I)):
        return [step]
    texts = [quotes.unmask(mark, quoted=False) for mark in marks]
    match step:
        case Click() | Tick() | Report():
            return [replace(step, target=replace(step.target, text=text, phrase="")) for text in texts]
        case SelectOption():
            return [replace(step, option=Target(text=text)) for text in texts]
        case _:
            return [step]
