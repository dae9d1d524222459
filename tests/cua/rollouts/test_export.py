"""Rows for other trainers have exactly their fields, and mismatch has the values that were computed by hand."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict

from cua.rollouts.export import FORMS, export_rows, read_rollouts
from cua.rollouts.journal import RolloutJournal
from cua.rollouts.mismatch import measure_mismatch
from cua.rollouts.rollout import RolloutEnd
from cua.rollouts.samples import SampledRollout, SampleError, SampleWriter
from tests.cua.rollouts.test_samples import IMAGE, KEPT, MEDIA, keep, make_rollout, make_sample


class VerlRow(BaseModel):
    """`AgentLoopOutput` as of commit 0003ed8, with the `routed_experts` of later ones (1dda039)."""

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float] | None = None
    routed_experts: Any = None
    multi_modal_data: dict[str, Any] | None = None
    reward_score: float | None = None
    num_turns: int = 0
    metrics: dict[str, float]
    extra_fields: dict[str, Any] = {}


SLIME_FIELDS = {
    *("group_index", "index", "prompt", "tokens", "multimodal_inputs", "multimodal_train_inputs", "response"),
    *("response_length", "label", "reward", "loss_mask", "weight_versions", "rollout_log_probs"),
    *("rollout_routed_experts", "remove_sample", "teacher_log_probs", "mopd_teacher_log_probs", "status", "metadata"),
    *("generate_function_path", "train_metadata", "session_id", "non_generation_time", "spec_info"),
    "prefix_cache_info",
}
"""Fields of `Sample` as of commit 0d234f3; other keys become attributes in `Sample.from_dict`."""
SLIME_STATUSES = {"pending", "completed", "truncated", "aborted", "failed"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two rollouts of one group, the second with two branches, and an excluded one."""
    writer = SampleWriter(tmp_path, media_token_id=MEDIA)
    writer.append(make_rollout(writer, make_sample()))
    writer.append(
        make_rollout(
            writer,
            make_sample(weight=0.25, is_truncated=True, routes=None, media=make_sample().media),
            make_sample(weight=0.75).without_loss(),
            rollout="g/1",
            reward=1.0,
        )
    )
    writer.append(make_rollout(writer, make_sample(), rollout="h/0", group="h", reward=None))
    writer.close()
    return tmp_path


def test_verl_rows_validate_and_split_at_the_first_prompt(folder: Path) -> None:
    rows = list(export_rows(folder, "verl"))
    assert len(rows) == 3
    for row in rows:
        checked = VerlRow.model_validate(row)
        assert len(checked.response_ids) == len(checked.response_mask) == len(checked.response_logprobs or []) == 4
        assert checked.multi_modal_data == {"images": [IMAGE]}
        pairs = zip(checked.response_mask, checked.response_logprobs or [], strict=True)
        assert all(logprob == 0.0 for mask, logprob in pairs if not mask)
    first = rows[0]
    assert first["prompt_ids"] == [5, MEDIA, MEDIA, 6]
    assert (first["response_mask"], first["response_logprobs"]) == ([1, 1, 0, 1], [-0.5, -1.25, 0.0, -3.0])
    assert first["routed_experts"].shape == (8, 2, 3)
    assert "routed_experts" not in rows[1]
    assert first["extra_fields"]["spans"] == [(0, 2, 3, 1.0, 1.0), (3, 4, 4, 1.0, 1.0)]


def test_slime_rows_have_its_fields_and_siblings_share_the_reward(folder: Path) -> None:
    rows = list(export_rows(folder, "slime"))
    assert all(set(row) - SLIME_FIELDS == {"rollout_id"} for row in rows)
    assert {row["status"] for row in rows} == {"completed", "truncated"} <= SLIME_STATUSES
    assert [row["group_index"] for row in rows] == [0, 0, 0]
    assert [row["rollout_id"] for row in rows] == [0, 1, 1]
    assert [row["reward"] for row in rows] == [0.5, 0.25, 0.75]
    assert [row["remove_sample"] for row in rows] == [False, False, True]
    for row in rows:
        assert row["response_length"] == len(row["loss_mask"]) == len(row["rollout_log_probs"]) == 4
        assert len(row["tokens"]) == 8
    assert rows[0]["weight_versions"] == ["3", "4"]


