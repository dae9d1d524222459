"""Statements of an answer and the results that they cite: `[^3^]` a tool call, `[^3.1^]` its first image."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cua.answer import MARK
from cua.messages import ImagePart
from cua.tool_step import CallOutcome, ToolStep

_STATEMENT = re.compile(r"[^\n]*?(?:[.!?:](?=\s)|\n|$)(?:[ \t]*\[\^\d{1,9}(?:\.\d{1,9})?\^\][.,;]?)*")
_FENCE = re.compile(r"```.*?```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One mark of an answer.

    Attributes:
        mark: As it stands in the answer.
        number: The tool call that it names.
        image: The image of that call, from 1; None for the call as a whole.
        exists: Whether the run has such a result, and it did not fail.
    """

    mark: str
    number: int
    picture: int | None = None
    exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement with what it cites.

    Attributes:
        text: The statement without its marks.
        citations: What it rests on.
    """

    text: str
    citations: tuple[Citation, ...]

    @property
    def is_supported(self) -> bool:
        """Whether it cites something, and all of it exists."""
        return bool(self.citations) and all(citation.exists for citation in self.citations)


def find_claims(answer: str, steps: Sequence[ToolStep]) -> tuple[Claim, ...]:
    """The statements of an answer that cite results.

    Args:
        answer: The final reply as the model wrote it.
        steps: The run.

    Returns:
        The statements with marks, in order. An answer without any mark is one claim that cites nothing.
    """
    outcomes = {outcome.number: outcome for step in steps for outcome in step.outcomes}
    claims = []
    for statement in _statements(answer):
        citations = tuple(_citation(match, outcomes) for match in MARK.finditer(statement))
        if citations:
            claims.append(Claim(text=_plain(statement), citations=citations))
    whole = " ".join(answer.split())
    return tuple(claims) or ((Claim(text=whole, citations=()),) if whole else ())


def _plain(statement: str) -> str:
    """The statement without marks, on one line."""
    return re.sub(r" +(?=[.,;])", "", " ".join(MARK.sub("", statement).split()))


def _statements(answer: str) -> list[str]:
    """Sentences and lines, each with the marks behind its full stop; a fenced block is one statement with its marks."""
    statements = []
    for line in _split_fences(answer):
        pieces = [line] if line.startswith("```") else _STATEMENT.findall(line)
        statements += [piece for piece in pieces if piece.strip()]
    return _with_stray_marks(statements)


def _split_fences(answer: str) -> list[str]:
    pieces, start = [], 0
    for match in _FENCE.finditer(answer):
        pieces += [answer[start : match.start()], match[0]]
        start = match.end()
    return [*pieces, answer[start:]]


def _with_stray_marks(statements: Sequence[str]) -> list[str]:
    """Marks that stand alone belong to the statement before them."""
    joined: list[str] = []
    for statement in statements:
        if joined and not MARK.sub("", statement).strip(" \n\t.,;"):
            joined[-1] += statement
        else:
            joined.append(statement)
    return joined


def _citation(match: re.Match[str], outcomes: Mapping[int, CallOutcome]) -> Citation:
    number, picture = int(match[1]), int(match[2]) if match[2] else None
    outcome = outcomes.get(number)
    exists = outcome is not None and not outcome.result.is_error
    if exists and picture is not None:
        assert outcome is not None
        exists = 1 <= picture <= sum(isinstance(part, ImagePart) for part in outcome.result.parts)
    return Citation(mark=match[0], number=number, picture=picture, exists=exists)
