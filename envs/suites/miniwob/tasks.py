"""Tasks and suite of MiniWoB++: names, families, and scoring.

A task's seed is the integer that `Math.seedrandom` gets right before the page draws its problem, as a number: the text
"1" draws another problem than 1. (BrowserGym draws such a number from a `RandomState` of its seed, miniwob's own Python
code passes the text of it; their problems differ, with the same distribution.) Pages with several sets of problems draw
from their `default` one.
"""

from collections.abc import Mapping
from typing import Any

from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.errors import did_you_mean
from envs.suite import FAMILY, Baseline, Suite
from envs.suites.miniwob.env import PREFIX, MiniWobOptions
from envs.suites.miniwob.pages import VERSION, get_pages

_FAMILIES = {
    "click": (
        "button button-sequence checkboxes checkboxes-large checkboxes-soft checkboxes-transfer collapsible "
        "collapsible-2 collapsible-2-nodelay collapsible-nodelay color dialog dialog-2 link menu menu-2 option pie "
        "pie-nodelay scroll-list shades shape tab tab-2 tab-2-easy tab-2-hard tab-2-medium test test-2 test-transfer "
        "widget"
    ),
    "choose": "date date-easy date-medium date-nodelay list",
    "enter": "date password text text-2 text-dynamic time",
    "use": ("autocomplete autocomplete-nodelay colorwheel colorwheel-2 slider slider-2 spinner"),
    "drag": "box circle cube items items-grid shapes shapes-2 single-shape sort-numbers",
    "email": (
        "inbox inbox-delete inbox-forward inbox-forward-nl inbox-forward-nl-turk inbox-important inbox-nl-turk "
        "inbox-noscroll inbox-reply inbox-star-reply"
    ),
}
"""Families named by the first word in a task name: `click` has `click-button`, ..."""
_MORE_FAMILIES = {
    "form": (
        "form-sequence form-sequence-2 form-sequence-3 login-user login-user-popup multi-layouts multi-orderings "
        "sign-agreement"
    ),
    "text": (
        "copy-paste copy-paste-2 find-word focus-text focus-text-2 highlight-text highlight-text-2 read-table "
        "read-table-2 resize-textarea scroll-text scroll-text-2 terminal text-editor text-transform unicode-test"
    ),
    "draw": "bisect-angle circle-center draw-circle draw-line find-midpoint grid-coordinate right-angle",
    "look": "count-shape count-sides identify-shape number-checkboxes visual-addition",
    "number": (
        "ascending-numbers find-greatest generate-number guess-number odd-or-even simple-algebra simple-arithmetic"
    ),
    "site": (
        "book-flight book-flight-nodelay buy-ticket daily-calendar navigate-tree order-food phone-book search-engine "
        "social-media social-media-all social-media-some stock-market"
    ),
    "game": "hot-cold tic-tac-toe",
}
FAMILY_OF: Mapping[str, str] = dict(
    sorted(
        [(f"{family}-{rest}", family) for family, names in _FAMILIES.items() for rest in names.split()]
        + [(name, family) for family, names in _MORE_FAMILIES.items() for name in names.split()]
    )
)
"""All 125 tasks that `miniwob` 1.1.0 registers for its own pages, with the family of each. Five pages are excluded
(button-delay, chase-circle, hover-shape, moving-items, simon-says), as in BrowserGym.
"""

GRADED: Mapping[str, str] = {
    "bisect-angle": "how near the two angles are to each other",
    "circle-center": "how near the point is to the centre",
    "draw-circle": "how round the line is and how near its radius to the one asked for",
    "draw-line": "how well the line has its direction and meets its point",
    "find-midpoint": "how near the point is to the midpoint",
    "right-angle": "how near the angle is to 90 degrees",
}
"""Pages whose raw reward measures the quality of a drawing, in (0, 1]: it is the score.

On all other pages the score is 1 when the raw reward is 1, and else 0, also where the page gives partial credit: a
wrong card of find-greatest (0.1), some of the boxes (click-checkboxes and its variants), some of the numbers in order
(ascending-numbers), a draw (tic-tac-toe: -0.5), the second-best ticket (buy-ticket: -0.5).
"""
NEAR_ENOUGH: Mapping[str, float] = {"use-colorwheel": 0.95, "use-colorwheel-2": 0.95}
"""Pages whose raw reward is the similarity to a requested colour, which is above 0 for any colour: the score is 1 from
this threshold on.
"""
NONDETERMINISTIC: Mapping[str, str] = {
    "click-pie": "how many numbers a pie draws depends on how far it has opened",
    "click-pie-nodelay": "as click-pie",
    "stock-market": "the price goes on ten times a second",
    "terminal": "it shows the day, and a cursor that blinks",
}
"""Pages that differ between loads with the same seed, and why. All others were equal in document and image."""


