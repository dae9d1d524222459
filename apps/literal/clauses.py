"""Split an instruction into clauses of one step each, with quoted text kept intact."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_OPENING = re.compile(r"[\"“„«`]|(?<![^\s(\[,;:=])['‘]")
_CLOSING = {
    '"': re.compile('"'),
    "“": re.compile("”"),
    "„": re.compile("[“”]"),
    "«": re.compile("»"),
    "`": re.compile("`"),
    "'": re.compile(r"'(?!\w)|\n"),
    "‘": re.compile(r"’(?!\w)|\n"),
}
"""Closing characters of quotes; a line end means that a single quote was an apostrophe."""
MAX_CLAUSE_CHARS = 1000
"""Longest supported clause in characters, each quoted text counted as a few."""
_MAX_START_CHARS = 200
"""Number of characters within which a step's verb must start, including preceding politeness."""
_MARK = re.compile("\ue000(\\d+)\ue001")
_BULLET = re.compile(
    r"^\s*(?:(?:step\s+)?\d{1,3}\s*[.):]\s+|step\s+\d{1,3}\s*:?\s+|\(\d{1,3}\)\s+|[a-z][.)]\s+|[-*•–—+·]\s+)+", re.I
)
_INLINE_NUMBER = re.compile(r"(?:(?<=^)|(?<=\s))(?:\d{1,2}[.)]|\(\d{1,2}\))\s+(?=[A-Za-z])")
_JOINT = re.compile(
    r"\s*,?\s+(?:and\s+)?(?:then|afterwards|after that|finally|next)\s*,?\s+"
    r"|\s*,\s*(?:and\s+)?|\s+and\s+(?:also\s+)?|\s*(?:→|=>|->)\s*",
    re.I,
)
_SENTENCE = re.compile(r"\s+[A-Z][a-z]")
_FIND = re.compile(r"(?:^|\s)(?:find|locate|look\s+for)\s*$", re.I)
"""Verbs after which "and" does not end a step: "find and click X"."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """Quoted texts of an instruction; a mark replaces each of them."""

    texts: tuple[str, ...]

    def unmask(self, text: str, *, quoted: bool = True) -> str:
        """Restore the texts, with or without double quotes."""
        shape = '"{}"' if quoted else "{}"
        return _MARK.sub(lambda match: shape.format(self.texts[int(match[1])]), text)

    def only(self, text: str) -> str | None:
        """Return the quoted text if `text` is exactly one mark, else None."""
        match = _MARK.fullmatch(text.strip())
        return None if match is None else self.texts[int(match[1])]

    def marks(self, text: str) -> list[str]:
        """Return the marks in a text, in order."""
        return [match[0] for match in _MARK.finditer(text)]


def mask_quotes(instruction: str) -> tuple[str, Quotes]:
    """Replace each quoted text by a mark that is never split; a full stop inside the quotes may end the sentence."""
    instruction = re.sub("[\ue000\ue001]", " ", instruction)
    texts: list[str] = []
    parts: list[str] = []
    end = 0
    closings: dict[str, tuple[int, bool]] = {}  # position of the next quote of a type, and True if it closes
    for opening in _OPENING.finditer(instruction):
        kind = opening[0]
        start = opening.end()
        if opening.start() < end:
            continue
        if closings.get(kind, (-1, False))[0] < start:
            closing_match = _CLOSING[kind].search(instruction, start)
            closings[kind] = (
                (len(instruction), False)
                if closing_match is None
                else (closing_match.start(), closing_match[0] != "\n")
            )
        closing, does_close = closings[kind]
        if not does_close:
            continue
        texts.append(instruction[start:closing].strip() if kind == "«" else instruction[start:closing])
        parts += [instruction[end : opening.start()], f"\ue000{len(texts) - 1}\ue001"]
        end = closing + 1
        if texts[-1].endswith((".", "!", "?")) and _SENTENCE.match(instruction, end):
            parts.append(".")
    return "".join([*parts, instruction[end:]]), Quotes(tuple(texts))


def split_clauses(masked: str, starts_step: Callable[[str, str], bool]) -> list[str]:
    """Split masked text at line ends, semicolons, full stops, "then", and commas or "and" before a verb.

    Args:
        masked: Instruction with its quotes masked.
        starts_step: Function that returns True if its second argument begins a step after its first. Only the relevant
            part of each
                text is passed.
    """
    clauses: list[str] = []
    for line in masked.replace("\r", "\n").split("\n"):
        line = _BULLET.sub("", " ".join(line.split()) + " ").strip()
        if len(_INLINE_NUMBER.findall(line)) > 1 or re.match(r"1[.)]\s", line):
            line = _INLINE_NUMBER.sub("; ", line)
        for part in re.split(r";|(?<=[^\s.])[.!?](?=\s*$|\s+[A-Z\ue000(\d])", line):
            for sentence in _split_sentences(part, starts_step):
                clauses.extend(_split_at_verbs(sentence, starts_step))
    return [clause for clause in (clause.strip(" ,.\t") for clause in clauses) if clause]


def _split_sentences(text: str, starts_step: Callable[[str, str], bool]) -> list[str]:
    """Split at full stops before a lower-case verb."""
    parts, start = [], 0
    for stop in re.finditer(r"[.!?]\s+", text):
        if starts_step("", text[stop.end() : stop.end() + _MAX_START_CHARS]):
            parts.append(text[start : stop.start()])
            start = stop.end()
    return [*parts, text[start:]]


def _split_at_verbs(text: str, starts_step: Callable[[str, str], bool]) -> list[str]:
    parts, start = [], 0
    for joint in _JOINT.finditer(text):
        if joint.start() < start or _FIND.search(text[max(start, joint.start() - 20) : joint.start()]) is not None:
            continue
        is_then = re.search(r"then|after", joint[0], re.I) is not None
        before = text[start : min(joint.start(), start + MAX_CLAUSE_CHARS)]
        if starts_step(before, text[joint.end() : joint.end() + _MAX_START_CHARS]) or (is_then and joint.start() > 0):
            parts.append(text[start : joint.start()])
            start = joint.end()
    return [*parts, text[start:]]
