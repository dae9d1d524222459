"""The probes, in the order in which they run: plain things first."""

from model_runtime.self_test.outcome import Probe
from model_runtime.self_test.probes import chat, history, limits, media, output, reasoning, template, tools

PROBES: tuple[Probe, ...] = tuple(
    Probe(run=run)
    for run in (
        chat.probe_models,
        chat.probe_chat,
        chat.probe_stream,
        chat.probe_unicode,
        chat.probe_usage,
        output.probe_end_token,
        output.probe_stop,
        output.probe_max_tokens,
        output.probe_json_schema,
        reasoning.probe_reasoning,
        reasoning.probe_thinking_off,
        reasoning.probe_reasoning_history,
        template.probe_template,
        template.probe_control_tokens,
        history.probe_history,
        history.probe_memory,
        tools.probe_tool_call,
        tools.probe_parallel_calls,
        tools.probe_tool_choice,
        tools.probe_tool_result,
        tools.probe_tool_ids,
        media.probe_image_tokens,
        media.probe_image_count,
        media.probe_image_order,
        media.probe_video,
        limits.probe_errors,
        limits.probe_big_body,
    )
)

__all__ = ["PROBES"]
