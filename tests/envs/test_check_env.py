"""The judge passes a correct env and catches every way of breaking the contract."""

import asyncio
import contextlib
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from envs.actions import Action, KeyDown, Move, PressKey, Scroll, Terminate, Wait
from envs.check_env import EnvContractError, check_env
from envs.env import InstructionTask, Task
from envs.errors import EnvDiedError, EnvError
from envs.fake import FakeEnv, FakeOptions
from envs.observation import Generation, Observation, StepResult
from envs.target import ActionCheck, Target


@pytest.mark.parametrize("has_generations", [False, True])
async def test_fake_env_keeps_the_contract(has_generations: bool) -> None:
    made: list[FakeEnv] = []

    def make() -> FakeEnv:
        made.append(FakeEnv(FakeOptions(has_generations=has_generations)))
        return made[-1]

    await check_env(make)
    assert len(made) == 2
    assert all(env.is_closed for env in made)


class NoPng(FakeEnv):
    async def reset(self, task: Task) -> Observation:
        return replace(await super().reset(task), screenshot=b"GIF89a")


class CutPng(FakeEnv):
    async def reset(self, task: Task) -> Observation:
        observation = await super().reset(task)
        return replace(observation, screenshot=observation.screenshot[:60])


class WrongSize(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        picture = bytearray(result.observation.screenshot)
        picture[16:24] = struct.pack(">II", 1, 1)
        return replace(result, observation=replace(result.observation, screenshot=bytes(picture)))


class NoSetup(FakeEnv):
    async def reset(self, task: Task) -> Observation:
        return await super().reset(InstructionTask(instruction=""))


class OneReset(FakeEnv):
    async def reset(self, task: Task) -> Observation:
        return await super().reset(task if self.num_resets == 0 else InstructionTask(instruction=""))


class BareObservation(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> Any:
        return (await super().step(actions, check)).observation


class NoScroll(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        if any(isinstance(action, Scroll) for action in actions):
            return replace(result, observation=replace(result.observation, last_action_error="no wheel"))
        return result


class RewardIsNoNumber(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        return replace(await super().step(actions, check), reward=float("nan"))


class RewardIsNone(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        return replace(await super().step(actions, check), reward=None)  # type: ignore[arg-type]


class EndsEarly(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        return replace(result, truncated=bool(actions))


class RaisesOnBadKey(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        if any(isinstance(action, PressKey) and len(action.key) > 3 for action in actions):
            raise ValueError("no such key")
        return await super().step(actions, check)


class SilentOnBadKey(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        return replace(result, observation=replace(result.observation, last_action_error=None))


class GoesOnAfterFailure(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        ends = [action for action in actions if isinstance(action, Terminate)]
        self.terminate = ends[0] if ends else None
        return replace(result, terminated=bool(ends))


class StickyError(FakeEnv):
    last: str | None = None

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        self.last = result.observation.last_action_error or self.last
        return replace(result, observation=replace(result.observation, last_action_error=self.last))


class NarrowScreen(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        if any(isinstance(action, Move) and action.x_px > 300 for action in actions):
            return replace(result, observation=replace(result.observation, last_action_error="outside"))
        return result


class LostPointer(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        return replace(result, observation=replace(result.observation, pointer_px=(7, 7)))


class ClicksAnywhere(FakeEnv):
    def _point(self, action: Any) -> None:
        self._pointer_px = (action.x_px or 0, action.y_px or 0)


class GoesOnWhenCancelled(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        return await asyncio.shield(asyncio.ensure_future(self._step(actions, check)))

    async def _step(self, actions: Sequence[Action], check: ActionCheck | None) -> StepResult:
        await asyncio.sleep(sum(action.duration_s for action in actions if isinstance(action, Wait)))
        return await super().step(actions, check)


class NeverCancelled(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        end_s = time.monotonic() + sum(10 * action.duration_s for action in actions if isinstance(action, Wait))
        while time.monotonic() < end_s:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(end_s - time.monotonic())
        return await super().step(actions, check)


class EmptyDescription(FakeEnv):
    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        return ""


class DescribeRaises(FakeEnv):
    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        raise RuntimeError("nothing there")


class NoTargets(FakeEnv):
    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        return ()


class TargetsRaise(FakeEnv):
    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        raise EnvError("no idea")


class AsksNobody(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        return await super().step(actions)


class GoesOnAnyway(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        error = result.observation.last_action_error
        if error != "objection":
            return result
        after = await super().step(actions[2:])
        return replace(after, observation=replace(after.observation, last_action_error=error))


class Generations(FakeEnv):
    def __init__(self) -> None:
        super().__init__(FakeOptions(has_generations=True))


class ActsOnAnOlderScreen(Generations):
    def expect(self, generation: Generation) -> None:
        pass


class RefusesForGood(Generations):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        expected = self._expected
        result = await super().step(actions, check)
        self._expected = expected
        return result


class NeverTerminates(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        return replace(await super().step(actions, check), terminated=False)


class ForgetsTerminate(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        result = await super().step(actions, check)
        self.terminate = None
        return result


class KeepsTerminate(FakeEnv):
    async def reset(self, task: Task) -> Observation:
        before = self.terminate
        observation = await super().reset(task)
        self.terminate = before
        return observation


class LeaksKeys(FakeEnv):
    async def reset(self, task: Task) -> Observation:
        before = set(self.held)
        observation = await super().reset(task)
        self.held = before
        return observation


class DropsKeys(FakeEnv):
    def _act(self, action: Action) -> None:
        super()._act(action)
        if isinstance(action, KeyDown):
            self.held.clear()


class ClosesOnce(FakeEnv):
    async def close(self) -> None:
        if self.is_closed:
            raise RuntimeError("closed already")
        await super().close()


class StepsWhenClosed(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        self.is_closed = False
        return await super().step(actions, check)


class StepsUnstarted(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        if self.num_resets == 0:
            await self.reset(InstructionTask(instruction=""))
        return await super().step(actions, check)


class RaisesTheWrongThing(FakeEnv):
    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        if self.num_resets == 0:
            raise RuntimeError("not started")
        return await super().step(actions, check)


@pytest.mark.parametrize(
    ("broken", "clause"),
    [
        (NoPng, "the screenshot is a whole PNG"),
        (CutPng, "the screenshot is a whole PNG"),
        (WrongSize, "the screenshot's size is geometry.sent_px"),
        (NoSetup, "reset runs task.setup(env) once"),
        (OneReset, "reset may be called again and sets the task up"),
        (BareObservation, "step returns a StepResult"),
        (RewardIsNoNumber, "the reward is a finite number"),
        (RewardIsNone, "a StepResult holds Gymnasium's five values"),
        (NoScroll, "every verb can be carried out"),
        (EndsEarly, "only Terminate ends an episode"),
        (RaisesOnBadKey, "a failing action does not raise, its text is last_action_error"),
        (SilentOnBadKey, "a failing action does not raise, its text is last_action_error"),
        (GoesOnAfterFailure, "actions after a failed one are not carried out"),
        (StickyError, "last_action_error speaks of the last step alone"),
        (NarrowScreen, "corners are on the screen"),
        (LostPointer, "pointer_px is where the pointer is"),
        (ClicksAnywhere, "a point outside of the screen is a last_action_error"),
        (GoesOnWhenCancelled, "a step that is cancelled begins no further action"),
        (NeverCancelled, "a step that is cancelled begins no further action"),
        (EmptyDescription, "describe_point gives a text or None"),
        (DescribeRaises, "describe_point gives a text or None"),
        (NoTargets, "find_targets gives a tuple of targets"),
        (TargetsRaise, "find_targets gives a tuple of targets"),
        (AsksNobody, "what the check objects to is not carried out and is the last_action_error"),
        (GoesOnAnyway, "what the check objects to is not carried out and is the last_action_error"),
        (ActsOnAnOlderScreen, "input decided on an outdated observation is refused"),
        (RefusesForGood, "input decided on nothing that was named is carried out"),
        (NeverTerminates, "Terminate sets terminated"),
        (ForgetsTerminate, "Terminate is kept in env.terminate"),
        (KeepsTerminate, "reset clears env.terminate"),
        (DropsKeys, "keys and buttons stay held over steps"),
        (LeaksKeys, "reset lets go of held keys and buttons"),
        (ClosesOnce, "close may be called twice"),
        (StepsWhenClosed, "step after close raises EnvError"),
        (StepsUnstarted, "step before reset raises EnvError"),
        (RaisesTheWrongThing, "step before reset raises EnvError"),
    ],
)
async def test_a_broken_clause_is_named(broken: type[FakeEnv], clause: str) -> None:
    with pytest.raises(EnvContractError) as caught:
        await check_env(broken)
    assert str(caught.value).split(": ")[0] == clause


async def test_held_keys_can_be_read_from_outside() -> None:
    async def read(env: Any) -> set[str]:
        return {"ctrl"} if env.num_resets > 2 else set(env.held)

    with pytest.raises(EnvContractError, match="keys and buttons stay held over steps"):
        await check_env(FakeEnv, read_held=read)


async def test_fake_env_misbehaves_as_told() -> None:
    task = InstructionTask(instruction="")
    env = FakeEnv(FakeOptions(fail_action=1, die_at_step=1))
    await env.reset(task)
    result = await env.step([PressKey(key="a"), PressKey(key="b"), PressKey(key="c")])
    assert result.observation.last_action_error == "action 1 fails, as the options say"
    assert env.actions == [PressKey(key="a")]
    with pytest.raises(EnvDiedError):
        await env.step([])
    await env.close()
    with pytest.raises(EnvError):
        await env.step([])


async def test_fake_env_shows_scripted_screens_and_points() -> None:
    plain = FakeEnv(FakeOptions(screen_px=(40, 30)))
    first = (await plain.reset(InstructionTask(instruction=""))).screenshot
    second = (await plain.step([Terminate(status="success")])).observation.screenshot
    options = FakeOptions(screen_px=(40, 30), screens=(first, second), points={(0, 0, 10, 10): 'button "Go"'})
    env = FakeEnv(options)
    shown = [(await env.reset(InstructionTask(instruction=""))).screenshot]
    shown += [(await env.step([])).observation.screenshot for _ in range(2)]
    assert shown == [first, second, second]
    assert await env.describe_point(5, 9) == 'button "Go"'
    assert await env.describe_point(10, 9) is None
