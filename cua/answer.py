"""The final answer: checked against a JSON schema; its statements and what they cite (`[^3^]`, `[^3.1^]`)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cua.errors import ConfigError
from cua.json_text import read_json
from cua.messages import ImagePart
from cua.step import CallOutcome, ToolStep

EMPTY = "Your reply held neither an answer nor a tool call. Call a tool, or answer the question."
UNKNOWN_END = "the model's answer; nothing checks it but its own evidence"
UNCITED_END = "the model's answer; it cites no result, so nothing checks it"
LOST_END = "the model's answer; it cites {marks}, and the run has no such result"

MARK = re.compile(r"\[\^(\d{1,9})(?:\.(\d{1,9}))?\^\]")
"""How an answer cites a result: `[^3^]` a tool call, `[^3.1^]` its first image. Source of the form: report, E.6."""
CHILD_MARK = re.compile(r"\[\^t\d{3,6}(?:\.\d{1,9}){1,2}\^\]")
"""Likewise, a result of a sub-agent: `[^t005.3^]`."""
_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A JSON schema that the agent's answer must satisfy."""

    schema: Mapping[str, Any]

    @property
    def note(self) -> str:
        """What the model is told about it."""
        return f"Give the answer of computer.terminate as JSON that satisfies this schema: {json.dumps(self.schema)}"

    @property
    def text_note(self) -> str:
        """The same, where the answer is the last reply and not an argument of a call."""
        return (
            "Give the final answer as JSON in a ```json block. The JSON must satisfy this schema: "
            f"{json.dumps(self.schema)}. Put marks such as [^3^] after the block."
        )

    def parse(self, answer: str | None) -> Any:
        """The answer as a value: JSON where it is JSON, else the text itself.

        Raises:
            ValueError: It does not satisfy the schema; the text says where and how.
        """
        import jsonschema

        if answer is None:
            raise ValueError(f"an answer is expected. {self.note}")
        error = None
        for value in _readings(answer):
            error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(self.schema).iter_errors(value))
            if error is None:
                return value
        assert error is not None
        raise ValueError(f"the answer {answer!r} does not satisfy the schema at {error.json_path}: {error.message}")

    def parse_in_text(self, text: str) -> Any:
        """The value in a longer answer: its last fenced block, else all of it; marks such as [^3^] left out.

        Raises:
            ValueError: Nothing there satisfies the schema; the text says where and how.
        """
        return self.parse(_answer_in(text))


def read_text_answer(text: str) -> list[Any]:
    """What the answer in a longer text may mean: a JSON value where it is one, and the text itself."""
    return _readings(_answer_in(text))


def _answer_in(text: str) -> str:
    blocks: list[str] = _BLOCK.findall(text)
    return blocks[-1] if blocks else MARK.sub("", text).strip()


def _readings(answer: str) -> list[Any]:
    text = answer.strip()
    if text.startswith("```"):
        text = text.split("\n", 1)[-1].removesuffix("```").strip()
    try:
        return [read_json(text), answer]
    except ValueError:
        return [answer]


def load_schema(source: str) -> AnswerSchema:
    """Read a schema from a JSON file or from a pydantic model.

    Args:
        source: Path of a `.json` file, or `module:Model` (or `file.py:Model`) naming a pydantic model.

    Raises:
        ConfigError: Nothing usable there; the text says what was expected.
    """
    import jsonschema

    schema = _from_file(Path(source)) if ":" not in source or Path(source).exists() else _from_model(source)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigError(f"{source} is not a JSON schema: {error.message}") from error
    return AnswerSchema(schema)


def _from_file(path: Path) -> Any:
    try:
        return read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the schema {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}; expected a JSON schema, or module:Model") from error


def _from_model(source: str) -> Any:
    import importlib
    import importlib.util

    module_name, _, class_name = source.rpartition(":")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location("k25_answer_schema", module_name)
            if spec is None or spec.loader is None:
                raise ImportError(module_name)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)  # the user's own file, named on the command line
        else:
            module = importlib.import_module(module_name)
        return vars(module)[class_name].model_json_schema()
    except (ImportError, FileNotFoundError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{source} is not a pydantic model: {error}; expected file.py:Model or a .json file"
        ) from error


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
    image: int | None = None
    exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement with what it cites."""

    text: str
    citations: tuple[Citation, ...]

    @property
    def is_supported(self) -> bool:
        """Whether it cites something, and all of it exists."""
        return bool(self.citations) and all(citation.exists for citation in self.citations)


def find_claims(answer: str, steps: Sequence[ToolStep]) -> tuple[Claim, ...]:
    """The statements of an answer that cite results.

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
    return re.sub(r" (?=[.,;])", "", " ".join(MARK.sub("", statement).split()))


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
    number, image = int(match[1]), int(match[2]) if match[2] else None
    outcome = outcomes.get(number)
    exists = outcome is not None and not outcome.result.is_error
    if exists and image is not None:
        assert outcome is not None
        exists = 1 <= image <= sum(isinstance(part, ImagePart) for part in outcome.result.parts)
    return Citation(mark=match[0], number=number, image=image, exists=exists)


def describe_evidence(content: str, steps: Sequence[ToolStep]) -> str:
    """What the evidence of an answer is worth before anything is run again, for a run's end."""
    claims, marks = find_claims(content, steps), CHILD_MARK.findall(content)
    told = "".join(outcome.result.text for step in steps for outcome in step.outcomes) if marks else ""
    lost = [citation.mark for claim in claims for citation in claim.citations if not citation.exists]
    lost += [mark for mark in marks if mark not in told]  # only a sub-agent's message can have brought it
    if lost:
        return LOST_END.format(marks=", ".join(dict.fromkeys(lost)))
    return UNKNOWN_END if marks or any(claim.citations for claim in claims) else UNCITED_END


def read_answer(content: str, schema: AnswerSchema | None) -> tuple[str | None, str | None]:
    """The answer that a reply holds, or what the model must be told instead.

    Args:
        content: The reply's text.
        schema: What the answer must look like, if that is given: then the answer is its JSON.
    """
    if not content.strip():
        return None, EMPTY
    if schema is None:
        return content.strip(), None
    try:
        return json.dumps(schema.parse_in_text(content), ensure_ascii=False), None
    except ValueError as error:
        return None, f"{error}. Answer again."
