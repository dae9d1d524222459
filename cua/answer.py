"""Final answers: validation against a JSON schema; statements and their citations (`[^3^]`, `[^3.1^]`)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cua.errors import ConfigError
from cua.json_text import JsonMapping, read_json
from cua.messages import ImagePart
from cua.step import CallOutcome, ToolStep

EMPTY = "Your reply held neither an answer nor a tool call. Call a tool, or answer the question."
UNKNOWN_END = "the model's answer; nothing checks it but its own evidence"
UNCITED_END = "the model's answer; it cites no result, so nothing checks it"
LOST_END = "the model's answer; it cites {marks}, and the run has no such result"

MARK = re.compile(r"\[\^(\d{1,9})(?:\.(\d{1,9}))?\^\]")
"""Citation of a result: `[^3^]` a tool call, `[^3.1^]` its first image. Source of the format: report, E.6."""
CHILD_MARK = re.compile(r"\[\^t\d{3,6}(?:\.\d{1,9}){1,2}\^\]")
"""Citation of a result of a sub-agent: `[^t005.3^]`."""
_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """JSON schema that the agent's answer must match."""

    schema: JsonMapping

    @property
    def note(self) -> str:
        """Instruction for the model to answer by this schema."""
        return f"Give the answer of computer.terminate as JSON that satisfies this schema: {json.dumps(self.schema)}"

    @property
    def text_note(self) -> str:
        """Instruction for the model if the answer is its last reply and not an argument of a call."""
        return (
            "Give the final answer as JSON in a ```json block. The JSON must satisfy this schema: "
            f"{json.dumps(self.schema)}. Put marks such as [^3^] after the block."
        )

    def parse(self, answer: str | None) -> Any:
        """Return the answer as a value: parsed JSON, else the text itself.

        Raises:
            ValueError: If it does not match the schema; the text gives the location and the reason.
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
        """Return the value in a longer answer: its last fenced block, else the whole text without marks such as [^3^].

        Raises:
            ValueError: If it does not match the schema; the text gives the location and the reason.
        """
        return self.parse(_answer_in(text))


def read_text_answer(text: str) -> list[Any]:
    """Return the possible values of the answer in a longer text: a JSON value, if it parses, and the text itself."""
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
    """Load a schema from a JSON file or from a pydantic model.

    Args:
        source: Path of a `.json` file, or `module:Model` (or `file.py:Model`) for a pydantic model.

    Raises:
        ConfigError: If the schema is missing or invalid; the text says what was expected.
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
    """Citation mark of an answer.

    Attributes:
        mark: The mark as written in the answer.
        number: Number of the cited tool call.
        image: Number of the cited image of that call, from 1; None for the whole call.
        exists: True if the run has such a result, and the call did not fail.
    """

    mark: str
    number: int
    image: int | None = None
    exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Statement with its citations."""

    text: str
    citations: tuple[Citation, ...]

    @property
    def is_supported(self) -> bool:
        """True if the claim has citations, and all of them exist."""
        return bool(self.citations) and all(citation.exists for citation in self.citations)


def find_claims(answer: str, steps: Sequence[ToolStep]) -> tuple[Claim, ...]:
    """Return the statements of an answer that cite results.

    Returns:
        Statements with marks, in order. An answer without marks is one claim without citations.
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
    """Return the statement without marks, on one line."""
    return re.sub(r" (?=[.,;])", "", " ".join(MARK.sub("", statement).split()))


def _statements(answer: str) -> list[str]:
    """Split into sentences and lines, each with the marks after its period; a fenced block with its marks is one."""
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
    """Append marks without a text to the preceding statement."""
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
    """Describe the state of an answer's evidence for the end of a run, before anything is run again."""
    claims, marks = find_claims(content, steps), CHILD_MARK.findall(content)
    results = "".join(outcome.result.text for step in steps for outcome in step.outcomes) if marks else ""
    lost = [citation.mark for claim in claims for citation in claim.citations if not citation.exists]
    lost += [mark for mark in marks if mark not in results]  # only a sub-agent's message can contain the mark
    if lost:
        return LOST_END.format(marks=", ".join(dict.fromkeys(lost)))
    return UNKNOWN_END if marks or any(claim.citations for claim in claims) else UNCITED_END


def read_answer(content: str, schema: AnswerSchema | None) -> tuple[str | None, str | None]:
    """Return the answer in a reply, or the message to the model if there is none.

    Args:
        content: Text of the reply.
        schema: Schema of the answer, if any: then the answer is its JSON.
    """
    if not content.strip():
        return None, EMPTY
    if schema is None:
        return content.strip(), None
    try:
        return json.dumps(schema.parse_in_text(content), ensure_ascii=False), None
    except ValueError as error:
        return None, f"{error}. Answer again."