def test_kept_sets_go_to_trainers_that_replay_them(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path, media_token_id=MEDIA)
    writer.append(make_rollout(writer, make_sample(kept=KEPT)))
    writer.append(make_rollout(writer, make_sample(kept=keep([0, 0, 0, 0, 0, 1, 0, 0], [8])), rollout="g/1"))
    writer.close()
    filtered, ruled = export_rows(tmp_path, "slime")
    assert set(filtered) - set(ruled) == {"rollout_top_p_token_ids", "rollout_top_p_token_offsets"}
    ids, offsets = filtered["rollout_top_p_token_ids"], filtered["rollout_top_p_token_offsets"]
    sets = [ids[start:end] for start, end in pairwise(offsets)]
    assert sets == [[5, 70_000], [8], [9], [7, 9, 163_839]]  # the third is not trained: it has itself
    assert [row["kept"] for row in export_rows(tmp_path, "jsonl")] == [
        [[0, 0, 0, 0, 2, 1, 0, 3], [5, 70_000, 8, 7, 9, 163_839]],
        [[0, 0, 0, 0, 0, 1, 0, 0], [8]],
    ]
    with pytest.raises(SampleError, match="kept sets, which verl does not take"):
        next(export_rows(tmp_path, "verl"))


def test_json_lines_are_json(folder: Path) -> None:
    rows = [json.loads(json.dumps(row)) for row in export_rows(folder, "jsonl")]
    assert [(row["rollout"], row["weight"]) for row in rows] == [("g/0", 1.0), ("g/1", 0.25), ("g/1", 0.75)]
    assert rows[0]["mask"] == [0, 0, 0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_an_image_that_is_gone_stops_the_export_where_the_trainer_needs_it(folder: Path, form: str) -> None:
    for path in (folder / "blobs").iterdir():
        if path.read_bytes() == IMAGE:
            path.write_bytes(b"black")
    if form == "jsonl":  # names it only
        assert len(list(export_rows(folder, form))) == 3
    else:
        with pytest.raises(SampleError, match="damaged"):
            list(export_rows(folder, form))


def test_an_unknown_form_is_named(folder: Path) -> None:
    with pytest.raises(SampleError, match="expected jsonl, verl, slime"):
        next(export_rows(folder, "parquet"))


async def test_only_the_attempt_that_ended_counts(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path, media_token_id=MEDIA)
    rollouts: list[SampledRollout] = []
    for attempt in (1, 2):
        rollouts.append(make_rollout(writer, make_sample(), attempt=attempt))
        writer.append(rollouts[-1])
    writer.append(replace(rollouts[0], rollout="g/1"))  # its process was killed before its end
    writer.close()
    journal = RolloutJournal(tmp_path)
    journal.ended("g/0", RolloutEnd(kind="scored", score=0.5, num_attempts=2))
    await journal.close()
    assert [(item.rollout, item.attempt) for item in read_rollouts(tmp_path)] == [("g/0", 2)]


def test_mismatch_of_the_worked_example() -> None:
    """Values computed by hand for three tokens; a fourth is not trained."""
    found = measure_mismatch(
        np.array([-1.1, -0.7, -1.5, 0.0]), np.array([-1.0, -0.7, -2.0, -9.0]), np.array([True, True, True, False])
    )
    assert found.num_tokens == 3
    assert found.k1 == pytest.approx(0.1333, abs=5e-5)
    assert found.k3 == pytest.approx(0.03723, abs=5e-6)
    assert found.sequence_ratio == pytest.approx(0.6703, abs=5e-5)


def test_mismatch_counts_each_side_and_stays_finite() -> None:
    found = measure_mismatch(
        np.array([-1.0, -1.0, -900.0, -1.0]), np.array([-2.0, -1.0, -1.0, -900.0]), np.ones(4, dtype=bool)
    )
    assert (found.share_below, found.share_above) == (0.5, 0.25)
    assert np.isfinite([found.k1, found.k3, found.sequence_ratio, found.abs_p99]).all()
    same = measure_mismatch(np.full(5, -0.5), np.full(5, -0.5), np.ones(5, dtype=bool))
    assert (same.k1, same.k3, same.sequence_ratio) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("rollout", "mask"), [([0.0, 0.0], [True]), ([-1.0], [False]), ([-np.inf], [True]), ([np.nan], [True])]
)
def test_mismatch_of_nonsense_is_refused(rollout: list[float], mask: list[bool]) -> None:
    with pytest.raises(SampleError):
        measure_mismatch(np.array(rollout), np.full(len(rollout), -1.0), np.array(mask))
