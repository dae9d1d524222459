"""A task on web apps, as data; its verdict is what changed in the apps' own state, all of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.actions import Terminate
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.suites.apps.app import Facts

Wording = Literal["goal", "steps"]
Wanted = Callable[[Any], bool]
"""Tells whether a value is a right one; None stands for something that is gone."""

IMPOSSIBLE = "impossible"
CROSS_SITE = "cross-site"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """One task.

    Attributes:
        id: `SITE/NAME`, or `cross-site/NAME`.
        instruction: What is wanted, as a person says it.
        steps: The same as plain steps, one act each, for a model that does what it is told and nothing else.
        sites: The apps that it needs; it starts on the first one.
        path: Where it starts there.
        changes: What has to change, by path in the facts: the new value, None for what has to go, or a function that
            knows right values. Nothing else may change. Several: any one of them.
        answer: What the agent has to answer, if anything; it has to say success then.
        is_possible: When it is not, nothing may change, and the agent has to say failure.
        is_signed_in: Whether it starts signed in.
        family: What kind of work it is, `"create"`; one that cannot be done is of the family `impossible`, one on
            several sites of `cross-site`.
        difficulty: 1 (a few clicks on the page that is open) to 3 (several pages, something to find out).
        human_steps: How many acts (click, text, key) a person who knows the app needs.
    """

    id: str
    instruction: str
    steps: str
    sites: tuple[str, ...]
    path: str = "/"
    changes: Mapping[str, Any] | tuple[Mapping[str, Any], ...] = field(default_factory=dict)
    answer: Wanted | None = None
    is_possible: bool = True
    is_signed_in: bool = True
    family: str
    difficulty: Literal[1, 2, 3]
    human_steps: int

    def __post_init__(self) -> None:
        if self.is_possible and not self.changes and self.answer is None:
            raise ValueError(f"the task {self.id!r} has nothing to do: neither changes nor an answer")

    def is_right(self, before: Facts, after: Facts) -> bool:
        """Whether what is to change has changed, and nothing else."""
        changed = find_changes(before, after)
        ways = self.changes if isinstance(self.changes, tuple) else (self.changes,)
        return any(
            changed.keys() == way.keys() and all(_matches(way[path], changed[path]) for path in way) for way in ways
        )


class AppTask(Task):
    """A task on an `AppsEnv`.

    Args:
        config: The task.
        wording: `goal` says what is wanted, `steps` how it is done.
    """

    def __init__(self, config: TaskConfig, wording: Wording = "goal") -> None:
        self.config = config
        self.sites = config.sites
        self.instruction = config.instruction if wording == "goal" else config.steps
        self.spec = TaskSpec(
            id=config.id,
            env=EnvSpec(name="apps"),
            metadata={
                "family": config.family,
                "difficulty": config.difficulty,
                "human_steps": config.human_steps,
                "sites": list(config.sites),
                "wording": wording,
            },
        )
        self._before: Facts = {}

    async def setup(self, env: Any) -> None:
        """Sign in and open the page where it starts."""
        self._before = await env.facts()
        if self.config.is_signed_in:
            await env.sign_in()
        await env.goto(env.app(self.sites[0]).app.url + self.config.path)

    async def evaluate(self, env: Any) -> TaskVerdict:
        """1.0 when the wanted changes were made and no others, and what is to be said was said; else 0.0."""
        if not self._is_said_right(env.terminate):
            return TaskVerdict(0.0)
        return TaskVerdict(self.config.is_right(self._before, await env.facts()))

    def _is_said_right(self, said: Terminate | None) -> bool:
        answer = self.config.answer
        if not self.config.is_possible:
            return said is not None and said.status == "failure"
        return answer is None or (said is not None and said.status == "success" and answer(said.answer or ""))


def find_changes(before: Facts, after: Facts) -> dict[str, Any]:
    """What is new or another by its new value, what is gone by None."""
    paths = before.keys() | after.keys()
    return {path: after.get(path) for path in paths if before.get(path) != after.get(path)}


def has(*texts: str) -> Wanted:
    """A text that holds all of these, in upper or lower case."""
    return lambda value: isinstance(value, str) and all(text.lower() in value.lower() for text in texts)


def says_number(number: float) -> Wanted:
    """An answer that has this number and no other, in digits (`19.95`, `19,95`); `#3`, a ticket, does not count."""

    def is_it(answer: Any) -> bool:
        found = re.findall(r"(?<![#\w.,])\d+(?:[.,]\d+)?(?!\w)", str(answer))
        return len(found) > 0 and all(float(text.replace(",", ".")) == number for text in found)

    return is_it


def _matches(wanted: Any, value: Any) -> bool:
    return wanted(value) if callable(wanted) else bool(wanted == value)
