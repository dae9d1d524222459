"""What a task says of itself as data, and what is refused."""

from typing import Any

import pytest

from envs import EnvSpec, InstructionTask, TaskSpec, spec_of
from envs.env import MAX_METADATA_BYTES


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
    class Bare:
        instruction = "Click Save"

    assert spec_of(Bare()) == TaskSpec() == spec_of(InstructionTask(instruction="Click Save"))


def test_a_spec_of_another_kind_is_a_mistake() -> None:
    class Wrong:
        instruction = "Click Save"
        spec = {"id": "x"}  # noqa: RUF012 - as a user may write it

    with pytest.raises(TypeError, match="a TaskSpec, got dict"):
        spec_of(Wrong())
