"""Checker of the `Env` contract, for the tests of every environment, including user-defined ones.

    await check_env(lambda: MyEnv(...))

Each clause of the contract is one function below; the error names the violated clause.
"""

import asyncio
import inspect
import math
import struct
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from envs.actions import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)
from envs.env import Env, Task, VersionedScreen
from envs.errors import ActionError, EnvError
from envs.observation import Observation, StepResult
from envs.target import Target

HeldReader = Callable[[Env], Collection[str] | Awaitable[Collection[str]]]
_PNG_START = b"\x89PNG\r\n\x1a\n"
_NO_SUCH_KEY = "no-such-key"
_CANCELLED_S = 0.4  # long enough to cancel a wait in the middle, short for a test


class EnvContractError(AssertionError):
    """Violation of the contract by an environment; the text starts with the name of the clause."""


@dataclass(slots=True)
class _ProbeTask(Task):
    """Task that records the calls of its `setup`."""

    instruction: str = "Check the contract of this env."
    set_up_with: list[object] = field(default_factory=list)

    async def setup(self, env: object) -> None:
        self.set_up_with.append(env)


async def check_env(make_env: Callable[[], Env], *, read_held: HeldReader | None = None) -> None:
    """Run every clause of the contract against fresh environments.

    The actions used are harmless ones at the middle and at the corners of the screen: moves, clicks, the letter `a`,
    shift, one notch of the wheel.

    Args:
        make_env: Factory of a new environment that was not reset yet; called several times.
        read_held: Returns the names of the keys and buttons that are held down, read from the environment (may be
            async). By default the `held` attribute of the environment is read; if it has none, the clause on held keys
            is skipped.

    Raises:
        EnvContractError: If a clause is violated.
    """
    await _check_unstarted(make_env())
    env = make_env()
    try:
        await _check_reset(env)
        await _check_verbs(env)
        await _check_failing_action(env)
        await _check_corners(env)
        await _check_outside(env)
        await _check_describe_point(env)
        await _check_find_targets(env)
        await _check_objection(env)
        await _check_generation(env)
        await _check_cancel(env)
        await _check_terminate(env)
        await _check_held(env, read_held)
    finally:
        await env.close()
    await _check_closed(env)


async def _check_unstarted(env: Env) -> None:
    clause = "step before reset raises EnvError"
    await _expect_env_error(clause, env)
    try:
        await env.close()
    except Exception as error:
        _broken("close never raises, also before a reset", f"{type(error).__name__}: {error}")


async def _check_reset(env: Env) -> None:
    task = _ProbeTask()
    observation = await env.reset(task)
    _check_observation("reset", observation)
    if task.set_up_with != [env]:
        _broken("reset runs task.setup(env) once", f"setup was called with {task.set_up_with}")
    _check_no_terminate("terminate is None after a reset", env)
    if observation.last_action_error is not None:
        _broken("a reset carries no last_action_error", f"it says {observation.last_action_error!r}")
    again = _ProbeTask()
    _check_observation("a second reset", await env.reset(again))
    if again.set_up_with != [env]:
        _broken("reset may be called again and sets the task up", f"setup was called with {again.set_up_with}")


async def _check_verbs(env: Env) -> None:
    x_px, y_px = _middle(await _look(env))
    verbs: Sequence[Action] = (
        Move(x_px=x_px, y_px=y_px),
        Click(x_px=x_px, y_px=y_px),
        Click(clicks=2, interval_s=0.01),
        Drag(x_px=x_px + 5, y_px=y_px + 5, duration_s=0.02),
        Scroll(dy=-1),
        Scroll(dx=1, x_px=x_px, y_px=y_px),
        TypeText(text="a"),
        PressKey(key="a", presses=2),
        Hotkey(keys=("shift", "a")),
        KeyDown(key="shift"),
        KeyUp(key="shift"),
        MouseDown(x_px=x_px, y_px=y_px),
        MouseUp(x_px=x_px, y_px=y_px),
        Wait(duration_s=0.01),
    )
    for action in verbs:
        result = await env.step([action])
        _check_result(f"step({type(action).__name__})", result)
        if result.observation.last_action_error is not None:
            text = result.observation.last_action_error
            _broken("every verb can be carried out", f"{action} gave last_action_error {text!r}")
        if result.terminated or result.truncated:
            _broken("only Terminate ends an episode", f"{action} ended it")


async def _check_failing_action(env: Env) -> None:
    clause = "a failing action does not raise, its text is last_action_error"
    actions = (PressKey(key=_NO_SUCH_KEY), Terminate(status="success"))
    try:
        result = await env.step(actions)
    except Exception as error:
        _broken(clause, f"step raised {type(error).__name__}: {error}")
    _check_result("step with a failing action", result)
    if not result.observation.last_action_error:
        _broken(clause, f"the key {_NO_SUCH_KEY!r} does not exist and nothing was said")
    if result.terminated or env.terminate is not None:
        _broken("actions after a failed one are not carried out", "a Terminate after it ended the episode")
    after = (await _look(env)).last_action_error
    if after is not None:
        _broken("last_action_error speaks of the last step alone", f"after an empty step it says {after!r}")


