"""List of all probes in the order in which they run, basic ones first."""

from collections.abc import Callable
from dataclasses import dataclass

from apps.endpoint_check.endpoint import CheckedEndpoint
from apps.endpoint_check.outcome import Outcome
from apps.endpoint_check.probes import chat, media, reasoning, tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One check of an endpoint; `name` is the function's name with dashes."""

    run: Callable[[CheckedEndpoint], Outcome]

    @property
    def name(self) -> str:
        """Name as given to `--only`."""
        return self.run.__name__.removeprefix("probe_").replace("_", "-")

    @property
    def about(self) -> str:
        """First line of the probe's docstring."""
        return (self.run.__doc__ or "").strip().split("\n")[0]


PROBES: tuple[Probe, ...] = tuple(
    Probe(run=run)
    for run in (
        chat.probe_models,
        chat.probe_chat,
        chat.probe_stream,
        chat.probe_unicode,
        chat.probe_usage,
        chat.probe_end_token,
        chat.probe_stop,
        chat.probe_max_tokens,
        chat.probe_json_schema,
        reasoning.probe_reasoning,
        reasoning.probe_thinking_off,
        reasoning.probe_reasoning_history,
        reasoning.probe_template,
        reasoning.probe_control_tokens,
        reasoning.probe_history,
        reasoning.probe_memory,
        tools.probe_tool_call,
        tools.probe_parallel_calls,
        tools.probe_tool_choice,
        tools.probe_tool_result,
        tools.probe_tool_ids,
        media.probe_image_tokens,
        media.probe_image_count,
        media.probe_image_order,
        media.probe_video,
        chat.probe_errors,
        chat.probe_big_body,
    )
)

__all__ = ["PROBES", "Probe"]
