"""The suite of web apps as a whole: its list, its two wordings, its verdicts on paper."""

import pytest

from envs import EnvSetupError
from envs.check_suite import check_suite
from envs.registry import load_suite
from envs.suites.apps import AppTaskConfig, has
from envs.suites.apps.suite import APPS, TASKS
from envs.suites.apps.task import CROSS_SITE, IMPOSSIBLE, find_changes
from tests.envs.suites.apps.proving import skip_unless_installed


def test_every_task_says_what_it_is() -> None:
    suite = load_suite("apps")
    assert suite.task_ids == tuple(config.id for config in TASKS)
    for config in TASKS:
        assert set(config.sites) <= {app.name for app in APPS}
        assert (len(config.sites) > 1) == config.id.startswith("cross-site/")
        assert (config.family == CROSS_SITE) == (len(config.sites) > 1 and config.is_possible)
        assert (config.family == IMPOSSIBLE) == (not config.is_possible)
        if len(config.sites) == 1:
            assert config.id.startswith(f"{config.sites[0]}/")
        spec = suite.make_task(config.id, None).spec
        assert spec.env is not None and (spec.id, spec.env.name, spec.env.options) == (config.id, "apps", {})
        assert {"family", "difficulty", "human_steps", "sites", "wording"} == spec.metadata.keys()


def test_the_wordings_differ_and_so_do_their_revisions() -> None:
    goal, steps = load_suite("apps"), load_suite("apps", wording="steps")
    assert goal.task_ids == steps.task_ids and goal.revision != steps.revision
    same = [
        name
        for name in goal.task_ids
        if goal.make_task(name, None).instruction == steps.make_task(name, None).instruction
    ]
    assert same == []
    with pytest.raises(EnvSetupError, match="expected 'goal' or 'steps'"):
        load_suite("apps", wording="poem")


def _config(**values: object) -> AppTaskConfig:
    given = {"id": "a/b", "instruction": "x", "steps": "y", "sites": ("a",), "family": "edit", "difficulty": 1}
    return AppTaskConfig(**{**given, "human_steps": 1, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "after", "is_right"),
    [
        ({"a/x": 2}, {"a/x": 2, "a/y": 1}, True),
        ({"a/x": 2}, {"a/x": 3, "a/y": 1}, False),
        ({"a/x": 2}, {"a/x": 2, "a/y": 9}, False),
        ({"a/x": 2}, {"a/x": 2, "a/y": 1, "a/z": 1}, False),
        ({"a/x": None}, {"a/y": 1}, True),
        ({"a/x": None}, {}, False),
        ({"a/x": has("Butter", "milk")}, {"a/x": "milk, butter", "a/y": 1}, True),
        ({"a/x": has("butter")}, {"a/x": 7, "a/y": 1}, False),
        (({"a/x": 2}, {"a/y": 2}), {"a/x": 1, "a/y": 2}, True),
    ],
)
def test_all_changes_count_and_no_others(changes: object, after: dict[str, object], is_right: bool) -> None:
    before = {"a/x": 1, "a/y": 1}
    assert _config(changes=changes).is_right(before, after) is is_right


def test_changes_are_what_is_new_other_or_gone() -> None:
    assert find_changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "d": 4}) == {"b": 3, "c": None, "d": 4}


def test_a_task_without_anything_to_do_is_refused() -> None:
    with pytest.raises(ValueError, match="'a/b' has nothing to do"):
        _config()


@pytest.mark.browser
@pytest.mark.slow
async def test_check_suite_finds_nothing() -> None:
    skip_unless_installed("tiddlywiki")
    ids = [config.id for config in TASKS if config.sites == ("tiddlywiki",)]
    await check_suite(lambda: load_suite("apps"), task_ids=ids[:2] + ids[-1:])
