"""WebArena's configs: all of them are read, placeholders filled, corrections laid over, damaged ones told."""

import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from envs.errors import EnvSetupError
from envs.suites.webarena.page_checks import parse_call
from envs.suites.webarena.task_config import SITES, Correction, TaskData, check_sites, fill, parse_config

HOSTS = {site: f"http://{site}.test" for site in SITES}


@pytest.fixture(scope="module")
def data() -> TaskData:
    return TaskData()


def test_all_812_are_read(data: TaskData) -> None:
    configs = [data.task(id, HOSTS) for id in data.ids]
    assert [config.id for config in configs] == list(range(812)) and data.revision == "7b50386fd691"
    types = Counter(config.eval_types for config in configs)
    assert types == {
        ("string_match",): 325,
        ("program_html",): 282,
        ("url_match", "program_html"): 129,
        ("url_match",): 66,
        ("string_match", "url_match"): 10,
    }
    assert Counter(len(config.sites) for config in configs) == {1: 764, 2: 48}
    assert [config.id for config in configs if len(config.start_urls) > 1] == [431, 432, 433, 434, 435]
    assert len({config.template_id for config in configs}) == 190
    states = Counter("+".join(config.logins) for config in configs)
    assert states == {
        "shopping_admin": 182,
        "shopping": 187,
        "reddit": 111,
        "gitlab": 186,
        "gitlab+reddit": 18,
        "": 128,
    }
    checks = [check for config in configs for check in config.page_checks]
    assert (len(checks), sum(not check.locator for check in checks)) == (651, 105)
    assert not any("__" in url.replace("__last_url__", "") for check in checks for url in [check.url])
    for check in checks:
        for text in (check.url, check.locator):
            if text.startswith("func:"):
                parse_call(text.removeprefix("func:"))
    assert (len(data.hard_ids()), len(data.verified())) == (258, 812)


def test_addresses_replace_placeholders_everywhere(data: TaskData) -> None:
    assert data.task(0, {"shopping_admin": "http://a.test:7780/admin/"}).start_urls == ("http://a.test:7780/admin",)
    assert data.task(0, {"shopping": "http://b.test"}).start_urls == ("__SHOPPING_ADMIN__",)
    assert data.task(431, HOSTS).start_urls[0].startswith("http://shopping.test/")
    filled = fill({"a": ["__GITLAB__/x", 1, None], "b": "__last_url__ __page__"}, HOSTS)
    assert filled == {"a": ["http://gitlab.test/x", 1, None], "b": "__last_url__ __page__"}


@pytest.mark.parametrize("url", ["", "shop.test", "ftp://shop.test", "http://", "http://shop.test?x=1", 7, None])
def test_an_address_that_is_none(url: Any) -> None:
    with pytest.raises(EnvSetupError, match=r"the address of shopping is .*, expected one such as http://"):
        check_sites({"shopping": url})


def test_an_unknown_site() -> None:
    with pytest.raises(EnvSetupError, match=r"no site 'shoping'.*shopping"):
        check_sites({"shoping": "http://shop.test"})


def test_corrections_lie_over_the_file(data: TaskData) -> None:
    correction = Correction(
        task_id=43,
        fields={
            "eval.reference_answers": {"must_include": ["__SHOPPING__"]},
            "intent": "Name three",
            "geolocation": None,
        },
        reason="r",
        source="s",
    )
    task = data.task(43, HOSTS, [correction])
    assert (task.intent, task.answers.includes) == ("Name three", ("http://shopping.test",))
    assert data.task(43, HOSTS).answers.includes == ("hollister", "Joust Bag", "Antonia Racer Tank")
    assert data.task(44, HOSTS, [correction]) == data.task(44, HOSTS)
    with pytest.raises(EnvSetupError, match=r"names 'eval\.x\.y', which the task does not have"):
        data.task(43, HOSTS, [Correction(task_id=43, fields={"eval.x.y": 1}, reason="r", source="s")])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"task_id": "1"}, "task_id is '1', expected a whole number"),
        ({"intent": None}, "intent is missing, expected a text"),
        ({"sites": "shopping"}, "sites is str, expected a list of texts"),
        ({"eval": []}, "eval is list, expected an object"),
        ({"eval.eval_types": ["string_match", "magic"]}, "eval_types has 'magic'; expected one of string_match"),
        ({"eval.eval_types": []}, "eval_types has empty"),
        ({"eval.reference_answers": None}, "reference_answers is missing"),
        ({"eval.reference_answers": {"like": 1}}, "reference_answers has 'like', which nothing compares"),
        ({"eval.reference_answers": {"must_include": [1]}}, "must_include is int, expected a text"),
        ({"eval.eval_types": ["url_match"], "eval.url_note": "EXACT"}, "the only rule for addresses is 'GOLD in PRED'"),
        ({"eval.eval_types": ["url_match"], "eval.reference_url": None}, "reference_url is missing"),
        ({"eval.eval_types": ["program_html"], "eval.program_html": {}}, "program_html is a dict, expected a list"),
        (
            {"eval.eval_types": ["program_html"], "eval.program_html": [{"url": "last", "required_contents": {}}]},
            "required_contents has neither exact_match nor must_include",
        ),
    ],
)
def test_a_damaged_config_is_told(data: TaskData, changes: dict[str, Any], told: str) -> None:
    raw = json.loads(json.dumps(data.raw(0)))
    for path, value in changes.items():
        *parents, name = path.split(".")
        place = raw
        for parent in parents:
            place = place[parent]
        place[name] = value
    with pytest.raises(EnvSetupError, match=told):
        parse_config(raw)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not valid JSON"),
        ("{}", "holds no list of tasks"),
        ("[]", "holds no list"),
        ("[[]]", "is list, expected an object"),
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "tasks.json").write_text(content, "utf-8")
    with pytest.raises(EnvSetupError, match=told):
        TaskData(tmp_path / "tasks.json")


def test_files_of_ones_own(tmp_path: Path, data: TaskData) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([data.raw(5), data.raw(5)]), "utf-8")
    with pytest.raises(EnvSetupError, match="the task_id 5, missing or there twice"):
        TaskData(file)
    file.write_text(json.dumps([data.raw(5)]), "utf-8")
    mine = TaskData(file)
    assert mine.ids == (5,) and mine.task(5, HOSTS) == data.task(5, HOSTS) and mine.revision != data.revision
    with pytest.raises(EnvSetupError, match="WebArena has no task 6; expected one of 0 to 5"):
        mine.task(6)
    with pytest.raises(EnvSetupError, match=r"is one file and has no webarena-verified\.json"):
        mine.verified()
    with pytest.raises(EnvSetupError, match="cannot be read"):
        TaskData(tmp_path / "none.json")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(EnvSetupError, match="cannot be read"):
        TaskData(tmp_path / "empty.zip")
