"""One step of an episode: what was seen, said and done. The prompt is a view of a list of these."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cua.messages import Reply
from envs import Action, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A reply read by the protocol.

    Attributes:
        thought: Reasoning, or the text under `## Thought`.
        action_text: The text under `## Action`, one sentence for a person.
        code: The code block: pyautogui calls, `computer.wait()` or `computer.terminate(...)`.
    """

    thought: str
    action_text: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A finished step.

    Attributes:
        index: 1-based number over all steps of the run, as the model counts them.
        observation: What the model saw before it acted.
        reply: The raw answer.
        turn: The answer as the protocol read it.
        actions: What was carried out, secrets still as `{{name}}`.
        error: Why actions were refused or failed, as the model is told in the next observation.
        started_at: Unix time in seconds.
        timings: Seconds by stage: `model`, `interpret`, `guard`, `act`, `settle`, `observe`, `record`.
    """

    index: int
    observation: Observation
    reply: Reply
    turn: Turn
    actions: tuple[Action, ...] = ()
    error: str | None = None
    started_at: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
