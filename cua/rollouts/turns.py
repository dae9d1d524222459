"""Turns of a session as token ids: how each prompt relates to earlier turns, and the sequences to train on."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from cua.messages import ReplyTokens, TokenMedia
from cua.rollouts.samples import KeptSets, MediaRange, PolicySpan, RolloutSample, SampleError

MAX_REALIGNED = 0.01
"""Share of turns whose history was tokenized again; above it a run fails."""
MIN_TURNS = 100
"""Number of turns from which the share is judged."""
NUM_COMPARED = 64
"""Earlier turns with which a prompt is compared, the most recent first."""


class Drift(StrEnum):
    """Relation of a prompt to the earlier turns of its session. Source of the classes: slime, `agent/trajectory.py`."""

    CLEAN = "clean"
    """It begins with the ids of an earlier turn and its reply, or is the first."""
    REALIGN = "realign"
    """It begins with the prompt of an earlier turn, and differs inside of its reply: the reply was tokenized again."""
    FORK = "fork"
    """It begins in another way: a rewritten history, another agent, a second reply to the same messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """One reply of a session.

    Attributes:
        turn_id: Number in the session, from 0.
        parent_id: Turn that the prompt extends; None for the first and for forks.
        drift: Relation of the prompt to the earlier turns.
        prompt_ids: Ids of the prompt.
        output_ids: Ids of the reply, with its end token.
        logprobs: Natural logarithm of the probability of each output id under the distribution that was sampled.
        sampled: True for each output id that the model chose.
        kept_ids: Kept sets of all output ids, one after the other; see `ReplyTokens`.
        num_kept: Number of `kept_ids` of each output id.
        temperature: Temperature that was used.
        top_p: Probability mass of the tokens that were sampled from.
        media: Media in the prompt, in order.
        files: SHA-256 of the encoded images and videos of the request, in order.
        versions: Versions of the weights, each with its number of output ids.
        processor: Name of the conversion from files to pixels.
        finish_reason: As the engine gives it.
        request_sha256: Hash of the request.
        is_delivered: False if the client left before the reply was sent: it is not trained on.
    """

    turn_id: int
    parent_id: int | None
    drift: Drift
    prompt_ids: "array[int]" = field(repr=False)
    output_ids: "array[int]" = field(repr=False)
    logprobs: "array[float]" = field(repr=False)
    sampled: tuple[bool, ...] = field(repr=False)
    kept_ids: "array[int]" = field(repr=False)
    num_kept: "array[int]" = field(repr=False)
    temperature: float
    top_p: float = 1.0
    media: tuple[TokenMedia, ...] = ()
    files: tuple[str, ...] = ()
    versions: tuple[tuple[str, int], ...] = ()
    processor: str = ""
    finish_reason: str = ""
    request_sha256: str = ""
    is_delivered: bool = True


