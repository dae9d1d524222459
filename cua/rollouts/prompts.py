"""Variants of prompts, and constraints on answers that a rule can check; the same for all members of a group.

Source: Kimi K2.5 report, Appendix D ("prompt diversification and instruction-following enhancement"), without a list.
Everything is drawn from the seed of the run and the task, so that another process draws the same.
"""

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cua.errors import ConfigError
from cua.json_text import read_object
from cua.rollouts.rollout import RolloutOutcome

MAX_CONSTRAINT_WEIGHT = 0.3
"""Largest part of a score that constraints decide; the task itself decides the rest."""

ConstraintKind = Literal["max_words", "forbidden_word", "json", "first_word"]


@dataclass(frozen=True, slots=True)
class AnswerConstraint:
    """Demand on the answer, in addition to the task.

    Attributes:
        kind: Rule.
        value: Number of words, word, or key of the JSON object.
    """

    kind: ConstraintKind
    value: str

    @property
    def text(self) -> str:
        """Sentence for the instruction."""
        match self.kind:
            case "max_words":
                return f"Your final answer has at most {self.value} words."
            case "forbidden_word":
                return f'Do not use the word "{self.value}" in your final answer.'
            case "json":
                return f'Give your final answer as a JSON object with the key "{self.value}".'
            case "first_word":
                return f'Begin your final answer with the word "{self.value}".'

    def is_met(self, answer: str) -> bool:
        """Return True if an answer meets the demand; an empty one meets none."""
        words: list[str] = re.findall(r"\w+(?:['’-]\w+)*", answer)
        if not words:
            return False
        match self.kind:
            case "max_words":
                return len(words) <= int(self.value)
            case "forbidden_word":
                return self.value.casefold() not in (word.casefold() for word in words)
            case "json":
                found = read_object(answer.strip())
                return found is not None and self.value in found
            case "first_word":
                return words[0].casefold() == self.value.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPrompt:
    """Prompt of a group, in addition to the task.

    Attributes:
        system: System prompt; None: the agent's own.
        tools: Names of the tools, in order.
        image_scale: Factor of the screenshots' width and height.
        constraints: Demands on the answer, appended to the instruction.
        constraint_weight: Part of the score that they decide.
    """

    system: str | None = None
    tools: tuple[str, ...] = ()
    image_scale: float = 1.0
    constraints: tuple[AnswerConstraint, ...] = ()
    constraint_weight: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0 <= self.constraint_weight <= MAX_CONSTRAINT_WEIGHT:
            raise ConfigError(
                f"constraints weigh {self.constraint_weight}, at most {MAX_CONSTRAINT_WEIGHT} are possible"
            )

    @property
    def suffix(self) -> str:
        """Text after the instruction; "" without constraints."""
        return "".join(f"\n{constraint.text}" for constraint in self.constraints)

    def judge(self, outcome: RolloutOutcome, answer: str | None) -> RolloutOutcome:
        """Return the outcome with the constraints in its score: (1 - w + w * share met) * score of the task.

        A task that failed stays at 0, whatever its answer looks like.
        """
        if not self.constraints or outcome.score is None:
            return outcome
        share = sum(constraint.is_met(answer or "") for constraint in self.constraints) / len(self.constraints)
        score = outcome.score * (1.0 - self.constraint_weight + self.constraint_weight * share)
        parts = {**outcome.parts, "task": outcome.score, "constraints": share}
        return replace(outcome, score=score, parts=parts)

    def to_json(self) -> dict[str, object]:
        """Return what was drawn, for the journal."""
        constraints = [[constraint.kind, constraint.value] for constraint in self.constraints]
        return {
            "system": self.system,
            "tools": list(self.tools),
            "image_scale": self.image_scale,
            "constraints": constraints,
            "constraint_weight": self.constraint_weight,
        }


Diversifier = Callable[[RolloutPrompt, random.Random], RolloutPrompt]


def draw_prompt(
    prompt: RolloutPrompt,
    diversifiers: Mapping[str, Diversifier],
    *,
    run_seed: int,
    task_id: str,
    seed: int | None = None,
) -> RolloutPrompt:
    """Apply diversifiers in order; each has random numbers of its own, so that another one does not change its draws.

    Args:
        prompt: Prompt to start from.
        diversifiers: Diversifiers by name, which is part of their seed.
        run_seed: Seed of the run.
        task_id: Id of the task.
        seed: Seed of the task.
    """
    for name, diversify in diversifiers.items():
        prompt = diversify(prompt, random.Random(derive_seed(run_seed, task_id, seed, name)))
    return prompt


def derive_seed(*parts: int | str | None) -> int:
    """Return a seed in [0, 2**64) that is the same in every process, unlike `hash`."""
    return int.from_bytes(hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).digest(), "big")


def paraphrase_system(prompts: Sequence[str]) -> Diversifier:
    """Choose one of several system prompts."""
    return lambda prompt, rng: replace(prompt, system=rng.choice(prompts))


def shuffle_tools(prompt: RolloutPrompt, rng: random.Random) -> RolloutPrompt:
    """Put the tools into another order."""
    return replace(prompt, tools=tuple(rng.sample(prompt.tools, len(prompt.tools))))


def add_distractors(names: Sequence[str], most: int = 2) -> Diversifier:
    """Insert up to `most` tools that the task does not need at random places."""

    def diversify(prompt: RolloutPrompt, rng: random.Random) -> RolloutPrompt:
        tools = list(prompt.tools)
        unused = [name for name in names if name not in tools]
        for name in rng.sample(unused, min(len(unused), rng.randint(0, most))):
            tools.insert(rng.randint(0, len(tools)), name)
        return replace(prompt, tools=tuple(tools))

    return diversify


def scale_images(scales: Sequence[float] = (1.0, 0.75, 0.5)) -> Diversifier:
    """Choose the scale of the screenshots."""
    return lambda prompt, rng: replace(prompt, image_scale=rng.choice(scales))


_WORDS = ("finally", "basically", "result", "answer", "sure", "task")


def constrain_answer(prompt: RolloutPrompt, rng: random.Random) -> RolloutPrompt:
    """Add one constraint on the answer that does not depend on the task."""
    drawn = rng.choice(
        (
            AnswerConstraint("max_words", str(rng.choice((10, 20, 50)))),
            AnswerConstraint("forbidden_word", rng.choice(_WORDS)),
            AnswerConstraint("json", rng.choice(("answer", "result", "value"))),
            AnswerConstraint("first_word", rng.choice(("Done", "Answer", "Result"))),
        )
    )
    return replace(prompt, constraints=(*prompt.constraints, drawn))


DIVERSIFIERS: Mapping[str, Diversifier] = {
    "tools": shuffle_tools,
    "images": scale_images(),
    "answer": constrain_answer,
}
"""Diversifiers that suit any task."""
