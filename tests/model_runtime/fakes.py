"""A fake engine: scripted replies, delays and faults behind the real contract; and a tiny tokenizer in memory."""

import asyncio
import base64
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from model_runtime.engine.contract import (
    Delta,
    EngineOutput,
    EngineRequest,
    EngineStats,
    FinishReason,
    ModelCard,
    TokenLogprob,
    WeightUpdate,
)
from model_runtime.errors import BusyError, CheckpointError, EngineDead, InvalidRequestError
from model_runtime.media import MediaItem
from model_runtime.tokenizer import Tokenizer, load_tokenizer
from model_runtime.tokenizer.special import SLOT_OF

NUM_RANKS = 256


def make_tokenizer() -> Tokenizer:
    """One token for each byte, and the control tokens."""
    lines = (b"%s %d" % (base64.b64encode(bytes([value])), value) for value in range(NUM_RANKS))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tiktoken.model").write_bytes(b"\n".join(lines))
        return load_tokenizer(Path(folder))


TOKENIZER = make_tokenizer()
SPECIAL = TOKENIZER.special


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the fake engine says to one request.

    Attributes:
        pieces: Text, or names of control tokens in their own spelling, for example `"</think>"`. Each is one step.
        finish: How it ends. Where `max_tokens` is reached, it ends with `length`.
        stop_reason: What of the request ended it.
        error: With `finish` `error`.
        first_s: Before the first step.
        gap_s: Between steps.
        dies_after: Steps after which the engine raises `EngineDead`.
        waits: Steps wait for this event, where there is one.
    """

    pieces: tuple[str, ...] = ("Hello", ".")
    finish: FinishReason = "stop"
    stop_reason: str | int | None = None
    error: str | None = None
    first_s: float = 0.0
    gap_s: float = 0.0
    dies_after: int | None = None
    waits: asyncio.Event | None = None


Say = Callable[[EngineRequest], Script]


def answer(*pieces: str, **fields: object) -> Script:
    """Content after an empty reasoning block, where the request opened one."""
    return Script(pieces=("</think>", *pieces), **fields)  # type: ignore[arg-type]


@dataclass
class FakeEngine:
    """An `EngineClient` without a model.

    Attributes:
        say: Which script a request gets.
        seen: Requests in the order they came.
        cancelled: Ids whose iterator was closed before its end.
        num_busy: So many requests are turned away first.
    """

    say: Say = field(default=lambda request: answer("Hello", "."))
    name: str = "kimi-k2.5"
    max_model_len: int = 4096
    num_busy: int = 0
    fault: str | None = None
    seen: list[EngineRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    num_running: int = 0
    counted: EngineStats = field(default_factory=EngineStats)
    is_closed: bool = False
    version: str = "0"
    tokenizer: Tokenizer = TOKENIZER
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def card(self) -> ModelCard:
        return ModelCard(
            name=self.name,
            max_model_len=self.max_model_len,
            vocab_size=self.tokenizer.vocab_size,
            stop_token_ids=(SPECIAL.im_end, SPECIAL.eos),
        )

    def check(self, request: EngineRequest) -> None:
        if self.fault is not None:
            raise EngineDead(self.fault)
        request.params.check()
        if self.num_busy:
            self.num_busy -= 1
            raise BusyError("1024 requests wait already; try again later", retry_after_s=2.0)
        found = len(request.prompt.token_ids)
        if found >= self.max_model_len:
            text = f"the prompt has {found} tokens; the maximum context length is {self.max_model_len}"
            raise InvalidRequestError(text, param="messages", code="context_length_exceeded")
        if max(request.prompt.token_ids) >= self.tokenizer.vocab_size:
            raise InvalidRequestError("a token id is outside the vocabulary", param="prompt")

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        self.check(request)
        self.seen.append(request)
        self.num_running += 1
        is_over = False
        try:
            async for output in self._outputs(request, self.say(request)):
                is_over = output.finish_reason is not None
                self._count(request, output)
                yield output
        finally:
            self.num_running -= 1
            if not is_over:
                self.cancelled.append(request.request_id)

    async def _outputs(self, request: EngineRequest, script: Script) -> AsyncIterator[EngineOutput]:
        num_prompt = len(request.prompt.token_ids)
        num_cached = min(3, num_prompt)
        shared = EngineOutput(num_prompt_tokens=num_prompt, num_cached_tokens=num_cached, version=self.version)
        steps = steps_of(script.pieces)
        most, num_tokens = request.params.max_tokens, 0
        await self._sleep(script.first_s)
        for number, (token_ids, deltas) in enumerate(steps):
            if script.dies_after is not None and number >= script.dies_after:
                raise EngineDead("the engine has ended: out of memory")
            if number:
                await self._sleep(script.gap_s)
            if script.waits is not None:
                await script.waits.wait()
            if self._closing.is_set():
                yield replace(shared, finish_reason="aborted", error="shutting down")
                return
            num_tokens += len(token_ids)
            output = replace(shared, token_ids=token_ids, deltas=deltas, logprobs=_logprobs(request, token_ids))
            if number == 0 and request.params.prompt_logprobs is not None:
                output = replace(output, prompt_logprobs=_prompt_logprobs(request))
            is_cut = most is not None and num_tokens >= most
            is_last = is_cut or number == len(steps) - 1
            if is_last and script.error is None:
                reason = "length" if is_cut else script.finish
                output = replace(output, finish_reason=reason, stop_reason=None if is_cut else script.stop_reason)
            yield output
            if is_cut:
                return
        if script.error is not None:
            yield replace(shared, finish_reason="error", error=script.error)

    async def _sleep(self, seconds: float) -> None:
        if seconds:
            try:
                async with asyncio.timeout(seconds):
                    await self._closing.wait()
            except TimeoutError:
                pass

    def _count(self, request: EngineRequest, output: EngineOutput) -> None:
        is_last = output.finish_reason is not None
        self.counted = replace(
            self.counted,
            generated_tokens_total=self.counted.generated_tokens_total + len(output.token_ids),
            prompt_tokens_total=self.counted.prompt_tokens_total + is_last * output.num_prompt_tokens,
            cached_tokens_total=self.counted.cached_tokens_total + is_last * output.num_cached_tokens,
        )

    def stats(self) -> EngineStats:
        times = {"queue_s": (0.001,), "ttft_s": (0.02,), "tpot_s": (0.003,), "step_s": (0.002,)}
        return replace(self.counted, num_running=self.num_running, num_blocks=10, num_free_blocks=4, histograms=times)

    async def update_weights(self, update: WeightUpdate) -> None:
        if not isinstance(update.source, Path) or not update.source.is_dir():
            raise CheckpointError("there are no weights")
        self.version = update.version

    async def close(self, *, drain_s: float = 0.0) -> None:
        self.fault = self.fault or "the server is shutting down"
        self.is_closed = True
        self._closing.set()


def steps_of(pieces: Iterable[str]) -> list[tuple[tuple[int, ...], tuple[Delta, ...]]]:
    """Token ids and deltas of each step, the end token with the last one."""
    steps: list[tuple[tuple[int, ...], tuple[Delta, ...]]] = []
    for piece in pieces:
        if piece in SLOT_OF:
            token_id = SPECIAL.id_of(piece)
            steps.append(((token_id,), (token_id,)))
        else:
            steps.append((tuple(TOKENIZER.encode(piece)), (piece,)))
    if not steps:
        return [((SPECIAL.im_end,), ())]
    token_ids, deltas = steps[-1]
    return [*steps[:-1], ((*token_ids, SPECIAL.im_end), deltas)]


def _logprobs(request: EngineRequest, token_ids: tuple[int, ...]) -> tuple[TokenLogprob, ...]:
    top = request.params.logprobs
    if top is None:
        return ()
    return tuple(TokenLogprob(token_id=one, logprob=-0.5, top=_top(one, top)) for one in token_ids)


def _prompt_logprobs(request: EngineRequest) -> tuple[TokenLogprob | None, ...]:
    top = request.params.prompt_logprobs or 0
    ids = request.prompt.token_ids[1:]
    return (None, *(TokenLogprob(token_id=one, logprob=-1.5, top=_top(one, top)) for one in ids))


def _top(token_id: int, top: int) -> tuple[tuple[int, float], ...]:
    return tuple(((token_id + rank) % NUM_RANKS, -0.5 - rank) for rank in range(top))


@dataclass
class FakeProcessor:
    """Every image is 28 x 28 px of one colour made from its bytes; a video has two chunks."""

    num_decoded: int = 0
    processor_id: str = "fake-1"

    def image(self, data: bytes) -> MediaItem:
        self.num_decoded += 1
        digest = hashlib.sha256(data).digest()
        return MediaItem(frames=np.full((1, 28, 28, 3), digest[0], np.uint8), content_hash=digest)

    def video(self, data: bytes) -> tuple[tuple[str, MediaItem], ...]:
        item = MediaItem(frames=np.zeros((4, 28, 56, 3), np.uint8), content_hash=hashlib.sha256(data).digest())
        return (("00:00:00.000", item), ("00:00:02.000", item))
