"""Checks of recorded samples by the forward pass of the trainer: its log-probabilities, and the effect of images."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cua.rollouts.export import read_rollouts
from cua.rollouts.journal import read_journal
from cua.rollouts.mismatch import PolicyMismatch, check_images, measure_mismatch
from cua.rollouts.samples import RolloutSample, SampleError, SampleReader

MAX_ROLLOUTS = 16
"""Rollouts that a check reads."""
ReadMedia = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCheck:
    """Result of a check.

    Attributes:
        version: Version of the policy.
        mismatch: Differences between the engine's and the trainer's log-probabilities.
        image_effect: Result of `check_images`; None if no sample has images.
    """

    version: int
    mismatch: PolicyMismatch
    image_effect: float | None


class SampleScorer:
    """Model of a folder in the release's layout, run as in training.

    Args:
        folder: Folder of the weights.
    """

    def __init__(self, folder: Path) -> None:
        from model_runtime.engine.sampling.state import find_banned_ids
        from model_runtime.model import load_model
        from model_runtime.processor.processor import Processor
        from model_runtime.tokenizer import load_tokenizer

        special = load_tokenizer(folder).special
        self._model = load_model(folder, dtype="float32")
        self._processor = Processor.load(folder)
        self._media_token_id = special.media_pad
        self._banned_ids = list(find_banned_ids(special))

    def score(self, sample: RolloutSample, read_media: ReadMedia) -> NDArray[np.float32]:
        """Return the log-probability of each trained token under the distribution that it was sampled from, [T].

        Args:
            sample: Sample.
            read_media: Returns an encoded image by its hash.

        Raises:
            SampleError: If tokens were sampled with `top_p` below 1, or ids or images do not fit the weights.
        """
        from model_runtime.training.batch import Example, forward, make_batch

        images = tuple(self._processor.image(read_media(item.sha256)) for item in sample.media)
        example = Example(trunk=tuple(sample.ids.tolist()), images=images)
        if int(sample.ids.max()) >= self._model.config.text.vocab_size:
            raise SampleError(f"the token {sample.ids.max()} is not in the vocabulary of the weights")
        try:
            batch = make_batch([example], self._media_token_id)
        except ValueError as error:
            raise SampleError(f"the images are not those of the sample: {error}") from error
        hidden = forward(self._model, batch).hidden
        logprobs = np.zeros(len(sample.ids), np.float32)
        for span in sample.spans:
            if span.top_p < 1.0:
                raise SampleError(f"tokens were sampled with top_p {span.top_p}, which needs the sets of kept tokens")
            places = span.start + np.flatnonzero(sample.mask[span.start : span.end])
            logits = self._model.logits(hidden[places - 1]) / span.temperature
            logits[:, self._banned_ids] = -np.inf
            scores = logits.log_softmax(-1).cpu().numpy()
            logprobs[places] = scores[np.arange(len(places)), sample.ids[places]]
        return logprobs


def check_samples(folder: Path, weights: Path, read_media: ReadMedia | None = None) -> SampleCheck:
    """Compare samples of a run's last version with the trainer's log-probabilities of the same tokens.

    Args:
        folder: Folder of the run.
        weights: Folder of the weights of this version.
        read_media: Returns an encoded image for the trainer; None: the images of the run.

    Raises:
        SampleError: If no sample is of this version, or images do not reach the trainer.
        TrajectoryError: If the run cannot be read.
    """
    version, scorer = read_journal(folder).version, SampleScorer(weights)
    rollout_logprobs, shown, black, masks, with_media = [], [], [], [], []
    with SampleReader(folder) as reader:
        read = read_media or reader.read_media
        for rollout in islice(read_rollouts(folder), MAX_ROLLOUTS):
            for sample in rollout.branches:
                if sample.mask.any() and {span.version for span in sample.spans} == {version}:
                    rollout_logprobs.append(sample.logprobs)
                    masks.append(sample.mask)
                    with_media.append(np.full(len(sample.mask), bool(sample.media)))
                    shown.append(scorer.score(sample, read))
                    black.append(scorer.score(sample, lambda sha256: _blacken(read(sha256))))
    if not masks:
        raise SampleError(f"{folder} has no samples of version {version}")
    trainer, mask = np.concatenate(shown), np.concatenate(masks)
    mismatch = measure_mismatch(np.concatenate(rollout_logprobs), trainer, mask)
    mask &= np.concatenate(with_media)
    effect = check_images(trainer, np.concatenate(black), mask) if mask.any() else None
    return SampleCheck(version=version, mismatch=mismatch, image_effect=effect)


def _blacken(data: bytes) -> bytes:
    """Return a black image of the same size."""
    with Image.open(io.BytesIO(data)) as image:
        size = image.size
    encoded = io.BytesIO()
    Image.new("RGB", size).save(encoded, "PNG")
    return encoded.getvalue()
