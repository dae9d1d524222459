"""`cua eval webarena` on stand-ins for its sites: interrupted, gone on with, and a site that dies meanwhile."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.browser.launch import find_browser
from envs.suites.webarena.verified_tasks import load_verified
from tests.apps.cli import running
from tests.apps.cli.running import cua, start
from tests.envs.suites.webarena.stand_in import StandIn

IDS = ("webarena/21", "webarena/27", "webarena/124", "webarena/600")
"""Shop, forum, shop, forum; the last one changes the forum."""


@pytest.fixture
def sites() -> Iterator[tuple[StandIn, StandIn]]:
    shop, forum = StandIn(), StandIn()
    yield shop, forum
    forum.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
def test_a_resumed_run_counts_each_task_once_and_a_site_that_dies_in_it_costs_its_own_only(
    tmp_path: Path, sites: tuple[StandIn, StandIn]
) -> None:
    shop, forum = sites
    path, out = tmp_path / "sites.toml", tmp_path / "found"
    path.write_text(
        f'[shopping]\nurl = "{shop.url.replace("127.0.0.1", "localhost")}"\n[reddit]\nurl = "{forum.url}"\n', "utf-8"
    )
    words = ["eval", "webarena", "--sites", str(path), "--baseline", "null", "--no-report"]
    words += [word for id in IDS for word in ("--tasks", id)]
    process = start(tmp_path, *words, "--out", str(out))
    assert process.stderr is not None
    while "[1/4]" not in (line := process.stderr.readline()):
        assert line, "it ended by itself"
    running.press_ctrl_c(process)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    shop.dies_at = "/customer/account/login/"

    ended = cua(tmp_path, *words, "--resume", str(out))
    assert ended.code == 0, ended.stderr
    lines = map(json.loads, (out / "episodes.jsonl").read_text("utf-8").splitlines())
    over = [line for line in lines if line["event"] == "ended"]
    assert Counter(line["task_id"] for line in over) == dict.fromkeys(IDS, 1)
    kinds = {line["task_id"]: line["kind"] for line in over}
    assert kinds == dict.fromkeys(IDS, "scored") | {"webarena/124": "env_error"}
    scored = [line["other_scores"] for line in over if line["kind"] == "scored"]
    assert scored == [{"raw": 0.0, "upstream": 0.0}] * 3
    assert "[4/4]" in ended.stderr and shop.dies_at not in shop.seen[-1:]
    assert "left out: 514 tasks, which need gitlab, map, shopping_admin, wikipedia\n" in ended.stderr
    assert "error: webarena/124: environment: the login to shopping" in ended.stdout
    assert "the score by upstream's rules" in ended.stdout
    infos = {line["task_id"]: line["info"] for line in over if line["kind"] == "scored"}
    assert [info["changes_state"] for info in infos.values()] == [False, False, True]
    assert json.loads((out / "results.json").read_text("utf-8"))["change_order"] == {"reddit": ["webarena/600"]}
    assert "order of changes" in (out / "index.html").read_text("utf-8")
    assert "\ntemplate  episodes" in ended.stdout and "\nevaluation  " in ended.stdout


PASSWORD = "tr0ub4dor-3"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_site_behind_an_http_login(tmp_path: Path, executor: str) -> None:
    forum = StandIn()
    forum.http_login = f"ann:{PASSWORD}"
    (tmp_path / "sites.toml").write_text(f'[reddit]\nurl = "{forum.url}"\n', "utf-8")
    words = ["eval", "webarena", "--sites", "sites.toml", "--baseline", "null", "--no-report", "--tasks", IDS[1]]
    auth = tmp_path / "auth.toml"

    def ended_with(password: str) -> tuple[str, str]:
        auth.write_text(f'[[login]]\norigin = "{forum.url}"\nusername = "ann"\npassword = "{password}"\n', "utf-8")
        out = tmp_path / f"found-{password[-1]}"
        given = ["--set", f"http_auth={auth}"] if password != "-" else []
        ended = cua(tmp_path, *words, *given, "--executor", executor, "--out", str(out))
        auth.unlink()
        (line,) = [one for one in (out / "episodes.jsonl").read_text("utf-8").splitlines() if '"ended"' in one]
        records = "".join(path.read_text("utf-8") for path in out.rglob("*.jsonl"))
        told = ended.stdout + ended.stderr + records + "".join(map(Path.read_text, out.rglob("*.har")))
        assert PASSWORD not in told and base64.b64encode(forum.http_login.encode()).decode() not in told
        return json.loads(line)["kind"], told

    kind, told = ended_with(PASSWORD)
    assert (kind, "answered 401" in told, f'"url":"{forum.url}/"' in told) == ("scored", False, True), told
    if executor == "local":
        wants = (
            f"reddit at {forum.url} asks for a user name and a password by HTTP authentication, and got none or wrong"
        )
        for wrong in ("wrong-0", "-"):
            kind, told = ended_with(wrong)
            assert kind == "env_error" and wants in told, told
    forum.close()


@pytest.mark.long
def test_what_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text('[reddit]\nurl = "http://127.0.0.1:9"\n', "utf-8")
    words = ("eval", "webarena", "--sites", "sites.toml", "--model", "literal")
    asked = cua(tmp_path, *words, "--doctor")
    assert asked.code == 1 and "FAIL  reddit" in asked.stdout
    wrong = cua(tmp_path, *words, "--reset-command", "shopping=true")
    assert wrong.code != 0 and "the reset command of shopping: the sites are reddit" in wrong.stderr
    published = cua(tmp_path, *words, "--parity", "downstream")
    assert published.code != 0 and "parity is 'downstream', expected 'upstream' or nothing" in published.stderr
    other = cua(tmp_path, "eval", "miniwob", "--doctor")
    assert other.code == 2 and "osworld, webarena and webarena-verified" in other.stderr


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
def test_a_finished_run_is_scored_by_webarena_verified_offline(tmp_path: Path) -> None:
    forum, out = StandIn(), tmp_path / "found"
    (tmp_path / "sites.toml").write_text(f'[reddit]\nurl = "{forum.url}"\n', "utf-8")
    wanted = load_verified()[27].checks[0]["expected"]["retrieved_data"]
    answer = {"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": wanted}
    code = f'computer.terminate(status="success", answer={json.dumps(json.dumps(answer))})'
    model = running.script(tmp_path, f"## Action:\nAnswer\n## Code:\n```python\n{code}\n```")
    words = ["eval", "webarena-verified", "--sites", "sites.toml", "--model", model, "--no-report", "--out", str(out)]
    ended = cua(tmp_path, *words, "--tasks", "27", "--tasks", "600", "--export", "verified")
    forum.close()
    assert ended.code == 0, ended.stderr
    assert "1 of 2 episodes" in ended.stdout and "\nkind  " in ended.stdout

    scored = cua(tmp_path, "eval", "verified", str(out))
    assert scored.code == 0, scored.stderr
    assert "1 of 2 episodes, 0 that could not be compared" in scored.stdout
    assert "webarena-verified/600: task_type is 'RETRIEVE', expected 'mutate'" in scored.stdout
    told = json.loads((out / "verified.json").read_text("utf-8"))
    assert [(one["task_id"], one["score"], one["score_in_run"]) for one in told["tasks"]] == [(27, 1, 1), (600, 0, 0)]
    assert json.loads((out / "verified" / "27" / "agent_response.json").read_text("utf-8")) == answer
    har = json.loads((out / "verified" / "600" / "network.har").read_text("utf-8"))
    assert har["log"]["entries"][0]["request"]["url"].startswith(forum.url)
    config = json.loads((out / "verified" / "config.json").read_text("utf-8"))
    assert config == {"environments": {"__REDDIT__": {"urls": [forum.url]}}}

    for run in (out / "runs").glob("*/task/network.har"):
        run.unlink()
    lost = cua(tmp_path, "eval", "verified", str(out), "--json")
    assert [line.partition(":")[0] for line in json.loads(lost.stdout)["not_judged"]] == [
        "webarena-verified/27",
        "webarena-verified/600",
    ]
