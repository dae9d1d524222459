"""What solves a page gets raw reward 1 through the env; what nearly does gets a score of 0, as who does nothing."""

import os
from collections.abc import Sequence

import pytest

from envs import Click, Terminate
from envs.suites.miniwob.env import MiniWobEnv
from envs.suites.miniwob.tasks import FAMILY_OF, MiniWobTask
from tests.envs.suites.miniwob.oracles import ORACLES, SUBMIT, Hand, quoted

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
QUICK = (
    *("click-button", "click-checkboxes", "enter-date", "use-autocomplete", "drag-box", "choose-list"),
    *("email-inbox-important", "login-user-popup"),
)


async def solve(env: MiniWobEnv, name: str, seeds: Sequence[int]) -> None:
    for seed in seeds:
        task = MiniWobTask(name, seed)
        await env.reset(task)
        hand = Hand(env)
        await ORACLES[name](hand, task.instruction)
        score = (await task.evaluate(env)).score
        assert (hand.reward, env.raw_reward, score) == (1.0, 1.0, 1.0), (seed, task.instruction)
        await env.step([Terminate(status="success"), Click(x_px=80, y_px=130, clicks=2)])
        assert (await task.evaluate(env)).score == 1.0


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.long
async def test_what_solves_a_page_is_rewarded(env: MiniWobEnv, name: str) -> None:
    await solve(env, name, (0,))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ORACLES))
async def test_what_solves_a_page_is_rewarded_with_every_seed(env: MiniWobEnv, name: str) -> None:
    await solve(env, name, range(1 if "CI" in os.environ else 5))


async def test_the_oracles_are_of_every_kind() -> None:
    assert set(ORACLES) <= set(FAMILY_OF) and set(QUICK) <= set(ORACLES)
    assert {FAMILY_OF[name] for name in ORACLES} >= {"click", "choose", "enter", "use", "drag", "email", "form", "text"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ORACLES))
async def test_who_does_nothing_gets_nothing(env: MiniWobEnv, name: str) -> None:
    for seed in range(1 if "CI" in os.environ else 2):
        task = MiniWobTask(name, seed)
        await env.reset(task)
        result = await env.step([Terminate(status="success")])
        assert (result.reward, (await task.evaluate(env)).score) == (0.0, 0.0)


async def almost_all_boxes(hand: Hand, told: str) -> None:
    """All boxes but one: the page itself gives a part for that."""
    names = told.removeprefix("Select ").removesuffix(" and click Submit.").split(", ")
    for name in names[:-1]:
        await hand.click(f"says('#area label', {name!r}).querySelector('input')")
    await hand.click(SUBMIT)


async def wrong_card(hand: Hand, told: str) -> None:
    values = await hand.read("all('.card').map(e => Number(e.textContent))")
    await hand.click(f"all('.card')[{values.index(min(values))}]")
    await hand.click(SUBMIT)


async def without_submit(hand: Hand, told: str) -> None:
    await hand.enter("one('#tt')", quoted(told)[0])


async def wrong_case(hand: Hand, told: str) -> None:
    await hand.enter("one('#tt')", quoted(told)[0].swapcase())
    await hand.click(SUBMIT)


@pytest.mark.parametrize(
    ("name", "near_miss", "raw"),
    [
        ("click-checkboxes-large", almost_all_boxes, "some"),
        ("find-greatest", wrong_card, 0.1),
        ("enter-text", without_submit, None),
        ("enter-text", wrong_case, -1.0),
    ],
)
@pytest.mark.long
async def test_a_near_miss_scores_nothing(env: MiniWobEnv, name: str, near_miss, raw: object) -> None:  # type: ignore[no-untyped-def]
    for seed in range(1 if "CI" in os.environ else 2):
        task = MiniWobTask(name, seed)
        await env.reset(task)
        await near_miss(Hand(env), task.instruction)
        assert (await task.evaluate(env)).score == 0.0
        assert 0 < (env.raw_reward or 0) < 1 if raw == "some" else env.raw_reward == raw
