"""Fake environment in memory with a small canvas, for tests of agents and of `check_env`.

It follows the contract, draws its input (a dot for a click, typed text), records every action, and can be configured to
misbehave.
"""

import asyncio
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envs.actions import (
    RECIPIENT_UNKNOWN,
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
    TypeSecret,
    TypeText,
    Wait,
    normalize_key,
)
from envs.env import Task
from envs.errors import ActionError, EnvDiedError, EnvError
from envs.geometry import ScreenGeometry
from envs.observation import Dialog, Generation, Observation, StepResult
from envs.target import UNKNOWN_TARGET, ActionCheck, Target

if TYPE_CHECKING:
    from PIL.Image import Image

_DESCRIPTION = re.compile(r'(?P<role>[^"]+?)(?: "(?P<name>.*)")?(?: -> (?P<url>\S+))?')


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeOptions:
    """Appearance and configured failures of a `FakeEnv`.

    Attributes:
        screen_px: Width and height of the canvas.
        screens: PNG images to show, one for the reset and one for each step (the last one stays); all of size
            `screen_px`. Empty: the canvas is shown.
        points: Results of `describe_point`, by the box (left, top, right, bottom) they cover.
        focus: Description, of the same form, of what Enter and Space activate; None: unknown.
        dialog: Dialog of every observation.
        fail_action: Number of the action, counted from 0 over the episode, that fails.
        die_at_step: Number of the step, counted from 0, that raises `EnvDiedError`.
        slow_s: Duration of every step.
        rewards: Rewards of the steps of an episode, in order; 0.0 after the last.
        end_at_step: Number of the step, counted from 0, that terminates the episode, as a game does.
        has_generations: True if observations have a generation, and input decided on an older one is refused.
        cut_at_step: Number of the step, counted from 0, at which a limit of the env truncates the episode.
    """

    screen_px: tuple[int, int] = (320, 200)
    screens: tuple[bytes, ...] = ()
    points: dict[tuple[int, int, int, int], str] = field(default_factory=dict)
    focus: str | None = None
    dialog: Dialog | None = None
    fail_action: int | None = None
    die_at_step: int | None = None
    slow_s: float = 0.0
    rewards: tuple[float, ...] = ()
    end_at_step: int | None = None
    cut_at_step: int | None = None
    has_generations: bool = False


