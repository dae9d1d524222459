"""Suite `apps`: tasks on real web apps, all on loopback."""

from collections.abc import Mapping, Sequence

from envs.env import Task
from envs.suite import Baseline, Suite
from envs.suites.apps.app import WebApp
from envs.suites.apps.dokuwiki import DokuWiki
from envs.suites.apps.oscar import TASKS as OSCAR_TASKS
from envs.suites.apps.oscar import Oscar
from envs.suites.apps.task import AppTask, AppTaskConfig, Wording
from envs.suites.apps.tasks_cross_site import TASKS as CROSS_SITE_TASKS
from envs.suites.apps.tasks_dokuwiki import TASKS as DOKUWIKI_TASKS
from envs.suites.apps.tasks_tiddlywiki import TASKS as TIDDLYWIKI_TASKS
from envs.suites.apps.tasks_wagtail import TASKS as WAGTAIL_TASKS
from envs.suites.apps.tiddlywiki import TiddlyWiki
from envs.suites.apps.trac import TASKS as TRAC_TASKS
from envs.suites.apps.trac import Trac
from envs.suites.apps.wagtail import Wagtail

APPS: tuple[WebApp, ...] = (TiddlyWiki(), DokuWiki(), Wagtail(), Trac(), Oscar())
"""Apps, in the order of their installation."""
TASKS: tuple[AppTaskConfig, ...] = (
    *TIDDLYWIKI_TASKS,
    *DOKUWIKI_TASKS,
    *WAGTAIL_TASKS,
    *TRAC_TASKS,
    *OSCAR_TASKS,
    *CROSS_SITE_TASKS,
)
REVISION = "2"
_BASELINES: Mapping[str, Baseline] = {
    name: Baseline(score=score, num_episodes=88, command=f"cua eval apps --baseline {name} --parallel 2")
    for name, score in {"null": 0.0, "fail": 6 / 88, "random": 0.0}.items()
}
"""Baseline scores. Reporting failure at once is right only for the six impossible tasks."""


def find_missing(sites: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the missing apps of tasks by task id, in one clause.

    Args:
        sites: Names of the apps that each task needs, by task id.
    """
    missing = {app.name: why for app in APPS if (why := app.why_missing()) is not None}
    lacks = {id: [f"{name} ({missing[name]})" for name in names if name in missing] for id, names in sites.items()}
    return {id: f"needs {' and '.join(apps)}; install with: cua setup apps" for id, apps in lacks.items() if apps}


def make_suite(wording: Wording = "goal") -> Suite:
    """Make all tasks.

    Args:
        wording: `goal` for the instruction, `steps` for step-by-step instructions.

    Raises:
        ValueError: If the wording is unknown.
    """
    if wording not in ("goal", "steps"):
        raise ValueError(f"wording is {wording!r}, expected 'goal' or 'steps'")
    configs = {config.id: config for config in TASKS}

    def make_task(task_id: str, seed: int | None) -> Task:
        return AppTask(configs[task_id], wording)

    return Suite(
        name="apps",
        about=f"{len(configs)} tasks on {len(APPS)} real web apps; the verdict is the apps' own state",
        task_ids=tuple(configs),
        make_task=make_task,
        find_unavailable=lambda task_ids: find_missing({id: configs[id].sites for id in task_ids}),
        revision=f"{REVISION}-{wording}",
        steps_option="wording=steps" if wording == "goal" else "",
        max_steps=50,
        max_time_s=600.0,
        baselines=_BASELINES,
    )
