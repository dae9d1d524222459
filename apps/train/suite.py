"""The suite `screens`: work on drawn screens whose names, fonts, themes and layouts no training of ours has seen."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from apps.train.env import Deed, DrawnEnv
from apps.train.episodes import FILLED, draw_parts, join_parts
from apps.train.screens.screen import HELD_OUT_FAMILIES, TRAINED_FAMILIES, Screen, ScreenOptions, make_screen
from apps.train.screens.widgets import Kind
from apps.train.screens.words import Words
from apps.train.skills import Question, ask_absent, ask_for, ask_to_type
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.suite import FAMILY, Baseline, Suite

REVISION = "6"
MAX_STEPS = 6
SIZES = ((280, 224), (400, 300), (480, 320))
BUTTONS = ScreenOptions(
    families=("scatter",), sizes_px=SIZES[:1], text_px=(14, 26), near_share=0.1, held_out_names=True, max_elements=7
)
ALL_KINDS = ScreenOptions(
    families=TRAINED_FAMILIES, sizes_px=SIZES, text_px=(13, 24), near_share=0.2, held_out_names=True
)
Ask = Callable[[random.Random, Screen], list[Question]]
"""What is asked of a screen, part by part; nothing where it has not what it takes."""


def _ask_one(*kinds: Kind) -> Ask:
    def ask(rng: random.Random, screen: Screen) -> list[Question]:
        fitting = [one for one in screen.targets if one.kind in kinds and not one.is_on]
        return [ask_for(rng, rng.choice(fitting))] if fitting else []

    return ask


def _ask_to_type(rng: random.Random, screen: Screen) -> list[Question]:
    fitting = [one for one in screen.targets if one.kind == "field" and not one.value]
    words = Words(rng, held_out=True, near_share=0.0)
    return [ask_to_type(rng, rng.choice(fitting), words.text())] if fitting else []


def _ask_absent(rng: random.Random, screen: Screen) -> list[Question]:
    fitting = [one for one in screen.targets if one.kind != "icon"]
    return [ask_absent(rng, screen, rng.choice(fitting))] if fitting else []


def _ask_three(rng: random.Random, screen: Screen) -> list[Question]:
    parts = draw_parts(rng, screen, held_out=True)
    return parts if len(parts) == 3 and any(part.kind in ("type", *FILLED) for part in parts) else []


@dataclass(frozen=True, slots=True)
class Paper:
    """One kind of task: its screens, and what is asked."""

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
PAPERS: Mapping[str, Paper] = {
    "button": Paper(BUTTONS, _ask_one("button", "link")),
    "button-one-letter-apart": Paper(replace(BUTTONS, near_share=1.0), _ask_one("button", "link")),
    "button-other-font": Paper(replace(BUTTONS, held_out_fonts=True), _ask_one("button", "link")),
    "button-other-theme": Paper(replace(BUTTONS, held_out_theme=True), _ask_one("button", "link")),
    "button-12-px": Paper(replace(BUTTONS, text_px=(12, 12)), _ask_one("button", "link")),
    **{kind: Paper(replace(ALL_KINDS, families=families), _ask_one(kind)) for kind, families in _FAMILIES.items()},
    "type": Paper(replace(ALL_KINDS, families=("form",)), _ask_to_type),
    "dialog": Paper(replace(ALL_KINDS, families=("dialog",)), _ask_one("button", "checkbox", "field")),
    "other-layout": Paper(replace(ALL_KINDS, families=HELD_OUT_FAMILIES), _ask_one("item", "checkbox", "field")),
    "three-steps": Paper(replace(ALL_KINDS, families=("form",)), _ask_three),
    "absent": Paper(ALL_KINDS, _ask_absent),
}
"""What each task asks; `absent` names what is not there, and the right end is to say so."""


class ScreenTask(Task):
    """One instruction on one drawn screen."""

    def __init__(self, task_id: str, seed: int) -> None:
        paper = PAPERS[task_id]
        rng = random.Random(f"screens {task_id} {seed}")
        parts: list[Question] = []
        while not parts:
            self._screen = make_screen(rng, paper.options)
            parts = paper.ask(rng, self._screen)
        self.instruction = join_parts(rng, parts)
        self._is_absent = parts[0].target is None
        self._deeds = [Deed(part.target.kind, part.target.name, part.typed) for part in parts if part.target]
        self.spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="drawn"), metadata={FAMILY: task_id})

    async def setup(self, env: DrawnEnv) -> None:
        """Show the screen."""
        env.show(self._screen)

    async def evaluate(self, env: DrawnEnv) -> TaskVerdict:
        """1 when exactly what was asked for was done, in its order, and the end says so."""
        wanted = "failure" if self._is_absent else "success"
        is_said = env.terminate is not None and env.terminate.status == wanted
        return TaskVerdict(is_said and env.deeds == self._deeds)


def make_suite() -> Suite:
    """Seventeen kinds of work on drawn screens, each drawn anew from a seed."""
    return Suite(
        name="screens",
        about=f"{len(PAPERS)} kinds of work on drawn screens with names and layouts that no training has seen",
        task_ids=tuple(PAPERS),
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
    if task_id not in PAPERS:
        raise ValueError(f"the suite screens has no task {task_id!r}; expected one of {', '.join(PAPERS)}")
    return ScreenTask(task_id, 0 if seed is None else seed)
