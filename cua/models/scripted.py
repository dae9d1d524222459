"""Models that answer from a script or without any skill: for tests, examples, benchmarks and as baselines.

Baselines are named `baseline:null`, `baseline:fail` and `baseline:random` (or `baseline:random:SEED`) wherever a model
is named: what they get, a suite gives away. Offered tools, they answer in words: `random` searches for words of the
question first, and then fills the columns that it asks for with words that it was shown.
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
    """Gives one recorded reply a call, in order, whatever the sampling; implements `cua.model.Model`.

    Args:
        replies: Replies, contents of replies, or exceptions to raise. May be endless
            (`itertools.repeat("...")`); it is read as calls come.
        name: What logs call it.
        latency_s: Seconds that each answer takes.

    Attributes:
        received: The messages of each call, oldest first.
        received_sampling: The sampling of each call.
    """

    def __init__(self, replies: Iterable[Recorded], *, name: str = "scripted", latency_s: float = 0.0) -> None:
        self.name = name
        self.received: list[tuple[Message, ...]] = []
        self.received_sampling: list[Sampling | None] = []
        self._replies: Iterator[Recorded] = iter(replies)
        self._latency_s = latency_s

    @classmethod
    def from_file(cls, path: str | Path) -> "ScriptedModel | ConversationScript":
        """Read replies from a JSONL file.

        A line is a JSON string (the content), an object with the fields of `Reply` (`{"content": "...",
        "reasoning": "..."}`), or an error to raise (`{"error": "server down", "retryable": true}`).
        Empty lines are skipped. Lines with `"for"` make a `ConversationScript`.

        Raises:
            ConfigError: The file cannot be read, or a line is none of these; the text says which.
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
        """Give the next reply, or raise the next error.

        Raises:
            ModelError: The script has run out.
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
        """Nothing to let go."""


class ConversationScript:
    """Recorded replies for many conversations at once, such as those of a swarm; implements `cua.model.Model`.

    A line has besides the fields of a reply `"for"`, a text: it belongs to the conversations whose first question holds
    that text; the first match in the file's order names the conversation's script. Which reply is due follows from the
    number of replies that the conversation has, so nothing is kept between calls and a resumed run goes on there.
    `{{question}}` stands for the first question, in the content and in the arguments of calls; `"after_s"` is how
    long the reply takes. An error is raised once for each question.

    Args:
        scripts: Replies and errors with their seconds, by the text that questions hold.
        name: What logs call it.
    """

    def __init__(self, scripts: Mapping[str, Sequence[tuple[Recorded, float]]], *, name: str = "scripted") -> None:
        self.name = name
        self._scripts = scripts
        self._num_raised: dict[str, int] = {}

    @classmethod
    def read(cls, lines: Sequence[str], where: str) -> "ConversationScript":
        """Read the lines of a file."""
        scripts: dict[str, list[tuple[Recorded, float]]] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            value = read_json(line)
            if not isinstance(value, dict) or not isinstance(value.get("for"), str):
                raise ConfigError(f'{where}, line {number}: expected an object with "for", as the other lines have')
            after_s = value.pop("after_s", 0.0)
            key = value.pop("for")
            recorded = _read_line(json.dumps(value), f"{where}, line {number}")
            scripts.setdefault(key, []).append((recorded, float(after_s)))
        return cls(scripts, name=f"scripted:{where}")

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """The reply that is due in this conversation.

        Raises:
            ModelError: The script has none, or says so.
        """
        said = [message.text for message in messages if message.role == "user"]
        asked = (text for text in said if any(key in text for key in self._scripts))  # pictures may come before it
        question = next(asked, next(iter(said), ""))
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
        """Nothing to let go."""


class OracleModel:
    """Knows the solution of each task by heart: a check of tasks and environments, no agent; implements `Model`.

    It looks at no screenshot. The task is known by its instruction, how far it has come by its own earlier replies, so
    that nothing is kept between calls.

    Args:
        solutions: pyautogui code by instruction, one piece a step; the last one ends the episode.
    """

    def __init__(self, solutions: Mapping[str, Sequence[str]]) -> None:
        self.name = ORACLE
        self._solutions = solutions

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """The next piece of the solution.

        Raises:
            ModelError: No solution of this task is known, or it is over already.
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
        """Nothing to let go."""


class _ErrorLine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    error: str
    retryable: bool = False


@cache
def _reply_adapter() -> TypeAdapter[Reply]:
    return TypeAdapter(Reply)


def _read_line(line: str, where: str) -> Recorded:
    try:
        value: Any = read_json(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from error
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a string or an object, found {type(value).__name__}")
    try:
        if "error" in value:
            recorded = _ErrorLine.model_validate(value)
            return ModelError(recorded.error, retryable=recorded.retryable)
        return _reply_adapter().validate_python(value, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


PREFIX = "baseline:"
KINDS = ("null", "fail", "random")
NUM_CLICKS = 5
"""Clicks of `random` before it says that it is done."""

NUM_SEARCHES, NUM_ROWS = 3, 10
"""Searches of `random` before it answers, and rows of its answer."""
_DONE = "computer.terminate(status='success')"
_FAILED = "computer.terminate(status='failure', answer='this agent always gives up')"
_CLICKED = re.compile(rf"random click (\d+) of {NUM_CLICKS}\b")


class BaselineModel:
    """Says success at once (`null`), says failure at once (`fail`), or clicks anywhere first (`random`).

    It implements `cua.model.Model`, ignores the sampling, and keeps nothing between calls, so that episodes may share
    it: the place of a click follows from the seed, the instruction, the screenshot and the number of clicks before.
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
        """The one that `baseline:KIND` or `baseline:random:SEED` names.

        Raises:
            ConfigError: There is no such kind, or the seed is no whole number.
        """
        kind, _, seed = name.removeprefix(PREFIX).partition(":")
        if seed and not (kind == "random" and seed.isascii() and seed.isdecimal() and len(seed) < 20):
            raise ConfigError(f"the model {name!r} has no seed that can be used; expected {PREFIX}random:NUMBER")
        return cls(kind, seed=int(seed or 0))

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """The next action, as GUI agents write it, coordinates being fractions of the screenshot; or the next call."""
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
        """Nothing to let go."""

    def _reply(self, action: str, code: str) -> Reply:
        return Reply(content=f"## Action:\n{action}\n\n## Code:\n```python\n{code}\n```", model=self.name)


def _num_clicks(messages: Sequence[Message]) -> int:
    """Clicks that were made in this episode, by what the agent's own messages say."""
    texts = [message.text for message in messages if message.role == "assistant"]
    return max((int(number) for text in texts for number in _CLICKED.findall(text)), default=0)


def _digest(seed: int, number: int, messages: Sequence[Message]) -> bytes:
    last = messages[-1] if messages else None
    images = [part.data for part in last.parts if isinstance(part, ImagePart)] if last else []
    return hashlib.sha256(
        f"{seed} {number} {last.text if last else ''}".encode("utf-8", "surrogatepass") + b"".join(images)
    ).digest()
