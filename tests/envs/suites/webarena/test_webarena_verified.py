"""WebArena-Verified: values, verdicts on canned runs against the package's own, and what a browser's run leaves."""

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import EnvSpec, TaskSpec, Terminate
from envs.browser.launch import find_browser
from envs.errors import EnvError
from envs.registry import load_suite, make_env
from envs.suites.webarena.env import WebArenaEnv
from envs.suites.webarena.network_trace import AGENT_RESPONSE, NETWORK, NetworkEvent, read_har
from envs.suites.webarena.verified import VerifiedTask, VerifiedVerdict, judge
from envs.suites.webarena.verified_tasks import VerifiedSiteTask, load_verified
from envs.suites.webarena.verified_urls import SiteUrls, UrlRules, plain_url, read_url
from envs.suites.webarena.verified_values import _read_markdown, read_value
from tests.envs.suites.webarena.stand_in import StandIn
from tests.envs.suites.webarena.verified_canned import URLS, CannedRun, make_runs
from tests.tables import table

PEER = os.environ.get("WEBARENA_VERIFIED_PYTHON", "")
NUM_COMPARED = int(os.environ.get("WEBARENA_VERIFIED_RUNS", "20"))
"""Canned runs of each task that are compared with the package's own verdict."""
NEVER = {319, 429, *range(562, 571), 699, 700, 742, 743, 745, 746, 811}
"""Tasks whose canned right run is not right as published, either."""


@pytest.fixture(scope="module")
def tasks() -> dict[int, VerifiedTask]:
    return load_verified()


def verdict(task: VerifiedTask, run: CannedRun) -> VerifiedVerdict:
    return judge(task, run.answer, [NetworkEvent(entry) for entry in run.entries], URLS)


@table(
    ("kind", "one", "other", "is_same"),
    [
        ("string", "Quest Lumaflex™ Band", " quest lumaflex  band ", True),
        ("string", "Inayaili León", "inayaili leon.", True),
        ("string", ["success", "ok"], "OK", True),
        ("string", r"^16(?:\.0+)?\s*inch$", "16.0 inch", True),
        ("string", "Buffalo-Niagara", "Buffalo Niagara", True),
        ("string", "123-4567", "123 4567", False),
        ("number", 23, "twenty-three", True),
        ("number", 2105, "two thousand one hundred and five", True),
        ("number", 6, "6 items", False),
        ("currency", 845.49, "$845.49", True),
        ("currency", 1700.84, "1,700.80 USD", True),
        ("currency", 10, "10.2", False),
        ("currency", -50, "-$50", True),
        ("duration", "1hr 35min", "95 minutes", True),
        ("duration", "1hr 35min", "1:35 hours", True),
        ("duration", "2min", "0:05:01", False),
        ("distance", "914km", "914,000 m", True),
        ("distance", "653m", "0.41 miles", True),
        ("distance", "2km", "3km", False),
        ("date", "March 2, 2022", "2022-03-02", True),
        ("date", "12/04/2022", "4 Dec 2022", True),
        ("date", "12/04/2022", "12 April 2022", False),
        ("month", "May", "05", True),
        ("month", "May", "Jun 2023", False),
        ("boolean", True, "Yes", True),
        ("boolean", False, "true", False),
        ("coordinates", {"latitude": "40.4424191", "longitude": "-79.9397388"}, [40.44242, -79.93974], True),
        ("coordinates", [40.5, -79.9], "40.6, -79.9", False),
        ("location-name", "Carnegie Mellon University", "University Carnegie Mellon", True),
        ("location-name", "Carnegie Mellon University", "University of Pittsburgh", False),
        ("string_list", "632,64,86", "86, 632,64", True),
        ("json", '{"a": 1, "b": [2]}', '{"b":[2],"a":1}', True),
        ("markdown", "##  Title\n\n\n* one", "## Title\n\n- one", True),
        ("markdown", "# Title", "# title", False),
        ("base64", "^.*MIT License.*$", "VGhlIE1JVCBMaWNlbnNlIQ==", True),
    ],
)
def test_values_of_one_type_are_the_same_whatever_their_form(kind: str, one: Any, other: Any, is_same: bool) -> None:
    wanted = read_value(one, kind)
    try:
        found = read_value(other, kind)
    except ValueError:
        assert not is_same
        return
    assert wanted.is_met_by(found) is is_same


