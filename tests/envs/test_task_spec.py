"""What a task says of itself as data, and what is refused."""

from typing import Any

import pytest

from envs import EnvSpec, InstructionTask, Task, TaskSpec
from envs.env import MAX_METADATA_BYTES, check_task, evaluate_task
from envs.errors import EvaluationError


def test_a_spec_keeps_a_copy_of_its_own() -> None:
    metadata: dict[str, Any] = {"sites": ("shop", "wiki"), "eval": {"types": ["string_match"]}}
    spec = TaskSpec(id="webarena/42", seed=7, env=EnvSpec(name="browser", options={"url": "x"}), metadata=metadata)
    metadata["eval"]["types"].append("url_match")
    assert spec.metadata == {"sites": ["shop", "wiki"], "eval": {"types": ["string_match"]}}


def test_equal_specs_have_one_key() -> None:
    one = EnvSpec(name="browser", options={"viewport": "800x600", "locale": "de-DE"})
    other = EnvSpec(name="browser", options={"locale": "de-DE", "viewport": "800x600"})
    assert one.key == other.key
    assert one.key != EnvSpec(name="browser").key


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"id": "a\nb"}, "one line"),
        ({"id": "x" * 201}, "at most 200 characters"),
        ({"seed": "1"}, "a whole number"),
        ({"seed": True}, "a whole number"),
        ({"seed": 1.5}, "a whole number"),
        ({"metadata": {"at": object()}}, "must be JSON values"),
        ({"metadata": {"score": float("nan")}}, "must be JSON values"),
        ({"metadata": {"text": "x" * MAX_METADATA_BYTES}}, "at most 65536 are possible"),
        ({"metadata": ["a"]}, "a mapping of names"),
    ],
)
def test_what_no_record_could_hold_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TaskSpec(**fields)


def test_metadata_that_holds_itself_is_refused() -> None:
    metadata: dict[str, Any] = {}
    metadata["self"] = metadata
    with pytest.raises(ValueError, match="must be JSON values"):
        TaskSpec(metadata=metadata)


def test_a_task_may_leave_its_spec_out() -> None:
    class Bare(Task):
        instruction = "Click Save"

    check_task(Bare())
    assert Bare().spec == TaskSpec() == InstructionTask(instruction="Click Save").spec


def test_a_spec_of_another_kind_is_a_mistake() -> None:
    class Wrong(Task):
        instruction = "Click Save"
        spec = {"id": "x"}  # type: ignore[assignment]  # noqa: RUF012 - as a user may write it

    with pytest.raises(TypeError, match="a TaskSpec, got dict"):
        check_task(Wrong())


def test_a_task_of_another_kind_is_refused_with_how_to_write_it() -> None:
    class Chore:
        instruction = "Click Save"

    with pytest.raises(TypeError, match=r"`class Chore\(envs\.Task\)`, and return an envs\.TaskVerdict"):
        check_task(Chore())


@pytest.mark.parametrize(
    ("name", "near"),
    [("evalute", "evaluate"), ("set_up", "setup"), ("why_onse", None), ("warning", "warnings"), ("file", None)],
)
def test_a_member_that_looks_misspelt_is_named(name: str, near: str | None) -> None:
    task = type("Chore", (Task,), {"instruction": "Click Save", name: None, f"_{name}": None})()
    if near is None:
        check_task(task)
    else:
        with pytest.raises(TypeError, match=f"'{name}', which envs.Task does not have; write '{near}'"):
            check_task(task)


async def test_what_is_no_verdict_is_refused() -> None:
    class Chore(Task):
        instruction = "Click Save"

        async def evaluate(self, env: object) -> Any:
            return 1.0

    with pytest.raises(EvaluationError, match=r"evaluate\(\) returned 1.0 \(float\), expected a TaskVerdict"):
        await evaluate_task(Chore(), None)
