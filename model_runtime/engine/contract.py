"""The engine as the server sees it: requests, what they ask of sampling, tokens out, and its sizes.

The engine runs in a thread of its own; `EngineClient` is its async face. `tests/model_runtime/fakes.py` has a fake one.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from model_runtime.errors import CapacityError, RequestError
from model_runtime.media import Prompt

if TYPE_CHECKING:
    from model_runtime.tokenizer import Tokenizer


LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]
"""Of which distribution the log-probabilities are, under vLLM's names: the model's own; or the one that the token was
drawn from, after penalties, grammar, barred tokens, temperature, top-k, top-p and min-p."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarSpec:
    """What the output must match.

    Attributes:
        kind: `json_schema` (JSON text of a schema), `json_object` (text empty), `regex`, or `lark` (a grammar in
            llguidance's Lark dialect, where control tokens are written `<|name|>`).
        text: The schema, expression or grammar.
        starts_after_reasoning: Applies from the end of the reasoning block on, where the prompt opened one.
    """

    kind: Literal["json_schema", "json_object", "regex", "lark"]
    text: str = ""
    starts_after_reasoning: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn and when a sequence ends.

    Attributes:
        temperature: 0 takes the likeliest token.
        top_p: Smallest set of tokens with this share of the probability, in (0, 1].
        top_k: Only the k likeliest; 0 for all.
        min_p: Only tokens with at least this share of the likeliest one's probability.
        presence_penalty: Subtracted from the logit of each token already generated.
        frequency_penalty: Subtracted once for each time the token was generated.
        repetition_penalty: Divides positive and multiplies negative logits of tokens in prompt or output; 1 for none.
        seed: Same seed, same tokens, whatever else is in the batch; None for a random one.
        max_tokens: Tokens to generate at most; None for what the context leaves.
        min_tokens: No end before that many tokens.
        stop: Texts that end the sequence; they are not part of the output.
        stop_token_ids: Further tokens that end it, beside the model's own.
        ignore_eos: Go on after the model's own end tokens.
        logprobs: How many alternatives to report with each token; None for no log-probabilities at all.
        logprobs_mode: Of which distribution those are. The prompt's are always the model's own.
        prompt_logprobs: The same for the prompt's tokens.
        thinking_budget: Tokens the reasoning may take before it is closed; None for no limit.
        grammar: What the output must match.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    logprobs_mode: LogprobsMode = "raw_logprobs"
    prompt_logprobs: int | None = None
    thinking_budget: int | None = None
    grammar: GrammarSpec | None = None

    def check(self) -> "SamplingParams":
        """The params themselves when every value is in its range.

        Raises:
            RequestError: A value is out of its range; the text names it.
        """
        ranges: tuple[tuple[str, float, float], ...] = (
            *(("temperature", 0.0, 100.0), ("top_p", 1e-9, 1.0), ("min_p", 0.0, 1.0)),
            *(("presence_penalty", -2.0, 2.0), ("frequency_penalty", -2.0, 2.0), ("repetition_penalty", 1e-3, 10.0)),
            *(("top_k", 0, 2**31), ("max_tokens", 1, 2**31), ("min_tokens", 0, 2**31), ("thinking_budget", 0, 2**31)),
            *(("logprobs", 0, 20), ("prompt_logprobs", 0, 20), ("seed", -(2**63), 2**63 - 1)),
        )
        for name, low, high in ranges:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:  # NaN is in no range
                raise RequestError(f"{name} is {value!r}; expected {low:g} to {high:g}", param=name)
        if self.logprobs_mode not in get_args(LogprobsMode):
            names = " or ".join(get_args(LogprobsMode))
            raise RequestError(f"logprobs_mode is {self.logprobs_mode!r}; expected {names}", param="logprobs_mode")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            text = f"min_tokens is {self.min_tokens}, more than max_tokens ({self.max_tokens})"
            raise RequestError(text, param="min_tokens")
        return self


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