async def _check_corners(env: Env) -> None:
    observation = await _look(env)
    left, top = observation.geometry.offset_px
    width, height = observation.geometry.native_px
    for x_px in (left, left + width - 1):
        for y_px in (top, top + height - 1):
            observation = (await env.step([Move(x_px=x_px, y_px=y_px)])).observation
            if observation.last_action_error is not None:
                _broken("corners are on the screen", f"({x_px}, {y_px}): {observation.last_action_error}")
            if observation.pointer_px not in (None, (x_px, y_px)):
                _broken("pointer_px is where the pointer is", f"{observation.pointer_px}, moved to ({x_px}, {y_px})")


async def _check_outside(env: Env) -> None:
    clause = "a point outside of the screen is a last_action_error"
    observation = await _look(env)
    left, top = observation.geometry.offset_px
    width, height = observation.geometry.native_px
    for x_px, y_px in ((left + width + 10_000, top), (left, top - 10_000)):
        try:
            result = await env.step([Click(x_px=x_px, y_px=y_px)])
        except Exception as error:
            _broken(clause, f"step raised {type(error).__name__}: {error}")
        if not result.observation.last_action_error:
            _broken(clause, f"a click at ({x_px}, {y_px}) on a screen of {width}x{height} px was taken")


async def _check_describe_point(env: Env) -> None:
    clause = "describe_point gives a text or None"
    x_px, y_px = _middle(await _look(env))
    for point in ((x_px, y_px), (-1, -1)):
        try:
            text: object = await env.describe_point(*point)
        except Exception as error:
            _broken(clause, f"it raised {type(error).__name__}: {error} at {point}")
        if not (text is None or (isinstance(text, str) and text)):
            _broken(clause, f"it gave {text!r} at {point}")


async def _check_cancel(env: Env) -> None:
    clause = "a step that is cancelled begins no further action"
    x_px, y_px = _middle(await _look(env))
    actions = (Wait(duration_s=_CANCELLED_S), Move(x_px=x_px, y_px=y_px), Terminate(status="failure"))
    await env.step([Move(x_px=x_px + 1, y_px=y_px)])
    step = asyncio.ensure_future(env.step(actions))
    await asyncio.sleep(_CANCELLED_S / 4)
    step.cancel()
    await asyncio.wait({step}, timeout=8 * _CANCELLED_S)
    if not step.done():
        _broken(clause, f"it went on for {8 * _CANCELLED_S:g} s")
    if not step.cancelled():
        return  # it ended before: this env does not wait
    await asyncio.sleep(_CANCELLED_S)
    observation = await _look(env)
    if env.terminate is not None or observation.pointer_px == (x_px, y_px):
        _broken(clause, "what came after the first action was carried out")


async def _check_find_targets(env: Env) -> None:
    clause = "find_targets gives a tuple of targets"
    x_px, y_px = _middle(await _look(env))
    for action in (Click(x_px=x_px, y_px=y_px), PressKey(key="enter"), TypeText(text="a"), Wait(duration_s=0.0)):
        try:
            targets: object = await env.find_targets(action)
        except Exception as error:
            _broken(clause, f"it raised {type(error).__name__}: {error} for {action}")
        if not (isinstance(targets, tuple) and all(isinstance(target, Target) for target in targets)):
            _broken(clause, f"it gave {targets!r} for {action}")
        if isinstance(action, Click) and not targets:
            _broken(clause, "it gave none for a click; where nothing is known that is UNKNOWN_TARGET")


async def _check_objection(env: Env) -> None:
    clause = "what the check objects to is not carried out and is the last_action_error"
    x_px, y_px = _middle(await _look(env))
    asked: list[tuple[int, Action]] = []

    async def check(number: int, action: Action, targets: Sequence[Target]) -> None:
        asked.append((number, action))
        raise ActionError("objection")

    actions = (Wait(duration_s=0.0), Click(x_px=x_px, y_px=y_px), Terminate(status="success"))
    result = await env.step(actions, check)
    _check_result("a step that is objected to", result)
    if asked != [(1, actions[1])]:
        _broken(clause, f"the check was asked {asked}, expected once, about the click")
    if "objection" not in (result.observation.last_action_error or ""):
        _broken(clause, f"last_action_error is {result.observation.last_action_error!r}")
    if result.terminated or env.terminate is not None:
        _broken(clause, "a Terminate behind it ended the episode")


