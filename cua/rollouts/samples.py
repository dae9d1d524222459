"""File of training samples: token ids, mask, log-probabilities, spans, media, routes, reward, weight.

    samples.jsonl     a header, then one line for each rollout with all of its branches
    blobs/<sha256>    media, routes and kept sets, by content, each stored once

A line is written at once, so that a process that dies leaves at most one incomplete line, which is dropped. Files are
untrusted when they are read: each sample is checked before it is returned. The schema is in docs/rollouts.md.
"""

import base64
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cua.errors import CuaError
from cua.trajectory.disk import AppendOnlyLines, sync_folder, translate_os_errors, whole_size
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import open_inside, read_inside

FILE = "samples.jsonl"
BLOBS = "blobs"
FORMAT: Literal["k25-samples/1"] = "k25-samples/1"
MAX_LINE_BYTES = 2**28
"""Size limit of a line, which bounds the memory of a reader: about 20 million tokens."""
MAX_BLOB_BYTES = 2**30
_WEIGHT_TOLERANCE = 1e-6
_MAX_LOGPROB = 1e-4  # rounding of a softmax in float32; a larger value is an error


class SampleError(CuaError):
    """Raised for a sample, or a file of samples, that a trainer must not use."""


@dataclass(frozen=True, slots=True)
class PolicySpan:
    """Tokens [start, end) that one version of the policy sampled, with the same parameters.

    Attributes:
        start: Position of the first token.
        end: Position after the last token.
        version: Version of the policy.
        temperature: Temperature, above 0: log-probabilities are of the logits divided by it.
        top_p: Probability mass of the tokens that were sampled from; 1.0 for all.
    """

    start: int
    end: int
    version: int
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class KeptSets:
    """Tokens from which each token was drawn, where filters or a grammar left others out.

    Attributes:
        num: Number of kept ids of each token, uint32 [T]; 0: nothing was left out, or the token is not trained.
        ids: Kept ids of all tokens, one set after the other, each in ascending order, uint32 [sum of `num`].
    """

    num: NDArray[np.uint32]
    ids: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class MediaRange:
    """Image or video whose features replace the media tokens [start, start + length).

    Attributes:
        start: Position of the first media token.
        length: Number of media tokens.
        sha256: Hash of the encoded file in the folder of blobs.
        processor: Name and version of the preprocessing that gives `length` features.
    """

    start: int
    length: int
    sha256: str
    processor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSample:
    """Token sequence of one branch of a rollout, as the model saw and sampled it.

    Attributes:
        ids: Token ids, uint32 [T].
        mask: True for tokens that are trained: sampled by the policy, bool [T].
        logprobs: Log-probabilities under the distribution that was sampled from, float32 [T]; 0 where `mask` is False:
            of the logits divided by the temperature, normalized over the kept set.
        kept: Kept sets; None if nothing was left out.
        spans: Versions of the policy and sampling parameters, in order; they cover all tokens with `mask`.
        media: Media in order of their position.
        routes: Experts of each token, uint16 [T, layers, top_k]; None if not recorded.
        prompt_length: Number of tokens of the first prompt.
        num_turns: Number of replies of the model.
        weight: Weight among the branches of the rollout, whose sum is 1.
        policy: Policy that sampled it, `policy` or `frozen:NAME@VERSION`.
        is_truncated: True if a limit cut the rollout off.
    """

    ids: NDArray[np.uint32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    kept: KeptSets | None = None
    spans: tuple[PolicySpan, ...]
    media: tuple[MediaRange, ...] = ()
    routes: NDArray[np.uint16] | None = None
    prompt_length: int
    num_turns: int = 1
    weight: float = 1.0
    policy: str = "policy"
    is_truncated: bool = False

    def without_loss(self) -> Self:
        """Return the sample with no token to train: a stale or overlong rollout counts in its group's mean only."""
        zeros = np.zeros_like(self.logprobs)
        return replace(self, mask=np.zeros_like(self.mask), logprobs=zeros, kept=None, spans=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRollout:
    """All branches of one try at a task, with its reward.

    Attributes:
        rollout: Id of the rollout.
        attempt: Number of the attempt, from 1; only the attempt of the journal's `ended` line counts.
        group: Id of the group, whose rewards give the baseline.
        reward: Score in [0, 1]; None if the rollout is excluded.
        branches: Samples that share the reward.
    """

    rollout: str
    attempt: int = 1
    group: str
    reward: float | None
    branches: tuple[RolloutSample, ...]


def check_rollout_samples(rollout: SampledRollout, media_token_id: int) -> None:
    """Check everything that a trainer relies on.

    Raises:
        SampleError: If lengths differ, media tokens do not match the media, a token outside of the mask has a
            log-probability, spans do not cover the mask, or weights do not add up to 1.
    """
    name = f"the rollout {rollout.rollout!r}"
    if rollout.reward is not None and not 0.0 <= rollout.reward <= 1.0:
        raise SampleError(f"{name} has the reward {rollout.reward}, expected a number in [0, 1] or null")
    weights = [branch.weight for branch in rollout.branches]
    if not all(0.0 <= weight <= 1.0 for weight in weights) or abs(math.fsum(weights) - 1.0) > _WEIGHT_TOLERANCE:
        raise SampleError(f"{name} has branches of the weights {weights}, expected a sum of 1")
    for number, branch in enumerate(rollout.branches):
        if problem := _find_problem(branch, media_token_id):
            raise SampleError(f"{name}, branch {number}: {problem}")


def _find_problem(sample: RolloutSample, media_token_id: int) -> str | None:
    """Return why a sample cannot be trained on; None if it can."""
    num_tokens = len(sample.ids)
    if not num_tokens == len(sample.mask) == len(sample.logprobs):
        return f"{num_tokens} ids, {len(sample.mask)} values of the mask, {len(sample.logprobs)} log-probabilities"
    if not 0 <= sample.prompt_length <= num_tokens:
        return f"a prompt of {sample.prompt_length} tokens in {num_tokens}"
    if sample.mask[: sample.prompt_length].any():
        return "tokens of the prompt are in the mask"
    if not np.isfinite(sample.logprobs).all() or (sample.logprobs > _MAX_LOGPROB).any():
        return "log-probabilities above 0, or not finite"
    if sample.logprobs[~sample.mask].any():
        return "log-probabilities of tokens outside of the mask"
    routes = sample.routes
    if routes is not None and (routes.ndim != 3 or len(routes) != num_tokens or routes.dtype != np.uint16):
        return f"routes of {routes.shape} {routes.dtype}, expected ({num_tokens}, layers, top_k) uint16"
    return _find_media_problem(sample, media_token_id) or _find_span_problem(sample) or _find_kept_problem(sample)


def _find_media_problem(sample: RolloutSample, media_token_id: int) -> str | None:
    is_media = sample.ids == media_token_id
    num_media, num_features = int(is_media.sum()), sum(item.length for item in sample.media)
    if num_media != num_features:
        return f"{num_media} media tokens, but media of {num_features} features"
    end = 0
    for item in sample.media:
        if item.start < end or item.length < 1 or not is_media[item.start : item.start + item.length].all():
            return f"the media at {item.start} are not at {item.length} media tokens of their own"
        end = item.start + item.length
    return "media tokens are in the mask" if (is_media & sample.mask).any() else None


def _find_span_problem(sample: RolloutSample) -> str | None:
    is_covered, end = np.zeros(len(sample.ids), dtype=bool), 0
    for span in sample.spans:
        if not end <= span.start < span.end <= len(sample.ids):
            return f"the span [{span.start}, {span.end}) overlaps another, or leaves the sample"
        if not (0.0 < span.temperature < math.inf and 0.0 < span.top_p <= 1.0):
            return f"tokens were sampled at temperature {span.temperature} and top_p {span.top_p}"
        is_covered[span.start : span.end], end = True, span.end
    return "tokens of the mask are in no span" if (sample.mask & ~is_covered).any() else None


def _find_kept_problem(sample: RolloutSample) -> str | None:
    num, ids = (sample.kept.num, sample.kept.ids) if sample.kept else (np.zeros_like(sample.ids), sample.ids[:0])
    if len(num) != len(sample.ids) or int(num.sum()) != len(ids) or num[~sample.mask].any():
        return f"kept sets of {len(num)} tokens with {int(num.sum())} ids, expected {len(sample.ids)} and {len(ids)}"
    owners = np.repeat(np.arange(len(num)), num)
    if ((np.diff(ids.astype(np.int64)) <= 0) & (np.diff(owners) == 0)).any():
        return "kept ids of a token are not in ascending order"
    if np.count_nonzero(ids == sample.ids[owners]) != np.count_nonzero(num):
        return "a token is not in its kept set"
    for span in sample.spans:
        if span.top_p < 1.0 and (sample.mask & (num == 0))[span.start : span.end].any():
            return f"tokens that were sampled with top_p {span.top_p} have no kept sets"
    return None


def _check_media_stored(rollout: SampledRollout, folder: Path) -> None:
    for item in (item for branch in rollout.branches for item in branch.media):
        if not (folder / BLOBS / item.sha256).is_file():
            raise SampleError(f"the media {item.sha256} of {rollout.rollout!r} were not stored")


class SampleWriter:
    """Appends rollouts to a folder; an incomplete last line is removed first.

    Appended lines survive the death of the process; `sync` waits until they are on disk. For one thread at a time.

    Args:
        folder: Folder of the file and its blobs; created if missing.
        media_token_id: Id of the token that media features replace.

    Raises:
        SampleError: If the file has another format or media token.
        TrajectoryError: If it cannot be written.
    """

    is_grouped = False

    def __init__(self, folder: Path, *, media_token_id: int) -> None:
        self.folder = folder
        self._media_token_id = media_token_id
        with translate_os_errors("write", folder):
            (folder / BLOBS).mkdir(parents=True, exist_ok=True)
            path = folder / FILE
            size_bytes = whole_size(path) if path.exists() else 0
            if size_bytes:
                with SampleReader(folder) as reader:
                    if reader.media_token_id != media_token_id:
                        raise SampleError(f"{path} has the media token {reader.media_token_id}, not {media_token_id}")
            self._lines = AppendOnlyLines(path, keep_bytes=size_bytes)
            if not size_bytes:
                header = _Header(format=FORMAT, media_token_id=media_token_id)
                self._lines.append(header.model_dump_json().encode() + b"\n", is_durable=True)
                sync_folder(folder)

    def put_media(self, data: bytes) -> str:
        """Store an encoded image or video once, and return its hash for `MediaRange`."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / BLOBS / sha256
        with translate_os_errors("write", self.folder):
            if not path.exists():
                write_atomically(path, data)
        return sha256

    def append(self, rollout: SampledRollout) -> None:
        """Check a rollout and append it.

        Raises:
            SampleError: If a trainer must not use it, or its media were not stored by `put_media`.
            TrajectoryError: If the disk is full, broken or read-only.
        """
        check_rollout_samples(rollout, self._media_token_id)
        _check_media_stored(rollout, self.folder)
        line = _Line(
            rollout=rollout.rollout,
            attempt=rollout.attempt,
            group=rollout.group,
            reward=rollout.reward,
            branches=[self._encode(branch) for branch in rollout.branches],
        )
        data = line.model_dump_json().encode() + b"\n"
        if len(data) > MAX_LINE_BYTES:
            raise SampleError(f"the rollout {rollout.rollout!r} takes {len(data)} bytes, at most {MAX_LINE_BYTES}")
        with translate_os_errors("write", self.folder):
            self._lines.append(data, is_durable=False)

    def sync(self) -> None:
        """Wait until all lines are on disk."""
        with translate_os_errors("write", self.folder):
            self._lines.sync()

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._lines.close()

    def _encode(self, sample: RolloutSample) -> "_Branch":
        routes = None
        if sample.routes is not None:
            data = sample.routes.astype("<u2").tobytes()
            layers, top_k = sample.routes.shape[1:]
            routes = _Routes(sha256=self.put_media(data), layers=layers, top_k=top_k)
        kept = None
        if sample.kept is not None:
            kept = self.put_media(sample.kept.num.astype("<u4").tobytes() + sample.kept.ids.astype("<u4").tobytes())
        return _Branch(
            ids=_to_base64(sample.ids, "<u4"),
            mask=_to_base64(np.packbits(sample.mask), "u1"),
            logprobs=_to_base64(sample.logprobs, "<f4"),
            kept=kept,
            spans=[astuple(span) for span in sample.spans],
            media=[(item.start, item.length, item.sha256, item.processor) for item in sample.media],
            routes=routes,
            prompt_length=sample.prompt_length,
            num_turns=sample.num_turns,
            weight=sample.weight,
            policy=sample.policy,
            is_truncated=sample.is_truncated,
        )


class SampleReader:
    """Reads the rollouts of a folder one after the other, with the memory of one; a torn last line is left out.

    Attributes:
        media_token_id: Id of the token that media features replace.

    Raises:
        SampleError: If the folder has no file of this format.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._opened = open_inside(folder, FILE, max_bytes=2**63)
            self._file = self._opened.__enter__()
        except OSError as error:
            raise SampleError(f"cannot read samples in {folder}: {error.strerror}") from error
        try:
            header = _Header.model_validate_json(self._file.readline(MAX_LINE_BYTES).rstrip(b"\n"))
        except ValidationError as error:
            self.close()
            raise SampleError(
                f"{folder / FILE} does not begin with the header {FORMAT!r}: {describe_invalid(error)}"
            ) from error
        self.media_token_id = header.media_token_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._opened.__exit__(None, None, None)

    def __iter__(self) -> Iterator[SampledRollout]:
        """Yield checked rollouts in the order of the file; of equal attempts at a rollout, the first one.

        Raises:
            SampleError: If a line is not a rollout, or its content is inconsistent.
        """
        number = 1
        known: set[tuple[str, int]] = set()
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) > MAX_LINE_BYTES:
                    raise SampleError(f"{self.folder / FILE}, line {number}, has over {MAX_LINE_BYTES} bytes")
                return
            try:
                rollout = self._decode(_Line.model_validate_json(line.rstrip(b"\n")))
                check_rollout_samples(rollout, self.media_token_id)
                _check_media_stored(rollout, self.folder)
            except ValidationError as error:
                raise SampleError(f"{self.folder / FILE}, line {number}: {describe_invalid(error)}") from error
            except (ValueError, SampleError) as error:
                raise SampleError(f"{self.folder / FILE}, line {number}: {error}") from error
            if (rollout.rollout, rollout.attempt) not in known:
                known.add((rollout.rollout, rollout.attempt))
                yield rollout

    def read_media(self, sha256: str) -> bytes:
        """Return a stored file.

        Raises:
            SampleError: If it is missing or its content has changed.
        """
        try:
            data = read_inside(self.folder / BLOBS, sha256, max_bytes=MAX_BLOB_BYTES)
        except OSError as error:
            raise SampleError(f"the samples in {self.folder} need the file {sha256}: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise SampleError(
                f"the file {self.folder / BLOBS / sha256} is damaged: its content does not match its name"
            )
        return data

    def _decode(self, line: "_Line") -> SampledRollout:
        branches = []
        for given in line.branches:
            ids = np.frombuffer(_bytes_of(given.ids), "<u4").astype(np.uint32)
            bits = np.unpackbits(np.frombuffer(_bytes_of(given.mask), np.uint8))
            if not 0 <= len(bits) - len(ids) < 8:
                raise SampleError(f"a mask of {len(bits)} bits for {len(ids)} tokens")
            routes = None
            if given.routes is not None:
                flat = np.frombuffer(self.read_media(given.routes.sha256), "<u2").astype(np.uint16)
                routes = flat.reshape(-1, given.routes.layers, given.routes.top_k)
            kept = None
            if given.kept is not None:
                numbers = np.frombuffer(self.read_media(given.kept), "<u4").astype(np.uint32)
                kept = KeptSets(numbers[: len(ids)], numbers[len(ids) :])
            branches.append(
                RolloutSample(
                    ids=ids,
                    mask=bits[: len(ids)].astype(bool),
                    logprobs=np.frombuffer(_bytes_of(given.logprobs), "<f4").astype(np.float32),
                    kept=kept,
                    spans=tuple(PolicySpan(*span) for span in given.spans),
                    media=tuple(MediaRange(*item) for item in given.media),
                    routes=routes,
                    prompt_length=given.prompt_length,
                    num_turns=given.num_turns,
                    weight=given.weight,
                    policy=given.policy,
                    is_truncated=given.is_truncated,
                )
            )
        return SampledRollout(
            rollout=line.rollout,
            attempt=line.attempt,
            group=line.group,
            reward=line.reward,
            branches=tuple(branches),
        )


_Count = Annotated[int, Field(ge=0, lt=2**32)]
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(max_length=1_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Header(_Strict):
    format: Literal["k25-samples/1"]
    media_token_id: _Count


class _Routes(_Strict):
    sha256: _Sha256
    layers: Annotated[int, Field(ge=1, le=1_000)]
    top_k: Annotated[int, Field(ge=1, le=1_000)]


class _Branch(_Strict):
    ids: str
    mask: str
    logprobs: str
    kept: _Sha256 | None = None
    spans: list[tuple[_Count, _Count, _Count, float, float]]
    media: list[tuple[_Count, _Count, _Sha256, _Name]]
    routes: _Routes | None
    prompt_length: _Count
    num_turns: _Count
    weight: float
    policy: _Name
    is_truncated: bool


class _Line(_Strict):
    rollout: _Name
    attempt: Annotated[int, Field(ge=1, lt=2**32)]
    group: _Name
    reward: float | None
    branches: list[_Branch]


def _to_base64(values: NDArray[np.generic], kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def describe_invalid(error: ValidationError) -> str:
    """Return the first problem of a line in one line."""
    found = error.errors(include_input=False)[0]
    problem = re.sub(r" at line 1 (column \d+)$", r" at \1", found["msg"])  # callers name the line of the file
    return f"{'.'.join(map(str, found['loc'])) or 'the line'}: {problem}"
