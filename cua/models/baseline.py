"""Agents without any skill, to compare scores with: what they get, a suite gives away.

Named `baseline:null`, `baseline:fail` and `baseline:random` (or `baseline:random:SEED`) wherever a model is named.
Offered tools, they answer in words: `random` searches for words of the question first, and then fills the columns that
it asks for with words that it was shown.
"""

import hashlib
import json
import random
import re
from collections.abc import Sequence

from cua.errors import ConfigError
from cua.messages import ImagePart, Message, Reply, Sampling, ToolCall
from cua.model import Tool
from envs.errors import did_you_mean

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
        """Make one of a kind.

        Raises:
            ConfigError: There is no such kind.
        """
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
