"""`/metrics` as Prometheus reads it."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.model_runtime.fakes import FakeEngine, Script
from tests.model_runtime.server.serving import TOOLS, USER


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_counters_and_times(ask: Any) -> None:
    engine = FakeEngine()
    client = ask(engine)
    client.post("/v1/chat/completions", json={"messages": USER})
    client.post("/v1/chat/completions", json={})
    client.get("/nothing/at/all")
    client.get("/metrics")
    samples = read(client.get("/metrics").text)
    num_prompt = len(engine.seen[0].prompt.token_ids)
    route = ("route", "/v1/chat/completions")
    expected = {
        ("k25_up", ()): 1,
        ("k25_requests_waiting", ()): 0,
        ("k25_requests_running", ()): 0,
        ("k25_cache_blocks", ()): 10,
        ("k25_cache_blocks_used", ()): 6,
        ("k25_prompt_tokens_total", ()): num_prompt,
        ("k25_prefix_cached_tokens_total", ()): 3,
        ("k25_prefix_cache_hit_ratio", ()): 3 / num_prompt,
        ("k25_generated_tokens_total", ()): 8,
        ("k25_choices_total", (("finish_reason", "stop"),)): 1,
        ("k25_http_requests_total", (route, ("status", "200"))): 1,
        ("k25_http_requests_total", (route, ("status", "400"))): 1,
        ("k25_http_requests_total", (("route", "other"), ("status", "404"))): 1,
        ("k25_ttft_seconds_count", ()): 2,  # the fake engine tells one time with each call
        ("k25_ttft_seconds_sum", ()): 0.04,
        ("k25_queue_seconds_bucket", (("le", "0.001"),)): 2,
        ("k25_e2e_seconds_count", ()): 4,
    }
    assert {key: samples.get(key) for key in expected} == expected


def test_replies_that_leave_the_format_are_counted(ask: Any) -> None:
    section, call, rest = "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"
    pieces = (section, call, "functions_click_1", rest, '{"x": 1}', "<|tool_call_end|>")
    client = ask(FakeEngine(lambda request: Script(pieces=pieces)))
    for stream in (False, True):
        client.post("/v1/chat/completions", json={"messages": USER, "tools": TOOLS, "stream": stream})
    samples = read(client.get("/metrics").text)
    found = {labels[0][1]: value for (name, labels), value in samples.items() if name == "k25_reply_problems_total"}
    assert found == {
        "tool calls inside reasoning": 2,
        "a tool section without end": 2,
        "a call's id that is not functions.NAME:NUMBER": 2,
    }
