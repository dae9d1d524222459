"""Several questions to one agent: a real sandbox, a scripted model, one record."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from cua import ConfigError, ToolSession
from cua.evidence import verify_run
from cua.messages import Message, Reply, TextPart, ToolCall, ToolResult, Usage
from cua.model import Tool
from cua.models.scripted import ScriptedModel
from cua.run.budget import Caps
from cua.run.events import Watch
from cua.tool_agent import Profile, ToolContext
from cua.trajectory import load_run
from cua.trajectory.report import write_report
from tests.cua.tool_agent.fakes import FakeTool
from tests.cua.tool_agent.test_ask import cell, dots
from visual_tools.sandbox import KernelMaker

pytestmark = pytest.mark.asyncio(loop_scope="module")


def does(*codes: str) -> Reply:
    return Reply(content="", tool_calls=tuple(cell(code) for code in codes), usage=Usage(input_tokens=10))


def session(tmp_path: Path, sandbox: KernelMaker, replies: Sequence[Any], **more: Any) -> ToolSession:
    return ToolSession(model=ScriptedModel(replies), sandbox=sandbox, runs_dir=tmp_path / "runs", **more)


@pytest.mark.long
async def test_a_second_question_sees_variables_files_and_what_was_said(tmp_path: Path, sandbox: KernelMaker) -> None:
    model = ScriptedModel(
        [
            does("count = 600\nopen('note.txt', 'w').write('seen')"),
            "600 are dark [^0^].",
            does("print(count // 2, open('note.txt').read(), open('dots-2.png', 'rb').read(4))"),
            "Half of them are 300 [^1^].",
        ]
    )
    async with ToolSession(model=model, sandbox=sandbox, runs_dir=tmp_path / "runs") as talk:
        first = await talk.ask("How many dark pixels?", [dots(tmp_path)])
        second = await talk.ask("And half of that?", [tmp_path / "dots.png"])
        assert talk.run_dir is not None
    assert (first.end.answer, first.num_steps) == ("600 are dark [^0^].", 2)
    assert (second.end.answer, second.num_steps, second.usage.total_tokens) == ("Half of them are 300 [^1^].", 4, 20)
    assert first.run_dir == second.run_dir
    roles = [message.role for message in model.received[-1]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    assert model.received[-1][-1].text.startswith("[^1^]\n300 seen b'\\x89PNG'")
    assert model.received[-1][5].parts[-1] == TextPart(text="And half of that?")

    record = load_run(talk.run_dir, images=None)
    assert [exchange.words for exchange in record.exchanges] == ["How many dark pixels?", "And half of that?"]
    assert [exchange.result and exchange.result.end.answer for exchange in record.exchanges] == [
        first.end.answer,
        second.end.answer,
    ]
    assert [step.index for step in record.tool_steps] == [1, 2, 3, 4]
    assert (record.chain.status, record.result) == ("whole", second)
    answer = json.loads((talk.run_dir / "answer.json").read_text())
    assert (answer["question"], answer["answer"]) == ("And half of that?", second.end.answer)
    assert answer["earlier"][0]["question"] == "How many dark pixels?"
    assert answer["earlier"][0]["claims"][0]["is_supported"] is True
    assert [entry["name"] for entry in answer["inputs"]] == ["dots.png", "dots-2.png"]
    verification = await verify_run(talk.run_dir, sandbox)
    assert (verification.is_reproduced, verification.num_reproduced) == (True, 2)
    page = write_report(talk.run_dir).read_text("utf-8")
    assert page.index("How many dark pixels?") < page.index("600 are dark") < page.index("And half of that?")
    assert page.count("1 statement and what it rests on") == 2


@pytest.mark.long
async def test_a_kernel_that_ends_between_questions_is_told_with_its_variables(
    tmp_path: Path, sandbox: KernelMaker
) -> None:
    leave = "import threading, os, signal, math as m\nkept, gone = 5, 6\ndel gone\ndef double(x):\n    return 2 * x"
    killer = "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)).start(); print(os.getpid())"
    model = ScriptedModel([does(leave, killer), "Five.", does("print('kept' in globals())"), "No."])
    async with ToolSession(model=model, sandbox=sandbox, runs_dir=tmp_path / "runs") as talk:
        await talk.ask("Remember five")
        work = talk._running
        assert work is not None
        kernel: Any = work.tool_context.kernel
        await asyncio.wait_for(asyncio.shield(kernel._running.process.ended), 20)
        await talk.ask("Do you?")
    told = model.received[2][-1].text
    assert "The kernel ended since the last question" in told
    assert "These variables are gone: double, kept, m, os, signal, threading." in told
    assert told.endswith("Do you?")
    assert model.received[-1][-1].text == "[^2^]\nFalse"


@pytest.mark.long
async def test_a_stopped_question_leaves_the_session_and_is_told(tmp_path: Path, sandbox: KernelMaker) -> None:
    controls: list[Any] = []

    class Stopping(ScriptedModel):
        async def generate(self, messages: Sequence[Message], *more: Any, **others: Any) -> Reply:
            reply = await super().generate(messages, *more, **others)
            if "while True" in str(reply.tool_calls):
                asyncio.get_running_loop().call_later(0.3, controls[-1].stop, "enough")
            return reply

    model = Stopping([does("x = 1"), does("y = 2\nwhile True: pass"), does("print(x)"), "One [^2^]."])
    talk = ToolSession(
        model=model, sandbox=sandbox, runs_dir=tmp_path / "runs", watch=Watch(on_control=controls.append)
    )
    async with talk:
        first = await talk.ask("Wait for ever")
        second = await talk.ask("And x?")
    assert (first.end.status, first.end.reason, first.num_steps) == ("stopped", "enough", 1)
    assert (second.end.answer, second.num_steps) == ("One [^2^].", 4)
    assert len({id(control) for control in controls}) == 2
    asked = model.received[2]
    assert asked[-2].text.startswith("[^1^]\nThis call was ended before it came back")
    assert "The question before this one was not answered: stopped, enough." in asked[-1].text
    record = load_run(second.run_dir or "", images=0)
    assert [outcome.number for step in record.tool_steps for outcome in step.outcomes] == [0, 1, 2]
    assert record.pending_calls is None


async def test_steps_are_limited_for_each_question_and_all_else_for_the_session(
    tmp_path: Path, sandbox: KernelMaker
) -> None:
    many = [does("1"), does("2"), "never read"]
    async with session(tmp_path, sandbox, [*many[:2], *many[:2], "x"], max_steps=2) as talk:
        ends = [(await talk.ask("?")).end for _ in range(2)]
    assert [(end.status, end.cap) for end in ends] == [("capped", "steps")] * 2
    async with session(tmp_path, sandbox, [does("1"), "one", does("2"), "two"], max_tokens=15) as talk:
        ends = [(await talk.ask("?")).end for _ in range(2)]
    assert [(end.status, end.cap) for end in ends] == [("unverified", None), ("capped", "tokens")]
    async with session(tmp_path, sandbox, [does("1"), "one", does("2", "3"), "two"], max_calls=2) as talk:
        ends = [(await talk.ask("?")).end for _ in range(2)]
    assert [(end.status, end.cap) for end in ends] == [("unverified", None), ("capped", "calls")]


async def test_a_wrong_question_costs_nothing_and_a_closed_session_takes_none(
    tmp_path: Path, sandbox: KernelMaker
) -> None:
    talk = session(tmp_path, sandbox, ["Yes.", "No."])
    async with talk:
        with pytest.raises(ConfigError, match="the question is empty"):
            await talk.ask(" ")
        with pytest.raises(ConfigError, match="cannot read"):
            await talk.ask("?", [tmp_path / "nothing.png"])
        assert not (tmp_path / "runs").exists()
        assert (await talk.ask("?")).end.answer == "Yes."
        with pytest.raises(ConfigError, match="cannot read"):
            await talk.ask("?", [tmp_path / "nothing.png"])
        assert (await talk.ask("?")).end.answer == "No."
    await talk.close()
    with pytest.raises(ConfigError, match="this session is closed"):
        await talk.ask("?")


async def test_a_file_of_a_later_question_overwrites_nothing_that_code_planted(
    tmp_path: Path, sandbox: KernelMaker
) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    async with session(tmp_path, sandbox, [does("open('dots.png', 'w').write('theirs')"), "a", "b"]) as talk:
        await talk.ask("?")
        assert talk.run_dir is not None
        (talk.run_dir / "files" / "link.png").symlink_to(mine)
        (tmp_path / "link.png").write_bytes(dots(tmp_path).read_bytes())
        await talk.ask("?", [dots(tmp_path), tmp_path / "link.png"])
        names = {path.name for path in (talk.run_dir / "files").iterdir()}
        assert (talk.run_dir / "files" / "dots.png").read_text() == "theirs"
    assert {"dots-2.png", "link-2.png"} <= names
    assert mine.read_text() == "mine"


@pytest.mark.long
async def test_closing_ends_every_process_of_the_session(tmp_path: Path, sandbox: KernelMaker) -> None:
    model = ScriptedModel([does("import subprocess; subprocess.Popen(['sleep', '300'])"), "Done."])
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    async with ToolSession(model=model, sandbox="auto", runs_dir=tmp_path / "runs") as talk:
        await talk.ask("Leave something running")
        mine = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
        assert mine
    _, alive = await asyncio.to_thread(psutil.wait_procs, mine, timeout=20)
    assert alive == []


async def test_a_profile_is_a_value_with_tools_prompt_and_limits(tmp_path: Path, sandbox: KernelMaker) -> None:
    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(parts=(TextPart(text=f"it is {arguments['text']}"),))

    places: list[ToolContext] = []

    def make(place: ToolContext) -> Tool:
        places.append(place)
        return FakeTool("look_up", answer)

    profile = Profile(name="short", system_prompt="You look things up.", tools=(make,), caps=Caps(max_steps=2))
    call = ToolCall(id="c", name="look_up", arguments='{"text": "Oslo"}')
    model = ScriptedModel([Reply(content="", tool_calls=(call,)), Reply(content="", tool_calls=(call,))])
    async with ToolSession(profile=profile, model=model, sandbox=sandbox, runs_dir=tmp_path / "runs") as talk:
        result = await talk.ask("Where?")
    assert (result.end.status, result.end.cap) == ("capped", "steps")
    assert model.received[0][0].text == "You look things up."
    assert model.received[1][-1].text == "[^0^]\nit is Oslo"
    assert places[0].kernel.inside_dir
    assert load_run(result.run_dir or "", images=0).header.protocol["profile"] == "short"
