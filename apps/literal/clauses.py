"""Cut an instruction into clauses, one step each, with quoted text kept whole."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_QUOTED = re.compile(
    r"\"([^\"]*)\"|“([^”]*)”|„([^“”]*)[“”]|«\s*([^»]*?)\s*»|`([^`]*)`"
    r"|(?<![^\s(\[,;:=])'((?:[^'\n]|'(?=\w))*)'(?!\w)|(?<![^\s(\[,;:=])‘((?:[^’\n]|’(?=\w))*)’(?!\w)"
)
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
"""What does not end a step at "and": "find and click X"."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """The quoted texts of an instruction, each standing in it as a mark."""

    texts: tuple[str, ...]

    def unmask(self, text: str, *, quoted: bool = True) -> str:
        """Put the texts back, in double quotes or bare."""
        shape = '"{}"' if quoted else "{}"
        return _MARK.sub(lambda match: shape.format(self.texts[int(match[1])]), text)

    def only(self, text: str) -> str | None:
        """The quoted text, when `text` is one mark and nothing else."""
        match = _MARK.fullmatch(text.strip())
        return None if match is None else self.texts[int(match[1])]

    def marks(self, text: str) -> list[str]:
        """The marks in a text, in order."""
        return [match[0] for match in _MARK.finditer(text)]


def mask_quotes(instruction: str) -> tuple[str, Quotes]:
    """Replace each quoted text by a mark that no splitting touches; a full stop in its quotes may end the sentence."""
    texts: list[str] = []

    def keep(match: re.Match[str]) -> str:
        texts.append(next(group for group in match.groups() if group is not None))
        ends_sentence = texts[-1].endswith((".", "!", "?")) and _SENTENCE.match(instruction, match.end())
        return f"\ue000{len(texts) - 1}\ue001" + ("." if ends_sentence else "")

    return _QUOTED.sub(keep, instruction), Quotes(tuple(texts))


def split_clauses(masked: str, starts_step: Callable[[str, str], bool]) -> list[str]:
    """Cut masked text at line ends, semicolons, full stops, "then", and commas or "and" before a verb.

    Args:
        masked: An instruction with its quotes masked.
        starts_step: Whether a text (second) begins a step, after what stands before it (first).
    """
    clauses: list[str] = []
    for line in masked.replace("\r", "\n").split("\n"):
        line = _BULLET.sub("", line).strip()
        if len(_INLINE_NUMBER.findall(line)) > 1 or re.match(r"1[.)]\s", line):
            line = _INLINE_NUMBER.sub("; ", line)
        for part in re.split(r";|(?<=[^\s.])[.!?](?=\s*$|\s+[A-Z\ue000(\d])", line):
            for sentence in _split_sentences(part, starts_step):
                clauses.extend(_split_at_verbs(sentence, starts_step))
    return [clause for clause in (clause.strip(" ,.\t") for clause in clauses) if clause]


def _split_sentences(text: str, starts_step: Callable[[str, str], bool]) -> list[str]:
    """Cut at full stops before a verb in small letters."""
    parts, start = [], 0
    for stop in re.finditer(r"[.!?]\s+", text):
        if starts_step("", text[stop.end() :]):
            parts.append(text[start : stop.start()])
            start = stop.end()
    return [*parts, text[start:]]


def _split_at_verbs(text: str, starts_step: Callable[[str, str], bool]) -> list[str]:
    parts, start = [], 0
    for joint in _JOINT.finditer(text):
        is_then = re.search(r"then|after", joint[0], re.I) is not None
        if joint.start() < start or _FIND.search(text[start : joint.start()]) is not None:
            continue
        if starts_step(text[start : joint.start()], text[joint.end() :]) or (is_then and text[: joint.start()].strip()):
            parts.append(text[start : joint.start()])
            start = joint.end()
    return [*parts, text[start:]]
