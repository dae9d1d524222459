"""Scripted models and baselines without skill, for tests, examples and benchmarks.

`baseline:null`, `baseline:fail` and `baseline:random` (or `baseline:random:SEED`) can be used as model names: their
score is what a suite gives without any skill. If tools are offered, they answer in words: `random` first searches for
words of the question, and then fills the requested columns with words from the results.
"""

import asyncio
import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cua.errors import ConfigError, ModelError, TrajectoryError
from cua.json_text import read_json
from cua.messages import ImagePart, Message, Reply, Sampling, ToolCall
from cua.model import Tool
from cua.models.reply_text import separate
from cua.trajectory.run_files import read_inside
from envs.errors import did_you_mean

MAX_SCRIPT_BYTES = 256 * 2**20

ORACLE = "scripted-oracle"
_ORACLE_STEP = re.compile(r"\bDo part \d+ of the \d+ that solve it\b")

Recorded = Reply | str | Exception


class ScriptedModel:
    """Model that returns one recorded reply per call, in order, for any sampling; implements `cua.model.Model`.

    Args:
        replies: Replies, contents of replies, or exceptions to raise. May be endless
            (`itertools.repeat("...")`); it is read one item per call.
        name: Name of the model in logs.
        latency_s: Seconds that each answer takes.

    Attributes:
        received: Messages of each call, oldest first.
        received_sampling: Sampling of each call.
    """

    def __init__(self, replies: Iterable[Recorded], *, name: str = "scripted", latency_s: float = 0.0) -> None:
        self.name = name
        self.received: list[tuple[Message, ...]] = []
        self.received_sampling: list[Sampling | None] = []
        self._replies: Iterator[Recorded] = iter(replies)
        self._latency_s = latency_s

    @classmethod
    def from_file(cls, path: str | Path) -> "ScriptedModel | ConversationScript":
        """Load replies from a JSONL file.

        A line is a JSON string (the content), an object with the fields of `Reply` (`{"content": "...",
        "reasoning": "..."}`), or an error to raise (`{"error": "server down", "retryable": true}`).
        Empty lines are skipped. If lines have `"for"`, the result is a `ConversationScript`.

        Raises:
            ConfigError: If the file cannot be read, or a line is none of these; the text names the line.
        """
        try:
            file = Path(path).expanduser().resolve()
            lines = read_inside(file.parent, file.name, max_bytes=MAX_SCRIPT_BYTES).decode().split("\n")
        except (OSError, UnicodeDecodeError, RuntimeError, TrajectoryError) as error:
            raise ConfigError(f"the script {path} cannot be read: {error}") from error
        if any('"for"' in line for line in lines):
            return ConversationScript.read(lines, str(path))
        replies = [_read_line(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
        if not replies:
            raise ConfigError(f"the script {path} holds no replies: expected one JSON value a line")
        return cls(replies, name=f"scripted:{path}")

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return the next reply, or raise the next error.

        Raises:
            ModelError: If the script has no more replies.
        """
        self.received.append(tuple(messages))
        self.received_sampling.append(sampling)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        recorded = next(self._replies, None)
        if recorded is None:
            num_calls = len(self.received)
            raise ModelError(
                f"the script has run out: it held {num_calls - 1} replies, and this is call {num_calls}",
                retryable=False,
            )
        if isinstance(recorded, Exception):
            raise recorded
        return separate(Reply(content=recorded, model=self.name) if isinstance(recorded, str) else recorded, tools)

    async def close(self) -> None:
        """Do nothing; there is nothing to close."""


class ConversationScript:
    """Recorded replies for many concurrent conversations, such as in a swarm; implements `cua.model.Model`.

    Each line has the fields of a reply and `"for"`, a text: the line belongs to conversations whose first question
    contains the text; the first match in file order selects the script of the conversation. The next reply follows from
    the number of replies in the conversation, so no state is kept between calls and a resumed run continues correctly.
    `{{question}}` is replaced by the first question, in the content and in the arguments of calls; `"after_s"` is the
    latency of the reply. An error is raised once per question.

    Args:
        scripts: Replies and errors with their latency in seconds, by the text that questions contain.
        name: Name of the model in logs.
    """

    def __init__(self, scripts: Mapping[str, Sequence[tuple[Recorded, float]]], *, name: str = "scripted") -> None:
        self.name = name
        self._scripts = scripts
        self._num_raised: dict[str, int] = {}

    @classmethod
    def read(cls, lines: Sequence[str], source: str) -> "ConversationScript":
        """Parse the lines of a file."""
        scripts: dict[str, list[tuple[Recorded, float]]] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            value = read_json(line)
            if not isinstance(value, dict) or not isinstance(value.get("for"), str):
                raise ConfigError(f'{source}, line {number}: expected an object with "for", as the other lines have')
            after_s = value.pop("after_s", 0.0)
            key = value.pop("for")
            recorded = _read_line(json.dumps(value), f"{source}, line {number}")
            scripts.setdefault(key, []).append((recorded, float(after_s)))
        return cls(scripts, name=f"scripted:{source}")

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return the next reply of this conversation.

        Raises:
            ModelError: If the script has no more replies, or the next item is an error.
        """
        questions = [message.text for message in messages if message.role == "user"]
        asked = (text for text in questions if any(key in text for key in self._scripts))  # images may precede it
        question = next(asked, next(iter(questions), ""))
        replies = next((replies for key, replies in self._scripts.items() if key in question), ())
        number = sum(message.role == "assistant" for message in messages) + self._num_raised.get(question, 0)
        if number >= len(replies):
            raise ModelError(
                f"the script holds {len(replies)} replies for {question[:80]!r}, and this is call {number + 1}",
                retryable=False,
            )
        recorded, after_s = replies[number]
        if after_s:
            await asyncio.sleep(after_s)
        if isinstance(recorded, Exception):
            self._num_raised[question] = self._num_raised.get(question, 0) + 1
            raise recorded
        reply = Reply(content=recorded) if isinstance(recorded, str) else recorded
        quoted = json.dumps(question)[1:-1]
        calls = tuple(
            replace(call, arguments=call.arguments.replace("{{question}}", quoted)) for call in reply.tool_calls
        )
        content = reply.content.replace("{{question}}", question)
        return separate(replace(reply, content=content, tool_calls=calls, model=self.name), tools)

    async def close(self) -> None:
        """Do nothing; there is nothing to close."""


class OracleModel:
    """Model with the known solutions of tasks, to check tasks and environments; implements `Model`.

    It does not use screenshots. The instruction identifies the task, and the model's earlier replies the progress, so
    no state is kept between calls.

    Args:
        solutions: pyautogui code by instruction, one item per step; the last one ends the episode.
    """

    def __init__(self, solutions: Mapping[str, Sequence[str]]) -> None:
        self.name = ORACLE
        self._solutions = solutions

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return the next step of the solution.

        Raises:
            ModelError: If no solution of this task is known, or it has no more steps.
        """
        asked = messages[-1].text if messages else ""
        known = max((instruction for instruction in self._solutions if instruction in asked), key=len, default=None)
        if known is None:
            raise ModelError(
                f"{self.name} knows no solution of the task {asked[-200:]!r}; it is for --suite-option list=local of "
                "the suite osworld",
                retryable=False,
            )
        done = [_ORACLE_STEP.findall(message.text) for message in messages if message.role == "assistant"]
        number, code = sum(map(len, done)), self._solutions[known]
        if number >= len(code):
            raise ModelError(f"{self.name} has no step after the {number} of its solution", retryable=False)
        action = f"Do part {number + 1} of the {len(code)} that solve it"
        return Reply(content=f"## Action:\n{action}\n\n## Code:\n```python\n{code[number]}\n```", model=self.name)

    async def close(self) -> None:
        """Do nothing; there is nothing to close."""


class _ErrorLine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    error: str
    retryable: bool = False


@cache
def _reply_adapter() -> TypeAdapter[Reply]:
    return TypeAdapter(Reply)


def _read_line(line: str, source: str) -> Recorded:
    try:
        value: Any = read_json(line)
    except ValueError as error:
        raise ConfigError(f"{source}: not JSON: {error}") from error
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: expected a string or an object, found {type(value).__name__}")
    try:
        if "error" in value:
            recorded = _ErrorLine.model_validate(value)
            return ModelError(recorded.error, retryable=recorded.retryable)
        return _reply_adapter().validate_python(value, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{source}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


PREFIX = "baseline:"
KINDS = ("null", "fail", "random")
NUM_CLICKS = 5
"""Number of clicks that `random` makes before it reports success."""

NUM_SEARCHES, NUM_ROWS = 3, 10
"""Number of searches that `random` makes before it answers, and number of rows in its answer."""
_DONE = "computer.terminate(status='success')"
_FAILED = "computer.terminate(status='failure', answer='this agent always gives up')"
_CLICKED = re.compile(rf"random click (\d+) of {NUM_CLICKS}\b")


class BaselineModel:
    """Baseline that reports success (`null`) or failure (`fail`) at once, or clicks at random points first (`random`).

    It implements `cua.model.Model`, ignores the sampling, and keeps no state between calls, so that episodes can share
    it: the point of a click follows from the seed, the instruction, the screenshot and the number of earlier clicks.
    """

    def __init__(self, kind: str, *, seed: int = 0) -> None:
        if kind not in KINDS:
            raise ConfigError(
                f"there is no baseline {kind!r}; expected one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}"
            )
        self.name = f"{PREFIX}{kind}"
        self._kind = kind
        self._seed = seed

    @classmethod
    def from_name(cls, name: str) -> "BaselineModel":
        """Create the baseline named `baseline:KIND` or `baseline:random:SEED`.

        Raises:
            ConfigError: If the kind is unknown, or the seed is not a whole number.
        """
        kind, _, seed = name.removeprefix(PREFIX).partition(":")
        if seed and not (kind == "random" and seed.isascii() and seed.isdecimal() and len(seed) < 20):
            raise ConfigError(f"the model {name!r} has no seed that can be used; expected {PREFIX}random:NUMBER")
        return cls(kind, seed=int(seed or 0))

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return the next action in the GUI agent's format, coordinates as fractions of the screenshot, or a call."""
        if tools:
            return self._with_tools(messages, {tool.name for tool in tools})
        if self._kind == "fail":
            return self._reply("Give up", _FAILED)
        number = _num_clicks(messages) + 1
        if self._kind == "null" or number > NUM_CLICKS:
            return self._reply("Say that it is done", _DONE)
        rng = random.Random(_digest(self._seed, number, messages))
        code = f"pyautogui.click(x={rng.random():.4f}, y={rng.random():.4f})"
        return self._reply(f"Make random click {number} of {NUM_CLICKS}", code)

    def _with_tools(self, messages: Sequence[Message], names: set[str]) -> Reply:
        if self._kind != "random" or "search" not in names:
            return Reply(content="I give up." if self._kind == "fail" else "It is done.", model=self.name)
        rng = random.Random(_digest(self._seed, len(messages), messages))
        question = next((message.text for message in messages if message.role == "user"), "")
        shown = [message.text for message in messages if message.role == "tool"]
        if len(shown) < NUM_SEARCHES:
            query = " ".join(rng.choice(question.split() or ["?"]) for _ in range(2))
            call = ToolCall(
                id=f"functions.search:{len(shown)}", name="search", arguments=json.dumps({"queries": [query]})
            )
            return Reply(content="", tool_calls=(call,), finish_reason="tool_calls", model=self.name)
        header = next((line for line in question.splitlines() if line.startswith("|")), "| Answer |")
        words, columns = " ".join(shown).replace("|", " ").split(), header.count("|") - 1
        rows = ["| " + " | ".join(rng.choice(words) for _ in range(columns)) + " |" for _ in range(NUM_ROWS)]
        return Reply(content="\n".join([header, "|---" * columns + "|", *rows]), model=self.name)

    async def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def _reply(self, action: str, code: str) -> Reply:
        return Reply(content=f"## Action:\n{action}\n\n## Code:\n```python\n{code}\n```", model=self.name)


def _num_clicks(messages: Sequence[Message]) -> int:
    """Return the number of clicks in this episode, according to the agent's own messages."""
    texts = [message.text for message in messages if message.role == "assistant"]
    return max((int(number) for text in texts for number in _CLICKED.findall(text)), default=0)


def _digest(seed: int, number: int, messages: Sequence[Message]) -> bytes:
    last = messages[-1] if messages else None
    images = [part.data for part in last.parts if isinstance(part, ImagePart)] if last else []
    return hashlib.sha256(
        f"{seed} {number} {last.text if last else ''}".encode("utf-8", "surrogatepass") + b"".join(images)
    ).digest()
