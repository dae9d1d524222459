"""How a run ends: a closed set. A loop that ran out can never read as success."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cua.messages import Usage

Status = Literal["succeeded", "failed", "unverified", "capped", "stopped", "error"]
Cap = Literal["steps", "calls", "time", "tokens", "cost", "parse_errors", "loop", "env"]
ErrorSource = Literal["model", "env", "record", "task", "sandbox"]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Why a run is over.

    Attributes:
        status: `succeeded`: the task's verdict is 1; `failed`: the verdict is below 1, or the agent gave
            up; `unverified`: the agent says success and nothing can check it; `capped`: a limit of ours, or
            of the env's own;
            `stopped`: a person; `error`: the model, the env or the record broke.
        reason: One line for a person.
        cap: Which limit, for `capped`.
        source: What broke, for `error`; `env` for a `capped` run whose env could not be asked for the verdict.
        retryable: Where something broke: whether running again may help.
        score: The task's verdict in [0, 1], when it gave one.
        answer: The agent's answer, when it gave one.
        claim: What the agent reported when it ended the episode; None when it did not end it.
        other_scores: By name, the score that other rules give, when the task tells (`envs.TaskVerdict`).
        info: What else the task tells of its episode (`envs.TaskVerdict`).
    """

    status: Status
    reason: str
    cap: Cap | None = None
    source: ErrorSource | None = None
    retryable: bool = False
    score: float | None = None
    answer: str | None = None
    claim: Literal["success", "failure"] | None = None
    other_scores: Mapping[str, float] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 succeeded or unverified, 1 failed or a permanent error, 3 capped, 75 worth retrying, 130 stopped."""
        if self.status == "error":
            return 75 if self.retryable else 1
        return {"succeeded": 0, "unverified": 0, "failed": 1, "capped": 3, "stopped": 130}[self.status]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What `cua task` prints last."""

    end: End
    num_steps: int
    usage: Usage
    duration_s: float
    run_dir: str | None = None
