"""Result of a run: a fixed set of statuses. A run that reached a limit never counts as success."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cua.messages import Usage

Status = Literal["succeeded", "failed", "unverified", "capped", "stopped", "error"]
Cap = Literal["steps", "calls", "time", "tokens", "cost", "parse_errors", "loop", "env", "context"]
ErrorSource = Literal["model", "env", "record", "task", "sandbox"]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Result of a run and its reason.

    Attributes:
        status: `succeeded`: the task's verdict is 1; `failed`: the verdict is below 1, or the agent gave
            up; `unverified`: the agent reports success and no check is available; `capped`: one of our limits or
            of the environment's limits was reached; `stopped`: stopped by a person; `error`: the model, the
            environment or the record failed.
        reason: One line for a person.
        cap: Limit that was reached, for `capped`; `context` also for a `failed` run whose conversation grew too long.
        source: Part that failed, for `error`; `env` for a `capped` run whose environment could not give a verdict.
        retryable: True if another run may succeed after an error, or if a resumed run may complete a partial answer.
        score: Verdict of the task in [0, 1], if any.
        answer: Answer of the agent, if any.
        num_unfinished: Number of sub-agents that were capped, stopped or suspended; above 0 the answer is partial.
        claim: Status that the agent reported when it ended the episode; None if it did not end it.
        other_scores: Scores by other rules, by name, if the task gives them (`envs.TaskVerdict`).
        info: Further information of the task about its episode (`envs.TaskVerdict`).
    """

    status: Status
    reason: str
    cap: Cap | None = None
    source: ErrorSource | None = None
    retryable: bool = False
    score: float | None = None
    answer: str | None = None
    num_unfinished: int = 0
    claim: Literal["success", "failure"] | None = None
    other_scores: Mapping[str, float] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Exit code: 0 succeeded or unverified, 1 failed or a permanent error, 3 capped, 75 retryable, 130 stopped.

        A partial answer is 75 if resuming the run may complete it now, and 3 if a limit must be raised first.
        """
        if self.status == "error":
            return 75 if self.retryable else 1
        if self.num_unfinished and self.status in ("succeeded", "unverified"):
            return 75 if self.retryable else 3
        return {"succeeded": 0, "unverified": 0, "failed": 1, "capped": 3, "stopped": 130}[self.status]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a run with its usage; the last output of `cua task`."""

    end: End
    num_steps: int
    usage: Usage
    duration_s: float
    run_dir: str | None = None
