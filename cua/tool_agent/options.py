"""How a tool-using agent works, and the report's settings for visual tasks."""

from dataclasses import dataclass, field
from typing import Literal

from cua.answer import AnswerSchema
from cua.messages import Sampling
from cua.run.caps import Caps

ContextStrategy = Literal["none", "hide-tool-result", "discard-all", "summary"]
"""What happens when the conversation grows past its threshold.

`none`: the run fails, and says so. `hide-tool-result`: results of all but the latest round are blanked, all
reasoning stays. `discard-all`: the agent starts over from the question. `summary`: the model sums up what it
knows and goes on from there.

Source: Kimi K2.5 technical report, Appendix E.6 (the first three).
"""

VISUAL_MAX_STEPS = 30
"""Source: Kimi K2.5 technical report, Appendix E.4, ZeroBench with tools."""

VISUAL_MAX_TOKENS = 24_000
"""Output tokens of one step. Source: as above ("24k")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """When and how old parts of the conversation are given up.

    Attributes:
        strategy: See `ContextStrategy`.
        max_tokens: Threshold on the tokens of a request and its reply; the context window of the model for
            `none`. None: only the model's own refusal counts.
    """

    strategy: ContextStrategy = "none"
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAgentOptions:
    """How a tool-using agent works.

    Attributes:
        system_prompt: What the model is told before the question.
        caps: Limits; `max_parse_errors` bounds unusable replies in a row.
        sampling: For every call; `max_tokens` bounds one step.
        context: What happens when the conversation grows too long.
        answer_schema: What the final answer must look like.
        is_isolated: Whether tools run in a sandbox; when not, the guard asks before each call.
    """

    system_prompt: str
    caps: Caps = field(default_factory=lambda: Caps(max_steps=VISUAL_MAX_STEPS))
    sampling: Sampling | None = None
    context: ContextOptions = field(default_factory=ContextOptions)
    answer_schema: AnswerSchema | None = None
    is_isolated: bool = True
