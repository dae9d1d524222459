"""Engine that computes requests in batches. It is synchronous and must be used by one thread."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from threading import Lock

import torch

from model_runtime.engine.contract import (
    EngineOptions,
    EngineOutput,
    EngineRequest,
    EngineStats,
    FinishReason,
    ModelCard,
    TokenLogprob,
    WeightUpdate,
)
from model_runtime.engine.grammar import GrammarEngine
from model_runtime.engine.output_text import StopChecker, TextOut
from model_runtime.engine.runner import ModelRunner, make_step_input, wants_prompt_rows
from model_runtime.engine.sampling.sampler import Sampled, Sampler, make_prompt_logprobs
from model_runtime.engine.sampling.state import make_state
from model_runtime.engine.scheduler import Chunk, Scheduler, Sequence
from model_runtime.errors import CheckpointError, EngineDead, InvalidRequestError
from model_runtime.media import Prompt
from model_runtime.tokenizer import Tokenizer


class Admission:
    """Validation of requests against one model's limits."""

    def __init__(self, tokenizer: Tokenizer, card: ModelCard) -> None:
        self.card = card
        self._tokenizer = tokenizer
        self._grammars = GrammarEngine(tokenizer)

    def check(self, request: EngineRequest) -> None:
        """Check that a request can be run.

        A `max_tokens` beyond the context is allowed: the output then ends with `length` at the end of the context.

        Raises:
            RequestError: If the prompt is empty, too long, or has invalid tokens, or a value is out of its range.
        """
        request.params.check()
        StopChecker(request.params.stop)
        if request.params.grammar is not None:
            self._grammars.compile(request.params.grammar)  # cached: the engine's own call reuses it
        length, most = len(request.prompt.token_ids), self.card.max_prompt_len
        if length > most:
            in_media = sum(span.item.num_tokens for span in request.prompt.media)
            text = f"the prompt has {length} tokens ({in_media} of images or video); the model takes {most} and a reply"
            raise InvalidRequestError(
                f"{text}. Send less history or fewer images", param="messages", code="context_length_exceeded"
            )
        check_prompt(request.prompt, self._tokenizer, self.card.vocab_size)

    def make_sequence(self, request: EngineRequest, arrival: int, now: float) -> Sequence:
        """Return the request as a sequence, ready to queue."""
        left = self.card.max_model_len - len(request.prompt.token_ids)
        return Sequence(
            request=request,
            arrival=arrival,
            arrived_at=now,
            max_tokens=min(left, request.params.max_tokens or left),
            state=make_state(request, self._tokenizer, self.card.stop_token_ids, self._grammars),
            text_out=TextOut(self._tokenizer, request.params.stop),
        )

    def is_end_token(self, sequence: Sequence, token_id: int) -> bool:
        """Return True if the newest token ends the sequence: by the grammar, the model's end tokens, or the
        request's.
        """
        if sequence.state is not None and sequence.state.is_complete:
            return True
        params = sequence.request.params
        own = not params.ignore_eos and token_id in self.card.stop_token_ids
        return (own or token_id in params.stop_token_ids) and sequence.num_output > params.min_tokens

    def find_end(self, sequence: Sequence) -> tuple[FinishReason | None, str | int | None]:
        """Return the finish reason after the newest token, if any, and the stop token of the request."""
        token_id = sequence.token_ids[-1]
        if self.is_end_token(sequence, token_id):
            return "stop", token_id if token_id in sequence.request.params.stop_token_ids else None
        return ("length" if sequence.num_output >= sequence.max_tokens else None), None


def check_prompt(prompt: Prompt, tokenizer: Tokenizer, vocab_size: int) -> None:
    """Check that a prompt's tokens and media match.

    Raises:
        RequestError: If it is empty, an id is outside the vocabulary, or placeholders and media differ.
    """
    token_ids, pad = prompt.token_ids, tokenizer.special.media_pad
    if not token_ids:
        raise InvalidRequestError("the prompt is empty; expected one token or more", param="prompt")
    low, high = min(token_ids), max(token_ids)
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise InvalidRequestError(
            f"token id {wrong} is outside the vocabulary; expected 0 to {vocab_size - 1}", param="prompt"
        )
    covered = [i for span in prompt.media for i in range(span.offset, span.end)]
    if covered != [i for i, token_id in enumerate(token_ids) if token_id == pad]:
        places = token_ids.count(pad)
        text = f"the prompt has {places} media placeholders, and media for {len(covered)}"
        raise InvalidRequestError(
            f"{text}; each media item takes as many placeholders as it has tokens, in order", param="prompt"
        )


