"""The engine as the server sees it: requests in, tokens out, and its sizes.

The engine runs in a thread of its own; `EngineClient` is its async face. `tests/model_runtime/fakes.py` has a fake one.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from model_runtime.engine.sampling.params import SamplingParams
from model_runtime.errors import CapacityError
from model_runtime.media import Prompt

if TYPE_CHECKING:
    from model_runtime.tokenizer import Tokenizer


FinishReason = Literal["stop", "length", "aborted", "error"]

Delta = str | int
"""A piece of output: text that is safe to show, or the id of a control token such as `</think>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token with its log-probability, and the likeliest alternatives.

    Attributes:
        token_id: The token.
        logprob: Natural logarithm of its probability under the distribution that `SamplingParams.logprobs_mode` names.
        top: Alternatives with theirs, best first; of the distribution that was drawn from, only what the filters left.
        sampled: Whether the model had a say in it. False where only one token could come, whatever the model gave: the
            end of a thought that ran out of budget, a place where the grammar allows one token; and in a prompt.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    sampled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One sequence to generate.

    Attributes:
        request_id: Unique among the requests in flight.
        prompt: Token ids and media.
        params: Sampling and ends.
        starts_in_reasoning: The prompt ends inside an open reasoning block.
        priority: Lower runs first; requests of equal priority run in order of arrival.
    """

    request_id: str
    prompt: Prompt
    params: SamplingParams
    starts_in_reasoning: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """What one step added to a sequence. The last one has a `finish_reason`.

    Attributes:
        token_ids: New tokens, the end token included.
        deltas: New text and control tokens. Text is held back while it may still become part of a stop text or a
            character; the model's end tokens and stop texts are left out.
        logprobs: One for each new token, where they were asked for.
        prompt_logprobs: With the first output, where asked for: one for each prompt token, None for the first.
        finish_reason: None while it goes on.
        stop_reason: The stop text or token id that ended it, where one of the request's own did.
        error: What went wrong, with `finish_reason` `error`.
        num_prompt_tokens: Tokens of the prompt.
        num_cached_tokens: How many of them came from the prefix cache.
    """

    token_ids: tuple[int, ...] = ()
    deltas: tuple[Delta, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a server has to know of the model."""

    name: str
    max_model_len: int
    vocab_size: int
    stop_token_ids: tuple[int, ...]

    @property
    def max_prompt_len(self) -> int:
        """Tokens of the longest prompt: a reply has one token at least."""
        return self.max_model_len - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Where the engine stands. Counters only ever grow; `histograms` hold observed seconds since the last call."""

    num_waiting: int = 0
    num_running: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0
    prompt_tokens_total: int = 0
    cached_tokens_total: int = 0
    generated_tokens_total: int = 0
    media_encoded_total: int = 0
    media_cached_total: int = 0
    preemptions_total: int = 0
    faults_total: int = 0
    histograms: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


class EngineClient(Protocol):
    """An engine as its users see it. All methods may be called from one event loop."""

    @property
    def card(self) -> ModelCard:
        """The model behind it."""
        ...

    @property
    def tokenizer(self) -> "Tokenizer":
        """The model's tokenizer."""
        ...

    def check(self, request: EngineRequest) -> None:
        """Raise what `generate` would raise at once, without starting anything.

        Raises:
            RequestError: The prompt does not fit the context, a value is out of range, the grammar cannot be met.
            BusyError: The queue is full.
        """
        ...

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Outputs until one has a `finish_reason`. Closing the iterator early cancels the request.

        Raises:
            RequestError: As `check`.
            EngineDead: The engine ended.
        """
        ...

    def stats(self) -> EngineStats:
        """Counters and what was timed since the last call."""
        ...

    @property
    def fault(self) -> str | None:
        """Why it takes no more requests, or None while it is healthy."""
        ...

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Take no new requests, give those in flight `drain_s` seconds, cancel the rest, free everything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Sizes of cache, batch and queue.

    Attributes:
        block_size: Tokens in one block of the latent cache; prefixes are shared in whole blocks.
        num_blocks: Blocks in the cache.
        max_model_len: Longest sequence, prompt and output; None for what model and cache allow.
        max_num_seqs: Sequences that run at once.
        max_num_batched_tokens: Tokens of one step; a longer prompt is computed in pieces, between which others decode.
        max_waiting: Requests that may queue before new ones are turned away.
        media_patches_per_step: Patches the vision tower encodes in one step, beyond the first item.
        feature_cache_bytes: Memory for encoded media, so that an image that is sent again is not encoded again.
        has_prefix_cache: Share the cache of equal beginnings.
        has_cuda_graphs: On a GPU with Triton's kernels, decode by CUDA graphs, which are captured at the start.
    """

    block_size: int = 64
    num_blocks: int = 1024
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 4096
    max_waiting: int = 1024
    media_patches_per_step: int = 16_384
    feature_cache_bytes: int = 1 << 30
    has_prefix_cache: bool = True
    has_cuda_graphs: bool = True

    def check(self) -> "EngineOptions":
        """The options themselves when they can work.

        Raises:
            CapacityError: A size is too small to run one sequence.
        """
        low = {"block_size": 1, "num_blocks": 2, "max_num_seqs": 1, "max_num_batched_tokens": 1, "max_waiting": 1}
        for name, least in low.items():
            if getattr(self, name) < least:
                raise CapacityError(f"{name} is {getattr(self, name)}; expected {least} or more")
        if self.max_num_batched_tokens < self.max_num_seqs:
            text = (
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, less than max_num_seqs ({self.max_num_seqs})"
            )
            raise CapacityError(
                f"{text}: each running sequence takes one token a step; raise the first or lower the second"
            )
        return self
