"""What the server knows of the engine: a request goes in, tokens come out.

The engine runs in a thread of its own; `EngineClient` is its async face. `tests/model_runtime/fakes.py` has a fake one.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from model_runtime.engine.sampling.params import SamplingParams
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
