"""Recorded samples against the training code: its log-probabilities of the same tokens, and the effect of images."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cua.errors import ConfigError
from cua.rollouts.export import read_rollouts
from cua.rollouts.journal import FILE, read_journal
from cua.rollouts.mismatch import MAX_K3, MIN_IMAGE_EFFECT, PolicyMismatch, measure_image_effect, measure_mismatch
from cua.rollouts.samples import RolloutSample, SampleError, SampleReader
from envs.errors import require

NUM_BLACKENED = 16
"""Rollouts that are also scored with black images."""
ReadMedia = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """Result of scoring the samples of a run.

    Attributes:
        version: Last version of the policy, of which the samples are; None without a journal: all samples.
        num_samples: Number of samples.
        mismatch: Differences between the recorded and the computed log-probabilities.
        image_effect: Mean absolute change of a log-probability by black images; None if no sample has images.
    """

    version: int | None
    num_samples: int
    mismatch: PolicyMismatch
    image_effect: float | None

    @property
    def problem(self) -> str:
        """Reason why these samples must not be trained on with these weights; "" if they can be."""
        if self.image_effect is not None and not self.image_effect >= MIN_IMAGE_EFFECT:
            return (
                f"black images change log-probabilities by {self.image_effect:.1e} on average, expected at least "
                f"{MIN_IMAGE_EFFECT}: images do not reach the trainer"
            )
        if not self.mismatch.k3 <= MAX_K3:
            return (
                f"k3 is {self.mismatch.k3:.2g}, at most {MAX_K3}: these are not the weights that sampled, or a defect"
            )
        return ""


class SampleScorer:
    """Model of a folder in the release's layout, run by the training code in float32 on the CPU.

    Args:
        weights: Folder of the weights; packed ones are unpacked.

    Raises:
        EnvError: If torch is missing.
    """

    def __init__(self, weights: Path) -> None:
        require("torch", "runtime")
        from model_runtime.checkpoint.folder import unpack_folder
        from model_runtime.checkpoint.reader import Checkpoint, is_quantized
        from model_runtime.engine.sampling.state import find_banned_ids
        from model_runtime.model import load_model
        from model_runtime.processor.processor import Processor
        from model_runtime.tokenizer import load_tokenizer

        with TemporaryDirectory() as folder:
            source = weights
            if is_quantized(Checkpoint.open(weights)):
                source = Path(folder)
                unpack_folder(weights, source, "float32")
            self._model = load_model(source, dtype="float32", kernels="autograd")
        self._processor = Processor.load(weights)
        self._banned_ids = find_banned_ids(load_tokenizer(weights).special)

    def score(self, sample: RolloutSample, read_media: ReadMedia) -> NDArray[np.float32]:
        """Return the log-probability of each trained token under the distribution that it was sampled from, [T].

        Args:
            sample: Sample with trained tokens.
            read_media: Returns an encoded image by its hash.

        Raises:
            ConfigError: If images were converted in another way.
            SampleError: If ids or images do not fit the weights.
        """
        import torch

        from model_runtime.training.scoring import SampledSequence, score_tokens

        if names := {item.processor for item in sample.media} - {self._processor.processor_id}:
            raise ConfigError(f"images were converted by {names.pop()}, and here by {self._processor.processor_id}")
        if int(sample.ids.max()) >= self._model.config.text.vocab_size:
            raise SampleError(f"the token {sample.ids.max()} is not in the vocabulary of the weights")
        temperatures = np.zeros(len(sample.ids))
        for span in sample.spans:
            temperatures[span.start : span.end] = span.temperature
        num_kept = np.zeros(len(sample.ids)) if sample.kept is None else sample.kept.num
        kept_ids = np.zeros(0) if sample.kept is None else sample.kept.ids
        sequence = SampledSequence(
            token_ids=tuple(sample.ids.tolist()),
            images=tuple(self._processor.image(read_media(item.sha256)) for item in sample.media),
            positions=torch.from_numpy(sample.mask.nonzero()[0]),
            temperatures=torch.from_numpy(temperatures[sample.mask]),
            num_kept=torch.from_numpy(num_kept[sample.mask].astype(np.int64)),
            kept_ids=torch.from_numpy(kept_ids.astype(np.int64)),
            banned_ids=self._banned_ids,
        )
        logprobs = np.zeros(len(sample.ids), np.float32)
        with torch.inference_mode():
            try:
                logprobs[sample.mask] = score_tokens(self._model, sequence).numpy()
            except ValueError as error:
                raise SampleError(f"the images are not those of the sample: {error}") from error
        return logprobs


def score_run(
    folder: Path, weights: Path, *, max_rollouts: int | None = None, read_media: ReadMedia | None = None
) -> RunScore:
    """Compute the log-probabilities of a run's samples, and for the first ones also with black images.

    Args:
        folder: Folder of the run.
        weights: Folder of the weights of its last version.
        max_rollouts: Number of rollouts to read; None: all.
        read_media: Returns an encoded image for the trainer; None: the images of the run.

    Raises:
        SampleError: If no sample is of this version, or ids or images do not fit the weights.
        TrajectoryError: If the journal cannot be read.
    """
    version, scorer = read_journal(folder).version if (folder / FILE).exists() else None, SampleScorer(weights)
    recorded, computed, shown, black = [], [], [], []
    with SampleReader(folder) as reader:
        read = read_media or reader.read_media
        for number, rollout in enumerate(islice(read_rollouts(folder), max_rollouts)):
            for sample in rollout.branches:
                versions = {span.version for span in sample.spans}
                if not sample.mask.any() or version not in (None, *versions) or len(versions) > 1:
                    continue
                recorded.append(sample.logprobs[sample.mask])
                computed.append(scorer.score(sample, read)[sample.mask])
                if sample.media and number < NUM_BLACKENED:
                    shown.append(computed[-1])
                    black.append(scorer.score(sample, lambda sha256: _blacken(read(sha256)))[sample.mask])
    if not recorded:
        raise SampleError(
            f"{folder} has no samples with trained tokens" + (f" of version {version}" if version else "")
        )
    found = np.concatenate(computed)
    return RunScore(
        version=version,
        num_samples=len(recorded),
        mismatch=measure_mismatch(np.concatenate(recorded), found, np.ones(len(found), dtype=bool)),
        image_effect=measure_image_effect(np.concatenate(shown), np.concatenate(black)) if shown else None,
    )


def _blacken(data: bytes) -> bytes:
    """Return a black image of the same size."""
    with Image.open(io.BytesIO(data)) as image:
        size = image.size
    encoded = io.BytesIO()
    Image.new("RGB", size).save(encoded, "PNG")
    return encoded.getvalue()