class FakeEnv:
    """Minimal environment that follows the contract.

    Attributes:
        actions: Executed actions of this episode, in order.
        held: Keys and buttons that are held down.
        num_steps: Steps of this episode.
        num_resets: Resets since the env was made.
        is_closed: True if `close` was called.
    """

    def __init__(self, options: FakeOptions = FakeOptions()) -> None:
        self.options = options
        self.terminate: Terminate | None = None
        self.actions: list[Action] = []
        self.held: set[str] = set()
        self.num_steps = 0
        self.num_resets = 0
        self.is_closed = False
        self._num_tried = 0
        self._shown: Generation | None = None
        self._expected: Generation | None = None
        self._pointer_px = (0, 0)
        self._canvas: Image | None = None

    async def reset(self, task: Task) -> Observation:
        """Start a new episode with an empty canvas."""
        if self.is_closed:
            raise EnvError("this env was closed; make a new one")
        self.terminate = None
        self.actions = []
        self.held = set()
        self.num_steps = 0
        self.num_resets += 1
        self._num_tried = 0
        self._pointer_px = (0, 0)
        self._canvas = _make_canvas(self.options.screen_px)
        await task.setup(self)
        return self._observe(None)

    def expect(self, generation: Generation) -> None:
        """Set the observation that the next step was decided on."""
        self._expected = generation

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Record and draw the actions, or fail as configured."""
        if self._canvas is None or self.is_closed:
            raise EnvError("step needs a reset first" if not self.is_closed else "this env was closed")
        if self.num_steps == self.options.die_at_step:
            raise EnvDiedError("the fake environment dies at this step, as its options say")
        await asyncio.sleep(self.options.slow_s)
        number_of_step = self.num_steps
        self.num_steps += 1
        error = None
        expected, self._expected = self._expected, None
        for number, action in enumerate(actions):
            try:
                if expected not in (None, self._shown) and not isinstance(action, Wait | Terminate):
                    raise ActionError("this was decided on an older screenshot")
                if check is not None and (targets := await self.find_targets(action)):
                    await check(number, action, targets)
                self._act(action)
            except (ActionError, ValueError) as failure:
                error = str(failure)
                break
            if self.terminate is not None:
                break
        rewards = self.options.rewards
        return StepResult(
            observation=self._observe(error),
            reward=rewards[number_of_step] if number_of_step < len(rewards) else 0.0,
            terminated=self.terminate is not None or number_of_step == self.options.end_at_step,
            truncated=number_of_step == self.options.cut_at_step,
        )

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Return the described target at the point, or the focus for Enter and Space."""
        if isinstance(action, Click | Drag | MouseDown | MouseUp):
            x_px = self._pointer_px[0] if action.x_px is None else action.x_px
            y_px = self._pointer_px[1] if action.y_px is None else action.y_px
            return (self._target(await self.describe_point(x_px, y_px)),)
        presses = {"enter", "space"} & {*_keys_of(action)}
        return (self._target(self.options.focus),) if presses else ()

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Return the text of the first box that contains the point."""
        for (left, top, right, bottom), text in self.options.points.items():
            if left <= x_px < right and top <= y_px < bottom:
                return text
        return None

    async def close(self) -> None:
        """Release everything that is held."""
        self.held = set()
        self.is_closed = True

    def _target(self, text: str | None) -> Target:
        match = _DESCRIPTION.fullmatch(text) if text else None
        if not match:
            return UNKNOWN_TARGET
        asks = (self.options.dialog.message,) if self.options.dialog else ()
        names = (match["name"],) if match["name"] else ()
        return Target(role=match["role"], names=names, url=match["url"], context=asks)

    def _act(self, action: Action) -> None:
        self._num_tried += 1
        if self._num_tried - 1 == self.options.fail_action:
            raise ActionError(f"action {self._num_tried - 1} fails, as the options say")
        match action:
            case Click() | Move() | Drag() | Scroll() | MouseDown() | MouseUp():
                self._point(action)
            case PressKey(key=key):
                normalize_key(key)
            case Hotkey(keys=keys):
                for key in keys:
                    normalize_key(key)
            case KeyDown(key=key):
                self.held.add(normalize_key(key))
            case KeyUp(key=key):
                self.held.discard(normalize_key(key))
            case TypeSecret():
                raise ActionError(RECIPIENT_UNKNOWN)
            case TypeText(text=text):
                self._draw_text(text)
            case Terminate():
                self.terminate = action
            case Wait():
                pass
        self.actions.append(action)

    def _point(self, action: Click | Move | Drag | Scroll | MouseDown | MouseUp) -> None:
        x_px, y_px = self._pointer_px
        if action.x_px is not None and action.y_px is not None:
            x_px, y_px = action.x_px, action.y_px
        width, height = self.options.screen_px
        if not (0 <= x_px < width and 0 <= y_px < height):
            raise ActionError(f"({x_px}, {y_px}) is outside of the screen of {width}x{height} px")
        self._pointer_px = (x_px, y_px)
        match action:
            case MouseDown(button=button):
                self.held.add(button)
            case MouseUp(button=button):
                self.held.discard(button)
            case Click():
                self._draw_dot(x_px, y_px)

    def _draw_dot(self, x_px: int, y_px: int) -> None:
        from PIL import ImageDraw

        if self._canvas is not None:
            box = (x_px - 3, y_px - 3, x_px + 3, y_px + 3)
            ImageDraw.Draw(self._canvas).ellipse(box, fill=(200, 30, 30))

    def _draw_text(self, text: str) -> None:
        from PIL import ImageDraw, ImageFont

        if self._canvas is not None:
            font = ImageFont.load_default(size=14)
            ImageDraw.Draw(self._canvas).text(self._pointer_px, text, fill=(20, 20, 20), font=font)

    def _observe(self, error: str | None) -> Observation:
        screens = self.options.screens
        screenshot = screens[min(self.num_steps, len(screens) - 1)] if screens else self._encode()
        size = self.options.screen_px
        if self.options.has_generations:
            frame = self._shown.frame + 1 if self._shown else 1
            self._shown = Generation(tab=1, navigation=self.num_resets, frame=frame)
        return Observation(
            screenshot=screenshot,
            geometry=ScreenGeometry(native_px=size, sent_px=size),
            pointer_px=self._pointer_px,
            title="fake",
            dialog=self.options.dialog,
            last_action_error=error,
            generation=self._shown,
        )

    def _encode(self) -> bytes:
        if self._canvas is None:
            raise EnvError("there is no canvas before the first reset")
        buffer = io.BytesIO()
        self._canvas.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()


def _keys_of(action: Action) -> Sequence[str]:
    match action:
        case PressKey(key=key) | KeyDown(key=key):
            return (key,)
        case Hotkey(keys=keys):
            return keys
        case TypeText(text=text) if "\n" in text:
            return ("enter",)
    return ()


def _make_canvas(size_px: tuple[int, int]) -> "Image":
    from PIL import Image

    return Image.new("RGB", size_px, (245, 245, 245))
