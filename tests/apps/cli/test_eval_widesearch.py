"""`cua eval widesearch`: agents with tools and swarms as players, without a browser."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from cua.messages import Message, Reply, Sampling
from cua.model import Tool
from cua.trajectory import load_run
from envs.registry import load_suite
from envs.suites.widesearch.tasks import WideSearchTask
from tests.apps.cli import running
from tests.apps.cli.running import cua, press_ctrl_c, start
from tests.apps.cli.test_eval import ended_keys, results_of
from tests.fake_openai import FakeOpenAI

TINY = ("eval", "widesearch", "--suite-option", "size=tiny", "--seeds", "1")


@pytest.mark.long
def test_the_embedded_swarm_collects_all_tables_in_fewer_steps(tmp_path: Path) -> None:
    out = tmp_path / "found"
    ended = cua(tmp_path, *TINY, "--agent", "swarm", "--model", "literal", "--out", str(out))
    assert ended.code == 0, ended.stderr
    assert "model: literal, a swarm" in ended.stdout
    assert "score     100.0 %" in ended.stdout
    assert "the F1 of whole rows" in ended.stdout
    found = results_of(out)
    assert found["plan"]["agent"] == "swarm"
    page = (out / "index.html").read_text("utf-8")
    for line in map(json.loads, (out / "episodes.jsonl").read_text("utf-8").splitlines()):
        if line["event"] != "ended":
            continue
        told = json.loads((out / line["run_dir"] / "swarm.json").read_text("utf-8"))
        assert line["num_steps"] == told["measures"]["critical_steps"] < told["measures"]["total_steps"]
        assert f"{line['run_dir']}/swarm.html" in page
        record = load_run(out / line["run_dir"])
        assert record.end is not None and (record.end.status, record.end.score) == ("succeeded", 1.0)
        assert record.header.task["id"] == line["task_id"]


@pytest.mark.long
def test_one_agent_with_tools_is_interrupted_and_gone_on_with(tmp_path: Path) -> None:
    """The first table is there at once, as it stands in a wrong answer; the second one takes for ever, then not."""
    script, out = tmp_path / "replies.jsonl", tmp_path / "found"
    wrong = {"content": "| Bridge | Opened |\n|---|---|\n| A | B |"}
    lines = [{"for": "bridges in Ostland", **wrong}, {"for": "bridges in Velmark", **wrong, "after_s": 600}]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = (*TINY, "--model", f"scripted:{script}")
    process = start(tmp_path, *words, "--out", str(out))
    assert process.stderr is not None
    while "[1/2]" not in (line := process.stderr.readline()):
        assert line, "it ended by itself"
    press_ctrl_c(process)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "model: scripted" in stdout and "one agent with tools" in stdout
    assert "unfinished: 1 of 2" in stdout
    lines[1]["after_s"] = 0
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other = cua(tmp_path, *words, "--resume", str(out), "--agent", "swarm")
    assert (other.code, "agent was 'tools', and is now 'swarm'" in other.stderr) == (2, True), other.stderr
    again = cua(tmp_path, *words, "--resume", str(out))
    assert again.code == 0, again.stderr
    assert set(ended_keys(out).values()) == {1}
    figures = results_of(out)["figures"]["all"]
    assert (figures["num_scored"], figures["mean_full"]) == (2, 0.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("eval", "examples", "--agent", "tools"), "are for gui"),
        (("eval", "widesearch", "--agent", "swarms"), "did you mean 'swarm'?"),
    ],
)
def test_an_agent_that_cannot_play_is_refused_before_anything_starts(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    ended = cua(tmp_path, *words, "--model", "literal", "--out", str(tmp_path / "found"))
    assert (ended.code, ended.stdout) == (2, "")
    assert told in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "found").exists()


class _Genres:
    """Takes a genre for right when the true one is a word of it; implements `cua.model.Model`."""

    name = "judge"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        truth, found = re.findall(r"true value is: (.*)\n.*found: \n=+\w+=+\n(.*)\n", messages[-1].text)[0]
        return Reply(content="same" if truth in found.split() else "different")

    async def close(self) -> None:
        """Nothing to let go."""


@pytest.mark.long
def test_a_judge_compares_free_texts_and_without_one_the_result_says_so(tmp_path: Path) -> None:
    task = load_suite("widesearch", size="full", num_seeds=1).make_task("widesearch/films-pelgard", 0)
    assert isinstance(task, WideSearchTask)
    names = [column.name for column in task.columns]
    rows = [{**row, "Genre": f"a {row['Genre']} film"} for row in task.table.rows]
    table = [" | ".join(names), "--- |", *(" | ".join(row[name] for name in names) for row in rows)]
    model = running.script(tmp_path, "\n".join(f"| {line} |" for line in table))
    words = ("eval", "widesearch", "--suite-option", "size=full", "--tasks", "films-pelgard", "--seeds", "1")
    plain = cua(tmp_path, *words, "--model", model, "--out", str(tmp_path / "plain"))
    assert plain.code == 0, plain.stderr
    assert "score      80.0 %" in plain.stdout
    (run,) = (tmp_path / "plain" / "runs").iterdir()
    assert "no judge is named: Genre is compared as text" in (run / "trajectory.jsonl").read_text("utf-8")
    with FakeOpenAI(_Genres(), model_id="judge") as server:
        judge = ("--judge", "judge", "--judge-url", server.base_url)
        judged = cua(tmp_path, *words, *judge, "--model", model, "--out", str(tmp_path / "judged"))
        assert len(server.requests) == len({row["Genre"] for row in rows})
    assert judged.code == 0, judged.stderr
    assert "widesearch 1, judged by judge" in judged.stdout
    assert "score     100.0 %" in judged.stdout
    assert re.search(r"as_text +80.0 % .* compared as texts, no judge asked", judged.stdout)
