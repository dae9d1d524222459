"""Runs in ATIF: every call has its result, every image is there, and nothing leads out of the folder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter, load_run
from cua.trajectory.atif_export import VERSION, export_atif, to_atif
from tests.cua.trajectory import samples

RECORDS = Path(__file__).parent / "records"
STEP_KEYS = {
    *("step_id", "timestamp", "source", "model_name", "message", "reasoning_content"),
    *("tool_calls", "observation", "metrics"),
}


def images_of(content: Any) -> list[str]:
    return [part["source"]["path"] for part in content if part["type"] == "image"] if isinstance(content, list) else []


def check_shape(file: Path) -> dict[str, Any]:
    """The rules of the format that its own models enforce."""
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    assert found["schema_version"] == VERSION
    assert found["agent"].keys() <= {"name", "version", "model_name", "extra"}
    assert [step["step_id"] for step in found["steps"]] == list(range(1, len(found["steps"]) + 1))
    for step in found["steps"]:
        assert step.keys() <= STEP_KEYS
        assert {"source", "message"} <= step.keys()
        if step["source"] != "agent":
            assert not step.keys() & {"model_name", "reasoning_content", "tool_calls", "metrics"}
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        results = step.get("observation", {}).get("results", ())
        assert {result["source_call_id"] for result in results} == calls
        for path in [*images_of(step["message"]), *(path for one in results for path in images_of(one["content"]))]:
            assert (file.parent / path).read_bytes().startswith(b"\x89PNG")
    return found


@pytest.mark.parametrize("kind", ["task", "ask"])
@pytest.mark.parametrize("copy_images", [True, False])
def test_a_run_of_either_kind(tmp_path: Path, kind: str, copy_images: bool) -> None:
    record = load_run(RECORDS / kind, images=None if kind == "ask" else 0)
    found = check_shape(export_atif(record, tmp_path / "out" / "trajectory.json", copy_images=copy_images))
    assert [step["source"] for step in found["steps"]] == ["user", *["agent"] * record.num_steps]
    assert found["final_metrics"]["total_steps"] == record.num_steps + 1
    assert record.end is not None
    assert found["extra"]["end"]["status"] == record.end.status
    assert (tmp_path / "out" / "images").is_dir() is copy_images


def test_steps_that_failed_and_a_run_without_an_end(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path / "runs", samples.HEADER) as writer:
        samples.write_step(writer, samples.make_step(1, error="refused by a rule"))
        samples.write_step(writer, samples.make_step(2))
    found = check_shape(export_atif(load_run(writer.run_dir), tmp_path / "trajectory.json"))
    texts = [step["observation"]["results"][0]["content"][0]["text"] for step in found["steps"][1:]]
    assert texts == ["error: refused by a rule", "carried out"]
    assert found["steps"][1]["tool_calls"][0]["arguments"] == {"code": samples.make_step(1).turn.code}
    assert found["extra"]["end"] == "interrupted"


def test_an_image_is_a_hash(tmp_path: Path) -> None:
    record = load_run(RECORDS / "task", images=0)
    strange = replace(record, images={1: "../../../etc/passwd"})
    for copy_images in (True, False):
        with pytest.raises(TrajectoryError, match="which is not a hash"):
            export_atif(strange, tmp_path / "t.json", copy_images=copy_images)
    assert list(tmp_path.iterdir()) == []
    assert to_atif(replace(record, images={}), str)["steps"][0]["message"] == record.header.instruction
