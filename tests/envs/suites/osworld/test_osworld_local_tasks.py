"""The list of tasks for local guests: its data, the files in place of downloads, the scripted solutions."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from apps.literal.grammar import parse_instruction
from apps.literal.steps import Unreadable
from cua.check_model import check_model
from cua.errors import ModelError
from cua.gui_agent.agent import Agent, AgentOptions
from cua.messages import Message, TextPart
from cua.models.make import make_model
from cua.models.scripted import OracleModel
from cua.run.budget import Caps
from envs import EnvSetupError, InstructionTask
from envs.actions import Hotkey, TypeText
from envs.fake import FakeEnv
from envs.registry import load_suite
from envs.suites.osworld.evaluators import why_unsupported
from envs.suites.osworld.local_tasks import (
    load_local_tasks,
    load_solutions,
    local_keys,
    make_standin,
    save_standins,
    why_not_local,
)
from envs.suites.osworld.setup_steps import cached_names
from envs.suites.osworld.task_file import OsworldTaskData

TASKS = load_local_tasks()
VALID = [TASKS[key] for key in local_keys()]
FILES = OsworldTaskData()


def test_every_task_is_one_of_osworlds_and_says_what_it_has_to() -> None:
    assert set(TASKS) <= set(FILES.keys("all"))
    for task in TASKS.values():
        is_done_by_nothing = FILES.task(task.key).is_infeasible
        assert (task.why_not is not None) or bool(task.solution) != is_done_by_nothing, task.key


def test_how_many_are_valid() -> None:
    infeasible = [task for task in VALID if FILES.task(task.key).is_infeasible]
    assert len(infeasible) >= 24
    assert len(VALID) - len(infeasible) >= 30


def test_our_evaluators_can_tell_about_every_valid_task() -> None:
    missing = {task.key: why_unsupported(FILES.task(task.key)) for task in VALID}
    assert {key: why for key, why in missing.items() if why is not None} == {}


def test_each_of_the_369_is_valid_or_has_a_reason() -> None:
    reasons = {key: why_not_local(FILES.task(key)) for key in FILES.keys("all")}
    assert {key for key, why in reasons.items() if why is None} == set(local_keys())
    assert "VS Code" in str(why_not_local(FILES.task("vs_code/0512bb38")))


def test_damaged_data_is_told(tmp_path: Path) -> None:
    file = tmp_path / "local.toml"
    file.write_text("[os.a]\nterminl = 'x'\n")
    with pytest.raises(EnvSetupError, match=r"os/a has \['terminl'\]"):
        load_local_tasks(file)
    file.write_text("[os")
    with pytest.raises(EnvSetupError, match="cannot be read"):
        load_local_tasks(file)


def test_downloads_lie_under_the_names_of_upstreams_cache(tmp_path: Path) -> None:
    file = FILES.task("os/6f56bf42")
    names = cached_names((*file.setup, *file.postconfig))
    assert set(names) == {"setup.sh", "eval.sh"}
    save_standins(tmp_path, TASKS[file.key].files, names)
    assert names["setup.sh"] == "2ffb8166-8a7b-5c65-baac-4a866c3be552_setup.sh"
    assert (tmp_path / names["setup.sh"]).read_text().startswith("#!/bin/bash\n")


@pytest.mark.parametrize("name", ["a.jpg", "a.jpeg", "a.png", "a.webp"])
def test_a_drawing_in_place_of_a_photograph(name: str) -> None:
    assert Image.open(io.BytesIO(make_standin(name))).size == (320, 240)
    assert make_standin(name) == make_standin(name)


@pytest.mark.parametrize(("name", "part"), [("a.docx", "word/document.xml"), ("a.xlsx", "xl/workbook.xml")])
def test_a_short_document_in_place_of_a_long_one(name: str, part: str) -> None:
    with zipfile.ZipFile(io.BytesIO(make_standin(name))) as archive:
        assert archive.testzip() is None
        assert part in archive.namelist()


def test_archives_hold_what_the_data_says() -> None:
    with zipfile.ZipFile(io.BytesIO(make_standin("a.zip", {"x/y.txt": "é"}))) as archive:
        assert archive.read("x/y.txt").decode() == "é"
    packed = make_standin("a.tar.gz", {"x/y.txt": "é"})
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = archive.extractfile("x/y.txt")
        assert member is not None
        assert member.read().decode() == "é"
    assert packed == make_standin("a.tar.gz", {"x/y.txt": "é"})


def test_the_suite() -> None:
    suite = load_suite("osworld", list="local", provider="local")
    assert set(suite.task_ids) == {f"osworld/{key}" for key in local_keys()}
    assert suite.steps_option == "wording=steps"
    assert suite.baselines["null"].num_episodes == len(suite.task_ids)
    steps = load_suite("osworld", list="local", provider="local", wording="steps", domains="os,vlc")
    task = steps.make_task(steps.task_ids[0], None)
    assert task.instruction == TASKS[steps.task_ids[0].removeprefix("osworld/")].steps
    assert steps.revision != suite.revision
    with pytest.raises(EnvSetupError, match="wording is 'steps'"):
        load_suite("osworld", wording="steps")


def test_the_embedded_model_reads_every_plain_step() -> None:
    worded = [task for task in VALID if task.steps]
    assert len(worded) >= 15
    for task in worded:
        read = parse_instruction(task.steps)
        assert [step for step in read if isinstance(step, Unreadable)] == [], task.key


async def test_the_oracle_does_what_the_data_says_and_ends() -> None:
    task = TASKS["os/a4d98375-215b-4a4d-aee9-3d4370fccc41"]
    env, instruction = FakeEnv(), FILES.task(task.key).instruction
    agent = Agent(model=make_model("scripted-oracle"), env=env, options=AgentOptions(caps=Caps(max_steps=9)))
    result = await agent.run(InstructionTask(instruction=instruction))
    assert (result.end.status, result.num_steps) == ("unverified", 3)
    assert [action.keys for action in env.actions if isinstance(action, Hotkey)] == [("ctrl", "alt", "t")]
    typed = [action.text for action in env.actions if isinstance(action, TypeText)]
    assert typed == ["gsettings set org.gnome.desktop.screensaver lock-enabled true\n"]


async def test_the_oracle_says_failure_where_nothing_can_be_done() -> None:
    agent = Agent(model=make_model("scripted-oracle"), env=FakeEnv(), options=AgentOptions(caps=Caps(max_steps=9)))
    instruction = FILES.task("os/c288e301").instruction
    assert (await agent.run(InstructionTask(instruction=instruction))).end.status == "failed"


async def test_the_oracle_knows_nothing_else() -> None:
    with pytest.raises(ModelError, match="knows no solution of the task 'Boil an egg'"):
        await make_model("scripted-oracle").generate([Message(role="user", parts=(TextPart(text="Boil an egg"),))])


async def test_the_oracle_is_a_model() -> None:
    assert len(load_solutions()) >= len(VALID)
    model = OracleModel({"": ("computer.terminate(status='success')",)})
    await check_model(lambda: model, ignores=("max_tokens", "stop", "seed"))