@pytest.mark.parametrize(
    ("kind", "raw"),
    [("number", "many"), ("currency", ""), ("distance", "914"), ("duration", "95"), ("date", "May"), ("month", 13),
     ("boolean", "perhaps"), ("coordinates", {"latitude": 1}), ("json", "{"), ("string", ["one"]), ("colour", "red")],
)  # fmt: skip
def test_what_is_no_value_of_a_type(kind: str, raw: Any) -> None:
    with pytest.raises(ValueError):
        read_value(raw, kind)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTP://Shop.Test:80//a/./b/../c%7e?q=a%20b&r=&", "http://shop.test/a/c~?q=a%20b&r"),
        ("shop.test", "https://shop.test/"),
        ("http:///a/b", "http://a/b"),
    ],
)
def test_addresses_are_brought_to_one_form(url: str, plain: str) -> None:
    assert plain_url(url) == plain


def test_addresses_are_compared_with_placeholders_patterns_and_queries() -> None:
    sites = SiteUrls({"shopping": "http://shop.test:7770", "gitlab": "http://git.test"})

    def is_met(wanted: Any, url: str, **rules: Any) -> bool:
        ours = read_url(wanted, UrlRules(sites=sites, strict=True, **rules))
        return ours.is_met_by(read_url(url, UrlRules(sites=sites, strict=False, **rules)))

    assert is_met("__SHOPPING__/a?x=1&y=", "http://SHOP.test:7770/a/?x=1")
    assert not is_met("__SHOPPING__/a?x=1", "http://shop.test:7770/a?x=2")
    assert is_met("__SHOPPING__/a?x=1", "http://shop.test:7770/a?x=1&page=4", ignored_patterns=("^pag",))
    assert is_met(["__SHOPPING__/a", "__GITLAB__/b"], "http://git.test/b")
    assert is_met(r"^__GITLAB__/p/\d+$", "http://git.test/p/17")
    assert is_met("__SHOPPING__/r/q?from=a", "http://shop.test:7770/r/ZnJvbT1h/q", has_base64=True)
    with pytest.raises(ValueError, match="on none of the task's sites"):
        is_met("http://elsewhere.test/", "http://git.test/")


def test_right_runs_are_right_and_empty_ones_are_not(tasks: dict[int, VerifiedTask]) -> None:
    right, nothing = set(), set()
    for task in tasks.values():
        if verdict(task, next(make_runs(task))).score:
            right.add(task.id)
        silent = CannedRun(name="silent", answer=None, entries=next(make_runs(task)).entries[:1])
        if verdict(task, silent).score:
            nothing.add(task.id)
    assert tasks.keys() - right == NEVER and not nothing


def chosen_runs(task: VerifiedTask, count: int) -> Iterator[CannedRun]:
    """The right one, and some of the others, the same each time."""
    first, *others = make_runs(task)
    yield first
    yield from random.Random(task.id).sample(others, min(count - 1, len(others)))


@pytest.mark.slow
@pytest.mark.skipif(
    not PEER,
    reason="WEBARENA_VERIFIED_PYTHON names no Python with webarena-verified; verified_peer.py says what it needs",
)
def test_every_verdict_is_that_of_the_package(tasks: dict[int, VerifiedTask]) -> None:
    runs = [(task, run) for task in tasks.values() for run in chosen_runs(task, NUM_COMPARED)]
    asked = [{"task_id": task.id, "answer": run.answer, "entries": run.entries} for task, run in runs]
    lines = "".join(f"{json.dumps(one)}\n" for one in ({"urls": URLS}, *asked))
    peer = Path(__file__).with_name("verified_peer.py")
    done = subprocess.run([PEER, str(peer)], input=lines, capture_output=True, text=True, timeout=3600, check=False)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(theirs) == len(runs), done.stderr[-2000:]
    ours = [verdict(task, run) for task, run in runs]
    print(len(runs), Counter(one.outcome for one in ours))
    different = [
        (task.id, run.name, run.answer, one.outcome, other["outcome"])
        for (task, run), one, other in zip(runs, ours, theirs, strict=True)
        if one.outcome != other["outcome"]
    ]
    assert not different, different[:5]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"log": {}}', b'{"log": {"entries": [{"request": {}}]}}'])
def test_a_file_that_is_no_har(data: bytes) -> None:
    with pytest.raises(EnvError, match=r"network\.har is not a HAR file"):
        read_har(data, NETWORK)


