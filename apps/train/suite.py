"""Suite `screens`: tasks on drawn screens whose names, fonts, themes and layouts are not in our training.

Elements react to clicks and keys as in episodes; there is no program behind the drawn screens.
"""

import io
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from apps.train.episodes import FILLED, draw_parts, join_parts
from apps.train.screens.screen import (
    HELD_OUT_FAMILIES,
    TRAINED_FAMILIES,
    DrawnScreen,
    ScreenOptions,
    make_screen,
    show_done,
)
from apps.train.screens.widgets import DrawnElement, Kind
from apps.train.screens.words import DrawnTexts
from apps.train.skills import ScreenQuestion, ask_absent, ask_for, ask_to_type
from envs import (
    Action,
    Click,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Observation,
    PressKey,
    ScreenGeometry,
    StepResult,
    Terminate,
    TypeSecret,
    TypeText,
)
from envs.actions import RECIPIENT_UNKNOWN, Drag, Move, Scroll, normalize_key
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.errors import ActionError, EnvError
from envs.suite import FAMILY, Baseline, Suite
from envs.target import UNKNOWN_TARGET, ActionCheck, Target


@dataclass(frozen=True, slots=True)
class PerformedAction:
    """An action on an element: a press, and the text typed into it afterwards."""

    kind: str
    name: str
    typed: str = ""