BASELINES: Mapping[str, Baseline] = {
    name: Baseline(score=score, num_episodes=625, command=f"cua eval miniwob --baseline {name}")
    for name, score in {"null": 0.0, "fail": 0.0, "random": 0.0164}.items()
}
"""Baseline scores. The random agent clicks five points and reports success: 10 of 625 episodes reach 1."""
_ROUNDING = 1e-6
"""Tolerance for pages that sum their reward from parts."""


class MiniWobTask(Task):
    """One page at one seed. The instruction is known after `setup`, because the page draws it.

    Args:
        name: Name of the page, `click-button`.
        seed: Random seed of the page.
        env_options: Options of the env `miniwob`.

    Raises:
        ValueError: If the page or the seed is invalid.
    """

    def __init__(self, name: str, seed: int | None, env_options: Mapping[str, Any] | None = None) -> None:
        if name not in FAMILY_OF:
            raise ValueError(f"MiniWoB++ has no page {name!r}{did_you_mean(name, FAMILY_OF)}")
        if seed is None:
            raise ValueError(f"the page {name!r} is drawn at random and needs a seed, a whole number")
        marks = {"graded": name in GRADED, "nondeterministic": name in NONDETERMINISTIC}
        self.name = name
        self.instruction = f"MiniWoB++ {name}, seed {seed}: the page says what is to be done"
        self.spec = TaskSpec(
            id=f"{PREFIX}{name}",
            seed=seed,
            env=EnvSpec(name="miniwob", options=env_options or {}),
            metadata={FAMILY: FAMILY_OF[name]} | {mark: True for mark, is_set in marks.items() if is_set},
        )
        self._seed = seed

    async def setup(self, env: Any) -> None:
        """Make the page draw its problem, and use the page's instruction from then on."""
        self.instruction = await env.start(self.name, self._seed)

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Return the page's verdict; 0 if it has given none."""
        return TaskVerdict(score_of(self.name, env.raw_reward))


def score_of(name: str, raw_reward: float | None) -> float:
    """Return the score of a page's raw reward; None means no reward."""
    if raw_reward is None:
        return 0.0
    if name in GRADED:
        return min(max(float(raw_reward), 0.0), 1.0)
    return 1.0 if raw_reward >= NEAR_ENOUGH.get(name, 1.0) - _ROUNDING else 0.0


def make_suite(*, first_seed: int = 0, **env_options: object) -> Suite:
    """Make all tasks, with these environment options.

    Args:
        first_seed: First of five consecutive seeds; use seeds that were not seen during development.
        env_options: Options of the env `miniwob`.

    Raises:
        EnvSetupError: If the pages are not installed.
        ValueError: If the environment does not have an option.
    """
    get_pages()
    if isinstance(first_seed, bool) or not isinstance(first_seed, int) or first_seed < 0:
        raise ValueError(f"first_seed is {first_seed!r}, expected a whole number from 0")
    MiniWobOptions.parse(env_options).for_browser()

    def make_task(task_id: str, seed: int | None) -> MiniWobTask:
        if not task_id.startswith(PREFIX):
            raise ValueError(f"the suite miniwob has no task {task_id!r}; expected one such as 'miniwob/click-button'")
        return MiniWobTask(task_id.removeprefix(PREFIX), seed, env_options)

    return Suite(
        name="miniwob",
        about=f"MiniWoB++ {VERSION}: 125 small pages, each with an instruction drawn at random",
        task_ids=tuple(f"{PREFIX}{name}" for name in FAMILY_OF),
        make_task=make_task,
        seeds=tuple(range(first_seed, first_seed + 5)),
        revision=f"miniwob {VERSION}",
        max_steps=50,
        max_time_s=300.0,
        baselines=BASELINES,
    )