PAGE = """<form method="post" action="/f/cars/send?access_token=t0ken">
<input name="subscribe" value="yes"><input type="password" name="user[password]" value="hush-hush"><button>Go</button>
</form><script>document.cookie = "mage-messages=added; path=/"; document.cookie = "PHPSESSID=s3cret; path=/";
const headers = {Authorization: "Bearer abc"};
fetch("/f/x.json", {headers, method: "POST", body: JSON.stringify({a: 1, api_key: "k3y-k3y"})});
fetch("/f/y", {headers, method: "POST", body: "a=1&password=plain-pw"});
</script>"""


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
@pytest.mark.long
async def test_a_run_leaves_its_answer_and_its_requests_without_secrets(tmp_path: Path) -> None:
    site = StandIn()
    site.pages["/f/cars"] = PAGE
    file = tmp_path / "sites.toml"
    file.write_text(f'[reddit]\nurl = "{site.url}"\n')
    checks: Any = (
        {
            "evaluator": "AgentResponseEvaluator",
            "results_schema": {"type": "null"},
            "expected": {"task_type": "mutate", "status": "SUCCESS", "retrieved_data": None},
        },
        {
            "evaluator": "NetworkEventEvaluator",
            "ignored_query_params": ["access_token"],
            "expected": {
                "url": "__REDDIT__/f/cars/send",
                "http_method": "POST",
                "response_status": 302,
                "post_data": {"subscribe": "yes"},
                "headers": {"referer": "__REDDIT__/f/cars"},
            },
        },
    )
    wanted = VerifiedTask(
        id=1, sites=("reddit",), start_urls=("__REDDIT__/f/cars",), intent="Subscribe", template_id=1, kind="mutate",
        checks=checks,
    )  # fmt: skip
    task = VerifiedSiteTask(wanted, TaskSpec(id="webarena-verified/1"), {"reddit": site.url})
    env = make_env(EnvSpec(name="webarena", options={"sites": str(file)}))
    assert isinstance(env, WebArenaEnv)
    try:
        await env.reset(task)
        answer = '{"task_type": "MUTATE", "status": "SUCCESS", "retrieved_data": null}'
        await env.page.click("button")
        await env.page.wait_for_load_state()
        await env.step([Terminate(status="success", answer=answer)])
        assert (await task.evaluate(env)).score == 1.0
        again = await task.evaluate(env)
        assert again.score == 1.0, "evaluated again"
        files = task.files
        assert files[AGENT_RESPONSE].decode() == answer
        trace = read_har(files[NETWORK], NETWORK)
        assert trace.sites == {"reddit": site.url}
        asked = [(event.method, event.url.removeprefix(site.url)) for event in trace.events]
        assert asked[0] == ("GET", "/f/cars") and ("POST", "/f/cars/send?access_token=***") in asked, asked
        assert trace.events[0].is_navigation and not any("login" in url for _, url in asked), "from the first page on"
        told = files[NETWORK].decode()
        for secret in ("hush-hush", "s3cret", "t0ken", "k3y-k3y", "plain-pw", "Bearer abc", "test1234"):
            assert secret not in told, secret
        assert "session=***" in told and "mage-messages=added" in told
        info = again.info
        assert info["changes_before"] == {"reddit": 0} and info["changes_state"] and info["outcome"] == "success"
    finally:
        await task.teardown(env)
        await env.close()
        site.close()


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("##   A\n*  b\n+ c\n   - d", "## A\n- b\n- c\n  - d"),
        ("[a\n   b](x) [ c  d ]( e ) [] () [\n](y) ( ) [open", "[a b](x) [c d](e) [] () [](y) ( ) [open"),
        ("[[a\n b] (  two words  )", "[[a b] (two words)"),
        ("\n\n \n# h\n\n\n\n* x", "# h\n\n- x"),
    ],
)
def test_markdown_is_written_in_one_way(raw: str, found: str) -> None:
    assert _read_markdown(raw) == found


def test_the_suite_has_the_tasks_of_the_sites_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text('[reddit]\nurl = "http://127.0.0.1:9"\n')
    suite = load_suite("webarena-verified", sites=str(file))
    assert len(suite.task_ids) == 106 and suite.left_out.startswith("706 tasks, which need gitlab, ")
    task: Any = suite.make_task("webarena-verified/600", None)
    assert task.instruction.startswith(task.task.intent) and '"task_type"' in task.instruction
    assert task.spec.metadata["labels"] == {"template": str(task.task.template_id), "kind": "mutate"}
    assert 0 < len(load_suite("webarena-verified", sites=str(file), split="hard").task_ids) < 106
    with pytest.raises(EnvError, match="no task is left"):
        load_suite("webarena-verified", sites=str(file), only="map")
    with pytest.raises(EnvError, match="sites is missing"):
        load_suite("webarena-verified")
