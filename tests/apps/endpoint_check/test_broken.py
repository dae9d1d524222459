"""Servers with one fault each: it is found by the probe that is made for it, and named."""

import time

import pytest

from apps.endpoint_check import SelfTestOptions, run_self_test
from apps.endpoint_check.probes import PROBES
from tests.apps.endpoint_check.fake import FakeK25

FAULTS = [
    # fault, probes that find it with their status, words of the first one's text
    ("leaks_markers", {"tool-call": "failed", "parallel-calls": "failed", "tool-choice": "failed"},
     "<|tool_calls_section_begin|> leaks into the content"),
    ("unparsed_thoughts", {"reasoning": "failed", "tool-call": "failed"}, "--reasoning-parser kimi_k2"),
    ("drops_thoughts", {"reasoning": "failed"}, "thoughts are dropped"),
    ("newer_field", {}, None),
    ("instant_in_reasoning", {"thinking-off": "failed", "stop": "inconclusive", "json-schema": "inconclusive",
                              "memory": "inconclusive", "image-order": "inconclusive"},
     "the answer lands in the reasoning field"),
    ("ignores_thinking_flag", {"thinking-off": "failed"}, "is ignored"),
    ("one_spelling", {"thinking-off": "warning"}, "the official thinking.type is ignored"),
    ("thoughts_not_kept", {"reasoning-history": "failed"}, "do not reach the model"),
    ("only_reasoning_field", {"reasoning-history": "warning"}, "reasoning_content is dropped"),
    ("preserves_thoughts", {"reasoning-history": "warning"}, "preserve_thinking"),
    ("sanitised_ids", {"tool-ids": "failed"}, "functions.NAME:INDEX"),
    ("verbatim_ids", {"tool-ids": "warning"}, "reach the model as they are"),
    ("merges_calls", {"parallel-calls": "failed"}, "calls are merged into one"),
    ("stream_loses_calls", {"parallel-calls": "failed"}, "streaming loses calls: 1 of 3"),
    ("shared_index", {"parallel-calls": "failed"}, "two tool calls share index 0"),
    ("wrong_finish", {"tool-call": "failed", "parallel-calls": "failed", "tool-choice": "failed"},
     "expected 'tool_calls'"),
    ("never_forced", {"tool-choice": "warning"}, "does not force a call"),
    ("ignores_none", {"tool-choice": "failed"}, "a call came"),
    ("no_auto_tools", {"template": "failed", "tool-call": "failed", "parallel-calls": "failed",
                       "tool-choice": "not supported", "tool-result": "failed", "tool-ids": "failed"},
     "--enable-auto-tool-choice"),
    ("tools_not_shown", {"template": "failed"}, "tools do not reach the prompt"),
    ("no_tool_pictures", {"tool-result": "failed"}, "an image in a tool result is refused"),
    ("tool_pictures_dropped", {"tool-result": "failed"}, "does not reach the model"),
    ("default_system", {"template": "warning"}, "a system prompt is added"),
    ("drops_history", {"history": "failed", "memory": "failed", "reasoning-history": "failed", "template": "warning"},
     "missing: the system message, the first question, the first answer, a later question, arguments of a call"),
    ("keeps_eight", {"history": "failed"}, "missing: the first of 41 messages"),
    ("drops_system", {"history": "failed", "memory": "failed", "template": "warning"}, "missing: the system message"),
    ("drops_answers", {"history": "failed"}, "missing: the first answer, the last answer"),
    ("drops_old_pictures", {"history": "failed", "memory": "failed"},
     "missing: an image of the first question, an image of a later question"),
    ("forgets", {"memory": "failed"}, "not from an earlier message, the system message, an earlier image"),
    ("control_tokens", {"control-tokens": "warning"}, "can end its message"),
    ("one_picture", {"image-count": "failed", "image-order": "failed", "history": "failed"}, "--limit-mm-per-prompt"),
    ("pictures_uncounted", {"image-tokens": "failed", "image-count": "failed", "tool-result": "failed"}, None),
    ("merges_equal_pictures", {"image-count": "failed", "image-order": "failed"}, "equal images are merged"),
    ("sorts_pictures", {"image-order": "failed"}, "out of order: sent green, red, green, blue"),
    ("video_500", {"video": "warning"}, "HTTP 500 for a video instead of a refusal"),
    ("no_video", {"video": "not supported"}, "send frames as images"),
    ("video_dropped", {"video": "failed"}, "frames do not reach the model"),
    ("wrong_total", {"chat": "failed", "usage": "failed"}, "usage does not add up"),
    ("no_cache_details", {"usage": "warning"}, "--enable-prompt-tokens-details"),
    ("no_cache", {"usage": "warning"}, "no part of a repeated prompt is cached"),
    ("no_done", {"stream": "failed", "reasoning": "failed", "parallel-calls": "failed"}, "without [DONE]"),
    ("no_finish", {"stream": "failed", "reasoning": "failed", "parallel-calls": "failed"}, "finish_reason is None"),
    ("no_stream_usage", {"stream": "warning"}, "no usage in the stream"),
    ("stream_loses_text", {"stream": "failed"}, "streaming loses text"),
    ("cuts_characters", {"unicode": "failed"}, "cuts characters in two"),
    ("ignores_max_tokens", {"max-tokens": "failed"}, "where max_tokens allows 1"),
    ("ignores_stop", {"stop": "failed"}, "does not end the answer"),
    ("keeps_stop", {"stop": "failed"}, "left in the answer"),
    ("end_token_shown", {"end-token": "failed"}, "163586"),
    ("schema_ignored", {"json-schema": "inconclusive"}, None),
    ("no_schema", {"json-schema": "not supported"}, "HTTP 400: response_format is not supported"),
    ("plain_errors", {"errors": "failed"}, "without error.message"),
    ("blames_itself", {"errors": "failed"}, "gives HTTP 500, expected 4xx"),
    ("any_name", {"errors": "warning"}, "a model of another name"),
    ("small_body", {"big-body": "failed"}, "client_max_body_size"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "found", "words"), FAULTS, ids=[fault for fault, *_ in FAULTS])
def test_a_fault_is_found_and_named(fault: str, found: dict[str, str], words: str | None) -> None:
    only = tuple(
        probe.name for probe in PROBES if probe.name != "big-body" or fault == "small_body"
    )  # 24 MiB each time
    with FakeK25(fault) as server:
        report = run_self_test(SelfTestOptions(url=server.url, only=only))
    outcomes = dict(report.outcomes)
    seen = {name: outcome.status for name, outcome in outcomes.items() if outcome.status != "ok"}
    assert seen == {name: status for name, status in found.items() if status != "ok"}, outcomes
    if words is not None:
        assert words in outcomes[next(iter(found))].text
    assert report.exit_code == int("failed" in found.values())


@pytest.mark.parametrize(("fault", "words"), [("hangs", "no answer within 0.4 s"), ("drips", "within 0.4 s")])
def test_a_server_that_does_not_answer_ends_the_test_soon(fault: str, words: str) -> None:
    started = time.monotonic()
    with FakeK25(fault) as server:
        report = run_self_test(SelfTestOptions(url=server.url, timeout_s=0.4))
        assert server.num_requests == 2
    outcomes = dict(report.outcomes)
    assert outcomes["models"].status == "ok"
    assert words in outcomes["chat"].text
    assert outcomes["video"].text == "not tried: the server no longer answers"
    assert report.exit_code == 1
    assert time.monotonic() - started < 20  # 23 probes of 0.4 s each, were they all tried, and room for a busy machine
