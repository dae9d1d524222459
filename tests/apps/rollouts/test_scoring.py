"""Real samples against the forward pass of the trainer: equal log-probabilities, and images that arrive."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.nano.model import WEIGHTS
from apps.rollouts.scoring import SampleScorer, score_run
from cua.rollouts.export import read_rollouts
from cua.rollouts.journal import read_journal
from cua.rollouts.samples import BLOBS, SampleError, SampleReader

pytestmark = pytest.mark.slow


def test_the_trainer_computes_the_recorded_log_probabilities(run: Path) -> None:
    scorer = SampleScorer(WEIGHTS)
    with SampleReader(run) as reader:
        samples = [sample for rollout in read_rollouts(run) for sample in rollout.branches]
        assert len(samples) >= 4
        for sample in samples:
            assert np.abs(scorer.score(sample, reader.read_media) - sample.logprobs).max() < 1e-4
    journal = read_journal(run)
    assert journal.mismatches[0].k3 < 1e-9
    assert journal.mismatches[0].num_tokens == sum(int(sample.mask.sum()) for sample in samples)


def test_images_that_are_blanked_on_the_way_are_noticed(run: Path, tmp_path: Path) -> None:
    recorded = read_journal(run).image_effect
    assert recorded is not None and recorded > 0.01

    def read_black(sha256: str) -> bytes:
        with Image.open(run / BLOBS / sha256) as image:
            Image.new("RGB", image.size).save(tmp_path / "black.png")
        return (tmp_path / "black.png").read_bytes()

    blanked = score_run(run, WEIGHTS, read_media=read_black)
    assert (blanked.image_effect, "images do not reach the trainer" in blanked.problem) == (0.0, True)
    assert score_run(run, WEIGHTS).problem == ""


def test_samples_of_another_model_are_refused(run: Path, tmp_path: Path) -> None:
    with SampleReader(run) as reader:
        sample = next(iter(reader)).branches[0]
        scorer = SampleScorer(WEIGHTS)
        Image.new("RGB", (56, 56)).save(tmp_path / "small.png")
        with pytest.raises(SampleError, match="images are not those"):
            scorer.score(sample, lambda sha256: (tmp_path / "small.png").read_bytes())
        with pytest.raises(SampleError, match="not in the vocabulary"):
            scorer.score(replace(sample, ids=sample.ids + 163_840), reader.read_media)
