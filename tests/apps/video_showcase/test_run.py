"""A whole run: with a model that uses the tools of a span, without one, and after a kill."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from apps.video_showcase.events import VideoEvent
from apps.video_showcase.request import parse_request
from apps.video_showcase.run import (
    WATCHER_PROMPT,
    VideoOptions,
    VideoResult,
    load_plan,
    load_result,
    make_plan,
    resume_video,
    run_video,
)
from benchmarks.made_videos import Recipe, make_video
from cua.errors import ConfigError
from cua.messages import ImagePart, Message, Reply, Sampling, ToolCall
from cua.model import Tool
from cua.swarm import SwarmOptions
from tests.apps.cli.running import environment, wait_until, wait_until_gone


class ToolModel:
    """A model that answers by functions: of a sub-agent's conversation, and of the orchestrator's."""

    name = "tool-model"

    def __init__(self, watch: Callable[[Sequence[Message], int], Reply], answer: str) -> None:
        self._watch, self._answer = watch, answer
        self.seen: list[Sequence[Message]] = []

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        self.seen.append(tuple(messages))
        if WATCHER_PROMPT in messages[0].text:
            return self._watch(messages, sum(message.role == "assistant" for message in messages))
        return Reply(content=self._answer)

    async def close(self) -> None:
        pass


def calls(*made: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(
        content="", tool_calls=tuple(ToolCall(id="x", name=name, arguments=json.dumps(given)) for name, given in made)
    )


@pytest.fixture(scope="module")
def flashes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[VideoEvent]]:
    recipe = Recipe(name="flashes.mp4", seconds=60, seed=4, mean_gap_s=9, kinds=("flash",), sound="")
    return make_video(recipe, tmp_path_factory.mktemp("videos"))


async def run(path: Path, runs_dir: Path, model: Any, question: str = "What happens?", **settings: Any) -> VideoResult:
    plan = make_plan([path], parse_request(question), num_parallel=2, span_s=30)
    return await run_video(plan, model=model, options=VideoOptions(num_parallel=2), runs_dir=str(runs_dir), **settings)


async def test_a_model_looks_notes_and_answers(tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]) -> None:
    def watch(messages: Sequence[Message], num_replies: int) -> Reply:
        match num_replies:
            case 0:
                return calls(("show_sheet", {"num_frames": 6}), ("show_frames", {"times_s": [3.0, 29.0]}))
            case 1:  # not in what it watches
                return calls(("note_events", {"events": [{"start_s": 500, "end_s": 501, "kind": "goal"}]}))
            case 2:
                seen = {"start_s": 3.0, "end_s": 4.5, "kind": "Goal", "text": "A <goal>", "evidence_s": [3.0]}
                return calls(("note_events", {"events": [seen], "take_detected": False}))
            case _:
                return Reply(content="A goal.")

    model = ToolModel(watch, "The goals: flashes.mp4@00:00:03 and flashes.mp4@00:00:33.")
    result = await run(flashes[0], tmp_path, model)
    assert [(event.citation, event.kind, event.text) for event in result.events] == [
        ("flashes.mp4@00:00:03", "goal", "A <goal>"),
        ("flashes.mp4@00:00:33", "goal", "A <goal>"),
    ]
    assert result.run.end.answer == model._answer
    assert result.missing == ()
    texts = [message.text for seen in model.seen for message in seen if message.role == "tool"]
    assert any("is outside 0 to 30.0 s" in text or "is not in 0 to 30.0 s" in text for text in texts)
    shown = [part for message in model.seen[-1] for part in message.parts if isinstance(part, ImagePart)]
    assert len(shown) == 0  # the orchestrator sees the list, not the pictures of its sub-agents
    assert [message.role for message in model.seen[-1]] == ["system", "user", "user"]  # what was planned is not its own
    last = model.seen[-1][-1].text
    assert last.count("A goal.") == 2
    assert "flashes.mp4@00:00:33 00:00:34 goal: A <goal>" in last
    assert "FILE@HH:MM:SS" in last
    assert result.run.usage.cost_usd == 0


async def test_who_looks_at_the_same_place_shares_its_frames(
    tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]
) -> None:
    def watch(messages: Sequence[Message], num_replies: int) -> Reply:
        if num_replies < 3:
            return calls(("show_frames", {"times_s": [1.0, 2.0, 3.0]}))
        return Reply(content="Nothing.")

    result = await run(flashes[0], tmp_path, ToolModel(watch, "Nothing."))
    assert result.num_decoded == 2 * 3  # of each span once
    assert [line.partition(":")[0] for line in result.missing] == ["flashes.mp4, 00", "flashes.mp4, 00"]  # none noted


async def test_a_budget_ends_sub_agents_and_is_said(tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]) -> None:
    def look(messages: Sequence[Message], num_replies: int) -> Reply:
        return calls(("show_frames", {"times_s": [1.0 + num_replies]}), ("sound_level", {}))

    endless = ToolModel(look, "It ends.")
    plan = make_plan([flashes[0]], parse_request("What happens?"), num_parallel=2, span_s=30)
    swarm = SwarmOptions()
    options = VideoOptions(num_parallel=2, swarm=swarm)
    result = await run_video(plan, model=endless, options=options, runs_dir=str(tmp_path), max_calls=25)
    assert len(result.missing) == 2
    assert {child["state"] for child in result.swarm["children"]} == {"capped"}
    run_dir = Path(str(result.run.run_dir))
    assert load_result(run_dir) is None
    noting = ToolModel(lambda messages, _: _noted(messages), "It goes on.")
    again = await resume_video(run_dir, model=noting, options=options, runs_dir=str(tmp_path), max_calls=100)
    assert (again.missing, again.run.end.answer, again.run.end.num_unfinished) == ((), "It goes on.", 0)
    assert len(again.events) == 2
    assert load_result(run_dir) is not None


def _noted(messages: Sequence[Message]) -> Reply:
    """The next reply of a sub-agent that notes one event, and then says so."""
    if any(call.name == "note_events" for message in messages for call in message.tool_calls):
        return Reply(content="Noted.")
    event = {"start_s": 3.0, "end_s": 4.0, "kind": "goal", "text": "A goal."}
    return calls(("note_events", {"events": [event]}))


def ask(folder: Path, path: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "apps.cli.main", "video", str(path), "Any flashes?", "-m", "literal"]
    return subprocess.Popen(
        [*command, "--span", "12", "-j", "1"],
        cwd=folder,
        env=environment(folder / "runs", PYTHONPATH=os.pathsep.join(sys.path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.long
async def test_a_killed_run_goes_on_and_watches_nothing_twice(
    tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]
) -> None:
    import psutil

    path = shutil.copy(flashes[0], tmp_path)
    process = ask(tmp_path, Path(path))
    runs = tmp_path / "runs"
    wait_until(lambda: len(list(runs.glob("*/children/*/files/span-*-noted.json"))) >= 2)
    below = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    wait_until_gone(below, tmp_path)  # watchers end with the process that started them
    run_dir = next(runs.iterdir())
    done = {each: each.stat().st_mtime_ns for each in run_dir.glob("children/*/files/span-00[0-9]-flash.json")}
    assert 2 <= len(done) < 5
    result = await resume_video(run_dir, options=VideoOptions(num_parallel=2), model="literal", runs_dir=str(runs))
    assert {each: each.stat().st_mtime_ns for each in done} == done
    assert [round(event.start_s, 1) for event in result.events] == pytest.approx(
        [event.start_s for event in flashes[1]], abs=0.3
    )
    with pytest.raises(ConfigError, match="nothing to resume"):
        await resume_video(run_dir, options=VideoOptions(), model="literal", runs_dir=str(runs))


@pytest.mark.long
async def test_a_file_that_vanishes_is_said_and_the_others_are_watched(
    tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]
) -> None:
    gone = make_video(Recipe(name="gone.mp4", seconds=8, seed=9, kinds=("flash",), sound=""), tmp_path)[0]
    plan = make_plan([flashes[0], gone], parse_request("Any flashes?"), span_s=60)
    gone.unlink()
    result = await run_video(plan, model="literal", options=VideoOptions(), runs_dir=str(tmp_path / "runs"))
    (line,) = result.missing
    assert line.startswith("gone.mp4, 00:00:00 to 00:00:08: ")
    assert "no longer exists" in line
    assert line in (result.run.end.answer or "")
    assert len(result.events) == len(flashes[1])
    with pytest.raises(ConfigError, match="is not a run of `cua video`"):
        load_plan(tmp_path)


@pytest.mark.long
async def test_a_watcher_that_is_killed_gets_another_try(
    tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]
) -> None:
    import psutil

    plan = make_plan([flashes[0]], parse_request("Any flashes?"), span_s=60)
    running = asyncio.create_task(run_video(plan, model="literal", options=VideoOptions(), runs_dir=str(tmp_path)))

    def watchers() -> list[psutil.Process]:
        below = psutil.Process().children(recursive=True)
        return [each for each in below if any("video_showcase.watch" in word for word in each.cmdline())]

    await asyncio.to_thread(wait_until, watchers)
    watchers()[0].kill()
    result = await running
    assert (result.missing, len(result.events)) == ((), len(flashes[1]))


@pytest.mark.slow
async def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]) -> None:
    process = ask(tmp_path, flashes[0])
    runs = tmp_path / "runs"
    wait_until(lambda: list(runs.glob("*/children/*/files/span-*-noted.json")))
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    (run_dir,) = runs.iterdir()
    result = await resume_video(run_dir, model="literal", options=VideoOptions(), runs_dir=str(runs))
    assert (result.missing, len(result.events)) == ((), len(flashes[1]))


@pytest.mark.long
async def test_other_detectors_look_where_the_chosen_one_finds_nothing(
    tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]
) -> None:
    result = await run(flashes[0], tmp_path, "literal", "When do the scenes change?")
    answer = result.run.end.answer or ""
    assert answer.startswith("Nothing was found")
    assert "Something else was found" in answer
    assert all(event.citation in answer for event in flashes[1])


@pytest.mark.long
async def test_files_that_are_cut_off_are_named_with_what_can_be_read(
    tmp_path: Path, flashes: tuple[Path, list[VideoEvent]]
) -> None:
    data = flashes[0].read_bytes()
    (tmp_path / "half.mp4").write_bytes(data[: len(data) // 2])
    path, _ = make_video(Recipe(name="rest.mkv", seconds=30, seed=4, kinds=("flash",), sound="libopus"), tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    plan = make_plan([path, tmp_path / "half.mp4"], parse_request("Any flashes?"), span_s=60)
    result = await run_video(plan, model="literal", options=VideoOptions(), runs_dir=str(tmp_path / "runs"))
    whole, *rest = (result.run.end.answer or "").partition("Not watched:")[2].strip().splitlines()
    assert "half.mp4" in whole and "Nothing of it can be read" in whole
    assert re.fullmatch(r"- rest.mkv: the file is cut off: only its first \d\d s of 30 s can be read", rest[0])