TIMED = ("queue_s", "ttft_s", "tpot_s", "step_s")


@dataclass(slots=True)
class Counters:
    """Cumulative counters, and times observed since they were last read."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    media_encoded: int = 0
    media_cached: int = 0
    faults: int = 0
    _times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TIMED})
    _lock: Lock = field(default_factory=Lock)

    def observe(self, name: str, seconds: float) -> None:
        """Record a time: in the queue, to the first token, per further token, of a step."""
        with self._lock:
            self._times[name].append(seconds)

    def admitted(self, sequence: Sequence, now: float) -> None:
        """Record that a sequence runs for the first time."""
        self.prompt_tokens += sequence.num_prompt
        self.cached_tokens += sequence.num_cached or 0
        self.observe("queue_s", now - sequence.arrived_at)

    def generated(self, sequence: Sequence, now: float) -> None:
        """Record a generated token of a sequence."""
        self.generated_tokens += 1
        if sequence.last_token_at is None:
            self.observe("ttft_s", now - sequence.arrived_at)
        else:
            self.observe("tpot_s", now - sequence.last_token_at)
        sequence.last_token_at = now

    def read_times(self) -> dict[str, tuple[float, ...]]:
        """Return and clear the times observed since the last call."""
        with self._lock:
            times = {name: tuple(values) for name, values in self._times.items()}
            for values in self._times.values():
                values.clear()
        return times


_SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the error means that memory ran out, on any device of torch."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


def describe_out_of_memory(sequence: Sequence, error: BaseException) -> str:
    """Return the error text for the client of the request that was dropped."""
    media = sum(span.item.num_patches for span in sequence.request.prompt.media)
    first = (str(error).splitlines() or ["MemoryError"])[0][:200]
    message = (
        f"the server ran out of memory on this request ({sequence.num_prompt} prompt tokens, {media} image patches)"
    )
    return f"{message}: {first}. Send fewer or smaller images, or ask the operator for a smaller max_num_batched_tokens"


Outputs = list[tuple[str, EngineOutput]]

OnUpdated = Callable[[CheckpointError | None], None]
"""Called after an update of the weights, or with the reason why it was refused."""

FIRST_VERSION = "0"
"""Version of the weights that are loaded at the start."""


class Engine:
    """Sequences of many requests, computed together."""

    def __init__(
        self,
        runner: ModelRunner,
        tokenizer: Tokenizer,
        card: ModelCard,
        options: EngineOptions,
        sampler: Sampler | None = None,
    ) -> None:
        self.runner = runner
        self.options = options
        self.admission = Admission(tokenizer, card)
        self.scheduler = Scheduler(options)
        self.counters = Counters()
        self._sampler = sampler or Sampler(card.vocab_size, tokenizer.special)
        self._sequences: dict[str, Sequence] = {}
        self._prompt_logprobs: dict[str, list[TokenLogprob]] = {}
        self._arrivals = count()
        self._drop: tuple[bytes, ...] = ()
        self._updates: deque[tuple[WeightUpdate, OnUpdated]] = deque()
        self._num_updates = 0
        self.version = FIRST_VERSION

    @property
    def has_work(self) -> bool:
        """True if `step` has anything to do."""
        return bool(self._sequences or self._updates)

    def update_weights(self, update: WeightUpdate, on_updated: OnUpdated) -> None:
        """Replace the weights between two steps, as soon as running requests allow it."""
        self._updates.append((update, on_updated))

    def add(self, request: EngineRequest) -> None:
        """Queue a request that passed `admission.check`."""
        sequence = self.admission.make_sequence(request, next(self._arrivals), time.monotonic())
        self._sequences[request.request_id] = sequence
        self.scheduler.add(sequence)

    def abort(self, request_id: str) -> None:
        """Abort a request; does nothing if it has already ended."""
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            self._forget(sequence)

    @torch.inference_mode()
    def step(self) -> Outputs:
        """Compute one batch.

        Raises:
            EngineDead: If it cannot continue; every request in flight is lost.
        """
        ended = self._apply_update() if self._updates else []
        encoded = self.runner.encoded - set(self._drop)
        chunks = self.scheduler.schedule(encoded)
        if not chunks:
            if self._sequences:
                raise RuntimeError(f"nothing can be scheduled for {len(self._sequences)} sequences: {self.stats()}")
            return ended
        started = time.monotonic()
        self._count(chunks, encoded, started)
        step = make_step_input(chunks, self.options.block_size, encoded, self._drop)
        try:
            logits = self.runner.run(step)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return ended + self._give_up_largest(chunks, error)
        self._drop = ()
        self.scheduler.computed(chunks)
        outputs = self._finish_step(chunks, logits)
        self.counters.observe("step_s", time.monotonic() - started)
        return ended + outputs

    def _apply_update(self) -> Outputs:
        """Replace the weights if running requests allow it; return the outputs of those that end for it."""
        update, on_updated = self._updates[0]
        scheduler = self.scheduler
        if update.running == "finish" and scheduler.has_begun:
            scheduler.is_admitting = False
            return []
        self._updates.popleft()
        try:
            self.runner.update(update)
        except CheckpointError as error:
            scheduler.is_admitting = True
            on_updated(error)
            return []
        begun = [s for s in self._sequences.values() if s.num_output or s in scheduler.running]
        for sequence in list(scheduler.running):
            scheduler.preempt(sequence)  # computed again, with the new weights
        ended = [self._end_outdated(s, update) for s in begun] if update.running == "restart" else []
        self._num_updates += 1
        self.version = update.version
        scheduler.begin_version(f"{self._num_updates}:{update.version}".encode())
        on_updated(None)
        return ended

    def _end_outdated(self, sequence: Sequence, update: WeightUpdate) -> tuple[str, EngineOutput]:
        self._forget(sequence)
        text = f"the weights were replaced by version {update.version} while this request ran; send it again"
        return sequence.request.request_id, _ended(sequence, "outdated", text)

    def stats(self) -> EngineStats:
        """Return the state and the counters."""
        counters, pool = self.counters, self.scheduler.pool
        return EngineStats(
            num_waiting=len(self.scheduler.waiting),
            num_running=len(self.scheduler.running),
            num_blocks=pool.num_blocks,
            num_free_blocks=pool.num_free,
            prompt_tokens_total=counters.prompt_tokens,
            cached_tokens_total=counters.cached_tokens,
            generated_tokens_total=counters.generated_tokens,
            media_encoded_total=counters.media_encoded,
            media_cached_total=counters.media_cached,
            preemptions_total=self.scheduler.num_preemptions,
            faults_total=counters.faults,
            histograms=counters.read_times(),
        )

    def _count(self, chunks: Iterable[Chunk], known: frozenset[bytes], now: float) -> None:
        encoded = set(known)
        for chunk in chunks:
            if chunk.sequence.num_cached is None:
                chunk.sequence.num_cached = chunk.start
                self.counters.admitted(chunk.sequence, now)
            for span in chunk.media():
                if span.item.content_hash not in encoded:
                    encoded.add(span.item.content_hash)
                    self.counters.media_encoded += 1
                elif chunk.start <= span.offset < chunk.end:
                    self.counters.media_cached += 1

    def _finish_step(self, chunks: list[Chunk], logits: torch.Tensor) -> Outputs:
        row, rows, ending = 0, [], []
        for chunk in chunks:
            if wants_prompt_rows(chunk):
                self._score_prompt(chunk, logits[row : row + chunk.num_tokens])
                row += chunk.num_tokens
            elif chunk.is_last:
                row += 1
            if chunk.is_last:
                rows.append(row - 1)
                ending.append(chunk.sequence)
        if not ending:
            return []
        picked = logits if len(rows) == len(logits) else logits[torch.tensor(rows, device=logits.device)]
        states = [s.state for s in ending if s.state is not None]
        if self.options.is_batch_invariant:  # sums over a row depend on the number of rows, too
            sampled = [
                self._sampler.sample(row, [state])[0] for row, state in zip(torch.split(picked, 1), states, strict=True)
            ]
        else:
            sampled = self._sampler.sample(picked, states)
        return [self._take(s, token) for s, token in zip(ending, sampled, strict=True)]

    def _take(self, sequence: Sequence, sampled: Sampled) -> tuple[str, EngineOutput]:
        """Add a sampled token to its sequence, and return the resulting output."""
        state, text_out = sequence.state, sequence.text_out
        assert state is not None
        assert text_out is not None
        if sampled.fault is not None:
            return self._fail(sequence, sampled.fault)
        token_id = sampled.token_id
        self.counters.generated(sequence, time.monotonic())
        prompt_logprobs = self._take_prompt_logprobs(sequence) if sequence.num_output == 0 else None
        sequence.token_ids.append(token_id)
        state.accept(token_id)
        reason, stop_reason = self.admission.find_end(sequence)
        deltas = () if reason == "stop" and self.admission.is_end_token(sequence, token_id) else text_out.push(token_id)
        if text_out.stopped_by is not None:
            reason, stop_reason = "stop", text_out.stopped_by
        if reason is not None:
            deltas += text_out.finish()
            self._forget(sequence)
        return sequence.request.request_id, EngineOutput(
            token_ids=(token_id,),
            deltas=deltas,
            logprobs=(sampled.logprob,) if sampled.logprob is not None else (),
            prompt_logprobs=prompt_logprobs,
            finish_reason=reason,
            stop_reason=stop_reason,
            num_prompt_tokens=sequence.num_prompt,
            num_cached_tokens=sequence.num_cached or 0,
            version=self.version,
        )

    def _score_prompt(self, chunk: Chunk, logits: torch.Tensor) -> None:
        """Store log-probabilities of the prompt's tokens; row i is the prediction after token i."""
        request = chunk.sequence.request
        if chunk.start == 0:  # first computation, or recomputation after a preemption
            self._prompt_logprobs[request.request_id] = []
        following = request.prompt.token_ids[chunk.start + 1 : chunk.end + 1]
        top = request.params.prompt_logprobs or 0
        self._prompt_logprobs[request.request_id] += make_prompt_logprobs(logits[: len(following)], following, top)

    def _take_prompt_logprobs(self, sequence: Sequence) -> tuple[TokenLogprob | None, ...] | None:
        """Return the log-probability of each prompt token for the first output; None for the first token."""
        known = self._prompt_logprobs.pop(sequence.request.request_id, None)
        return None if known is None else (None, *known)

    def _give_up_largest(self, chunks: list[Chunk], error: BaseException) -> Outputs:
        """Fail the largest request of a step that ran out of memory; the others are retried without it."""
        if not self.runner.can_go_on_after_fault:
            raise EngineDead(f"out of memory with several ranks, which cannot continue: {error}") from error
        largest = max(chunks, key=lambda c: c.num_tokens + sum(s.item.num_patches for s in c.media())).sequence
        return [self._fail(largest, describe_out_of_memory(largest, error))]

    def _fail(self, sequence: Sequence, text: str) -> tuple[str, EngineOutput]:
        """End one request with an error; its cached blocks and features are not reused."""
        self.counters.faults += 1
        self.scheduler.pool.forget(sequence.block_table)
        self._drop += tuple(span.item.content_hash for span in sequence.request.prompt.media)
        self._forget(sequence)
        return sequence.request.request_id, _ended(sequence, "error", text)

    def _forget(self, sequence: Sequence) -> None:
        self.scheduler.remove(sequence)
        del self._sequences[sequence.request.request_id]
        self._prompt_logprobs.pop(sequence.request.request_id, None)


def _ended(sequence: Sequence, reason: FinishReason, text: str) -> EngineOutput:
    cached = sequence.num_cached or 0
    return EngineOutput(
        finish_reason=reason, error=text, num_prompt_tokens=sequence.num_prompt, num_cached_tokens=cached
    )
