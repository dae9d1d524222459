"""Answers of the HTTP API, as its OpenAPI document describes them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.assistant.run_request import Place
from apps.assistant.session import Phase
from cua.trajectory.events import AgentMode


class ApiError(BaseModel):
    """Answer to a request that failed."""

    error: str
    detail: list[dict[str, Any]] = Field(default_factory=list)


class _Answer(BaseModel):
    """Answer of the API; further fields may be added later."""

    model_config = ConfigDict(extra="allow")


class RunResultAnswer(_Answer):
    """Result of a run."""

    status: str
    reason: str
    verified: bool
    score: float | None
    answer: str
    steps: int
    duration_s: float


class OpenQuestion(_Answer):
    """Question of the agent that waits for an answer."""

    id: str
    question: str
    reason: str
    risk: str
    action: str
    code: str
    target: str
    site: str
    has_crop: bool


class SubAgent(_Answer):
    """Sub-agent of a swarm; `image` names its newest image, `cost_usd` is 0 if the price is unknown."""

    id: str
    name: str
    task: str
    image: str
    state: str
    is_at_work: bool
    calls: int
    tokens: int
    cost_usd: float
    last: str


class SessionRow(_Answer):
    """Session in a list."""

    id: str
    mode: AgentMode
    title: str
    phase: Phase
    step: int
    result: RunResultAnswer | None
    run_id: str | None
    error: str | None


class SessionState(SessionRow):
    """State of a session.

    `place` is "" without a screen, `started_at` in seconds since 1970; `pointer` and `next`, the next click, are
    fractions of the image.
    """

    place: Place | Literal[""]
    where: str
    can_continue: bool
    started_at: float
    instruction: str
    thought: str
    url: str
    tab: str
    size_px: tuple[int, int] | None
    pointer: tuple[float, float] | None
    next: tuple[float, float] | None
    tokens: int
    cost_usd: float | None
    approvals: list[OpenQuestion]
    policy: str
    children: list[SubAgent]
    undo: list[str]
    has_screen: bool
    can_take_over: bool


class UploadedFile(_Answer):
    """Uploaded file; a request refers to it by `name`."""

    name: str


class RunRow(_Answer):
    """Recorded run; `started_at` is in seconds since 1970."""

    id: str
    instruction: str
    status: str
    reason: str
    model: str
    env: str
    mode: AgentMode | Literal[""]


class RunStep(_Answer):
    """Step of a recorded run: what the agent wrote, what was executed, and notes."""

    index: int
    action: str
    has_image: bool
    done: list[str]
    notes: list[str]


class RunDetails(RunRow):
    """Recorded run with its steps."""

    is_tool_run: bool
    steps: list[RunStep]


class SavedTaskRow(_Answer):
    """Saved task; `next` is its next time, "" without a schedule."""

    name: str
    instruction: str
    parameters: list[str]
    next: str
    last: str


class SettingRow(_Answer):
    """Setting; the value of a secret says only whether it is set."""

    name: str
    value: str
    source: str
    label: str
    about: str
    choices: list[str]
    is_open: bool
    is_secret: bool


class SecretRow(_Answer):
    """Named secret without its value, and the sites where it may be typed."""

    name: str
    domains: list[str]