class DrawnEnv:
    """Environment of an `apps.train.screens` screen; implements `envs.env.Env`.

    Attributes:
        terminate: See `Env`.
        deeds: Actions of this episode, in order.
        held: Keys and buttons that are held down.
    """

    def __init__(self) -> None:
        self.terminate: Terminate | None = None
        self.deeds: list[PerformedAction] = []
        self.held: set[str] = set()
        self._screen: DrawnScreen | None = None
        self._focus: str | None = None  # name of a field
        self._pointer_px = (0, 0)
        self._is_closed = False

    def show(self, screen: DrawnScreen) -> None:
        """Show a screen; called by a task's `setup`."""
        self._screen = screen

    @property
    def screen(self) -> DrawnScreen:
        """Current screen.

        Raises:
            EnvError: If there was no reset yet, or the environment is closed.
        """
        if self._is_closed:
            raise EnvError("this environment is closed; create a new one")
        if self._screen is None:
            raise EnvError("reset the environment first")
        return self._screen

    async def reset(self, task: Task) -> Observation:
        """Reset the episode and let the task show its screen; a default screen if it shows none."""
        if self._is_closed:
            raise EnvError("this environment is closed; create a new one")
        self.terminate, self._screen, self._focus = None, None, None
        self.deeds, self.held, self._pointer_px = [], set(), (0, 0)
        await task.setup(self)
        if self._screen is None:
            self.show(make_screen(random.Random(0), ScreenOptions(families=TRAINED_FAMILIES, sizes_px=((280, 224),))))
        return self._observe(None)

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions on the screen."""
        error = None
        for number, action in enumerate(actions):
            try:
                if check is not None and (targets := await self.find_targets(action)):
                    await check(number, action, targets)
                self._act(action)
            except (ActionError, ValueError) as failure:
                error = str(failure)
                break
            if self.terminate is not None:
                break
        return StepResult(observation=self._observe(error), terminated=self.terminate is not None)

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Return the element under the pointer, or the focused field."""
        match action:
            case Click() | Drag() | MouseDown() | MouseUp():
                target = self._element_at(*self._place_of(action))
                if target is None:
                    return (UNKNOWN_TARGET,)
                return (Target(role=target.kind, names=(target.name,), is_field=target.kind == "field"),)
            case TypeText() if self._focus is not None:
                return (Target(role="field", names=(self._focus,), is_field=True),)
        return ()

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Return the element at a point."""
        target = self._element_at(x_px, y_px)
        return f'{target.kind} "{target.name}"' if target else None

    async def close(self) -> None:
        """Discard the screen and the episode."""
        self.held, self._is_closed = set(), True

    def _act(self, action: Action) -> None:
        match action:
            case Click():
                self._pointer_px = self._place_of(action)
                self._press()
            case Move() | Drag() | Scroll():
                self._pointer_px = self._place_of(action)
            case MouseDown(button=button):
                self._pointer_px = self._place_of(action)
                self.held.add(button)
            case MouseUp(button=button):
                self._pointer_px = self._place_of(action)
                self.held.discard(button)
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
                self._type(text)
            case Terminate():
                self.terminate = action

    def _place_of(self, action: Click | Drag | Move | Scroll | MouseDown | MouseUp) -> tuple[int, int]:
        """Return the position of an action.

        Raises:
            ActionError: If it is outside the screen.
        """
        x_px, y_px = self._pointer_px
        if action.x_px is not None and action.y_px is not None:
            x_px, y_px = action.x_px, action.y_px
        height, width = self.screen.pixels.shape[:2]
        if not (0 <= x_px < width and 0 <= y_px < height):
            raise ActionError(f"({x_px}, {y_px}) is outside of the screen of {width}x{height} px")
        return x_px, y_px

    def _element_at(self, x_px: int, y_px: int) -> DrawnElement | None:
        for element in self.screen.targets:
            left, top, right, bottom = element.box
            if left <= x_px < right and top <= y_px < bottom:
                return element
        return None

    def _press(self) -> None:
        target = self._element_at(*self._pointer_px)
        self._focus = target.name if target is not None and target.kind == "field" else None
        if target is not None:
            self.deeds.append(PerformedAction(target.kind, target.name))
            if target.kind != "field":
                self._screen = show_done(self.screen, target)

    def _type(self, text: str) -> None:
        if self._focus is None:
            return
        last = self.deeds[-1]
        self.deeds[-1] = PerformedAction(last.kind, last.name, last.typed + text)
        [field] = [target for target in self.screen.targets if (target.kind, target.name) == ("field", self._focus)]
        self._screen = show_done(self.screen, field, self.deeds[-1].typed)

    def _observe(self, error: str | None) -> Observation:
        from PIL import Image

        data = io.BytesIO()
        Image.fromarray(self.screen.pixels).save(data, "PNG", compress_level=1)
        height, width = self.screen.pixels.shape[:2]
        geometry = ScreenGeometry(native_px=(width, height), sent_px=(width, height))
        return Observation(
            screenshot=data.getvalue(), geometry=geometry, pointer_px=self._pointer_px, last_action_error=error
        )


REVISION = "6"
MAX_STEPS = 6
SIZES = ((280, 224), (400, 300), (480, 320))
BUTTONS = ScreenOptions(
    families=("scatter",), sizes_px=SIZES[:1], text_px=(14, 26), near_share=0.1, held_out_names=True, max_elements=7
)
ALL_KINDS = ScreenOptions(
    families=TRAINED_FAMILIES, sizes_px=SIZES, text_px=(13, 24), near_share=0.2, held_out_names=True
)
Ask = Callable[[random.Random, DrawnScreen], list[ScreenQuestion]]
"""Function that draws the parts of a task on a screen; empty if the screen does not fit."""


def _ask_one(*kinds: Kind) -> Ask:
    def ask(rng: random.Random, screen: DrawnScreen) -> list[ScreenQuestion]:
        fitting = [target for target in screen.targets if target.kind in kinds and not target.is_on]
        return [ask_for(rng, rng.choice(fitting))] if fitting else []

    return ask


def _ask_to_type(rng: random.Random, screen: DrawnScreen) -> list[ScreenQuestion]:
    fitting = [target for target in screen.targets if target.kind == "field" and not target.value]
    words = DrawnTexts(rng, held_out=True, near_share=0.0)
    return [ask_to_type(rng, rng.choice(fitting), words.text())] if fitting else []


def _ask_absent(rng: random.Random, screen: DrawnScreen) -> list[ScreenQuestion]:
    fitting = [target for target in screen.targets if target.kind != "icon"]
    return [ask_absent(rng, screen, rng.choice(fitting))] if fitting else []


def _ask_three(rng: random.Random, screen: DrawnScreen) -> list[ScreenQuestion]:
    parts = draw_parts(rng, screen, held_out=True)
    return parts if len(parts) == 3 and any(part.kind in ("type", *FILLED) for part in parts) else []


@dataclass(frozen=True, slots=True)
class TaskKind:
    """One kind of task: options of its screens, and its questions."""

    options: ScreenOptions
    ask: Ask


_FAMILIES: Mapping[Kind, tuple[str, ...]] = {
    "field": ("form",),
    "checkbox": ("form", "toolbar"),
    "radio": ("form", "toolbar"),
    "tab": ("toolbar",),
    "menu": ("toolbar",),
    "icon": ("toolbar",),
    "item": ("list",),
}
TASK_KINDS: Mapping[str, TaskKind] = {
    "button": TaskKind(BUTTONS, _ask_one("button", "link")),
    "button-one-letter-apart": TaskKind(replace(BUTTONS, near_share=1.0), _ask_one("button", "link")),
    "button-other-font": TaskKind(replace(BUTTONS, held_out_fonts=True), _ask_one("button", "link")),
    "button-other-theme": TaskKind(replace(BUTTONS, held_out_theme=True), _ask_one("button", "link")),
    "button-12-px": TaskKind(replace(BUTTONS, text_px=(12, 12)), _ask_one("button", "link")),
    **{kind: TaskKind(replace(ALL_KINDS, families=families), _ask_one(kind)) for kind, families in _FAMILIES.items()},
    "type": TaskKind(replace(ALL_KINDS, families=("form",)), _ask_to_type),
    "dialog": TaskKind(replace(ALL_KINDS, families=("dialog",)), _ask_one("button", "checkbox", "field")),
    "other-layout": TaskKind(replace(ALL_KINDS, families=HELD_OUT_FAMILIES), _ask_one("item", "checkbox", "field")),
    "three-steps": TaskKind(replace(ALL_KINDS, families=("form",)), _ask_three),
    "absent": TaskKind(ALL_KINDS, _ask_absent),
}
"""Question of each task; `absent` names a missing element, and the right answer is to report failure."""


class ScreenTask(Task):
    """One instruction on one drawn screen."""

    def __init__(self, task_id: str, seed: int) -> None:
        paper = TASK_KINDS[task_id]
        rng = random.Random(f"screens {task_id} {seed}")
        parts: list[ScreenQuestion] = []
        while not parts:
            self._screen = make_screen(rng, paper.options)
            parts = paper.ask(rng, self._screen)
        self.instruction = join_parts(rng, parts)
        self._is_absent = parts[0].target is None
        self._deeds = [PerformedAction(part.target.kind, part.target.name, part.typed) for part in parts if part.target]
        self.spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="drawn"), metadata={FAMILY: task_id})

    async def setup(self, env: DrawnEnv) -> None:
        """Show the screen."""
        env.show(self._screen)

    async def evaluate(self, env: DrawnEnv) -> TaskVerdict:
        """Return 1 if exactly the requested actions were done in order and the reported status is right."""
        wanted = "failure" if self._is_absent else "success"
        is_said = env.terminate is not None and env.terminate.status == wanted
        return TaskVerdict(is_said and env.deeds == self._deeds)


def make_suite() -> Suite:
    """Return the suite: seventeen kinds of tasks on drawn screens, generated from a seed."""
    return Suite(
        name="screens",
        about=f"{len(TASK_KINDS)} kinds of work on drawn screens with names and layouts that no training has seen",
        task_ids=tuple(TASK_KINDS),
        make_task=_make_task,
        make_env=lambda spec: DrawnEnv(),
        seeds=tuple(range(10)),
        revision=REVISION,
        max_steps=MAX_STEPS,
        max_time_s=120.0,
        baselines=_BASELINES,
    )


_BASELINES = {
    name: Baseline(score=score, num_episodes=170, command=f"cua eval screens --baseline {name}")
    for name, score in {"null": 0.0, "fail": 0.0588, "random": 0.047}.items()
}


def _make_task(task_id: str, seed: int | None) -> ScreenTask:
    if task_id not in TASK_KINDS:
        raise ValueError(f"the suite screens has no task {task_id!r}; expected one of {', '.join(TASK_KINDS)}")
    return ScreenTask(task_id, 0 if seed is None else seed)
