"""Suite `webarena-lite`: tasks in WebArena's own format on substitutes for its sites that run on any machine.

The substitutes are the apps of the suite `apps`: django-oscar for the shop and its back office, Trac for the forge,
DokuWiki for the encyclopedia, and Wagtail. Each task is scored like WebArena, from answer, address and pages, and also
from the apps' databases: `other_scores["databases"]`. The key `stand_in` of a config is not part of WebArena's format:

    family      information, navigation, content, configuration or impossible
    steps       the intent as plain steps
    changes     required changes in the databases, by path: a value, or {"includes": TEXT}; others are not allowed
    tells       paths in the databases whose values the answer must contain
    values      other values that the task was made from
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.errors import EnvDiedError
from envs.json_fields import as_mapping, as_text, as_texts, load_json
from envs.suite import FAMILY, LABELS, Baseline, Suite
from envs.suites.apps.app import Facts
from envs.suites.apps.env import AppsEnv
from envs.suites.apps.suite import find_missing
from envs.suites.apps.task import IMPOSSIBLE, Wording, find_changes, has
from envs.suites.webarena.scoring import clean
from envs.suites.webarena.task_config import NOT_ACHIEVABLE, TaskConfig, fill, parse_config
from envs.suites.webarena.verdict import Evidence, Grader

PREFIX = "webarena-lite/"
DATABASES = "databases"
"""Name of the score from the databases."""
STAND_INS = {
    "shop": ("oscar", "http://oscar.localhost"),
    "shop_admin": ("oscar", "http://oscar.localhost/dashboard"),
    "forge": ("trac", "http://trac.localhost"),
    "wiki": ("dokuwiki", "http://dokuwiki.localhost"),
    "cms": ("wagtail", "http://wagtail.localhost"),
}
"""App and placeholder, such as `__SHOP__`, by site."""
REVISION = "2"
BASELINES = {
    name: Baseline(score=score, num_episodes=101, command=f"cua eval webarena-lite --baseline {name} --parallel 2")
    for name, score in {"null": 0.0, "fail": 8 / 101, "random": 0.0}.items()
}
"""Baseline scores. Reporting failure is right for the eight impossible tasks."""
_DATA = Path(__file__).with_name("data") / "webarena_lite.json"
_WAIT_S = 0.1
"""Wait for a page that is opened for the verdict; these pages are complete when they load."""


class _StrictJudge:
    """Judge that accepts no reason: an impossible task is answered by N/A, or by reporting failure."""

    async def ask(self, system: str, question: str) -> str:
        return "different"


class LiteTask(Task):
    """Task on an `AppsEnv`.

    Args:
        content: Config of the task, with placeholders filled in.
        wording: `goal` for the intent, `steps` for step-by-step instructions.
    """

    def __init__(self, content: Mapping[str, Any], wording: Wording = "goal") -> None:
        self.config: TaskConfig = parse_config(content, "a task of webarena-lite")
        task_name = f"task {self.config.id} of webarena-lite"
        self._own = as_mapping(content.get("stand_in"), f"{task_name}: stand_in")
        self.family = as_text(self._own.get("family"), f"{task_name}: family")
        self.sites = tuple(dict.fromkeys(STAND_INS[name][0] for name in self.config.sites))
        steps = as_text(self._own.get("steps"), f"{task_name}: steps")
        self.instruction = self.config.intent if wording == "goal" else steps
        self.spec = TaskSpec(
            id=f"{PREFIX}{self.config.id}",
            env=EnvSpec(name="apps"),
            metadata={
                FAMILY: self.family,
                LABELS: {
                    "site": "+".join(sorted(self.config.sites)),
                    "template": str(self.config.template_id),
                    "evaluation": "+".join(self.config.eval_types),
                },
                "sites": list(self.config.sites),
                "template": self.config.template_id,
                "eval_types": list(self.config.eval_types),
                "wording": wording,
            },
        )
        self._changes = as_mapping(self._own.get("changes", {}), f"{task_name}: changes")
        self._tells = as_texts(self._own.get("tells", []), f"{task_name}: tells")
        self._grader = Grader(judge=_StrictJudge(), wait_s=_WAIT_S)
        self._before: Facts = {}

    async def setup(self, env: AppsEnv) -> None:
        """Sign in and open the start page."""
        self._before = await env.facts()
        await env.sign_in()
        await env.goto(self.config.start_urls[0])

    async def evaluate(self, env: AppsEnv) -> TaskVerdict:
        """Return 1 or 0, scored like WebArena.

        Other scores: `databases`, from the state of the apps, unless the task only opens a page.

        Raises:
            EnvDiedError: If the browser or an app is gone.
        """
        from playwright.async_api import Error

        claim = env.terminate
        answer = claim.answer if claim is not None else None
        if claim is not None and claim.status == "failure" and (not answer or self.config.answers.is_not_achievable):
            answer = NOT_ACHIEVABLE  # with a free-text reason, or without one
        after = await env.facts()
        other_scores = self._ask_databases(answer, after)
        page = env.page
        try:
            score = await self._grader.score(self.config, Evidence(answer=answer, page=page))
            await env.show(page)  # pages that were opened for the verdict became the active ones
        except Error as error:
            raise EnvDiedError(f"the browser gave no verdict: {str(error).splitlines()[0]}") from error
        return TaskVerdict(score, other_scores=other_scores)

    def _ask_databases(self, answer: str | None, after: Facts) -> dict[str, float]:
        """Return the score from the apps' state; empty for tasks that it cannot score."""
        changed = find_changes(self._before, after)
        is_right = changed.keys() == self._changes.keys() and all(
            _is_value(wanted, changed[path]) for path, wanted in self._changes.items()
        )
        if self._tells:
            is_right = is_right and answer is not None and has(*(str(after.get(path)) for path in self._tells))(answer)
        elif self.family == IMPOSSIBLE:
            is_right = is_right and clean(answer or "") == clean(NOT_ACHIEVABLE)
        elif not self._changes:
            return {}
        return {DATABASES: float(is_right)}


