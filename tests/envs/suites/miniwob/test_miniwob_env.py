"""A page's problem, instruction and verdict come through the env as they are, whatever is done to the page."""

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cua.api import run_task
from cua.models.scripted import ScriptedModel
from cua.trajectory import load_run
from envs import Click, EnvError, EnvSetupError, Hotkey, InstructionTask, KeyDown, PressKey, Terminate
from envs.check_env import check_env
from envs.check_suite import check_suite
from envs.registry import load_suite
from envs.suites.miniwob.env import MiniWobEnv, MiniWobOptions
from envs.suites.miniwob.tasks import MiniWobTask
from tests.cua.gui_agent.test_agent import say

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
START = (80, 130)
"""A point of the cover that a page shows when its episode is over."""


async def centre_of(env: MiniWobEnv, script: str) -> tuple[int, int]:
    """The middle of the element that a script gives."""
    x, y = await env.page.evaluate(
        f"(e => {{ const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})({script})"
    )
    return round(x), round(y)


async def right_button(env: MiniWobEnv, instruction: str) -> tuple[int, int]:
    name = instruction.split('"')[1]
    return await centre_of(env, f"[...document.querySelectorAll('#area button')].find(b => b.textContent === {name!r})")


@pytest.mark.long
async def test_the_contract_is_kept() -> None:
    await check_env(MiniWobEnv)


@pytest.mark.long
async def test_the_suite_keeps_the_contract_of_suites() -> None:
    await check_suite(lambda: load_suite("miniwob", settle=False), sample=4, max_seeds=1)


@pytest.mark.long
async def test_a_double_click_neither_loses_nor_wipes_the_reward(env: MiniWobEnv) -> None:
    task = MiniWobTask("click-test", 0)
    await env.reset(task)
    assert task.instruction == "Click the button."
    x_px, y_px = await centre_of(env, "document.getElementById('subbtn')")
    result = await env.step([Click(x_px=x_px, y_px=y_px, clicks=2), Click(x_px=START[0], y_px=START[1])])
    assert (result.reward, result.terminated, result.truncated) == (1.0, True, False)
    assert result.info["miniwob"] == {"raw_reward": 1.0, "reason": None, "is_left": False}
    after = await env.step([Click(x_px=START[0], y_px=START[1], clicks=3)])
    assert (after.reward, after.terminated) == (0.0, True)  # a reward is given once
    assert await env.page.evaluate("[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_EPISODE_ID]") == [True, 1, 1]
    assert (await task.evaluate(env)).score == (await task.evaluate(env)).score == 1.0


@pytest.mark.long
async def test_a_wrong_click_stays_wrong(env: MiniWobEnv) -> None:
    task = MiniWobTask("click-test-2", 0)
    await env.reset(task)
    wrong = await centre_of(env, "document.getElementById('subbtn2')")
    right = await centre_of(env, "document.getElementById('subbtn')")
    result = await env.step([Click(x_px=wrong[0], y_px=wrong[1]), Click(x_px=right[0], y_px=right[1])])
    assert (result.reward, result.terminated, (await task.evaluate(env)).score) == (-1.0, True, 0.0)


@pytest.mark.long
async def test_an_episode_that_goes_on_is_ended_by_the_agent() -> None:
    env = MiniWobEnv(MiniWobOptions(settle=False, go_on=True))
    try:
        task = MiniWobTask("click-test", 1)
        await env.reset(task)
        x_px, y_px = await centre_of(env, "document.getElementById('subbtn')")
        result = await env.step([Click(x_px=x_px, y_px=y_px)])
        assert (result.reward, result.terminated) == (1.0, False)
        result = await env.step([Terminate(status="success")])
        assert (result.reward, result.terminated, (await task.evaluate(env)).score) == (0.0, True, 1.0)
    finally:
        await env.close()


@pytest.mark.parametrize("status", ["success", "failure"])
@pytest.mark.long
async def test_the_agents_word_alone_is_worth_nothing(env: MiniWobEnv, status: Any) -> None:
    task = MiniWobTask("click-button", 2)
    await env.reset(task)
    result = await env.step([Terminate(status=status)])
    assert (result.reward, result.terminated, (await task.evaluate(env)).score) == (0.0, True, 0.0)