async def _check_generation(env: Env) -> None:
    clause = "input decided on an outdated observation is refused"
    seen = await _look(env)
    if seen.generation is None:
        return
    if not isinstance(env, VersionedScreen):
        _broken("an env whose observations have a generation is a VersionedScreen", f"{type(env).__name__} is not")
    click = Click(x_px=_middle(seen)[0], y_px=_middle(seen)[1])
    fresh = await _look(env)
    env.expect(seen.generation)
    refused = (await env.step([Wait(duration_s=0.0), click])).observation
    if not refused.last_action_error:
        _broken(clause, f"a click decided on {seen.generation} was carried out after {fresh.generation} was returned")
    if refused.generation is None:
        _broken("every observation of an env has a generation, or none has", "a later one has none")
    env.expect(refused.generation)
    for which in ("decided on the current observation", "decided on nothing that was named"):
        if error := (await env.step([click])).observation.last_action_error:
            _broken(f"input {which} is carried out", f"it failed: {error}")


async def _check_terminate(env: Env) -> None:
    end = Terminate(status="failure", answer="42")
    result = await env.step([end])
    _check_result("step(Terminate)", result)
    if not result.terminated:
        _broken("Terminate sets terminated", "the step result says that the episode goes on")
    if env.terminate != end:
        _broken("Terminate is kept in env.terminate", f"found {env.terminate}")
    await env.reset(_ProbeTask())
    _check_no_terminate("reset clears env.terminate", env)
    if (await env.step([])).terminated:
        _broken("reset starts a new episode", "the first step after it is terminated")


def _check_no_terminate(clause: str, env: Env) -> None:
    if env.terminate is not None:
        _broken(clause, f"found {env.terminate}")


async def _check_held(env: Env, read_held: HeldReader | None) -> None:
    if read_held is None and not hasattr(env, "held"):
        return
    x_px, y_px = _middle(await _look(env))
    await env.step([KeyDown(key="shift"), MouseDown(x_px=x_px, y_px=y_px)])
    await env.step([])
    held = await _read_held(env, read_held)
    if len(held) < 2:
        _broken("keys and buttons stay held over steps", f"shift and the left button went down, held now: {held}")
    await env.reset(_ProbeTask())
    held = await _read_held(env, read_held)
    if held:
        _broken("reset lets go of held keys and buttons", f"held now: {held}")


async def _read_held(env: Env, read_held: HeldReader | None) -> list[str]:
    held: Any = read_held(env) if read_held is not None else getattr(env, "held")  # noqa: B009 - not in the protocol
    if inspect.isawaitable(held):
        held = await held
    return sorted(held)


async def _check_closed(env: Env) -> None:
    try:
        await env.close()
    except Exception as error:
        _broken("close may be called twice", f"{type(error).__name__}: {error}")
    await _expect_env_error("step after close raises EnvError", env)


async def _expect_env_error(clause: str, env: Env) -> None:
    try:
        await env.step([])
    except EnvError:
        return
    except Exception as error:
        _broken(clause, f"it raised {type(error).__name__}: {error}")
    _broken(clause, "it returned a result")


async def _look(env: Env) -> Observation:
    result = await env.step([])
    _check_result("an empty step", result)
    return result.observation


def _check_result(call: str, result: object) -> None:
    if not isinstance(result, StepResult):
        _broken("step returns a StepResult", f"{call} gave {type(result).__name__}")
    _check_observation(call, result.observation)
    if not isinstance(result.reward, float) or not (
        isinstance(result.terminated, bool) and isinstance(result.truncated, bool)
    ):
        _broken("a StepResult holds Gymnasium's five values", f"{call} gave {result}")
    if not math.isfinite(result.reward):
        _broken("the reward is a finite number", f"{call} gave {result.reward}")


def _check_observation(call: str, observation: object) -> None:
    if not isinstance(observation, Observation):
        _broken("an observation is an Observation", f"{call} gave {type(observation).__name__}")
    screenshot = observation.screenshot
    if screenshot[:8] != _PNG_START or screenshot[12:16] != b"IHDR" or b"IEND" not in screenshot[-12:]:
        _broken("the screenshot is a whole PNG", f"{call} gave {len(screenshot)} bytes starting {screenshot[:8]!r}")
    size = struct.unpack(">II", screenshot[16:24])
    if size != observation.geometry.sent_px:
        _broken(
            "the screenshot's size is geometry.sent_px",
            f"{call}: the image is {size[0]}x{size[1]}, sent_px says {observation.geometry.sent_px}",
        )


def _middle(observation: Observation) -> tuple[int, int]:
    return observation.geometry.from_model(0.5, 0.5)


def _broken(clause: str, problem: str) -> NoReturn:
    raise EnvContractError(f"{clause}: {problem}")