def _is_value(wanted: object, value: object) -> bool:
    if isinstance(wanted, Mapping):
        return has(str(wanted["includes"]))(value)
    return wanted == value


@cache
def load_configs() -> Mapping[int, Mapping[str, Any]]:
    """Return all configs by task id, with placeholders filled in.

    Raises:
        EnvSetupError: If the file is damaged.
    """
    content = load_json(_DATA.read_bytes(), str(_DATA))
    filled = fill(content, {name: url for name, (_, url) in STAND_INS.items()})
    return {task["task_id"]: task for task in filled}


def make_suite(wording: Wording = "goal") -> Suite:
    """Make all tasks.

    Args:
        wording: `goal` for the intent, `steps` for step-by-step instructions.

    Raises:
        ValueError: If the wording is unknown.
    """
    if wording not in ("goal", "steps"):
        raise ValueError(f"wording is {wording!r}, expected 'goal' or 'steps'")
    configs = load_configs()

    def make_task(task_id: str, seed: int | None) -> LiteTask:
        number = task_id.removeprefix(PREFIX)
        if not number.isdecimal() or int(number) not in configs:
            raise ValueError(f"the suite webarena-lite has no task {task_id!r}; expected one such as 'webarena-lite/0'")
        return LiteTask(configs[int(number)], wording)

    def look(task_ids: Sequence[str]) -> dict[str, str]:
        return find_missing({id: make_task(id, None).sites for id in task_ids})

    return Suite(
        name="webarena-lite",
        about=f"{len(configs)} tasks in WebArena's form on stand-ins for its sites",
        task_ids=tuple(f"{PREFIX}{id}" for id in configs),
        make_task=make_task,
        find_unavailable=look,
        revision=f"{REVISION}-{wording}",
        steps_option="wording=steps" if wording == "goal" else "",
        baselines=BASELINES,
        cluster_by="template",
        max_steps=30,
        max_time_s=600.0,
    )