@pytest.mark.long
async def test_a_page_that_is_loaded_anew_gives_no_reward_any_more(env: MiniWobEnv) -> None:
    task = MiniWobTask("click-test", 0)
    await env.reset(task)
    result = await env.step([PressKey(key="f5")])
    assert result.info["miniwob"]["is_left"] and result.terminated and result.reward == 0.0
    await env.step([Click(x_px=START[0], y_px=START[1])])  # draws a problem of its own
    x_px, y_px = await centre_of(env, "document.getElementById('subbtn')")
    result = await env.step([Click(x_px=x_px, y_px=y_px)])
    assert await env.page.evaluate("WOB_RAW_REWARD_GLOBAL") == 1
    assert (result.reward, (await task.evaluate(env)).score) == (0.0, 0.0)
    await env.reset(task)
    assert (await env.step([])).terminated is False


async def test_a_closed_tab_ends_the_episode(env: MiniWobEnv) -> None:
    await env.reset(MiniWobTask("click-test", 0))
    result = await env.step([Hotkey(keys=("ctrl", "t"))])
    assert not result.terminated
    result = await env.step([Hotkey(keys=("ctrl", "1")), Hotkey(keys=("ctrl", "w"))])
    assert result.terminated and result.info["miniwob"]["is_left"]


@pytest.mark.long
async def test_nothing_of_an_episode_is_left_in_the_next(env: MiniWobEnv) -> None:
    task = MiniWobTask("enter-text", 0)
    clean = await env.reset(task)
    box = await centre_of(env, "document.getElementById('tt')")
    await env.step([Click(x_px=box[0], y_px=box[1]), KeyDown(key="shift"), PressKey(key="a")])
    await env.page.evaluate("localStorage.x = sessionStorage.x = document.cookie = 'x=1'")
    again = await env.reset(task)
    assert again.screenshot == clean.screenshot and env.held == frozenset()
    assert await env.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert await env.page.evaluate("document.activeElement.tagName") == "BODY"


async def test_what_was_copied_cannot_be_pasted_in_the_next_episode(env: MiniWobEnv) -> None:
    paste = [Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "c"))]
    task = MiniWobTask("copy-paste", 0)
    await env.reset(task)
    source = await centre_of(env, "document.querySelector('#area textarea')")
    result = await env.step([Click(x_px=source[0], y_px=source[1]), *paste])
    assert result.observation.last_action_error is None
    target = await centre_of(env, "document.getElementById('answer-input')")
    await env.step([Click(x_px=target[0], y_px=target[1]), Hotkey(keys=("ctrl", "v"))])
    copied = await env.page.evaluate(
        "[...document.querySelectorAll('#area textarea, #answer-input')].map(e => e.value)"
    )
    assert copied[0] == copied[1] != ""
    await env.reset(task)
    await env.step([Click(x_px=target[0], y_px=target[1]), Hotkey(keys=("ctrl", "v"))])
    assert await env.page.evaluate("document.getElementById('answer-input').value") == ""


@pytest.mark.long
async def test_the_strip_the_score_and_the_clock_are_not_in_the_image(env: MiniWobEnv) -> None:
    shown = MiniWobEnv(MiniWobOptions(keep_strip=True))
    try:
        task = MiniWobTask("click-button", 3)
        hidden, whole = [Image.open(io.BytesIO((await each.reset(task)).screenshot)) for each in (env, shown)]
        assert hidden.size == whole.size == (332, 214)
        strip, score, area = (0, 0, 160, 50), (161, 0, 332, 214), (0, 50, 160, 210)
        assert hidden.crop(area).tobytes() == whole.crop(area).tobytes()  # a click lands where it is seen
        assert (
            len(set(hidden.crop(strip).getcolors(1 << 16) or ()))
            == len(set(hidden.crop(score).getcolors(1 << 16) or ()))
            == 1
        )
        assert (
            len(set(whole.crop(strip).getcolors(1 << 16) or ())) > 1
            and len(set(whole.crop(score).getcolors(1 << 16) or ())) > 1
        )
    finally:
        await shown.close()


