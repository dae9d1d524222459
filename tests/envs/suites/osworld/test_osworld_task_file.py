"""OSWorld's task files: all that come with the package, and damaged ones."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from envs import EnvSetupError
from envs.registry import load_suite
from envs.suites.osworld.task_file import DOMAINS, OsworldTaskData, parse_task

TASK: dict[str, Any] = {
    "id": "a-task",
    "instruction": "Do it.",
    "config": [{"type": "launch", "parameters": {"command": "xterm"}}],
    "evaluator": {"func": "exact_match", "result": {"type": "vm_file"}, "expected": {"type": "rule"}},
}


@pytest.fixture(scope="module")
def data() -> OsworldTaskData:
    return OsworldTaskData()


def test_every_task_is_read(data: OsworldTaskData) -> None:
    tasks = [data.task(key) for key in data.keys("all")]
    assert len(tasks) == 369
    assert {task.domain for task in tasks} == set(DOMAINS)
    steps = Counter(step.kind for task in tasks for step in task.setup)
    assert (steps["download"], steps["launch"], steps["open"], steps["execute"]) == (278, 274, 156, 154)
    functions = Counter(metric.function for task in tasks for metric in task.metrics)
    assert (functions["compare_table"], functions["infeasible"], len(functions)) == (62, 29, 111)
    assert Counter(len(task.metrics) for task in tasks) == {1: 318, 2: 39, 3: 8, 4: 2, 5: 2}
    assert sum(task.conjunction == "or" for task in tasks) == 25
    assert sum(task.needs_proxy for task in tasks) == 52
    assert sum(task.needs_account for task in tasks) == 8


def test_lists(data: OsworldTaskData) -> None:
    sizes = {name: len(data.keys(name)) for name in ("all", "nogdrive", "small", "infeasible")}
    assert sizes == {"all": 369, "nogdrive": 361, "small": 39, "infeasible": 29}
    assert len(data.keys("all", ["os", "vlc"])) == 24 + 17
    with pytest.raises(EnvSetupError, match=r"no list 'smal'.*small"):
        data.keys("smal")
    with pytest.raises(EnvSetupError, match=r"no domain 'vscode'.*vs_code"):
        data.keys("all", ["vscode"])


def test_a_list_of_ones_own(data: OsworldTaskData, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    first = data.keys()[0]
    mine.write_text(json.dumps({first.split("/")[0]: [first.split("/")[1]]}))
    assert data.keys(str(mine)) == (first,)
    mine.write_text(json.dumps({"os": ["not-there"]}))
    with pytest.raises(EnvSetupError, match="names os/not-there"):
        data.keys(str(mine))


def test_a_beginning_names_a_task(data: OsworldTaskData) -> None:
    assert data.task("os/13584542").id == "13584542-872b-42d8-b299-866967b5c3ef"
    with pytest.raises(EnvSetupError, match="there are 24 tasks"):
        data.task("os/")
    with pytest.raises(EnvSetupError, match=r"no task of OSWorld with 'os/none'"):
        data.task("os/none")


def test_a_folder_reads_like_the_archive_and_names_the_same_revision(data: OsworldTaskData, tmp_path: Path) -> None:
    import zipfile

    from envs.suites.osworld.task_file import DATA

    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path)
    other = OsworldTaskData(tmp_path)
    assert (other.revision, set(other.keys())) == (data.revision, set(data.keys()))
    (tmp_path / "examples" / "os" / "more.json").write_text(json.dumps(TASK))
    assert OsworldTaskData(tmp_path).revision != data.revision


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"instruction": None}, "instruction is missing"),
        ({"instruction": " "}, "instruction is blank"),
        ({"config": {}}, "config is a dict, expected a list"),
        ({"config": ["launch"]}, "step 1 is str, expected an object"),
        ({"config": [{"parameters": {}}]}, "step 1: type is missing"),
        ({"evaluator": None}, "evaluator is missing"),
        ({"evaluator": {"func": None}}, "func is missing"),
        ({"evaluator": {"func": []}}, "func is an empty list"),
        ({"evaluator": {"func": ["a", "b"], "result": [{}]}}, "result has 1 entries for 2 functions"),
        ({"evaluator": {"func": "a", "result": {}, "conj": "xor"}}, "conj is 'xor'"),
    ],
)
def test_damage_is_told(change: dict[str, Any], told: str) -> None:
    with pytest.raises(EnvSetupError, match=told):
        parse_task("os", TASK | change, "a-task.json")


GOOD = json.dumps(TASK).encode()
DAMAGED: dict[str, tuple[bytes, str]] = {
    "broken": (b'{"id": "a', "is not valid JSON"),
    "empty": (b"", "is not valid JSON"),
    "latin": (GOOD.replace(b"Do it", b"D\xf6 it"), "is not valid JSON"),
    "nested": (b"[" * 100_000, "is not valid JSON"),
    "list": (b"[]", "is list, expected an object"),
    "bare": (b"{}", "id is missing"),
    "outside": (GOOD.replace(b"a-task", b"../../a"), "id is '../../a', expected letters"),
    "below": (GOOD.replace(b"a-task", b"a/b"), "id is 'a/b', expected letters"),
    "windows": (GOOD.replace(b"a-task", b"a\\\\b"), "expected letters"),
    "number": (GOOD.replace(b'"Do it."', b"5"), "instruction is int, expected a text"),
    "kind": (GOOD.replace(b'"vm_file"', b'["vm_file"]'), "type of a result is list, expected a text"),
    "large": (b" " * (100 * 2**20), "has 104857600 bytes, expected at most 1048576"),
}


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_damaged_file_is_an_error_of_its_task_alone(tmp_path: Path, is_zip: bool) -> None:
    folder = tmp_path / "examples" / "os"
    folder.mkdir(parents=True)
    for name, content in {"good": GOOD, **{name: content for name, (content, _) in DAMAGED.items()}}.items():
        (folder / f"{name}.json").write_bytes(content)
    told = {name: why for name, (_, why) in DAMAGED.items()} | {
        "absent": "there is no task of OSWorld with 'os/absent'"
    }
    path = tmp_path
    if is_zip:
        path = Path(shutil.make_archive(str(tmp_path / "data"), "zip", tmp_path, "examples"))
    else:
        (folder / "folder.json").mkdir()
        os.mkfifo(folder / "pipe.json")
        (folder / "gone.json").symlink_to("nowhere")
        told |= {"folder": "is a folder", "pipe": "is a device or pipe", "gone": "cannot be read: No such file"}
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"os": ["good", *told]}))
    suite = load_suite("osworld", data=str(path), list=str(mine))
    assert suite.task_ids == tuple(f"osworld/os/{name}" for name in ("good", *told))
    assert suite.find_unavailable(suite.task_ids) == {}
    assert suite.make_task("osworld/os/good", None).instruction == "Do it."
    for name, why in told.items():
        with pytest.raises(EnvSetupError, match=why) as raised:
            suite.make_task(f"osworld/os/{name}", None)
        assert name in str(raised.value)
    assert len(load_suite("osworld", data=str(path), list="all").task_ids) == len(told)


def test_a_damaged_list_is_told(tmp_path: Path) -> None:
    (tmp_path / "examples" / "os").mkdir(parents=True)
    (tmp_path / "examples" / "os" / "good.json").write_bytes(GOOD)
    for content, told in ((b'{"os": "good"}', "os is str"), (b'{"os": [1]}', "os is int"), (b"{", "is not valid JSON")):
        (tmp_path / "test_all.json").write_bytes(content)
        with pytest.raises(EnvSetupError, match=f"test_all.json.*{told}"):
            OsworldTaskData(tmp_path).keys("all")


def test_what_may_be_left_out() -> None:
    task = parse_task("os", {**TASK, "config": None, "evaluator": {"func": "infeasible", "options": None}}, "x")
    assert (task.setup, task.postconfig, task.is_infeasible) == ((), (), True)
    assert task.metrics[0].expected is None


def test_options_that_are_null_and_a_config_that_is_missing() -> None:
    evaluator = {"func": ["a", "b"], "result": [{}, {}], "options": [None, {"x": 1}]}
    task = parse_task(
        "os", {name: value for name, value in TASK.items() if name != "config"} | {"evaluator": evaluator}, "x"
    )
    assert (task.setup, [dict(metric.options) for metric in task.metrics]) == ((), [{}, {"x": 1}])
    null = parse_task("os", {**TASK, "evaluator": {**TASK["evaluator"], "options": None}}, "x")
    assert [dict(metric.options) for metric in null.metrics] == [{}]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip"])
def test_an_archive_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.zip").write_bytes(content)
    with pytest.raises(EnvSetupError, match="cannot be read"):
        OsworldTaskData(tmp_path / "data.zip")


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(EnvSetupError, match="no folder"):
        OsworldTaskData(tmp_path / "none")
    with pytest.raises(EnvSetupError, match="has no task files"):
        OsworldTaskData(tmp_path)
