"""Samples as the fields that other trainers read, as plain data: JSON lines, verl, slime.

verl: fields of `AgentLoopOutput` (`verl/experimental/agent_loop/agent_loop.py`). slime: fields of `Sample`
(`slime/utils/types.py`). Neither package is imported.
"""

from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np

from cua.json_text import Json
from cua.rollouts.journal import FILE, JournalContent, read_journal
from cua.rollouts.samples import FILE as SAMPLES
from cua.rollouts.samples import RolloutSample, SampledRollout, SampleError, SampleReader


class RunSamples:
    """Iterable of the rollouts of a run that have a reward; attempts that were cut off before their end are left out.

    Args:
        folder: Folder of the run.
        journal: Journal of the run; None: that of the folder, if there is one.

    Raises:
        TrajectoryError: If the journal cannot be read.
    """

    def __init__(self, folder: Path, journal: JournalContent | None = None) -> None:
        self.folder = folder
        if journal is None and (folder / FILE).exists():
            journal = read_journal(folder)
        self._ends = None if journal is None else journal.ends
        self._sampled: set[str] = set()

    def __iter__(self) -> Iterator[SampledRollout]:
        """Yield rollouts in the order of the file.

        Raises:
            SampleError: If the samples cannot be read, or must not be trained on.
        """
        with SampleReader(self.folder) as reader:
            for rollout in reader:
                end = None if self._ends is None else self._ends.get(rollout.rollout)
                counts = self._ends is None or (end is not None and end.num_attempts == rollout.attempt)
                if counts and rollout.reward is not None:
                    self._sampled.add(rollout.rollout)
                    yield rollout

    @property
    def num_missing(self) -> int:
        """Number of rollouts that ended as scored and were not among those yielded."""
        return sum(end.kind == "scored" and id not in self._sampled for id, end in (self._ends or {}).items())

    @property
    def problem(self) -> str:
        """Sentence about the missing samples; "" if there are none."""
        missing = self.num_missing
        return f"{missing} rollouts that ended as scored have no samples in {self.folder / SAMPLES}" if missing else ""


def read_rollouts(folder: Path) -> Iterator[SampledRollout]:
    """Yield the rollouts of `RunSamples`.

    Raises:
        SampleError: If the samples cannot be read, or must not be trained on.
        TrajectoryError: If the journal cannot be read.
    """
    yield from RunSamples(folder)


def export_rows(folder: Path, form: str, samples: RunSamples | None = None) -> Iterator[Json]:
    """Yield a row for each sample of a run.

    Args:
        folder: Folder of the run.
        form: `jsonl`, `verl` or `slime`.
        samples: Samples of the run, whose `problem` is set after the last row; None: those of the folder.

    Raises:
        SampleError: If the form is unknown, or the samples cannot be read.
    """
    if form not in FORMS:
        raise SampleError(f"there is no form {form!r}; expected {', '.join(FORMS)}")
    groups: dict[str, int] = {}
    with SampleReader(folder) as media:
        for number, rollout in enumerate(samples or RunSamples(folder)):
            group = groups.setdefault(rollout.group, len(groups))
            for branch in rollout.branches:
                yield FORMS[form](rollout, branch, group, number, media)


def _jsonl_row(rollout: SampledRollout, sample: RolloutSample, group: int, number: int, media: SampleReader) -> Json:
    return {
        "rollout": rollout.rollout,
        "group": rollout.group,
        "reward": rollout.reward,
        "weight": sample.weight,
        "policy": sample.policy,
        "ids": sample.ids.tolist(),
        "mask": sample.mask.astype(int).tolist(),
        "logprobs": sample.logprobs.tolist(),
        "kept": None if sample.kept is None else [sample.kept.num.tolist(), sample.kept.ids.tolist()],
        "spans": [astuple(span) for span in sample.spans],
        "media": [[item.start, item.length, item.sha256, item.processor] for item in sample.media],
        "prompt_length": sample.prompt_length,
        "num_turns": sample.num_turns,
        "is_truncated": sample.is_truncated,
    }


def _verl_row(rollout: SampledRollout, sample: RolloutSample, group: int, number: int, media: SampleReader) -> Json:
    if _is_filtered(sample):
        raise SampleError(f"{rollout.rollout!r} was sampled with kept sets, which verl does not take; set top_p to 1")
    start = sample.prompt_length
    row: Json = {
        "prompt_ids": sample.ids[:start].tolist(),
        "response_ids": sample.ids[start:].tolist(),
        "response_mask": sample.mask[start:].astype(int).tolist(),
        "response_logprobs": sample.logprobs[start:].tolist(),
        "multi_modal_data": {"images": _images(sample, media)} if sample.media else None,
        "reward_score": rollout.reward,
        "num_turns": sample.num_turns,
        "metrics": {},
        "extra_fields": {
            "spans": [astuple(replace(span, start=span.start - start, end=span.end - start)) for span in sample.spans],
            "group": rollout.group,
            "weight": sample.weight,
        },
    }
    return row if sample.routes is None else {**row, "routed_experts": sample.routes}


def _slime_row(rollout: SampledRollout, sample: RolloutSample, group: int, number: int, media: SampleReader) -> Json:
    start = sample.prompt_length
    reward = 0.0 if rollout.reward is None else rollout.reward
    return {
        "group_index": group,
        "index": number,
        "tokens": sample.ids.tolist(),
        "response_length": len(sample.ids) - start,
        "loss_mask": sample.mask[start:].astype(int).tolist(),
        "rollout_log_probs": sample.logprobs[start:].tolist(),
        **_slime_kept(sample),
        "rollout_routed_experts": sample.routes,
        "weight_versions": [str(span.version) for span in sample.spans],
        "multimodal_inputs": {"images": _images(sample, media)} if sample.media else None,
        "reward": reward * sample.weight,
        "status": "truncated" if sample.is_truncated else "completed",
        "remove_sample": not sample.mask.any(),
        "metadata": {"rollout": rollout.rollout, "group": rollout.group},
        "rollout_id": number,
    }


def _is_filtered(sample: RolloutSample) -> bool:
    """Return True if every trained token has a kept set: a filter leaves one at each, a grammar only at some."""
    return sample.kept is not None and bool(sample.kept.num[sample.mask].all())


def _slime_kept(sample: RolloutSample) -> Json:
    """Return kept sets: `rollout_top_p_token_ids[offsets[i]:offsets[i + 1]]` for token i of the response.

    A token that is not trained has itself, so that its set is not empty.
    """
    if sample.kept is None or not _is_filtered(sample):
        return {}
    num = sample.kept.num[sample.prompt_length :]
    ids = np.insert(sample.kept.ids, (np.cumsum(num) - num)[num == 0], sample.ids[sample.prompt_length :][num == 0])
    offsets = np.cumsum(np.maximum(num, 1))
    return {"rollout_top_p_token_ids": ids.tolist(), "rollout_top_p_token_offsets": [0, *offsets.tolist()]}


def _images(sample: RolloutSample, media: SampleReader) -> list[bytes]:
    return [media.read_media(item.sha256) for item in sample.media]


_Row = Callable[[SampledRollout, RolloutSample, int, int, SampleReader], Json]
FORMS: dict[str, _Row] = {"jsonl": _jsonl_row, "verl": _verl_row, "slime": _slime_row}
"""Functions that make a row, by name of the form."""