@pytest.mark.parametrize(
    ("name", "told", "is_seen"),
    [
        ("use-colorwheel-2", "the following color", True),
        ("click-menu-2", "the item with the icon", True),
        ("click-menu-2", "the item labeled", False),
    ],
)
@pytest.mark.long
async def test_a_strip_that_shows_what_is_meant_stays(env: MiniWobEnv, name: str, told: str, is_seen: bool) -> None:
    for seed in range(20):
        task = MiniWobTask(name, seed)
        image = Image.open(io.BytesIO((await env.reset(task)).screenshot))
        if told in task.instruction:
            break
    assert told in task.instruction
    assert (len(image.crop((0, 0, 160, 50)).getcolors(1 << 16) or ()) > 1) == is_seen
    assert len(image.crop((161, 0, 332, 214)).getcolors(1 << 16) or ()) == 1


async def test_the_same_seed_is_the_same_problem_and_others_are_others(env: MiniWobEnv) -> None:
    seen = {}
    for seed in (0, 1, 0):
        task = MiniWobTask("click-button", seed)
        image = (await env.reset(task)).screenshot
        assert seen.setdefault(seed, (task.instruction, image)) == (task.instruction, image)
    assert seen[0] != seen[1]


async def test_an_instruction_that_is_an_object_is_flattened(env: MiniWobEnv) -> None:
    task = MiniWobTask("email-inbox-nl-turk", 2)
    await env.reset(task)
    assert isinstance(await env.page.evaluate("core.getUtterance()"), dict)
    assert task.instruction == "Please delete Amargo's emails."


async def test_nothing_else_can_be_reached(env: MiniWobEnv) -> None:
    await env.reset(MiniWobTask("click-test", 0))
    for url in ("http://127.0.0.1:9/", "http://example.com/", "http://localhost:1/"):
        with pytest.raises(EnvSetupError, match="outside of the allowed domains"):
            await env.goto(url)
    reached = "url => fetch(url, {mode: 'no-cors'}).then(() => 'reached', () => 'blocked')"
    assert await env.page.evaluate(reached, "http://127.0.0.1:9/") == "blocked"


async def test_another_task_gets_a_blank_page(env: MiniWobEnv) -> None:
    await env.reset(MiniWobTask("click-test", 0))
    assert (await env.reset(InstructionTask(instruction="Look"))).url == "about:blank"
    assert (await env.step([])).info.get("miniwob") is None


@pytest.mark.long
async def test_a_task_runs_by_its_spec_alone(tmp_path: Path) -> None:
    model = ScriptedModel([say("pyautogui.click(0.1, 0.1)"), say('computer.terminate(status="success")')])
    suite = load_suite("miniwob", settle=False)
    task = suite.make_task("miniwob/email-inbox-nl-turk", 2)
    result = await run_task(task, model=model, runs_dir=str(tmp_path))
    assert (result.end.status, result.end.score) == ("failed", 0.0)
    assert "Please delete Amargo's emails." in model.received[0][-1].text
    record = load_run(Path(result.run_dir or ""))
    assert record.task_instruction == "Please delete Amargo's emails."
    assert record.header.task == {"id": "miniwob/email-inbox-nl-turk", "seed": 2, "metadata": {"family": "email"}}
    assert record.header.env == "miniwob"


@pytest.mark.long
async def test_an_unknown_page_says_so(env: MiniWobEnv) -> None:
    with pytest.raises(ValueError, match="did you mean 'click-button'"):
        MiniWobTask("click-buton", 0)
    with pytest.raises(ValueError, match="needs a seed"):
        MiniWobTask("click-button", None)


@pytest.mark.long
async def test_nothing_runs_after_a_close_and_nothing_can_be_done() -> None:
    before = {thread.name for thread in threading.enumerate()}
    env = MiniWobEnv()
    await env.reset(MiniWobTask("click-test", 0))
    await env.close()
    await env.close()
    left = {thread.name for thread in threading.enumerate()} - before
    assert not any("miniwob" in name for name in left)
    with pytest.raises(EnvError, match="was closed"):
        await env.reset(MiniWobTask("click-test", 0))
