"""A run of `ask` taken up again: cells run again in a real sandbox, counts restored, exported."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cua import ConfigError, RunResult, TrajectoryError, ask, resume_ask
from cua.evidence import verify_run
from cua.messages import Reply, Usage
from cua.models.scripted import ScriptedModel
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.export import export_conversation
from cua.tool_agent.resume import assigned_names, names_after
from cua.tool_agent.session import ToolSession
from cua.trajectory import TrajectoryWriter, load_run
from tests.cua.tool_agent.test_ask import COUNT, cell, dots
from tests.cua.tool_agent.test_session import does
from tests.cua.trajectory import samples
from visual_tools.sandbox import KernelMaker

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def begin(tmp_path: Path, sandbox: KernelMaker, replies: Sequence[Any], **more: Any) -> Path:
    """A run that used up its steps."""
    model = ScriptedModel(replies)
    result = await ask("How many?", [dots(tmp_path)], model=model, sandbox=sandbox, runs_dir=tmp_path / "runs", **more)
    assert (result.end.status, result.run_dir is not None) == ("capped", True)
    return Path(result.run_dir or "")


async def resume(run_dir: Path, sandbox: KernelMaker, replies: Sequence[Any], **more: Any) -> tuple[RunResult, Any]:
    model = ScriptedModel(replies)
    return await resume_ask(run_dir, model=model, sandbox=sandbox, **more), model


@pytest.mark.long
async def test_a_capped_run_goes_on_with_its_variables_files_and_counts(tmp_path: Path, sandbox: KernelMaker) -> None:
    shell = cell("echo more >> log.txt; cat log.txt", "shell", "command")
    first = Reply(content="", tool_calls=(cell("kept = 6\n" + COUNT), shell), usage=Usage(input_tokens=100))
    run_dir = await begin(tmp_path, sandbox, [first], max_steps=1, max_calls=3, max_tokens=1000)
    again, _ = await resume(run_dir, sandbox, ["never"])
    assert (again.end.reason, again.num_steps) == ("1 of 1 steps used", 1)
    replies = [does("print(kept, open('log.txt').read())", "print('too many')"), "Six [^2^]."]
    result, model = await resume(run_dir, sandbox, replies, max_steps=9)
    assert (result.end.cap, result.num_steps, result.usage.total_tokens) == ("calls", 2, 110)
    result, model = await resume(run_dir, sandbox, ["Six [^2^]."], max_steps=9, max_calls=9)
    assert (result.end.answer, result.num_steps) == ("Six [^2^].", 3)
    results = [message.text for message in model.received[0] if message.role == "tool"]
    assert [text.split("\n")[1:3] for text in results] == [
        ["600"],
        ["more", "[files written: log.txt]"],
        ["6 more"],
        ["This call was not made: the run's limit of tool calls is reached."],
    ]
    record = load_run(run_dir, images=None)
    notes = [note.text for note in record.notes if note.kind == "resumed"]
    assert notes == [f"{number} cells were run again, all as before" for number in (2, 2, 3)]
    assert (run_dir / "files" / "log.txt").read_text() == (run_dir / "files-1" / "log.txt").read_text() == "more\n"
    assert (await verify_run(run_dir, sandbox)).is_reproduced
    with pytest.raises(ConfigError, match="It can be asked a further question"):
        await resume(run_dir, sandbox, [])


@pytest.mark.long
async def test_what_comes_out_otherwise_is_told_to_model_and_person(tmp_path: Path, sandbox: KernelMaker) -> None:
    clock = "import time\nclock = time.time_ns()\nprint(clock)"
    run_dir = await begin(tmp_path, sandbox, [does(clock, "import os", "fine = 1", "1/0")], max_steps=1)
    line = (run_dir / "trajectory.jsonl").read_text()
    assert "ZeroDivisionError" in line
    (run_dir / "inputs" / "dots.png").write_bytes(b"changed")
    result, model = await resume(run_dir, sandbox, ["One."], max_steps=9)
    told = model.received[0][-1].text
    assert told.startswith("This run broke off and was resumed: its cells were run again in a fresh Python")
    assert "the input dots.png is not the file that the run was given" in told
    assert "[^0^] the text differs: " in told
    assert "These may hold other values than before: clock." in told
    assert "gone" not in told
    assert result.end.answer == "One."


@pytest.mark.long
async def test_variables_of_a_cell_that_fails_now_are_gone(tmp_path: Path, sandbox: KernelMaker) -> None:
    luck = "from pathlib import Path\nassert Path('dots.png').stat().st_size > 20\nfound = 3"
    run_dir = await begin(tmp_path, sandbox, [does(luck, "other = found")], max_steps=1)
    (run_dir / "inputs" / "dots.png").write_bytes(b"short")
    _, model = await resume(run_dir, sandbox, ["One."], max_steps=9)
    told = model.received[0][-1].text
    assert "[^0^] it ended with error, the first time with ok" in told
    assert "These variables are gone: found, other." in told


async def test_an_ended_run_takes_a_further_question_and_is_exported(tmp_path: Path, sandbox: KernelMaker) -> None:
    think = Reply(content="", reasoning="Six it is.", tool_calls=(cell("kept = 6"), cell("ls", "shell", "command")))
    model = ScriptedModel([think, "Six [^0^]."])
    first = await ask("How many?", [dots(tmp_path)], model=model, sandbox=sandbox, runs_dir=tmp_path / "runs")
    run_dir = Path(first.run_dir or "")
    model = ScriptedModel([does("print(2 * kept)"), "Twelve [^2^]."])
    async with ToolSession(resume=run_dir, model=model, sandbox=sandbox) as talk:
        second = await talk.ask("And twice that?")
    assert (second.end.answer, second.num_steps, second.run_dir) == ("Twelve [^2^].", 4, first.run_dir)
    assert model.received[-1][-1].text == "[^2^]\n12"

    folder = await export_conversation(load_run(run_dir, images=None), tmp_path / "results", "one")
    (line,) = (folder / "conversation.jsonl").read_text().splitlines()
    exported = json.loads(line)
    roles = [message["role"] for message in exported["messages"]]
    assert " ".join(roles) == "system user assistant tool tool assistant user assistant tool assistant"
    assert exported["messages"][1]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert exported["messages"][2]["reasoning_content"] == "Six it is."
    assert exported["messages"][2]["tool_calls"][0]["id"] == exported["messages"][3]["tool_call_id"]
    assert exported["messages"][-1]["content"] == "Twelve [^2^]."
    assert [tool["function"]["name"] for tool in exported["tools"]] == ["ipython", "view_image", "files", "shell"]
    assert (exported["metadata"]["status"], exported["metadata"]["num_steps"]) == ("unverified", 4)
    with pytest.raises(TrajectoryError, match="cannot name a folder"):
        await export_conversation(load_run(run_dir, images=None), tmp_path / "results", "a/b")


async def test_what_cannot_be_resumed_is_told(tmp_path: Path, sandbox: KernelMaker) -> None:
    with TrajectoryWriter.create(tmp_path / "runs", samples.HEADER) as writer:
        pass
    with pytest.raises(ConfigError, match="resume it with: cua task --resume"):
        await resume(writer.run_dir, sandbox, [])
    run_dir = await begin(tmp_path, sandbox, [does("1")], max_steps=1)
    (run_dir / "inputs" / "dots.png").unlink()
    with pytest.raises(ConfigError, match=r"the input dots\.png of .* is gone"):
        await resume(run_dir, sandbox, ["x"], max_steps=9)
    with TrajectoryWriter.reopen(run_dir), pytest.raises(TrajectoryError, match="written by another process"):
        await resume(run_dir, sandbox, ["x"], max_steps=9)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("a, (b, *c) = 1, (2, 3)\nd: int = 4\ne += 1", "a b c d e"),
        ("import os.path, numpy as np\nfrom math import tau as t", "os np t"),
        (
            "def f(x):\n    y = x\nclass G:\n    z = 1\nwith open('p') as file:\n    for row in file: pass",
            "f G file row",
        ),
        ("[i for i in range(3)]\n(last := 5)", "last"),
        ("x = 1\ny = 2\ndel x", "y"),
        ("%time v = 1\nlines = !ls\n!rm q\nw = 2\nv?", "lines w"),
        ("%%bash\nq=1", ""),
        ("%%time\nq = 1", "q"),
        ("half = 1\nif True\n  other = 2", "half"),
        ("deep = " + "(" * 5000 + ")" * 5000, "deep"),
        ("nul = 1\0", "nul"),
        ("if = 1\nx == 2", ""),
    ],
)
async def test_names_that_a_cell_gives_values(code: str, names: str) -> None:
    assert assigned_names(code) == set(names.split())


async def test_names_after_a_kernel_was_lost() -> None:
    def step(*cells: tuple[str, str, bool]) -> ToolStep:
        outcomes = []
        for code, status, is_lost in cells:
            result = samples_result(code, status, is_lost)
            outcomes.append(CallOutcome(number=len(outcomes), call=cell(code), result=result))
        return ToolStep(index=1, reply=Reply(content=""), outcomes=tuple(outcomes))

    steps = [step(("a = 1", "ok", False), ("b = 1", "error", False)), step(("del a", "ok", False))]
    assert (names_after(steps), names_after(steps, only_sure=True)) == ({"b"}, set())
    assert names_after([*steps, step(("c = 1", "died", True))]) == set()
    assert names_after([*steps, step(("c = 1", "ok", True))]) == {"c"}


def samples_result(code: str, status: str, is_lost: bool) -> Any:
    from cua.messages import ToolResult

    return ToolResult(parts=(), data={"kind": "ipython", "code": code, "status": status, "is_state_lost": is_lost})