class TurnLog:
    """Turns of one session.

    Attributes:
        turns: All turns, oldest first.
    """

    def __init__(self) -> None:
        self.turns: list[RecordedTurn] = []

    def counts(self) -> Counter[Drift]:
        """Return the number of turns after the first by their relation to earlier ones."""
        return Counter(turn.drift for turn in self.turns[1:])

    def add(
        self,
        tokens: ReplyTokens,
        *,
        temperature: float,
        top_p: float = 1.0,
        files: tuple[str, ...] = (),
        finish_reason: str = "",
        request_sha256: str = "",
        is_delivered: bool = True,
    ) -> RecordedTurn:
        """Record a reply and return its turn.

        Raises:
            ValueError: If a log-probability or a mark is missing for an output id.
        """
        num_ids = len(tokens.ids)
        if len(tokens.logprobs) != num_ids or (tokens.sampled and len(tokens.sampled) != num_ids):
            raise ValueError(f"{num_ids} ids, {len(tokens.logprobs)} log-probabilities, {len(tokens.sampled)} marks")
        prompt_ids = array("I", tokens.prompt_ids)
        drift, parent_id = self._relate(prompt_ids)
        turn = RecordedTurn(
            turn_id=len(self.turns),
            parent_id=parent_id,
            drift=drift,
            prompt_ids=prompt_ids,
            output_ids=array("I", tokens.ids),
            logprobs=array("f", tokens.logprobs),
            sampled=tokens.sampled or (True,) * num_ids,
            kept_ids=array("I", tokens.kept_ids),
            num_kept=array("I", tokens.num_kept or [0] * num_ids),
            temperature=temperature,
            top_p=top_p,
            media=tokens.media,
            files=files,
            versions=tokens.versions,
            processor=tokens.processor,
            finish_reason=finish_reason,
            request_sha256=request_sha256,
            is_delivered=is_delivered,
        )
        self.turns.append(turn)
        return turn

    def _relate(self, prompt_ids: "array[int]") -> tuple[Drift, int | None]:
        if not self.turns:
            return Drift.CLEAN, None
        is_realigned = False
        for turn in self.turns[: -NUM_COMPARED - 1 : -1]:
            num_prompt, num_all = len(turn.prompt_ids), len(turn.prompt_ids) + len(turn.output_ids)
            if prompt_ids[:num_prompt] == turn.prompt_ids and len(prompt_ids) > num_prompt:
                if prompt_ids[num_prompt:num_all] == turn.output_ids:
                    return Drift.CLEAN, turn.turn_id
                is_realigned = True
        return (Drift.REALIGN if is_realigned else Drift.FORK), None

    def branches(self, version_of: Callable[[str], int] = int) -> tuple[RolloutSample, ...]:
        """Return the sequences to train on, with equal weights.

        Each delivered reply is trained once, in the first branch that has it.

        Args:
            version_of: Number of a version of the weights, by its name; "" if the engine names none.

        Raises:
            SampleError: If media in the ids are not those of the requests, or a version has no number.
        """
        parents = {turn.parent_id for turn in self.turns}
        trained: set[int] = set()
        branches = []
        for leaf in self.turns:
            if leaf.turn_id in parents:
                continue
            path = [leaf]
            while (parent_id := path[0].parent_id) is not None:
                path.insert(0, self.turns[parent_id])
            fresh = [turn for turn in path if turn.turn_id not in trained and turn.is_delivered]
            if fresh:
                branches.append(_make_sample(path, fresh, version_of))
                trained.update(turn.turn_id for turn in fresh)
        return tuple(replace(branch, weight=1.0 / len(branches)) for branch in branches)


def _kept_ids(turn: RecordedTurn) -> NDArray[np.uint32]:
    """Return the kept sets of the sampled tokens of a turn; a set of a token that was not sampled is left out."""
    ids: NDArray[np.uint32] = np.array(turn.kept_ids, np.uint32)[np.repeat(turn.sampled, turn.num_kept)]
    return ids


def _make_sample(
    path: Sequence[RecordedTurn], fresh: Sequence[RecordedTurn], version_of: Callable[[str], int]
) -> RolloutSample:
    leaf = path[-1]
    if len(leaf.media) != len(leaf.files):
        raise SampleError(f"{len(leaf.media)} media in the ids, {len(leaf.files)} in the requests")
    ids = np.array(leaf.prompt_ids + leaf.output_ids, np.uint32)
    mask, logprobs = np.zeros(len(ids), bool), np.zeros(len(ids), np.float32)
    num_kept = np.zeros(len(ids), np.uint32)
    spans: list[PolicySpan] = []
    for turn in fresh:
        start = len(turn.prompt_ids)
        reply = slice(start, start + len(turn.output_ids))
        mask[reply] = turn.sampled
        logprobs[reply] = np.where(turn.sampled, turn.logprobs, 0.0)
        num_kept[reply] = np.where(turn.sampled, turn.num_kept, 0)
        for name, number in turn.versions or (("", len(turn.output_ids)),):
            try:
                version = version_of(name)
            except ValueError as error:
                raise SampleError(f"the version {name!r} of the weights has no number: {error}") from error
            spans.append(PolicySpan(start, start + number, version, turn.temperature, turn.top_p))
            start += number
    media = zip(leaf.media, leaf.files, strict=True)
    return RolloutSample(
        ids=ids,
        mask=mask,
        logprobs=logprobs,
        kept=KeptSets(num_kept, np.concatenate([_kept_ids(turn) for turn in fresh])) if num_kept.any() else None,
        spans=tuple(spans),
        media=tuple(MediaRange(item.offset, item.num_tokens, file, leaf.processor) for item, file in media),
        prompt_length=int(mask.argmax()) if mask.any() else len(mask),
        num_turns=len(path),
    )


def realigned_share(counts: Counter[Drift]) -> float:
    """Return the share of turns after the first of their session that are `REALIGN`; 0 below `MIN_TURNS` turns."""
    total = sum(counts.values())
    return counts[Drift.REALIGN] / total if total >= MIN_TURNS else 0.0
