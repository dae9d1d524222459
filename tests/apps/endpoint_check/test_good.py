import json
import socket

import pytest

from apps.endpoint_check import EndpointReport, Outcome, SelfTestOptions, run_self_test, show_report
from apps.endpoint_check.probes import PROBES
from model_runtime.errors import RuntimeFault
from tests.apps.endpoint_check.fake import KEY, FakeK25


def test_a_good_server_passes_all() -> None:
    told: list[str] = []
    with FakeK25() as server:
        report = run_self_test(SelfTestOptions(url=server.url), emit=told.append)
    assert {name: outcome.text for name, outcome in report.outcomes if outcome.status != "ok"} == {}
    assert [name for name, _ in report.outcomes] == [probe.name for probe in PROBES]
    assert (report.exit_code, report.model) == (0, "kimi-k2.5")
    assert told[0] == f"1/{len(PROBES)} models: Check the list of models."


def test_what_a_random_model_writes_fails_nothing() -> None:
    with FakeK25("babbles") as server:
        report = run_self_test(SelfTestOptions(url=server.url))
    states = {name: outcome.status for name, outcome in report.outcomes if outcome.status != "ok"}
    assert states == {
        "end-token": "inconclusive",
        "json-schema": "inconclusive",
        "tool-call": "inconclusive",
        "parallel-calls": "inconclusive",
        "tool-choice": "inconclusive",
        "memory": "inconclusive",
        "image-order": "inconclusive",
    }
    assert report.exit_code == 0


def test_markers_that_a_random_model_strews_about_are_warned_of() -> None:
    with FakeK25("babbles_markers") as server:
        report = run_self_test(SelfTestOptions(url=server.url))
    states = {name: outcome.status for name, outcome in report.outcomes}
    assert (states["tool-call"], states["parallel-calls"]) == ("warning", "warning")
    assert states["reasoning"] == "warning"
    assert [name for name, status in states.items() if status == "failed"] == []


def test_a_short_context_is_no_fault() -> None:
    with FakeK25("short") as server:
        report = run_self_test(SelfTestOptions(url=server.url, only=("image-tokens", "chat")))
    assert dict(report.outcomes)["image-tokens"] == Outcome(
        status="not supported", text="this needs 1400 tokens of context, the server takes 1200"
    )
    assert dict(report.outcomes)["chat"].status == "ok"


def test_probes_are_chosen_by_name() -> None:
    with FakeK25() as server:
        report = run_self_test(SelfTestOptions(url=server.url, only=("video", "models")))
        assert [name for name, _ in report.outcomes] == ["models", "video"]
        with pytest.raises(RuntimeFault, match=r"no probe is named 'vidoe'; did you mean 'video'\?"):
            run_self_test(SelfTestOptions(url=server.url, only=("vidoe",)))


def test_a_key_is_sent_and_a_wrong_one_is_told() -> None:
    with FakeK25("needs_key") as server:
        run_self_test(SelfTestOptions(url=server.url, api_key=KEY, only=("models",)))
        with pytest.raises(RuntimeFault, match="refuses the API key"):
            run_self_test(SelfTestOptions(url=server.url, api_key="other", only=("models",)))


def test_the_name_and_the_address_may_be_given_in_full() -> None:
    with FakeK25() as server:
        url = f"{server.url}/chat/completions"
        report = run_self_test(SelfTestOptions(url=url, model="kimi-k3", only=("models", "chat")))
        root = server.url.removesuffix("/v1")
        assert run_self_test(SelfTestOptions(url=root, only=("models", "chat"))).exit_code == 0
    texts = {name: (outcome.status, outcome.text) for name, outcome in report.outcomes}
    assert texts["models"][1].startswith("'kimi-k3' is not listed, there are ['kimi-k2.5']")
    assert texts["chat"] == ("failed", "HTTP 400: no such model")


def test_no_server_at_all_is_told_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(RuntimeFault, match="no response from"):
            run_self_test(SelfTestOptions(url=url))


def test_a_report_is_a_table_and_json() -> None:
    good, bad = Outcome(status="ok", text="fine"), Outcome(status="not supported", text="HTTP 400")
    report = EndpointReport(url="http://x/v1", model="k", outcomes=(("chat", good), ("video", bad), ("models", good)))
    assert show_report(report).splitlines() == [
        "k at http://x/v1",
        "",
        "chat    ok             fine",
        "video   not supported  HTTP 400",
        "models  ok             fine",
        "",
        "2 ok, 1 not supported",
    ]
    assert json.loads(json.dumps(report.to_json()))["probes"][1] == {
        "name": "video",
        "status": "not supported",
        "text": "HTTP 400",
    }
