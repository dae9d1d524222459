"""`cua swarm` as a person or a program uses it."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from cua.messages import Message, Reply, ToolCall
from cua.models.make import make_model
from cua.trajectory import load_run
from tests.apps.cli.running import CUA, cua, descendants, environment, press_ctrl_c, start, wait_until, wait_until_gone
from tests.fake_openai import FakeOpenAI, FunctionModel, status

QUESTION = "Compare the rivers"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def call(tool: str, /, **arguments: str) -> dict[str, str]:
    return {"id": "x", "name": tool, "arguments": json.dumps(arguments)}


def script(folder: Path, *rivers: str, after_s: float = 0.0) -> str:
    """A `--model` value: an orchestrator with a sub-agent for each river, which answers after a while."""
    assigned = [call("assign_task", agent="reader", prompt=f"river {river}") for river in rivers]
    lines: list[dict[str, Any]] = [
        {"tool_calls": [call("create_subagent", name="reader", system_prompt="You read.")], "content": ""},
        {"tool_calls": assigned, "content": ""},
        {"content": "All are long."},
    ]
    own = [{"for": QUESTION, **line} for line in lines]
    children = [{"for": f"river {river}", "content": f"{river} is long.", "after_s": after_s} for river in rivers]
    path = folder / "replies.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*own, *children]))
    return f"scripted:{path}"


@pytest.mark.long
def test_the_answer_is_on_stdout_and_children_as_lines_on_stderr(tmp_path: Path, runs: Path) -> None:
    done = cua(runs, "swarm", QUESTION, "-m", script(tmp_path, "Rhine", "Elbe"))
    assert (done.code, done.stdout) == (0, "All are long.\n")
    assert "orchestrator: 2 x assign_task" in done.stderr
    assert "t002 finished" in done.stderr
    assert "2 sub-agents, 4 of 5 steps critical" in done.stderr
    (run_dir,) = runs.iterdir()
    assert {"swarm.json", "swarm.html"} <= {path.name for path in run_dir.iterdir()}
    listed = json.loads(cua(runs, "runs", "--json").stdout.splitlines()[0])
    assert run_dir.name in json.dumps(listed)
    shown = cua(runs, "replay", "last").stdout
    assert "All are long." in shown
    assert "Rhine is long." in shown  # what the orchestrator was told


@pytest.mark.long
def test_on_a_terminal_a_grid_is_drawn_and_taken_away(tmp_path: Path, runs: Path) -> None:
    model = script(tmp_path, "Rhine", "Elbe\x1b[31m", after_s=2.0)
    terminal, end = os.openpty()
    command = [CUA, "swarm", QUESTION, "-m", model, "--no-report"]
    process = subprocess.Popen(
        command, stderr=end, stdout=subprocess.PIPE, env=environment(runs, TERM="xterm"), cwd=runs
    )
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is closed with its last user
        while piece := os.read(terminal, 65536):
            shown += piece
    stdout, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert (process.returncode, stdout) == (0, b"All are long.\n")
    assert b"\x1b[2K" in shown  # lines are drawn over
    assert "␛[2K".encode() not in shown
    assert b"t002  reader" in shown
    assert b"2 running | 3/1500 calls" in shown
    assert b"\x1b[31m" not in shown.partition(b"unverified")[0]


@pytest.mark.long
def test_orders_to_one_sub_agent_are_typed_while_the_grid_is_shown(tmp_path: Path, runs: Path) -> None:
    model = script(tmp_path, "Rhine", "Elbe", after_s=8.0)
    path = Path(model.removeprefix("scripted:"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line | {"after_s": 600 * ("Rhine" in line["for"]) or line.get("after_s", 0)} for line in lines]
    lines.append({"for": "river Elbe", "content": "Elbe has 1094 km."})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    process_id, terminal = pty.fork()
    if not process_id:
        os.chdir(runs)
        os.execve(CUA, [CUA, "swarm", QUESTION, "-m", model, "--no-report"], environment(runs, TERM="xterm"))
    shown = b""

    def read_until(words: bytes) -> None:
        nonlocal shown
        before = len(shown)
        while words not in shown[before:]:
            assert select.select([terminal], [], [], 60)[0], shown[-2000:]
            shown += os.read(terminal, 65536)

    read_until(b"2 running")
    os.write(terminal, b"cancel t001\n")
    read_until(b"t001 is cancelled")
    os.write(terminal, b"\n")
    read_until(b"(Enter to go on): ")
    os.write(terminal, b"tell 2: in kilometres\n")
    read_until(b"t002 sees this in its next step")
    os.write(terminal, b"tell t009: hello\n")
    read_until(b"there is no sub-agent 't009' at work")
    os.write(terminal, b"stop everything\n")
    read_until(b"expected cancel ID, or tell ID: TEXT")
    read_until(b"All are long.")
    _, code = os.waitpid(process_id, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(code) == 0
    (run_dir,) = runs.iterdir()
    agents = load_run(run_dir).agents
    assert [note.text for note in agents["t001"].notes][-1] == "t001 cancelled: the user cancelled it"
    assert [exchange.steps[-1].reply.content for exchange in agents["t002"].exchanges] == [
        "Elbe is long.",
        "Elbe has 1094 km.",
    ]


@pytest.mark.long
def test_json_has_figures_and_children(tmp_path: Path, runs: Path) -> None:
    done = cua(runs, "swarm", QUESTION, "-m", script(tmp_path, "Rhine", "Elbe"), "--output-format", "json")
    assert [child["state"] for child in done.result["children"]] == ["finished", "finished"]
    assert done.result["measures"]["critical_steps"] == 4


@pytest.mark.long
def test_each_event_is_a_line_of_json_with_its_agent(tmp_path: Path, runs: Path) -> None:
    done = cua(runs, "swarm", QUESTION, "-m", script(tmp_path, "Rhine", "Elbe"), "--output-format", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"main", "t001", "t002"} == {event["agent"] for event in events if "agent" in event}
    assert events[-1]["measures"]["total_steps"] == 5


def test_two_of_a_question_a_resume_and_a_demo_are_refused(runs: Path) -> None:
    done = cua(runs, "swarm", QUESTION, "--demo")
    assert done.code == 2
    assert "or --demo" in done.stderr
    assert list(runs.iterdir()) == []


@pytest.mark.long
def test_ctrl_c_ends_it_and_resume_finishes(tmp_path: Path, runs: Path) -> None:
    process = start(runs, "swarm", QUESTION, "-m", script(tmp_path, "Rhine", "Elbe", after_s=600))
    wait_until(lambda: any(path.read_text("utf-8").count(" running") == 2 for path in runs.glob("*/trajectory.jsonl")))
    family = descendants(process)
    press_ctrl_c(process)
    process.communicate(timeout=30)
    wait_until_gone(family, tmp_path)
    assert process.returncode == 128 + signal.SIGINT
    (run_dir,) = runs.iterdir()
    record = load_run(run_dir)
    assert record.end is not None
    assert record.end.status == "stopped"
    again = cua(runs, "swarm", "--resume", "last", "-m", script(tmp_path, "Rhine", "Elbe"), "--output-format", "json")
    assert again.code == 0, again.stderr
    assert [child["state"] for child in again.result["children"]] == ["finished", "finished"]


@pytest.mark.long
def test_the_demo_collects_a_table_without_key_or_network(runs: Path) -> None:
    pytest.importorskip("trafilatura")
    done = cua(runs, "swarm", "--demo", "--demo-task", "bridges-tarsia")
    assert done.code == 0, done.stderr
    assert "demo: 100 % of the cells of 6 rows are right" in done.stderr
    assert "8 of 23 steps are critical, 2.9 times fewer" in done.stderr


@pytest.mark.long
def test_after_kill_9_the_finished_sub_agent_is_not_run_again(tmp_path: Path, runs: Path) -> None:
    quick = script(tmp_path, "Rhine", "Elbe")
    path = Path(quick.removeprefix("scripted:"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one | {"after_s": 600 * ("Elbe" in one["for"])}) + "\n" for one in lines))
    process = start(runs, "swarm", QUESTION, "-m", quick)
    wait_until(lambda: any("t001 finished" in path.read_text("utf-8") for path in runs.glob("*/trajectory.jsonl")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines if "Rhine" not in one["for"]))
    again = cua(runs, "swarm", "--resume", "last", "-m", quick, "--output-format", "json")
    assert again.code == 0, again.stderr
    told = [(child["state"], child["tries"]) for child in again.result["children"]]
    assert told == [("finished", 1), ("finished", 2)]
    assert again.result["answer"] == "All are long."


@pytest.mark.long
def test_over_a_streaming_server_through_a_storm_of_429(tmp_path: Path, runs: Path) -> None:
    rivers = [f"river {number}" for number in range(8)]

    def answer(messages: Sequence[Message]) -> Reply:
        asked = next(message.text for message in messages if message.role == "user")
        number = sum(message.role == "assistant" for message in messages)
        if asked != QUESTION:
            return Reply(content=f"{asked} is long.")
        if number == 0:
            return Reply(content="", tool_calls=(made("create_subagent", name="reader", system_prompt="You read."),))
        if number == 1:
            server.next(*[status(429, **{"retry-after": "0.3"}) for _ in rivers])
            return Reply(
                content="", tool_calls=tuple(made("assign_task", agent="reader", prompt=one) for one in rivers)
            )
        return Reply(content="All are long.")

    def made(tool: str, **arguments: str) -> ToolCall:
        return ToolCall(id="x", name=tool, arguments=json.dumps(arguments))

    with FakeOpenAI(FunctionModel(answer), model_id="fake") as server:
        done = cua(runs, "swarm", QUESTION, "-m", "fake", "--base-url", server.base_url, "--no-report")
    assert (done.code, done.stdout) == (0, "All are long.\n"), done.stderr
    assert all(f"t00{number} finished" in done.stderr for number in range(1, 9))
    assert " suspended" in done.stderr


@contextlib.contextmanager
def served(model: str, *, is_leased: bool) -> Iterator[tuple[str, ...]]:
    """Options for a scripted model; `is_leased`: at an endpoint, so that actors call it themselves."""
    if not is_leased:
        yield "-m", model
        return
    with FakeOpenAI(make_model(model), model_id="fake") as server:
        yield "-m", "fake", "--base-url", server.base_url


@pytest.mark.slow
@pytest.mark.parametrize("is_leased", [False, True])
def test_on_a_cluster_and_on_after_kill_9(tmp_path: Path, runs: Path, is_leased: bool) -> None:
    """The second sub-agent has run a cell when the process is killed: Ray, actors and kernels go with it.

    It goes on without a cluster: the record is the same.
    """
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    model = script(tmp_path, "Rhine", "Elbe")
    path = Path(model.removeprefix("scripted:"))
    *lines, elbe = [json.loads(line) for line in path.read_text().splitlines()]
    cell = {"tool_calls": [call("ipython", code="open('log.txt', 'a').write('once')")], "content": ""}
    slow = [*lines, {"for": elbe["for"], **cell}, elbe | {"after_s": 600}]
    path.write_text("".join(json.dumps(one) + "\n" for one in slow))

    def is_half_done() -> bool:
        lines = "".join(path.read_text("utf-8") for path in runs.glob("*/trajectory.jsonl")).splitlines()
        has_called = any('"event":"called"' in line and '"t002"' in line for line in lines)
        return has_called and any("t001 finished" in line for line in lines)

    with served(model, is_leased=is_leased) as arguments:
        process = start(runs, "swarm", QUESTION, *arguments, "--executor", "ray")
        wait_until(is_half_done, timeout_s=120)
        family = {" ".join(one.cmdline()).strip(): one for one in descendants(process)}
        assert any(name.startswith("ray::_Actor") for name in family)
        agents = [family[f"ray::{name}"] for name in ("DashboardAgent", "RuntimeEnvAgent")]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        others = [one for one in family.values() if one not in agents]
        assert not psutil.wait_procs(others, timeout=30)[1]
        for agent in agents:  # Ray's own: they try to reach what is gone for a minute before they end
            agent.kill()
        wait_until_gone(agents, tmp_path)
    path.write_text("".join(json.dumps(one | {"after_s": 0}) + "\n" for one in slow if "Rhine" not in one["for"]))
    with served(model, is_leased=is_leased) as arguments:
        again = cua(runs, "swarm", "--resume", "last", *arguments, "--output-format", "json")
    assert again.code == 0, again.stderr
    told = [(child["state"], child["tries"], child["calls"]) for child in again.result["children"]]
    assert told == [("finished", 1, 0), ("finished", 2, 1)]
    assert again.result["answer"] == "All are long."
    (run_dir,) = runs.iterdir()
    assert (run_dir / "children" / "t002" / "files" / "log.txt").read_text() == "once"
