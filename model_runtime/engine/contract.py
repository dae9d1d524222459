"""Interface of the engine: requests with sampling parameters, outputs, and sizes.

The engine runs in its own thread; `EngineClient` is its async interface. `tests/model_runtime/fakes.py` has a fake one.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from model_runtime.errors import CapacityError, InvalidRequestError
from model_runtime.media import Prompt

if TYPE_CHECKING:
    from torch import Tensor

    from model_runtime.tokenizer import Tokenizer


LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]
"""Distribution of the log-probabilities, under vLLM's names: the model's own, or the one that the token was drawn from,
after penalties, grammar, banned tokens, temperature, top-k, top-p and min-p.
"""

MAX_KEPT_IDS = 1024
"""Limit on the kept set of a position, of four bytes an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarSpec:
    """Constraint on the output.

    Attributes:
        kind: `json_schema` (text is a schema as JSON), `json_object` (text is empty), `regex`, or `lark` (a grammar in
            llguidance's Lark dialect, with control tokens written as `<|name|>`).
        text: Schema, expression or grammar.
        starts_after_reasoning: True to apply it only after the reasoning block, if the prompt opened one.
    """

    kind: Literal["json_schema", "json_object", "regex", "lark"]
    text: str = ""
    starts_after_reasoning: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Parameters of sampling, and conditions that end a sequence.

    Attributes:
        temperature: Temperature; 0 for greedy decoding.
        top_p: Share of the probability in (0, 1]; only the smallest set of tokens with this share is kept.
        top_k: Number of most likely tokens to keep; 0 for all.
        min_p: Minimum probability of a token, as a share of the most likely one's.
        presence_penalty: Value subtracted from the logit of each token already generated.
        frequency_penalty: Value subtracted once for each time the token was generated.
        repetition_penalty: Factor that divides positive and multiplies negative logits of tokens in prompt or output; 1
            for none.
        seed: Random seed; the same seed gives the same tokens, independent of the rest of the batch. None for a random
            one.
        max_tokens: Maximum number of output tokens; None for the rest of the context.
        min_tokens: Minimum number of output tokens.
        stop: Texts that end the sequence; they are not part of the output.
        stop_token_ids: Tokens that end the sequence, in addition to the model's own.
        ignore_eos: True to continue after the model's own end tokens.
        logprobs: Number of alternatives to report with each token; None for no log-probabilities.
        logprobs_mode: Distribution of these log-probabilities. The prompt's are always the model's own.
        prompt_logprobs: Number of alternatives to report with each prompt token; None for no log-probabilities.
        return_kept_ids: True to report the kept set of each token that has log-probabilities; `top_k` must then limit
            it to `MAX_KEPT_IDS` if top-k, top-p or min-p are used.
        thinking_budget: Maximum number of reasoning tokens, after which reasoning is closed; None for no limit.
        grammar: Constraint on the output.
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
    return_kept_ids: bool = False
    thinking_budget: int | None = None
    grammar: GrammarSpec | None = None

    @property
    def is_filtered(self) -> bool:
        """True if top-k, top-p or min-p leave tokens out."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    def check(self) -> "SamplingParams":
        """Return the parameters if every value is in its range.

        Raises:
            RequestError: If a value is out of its range; the text names it.
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
                raise InvalidRequestError(f"{name} is {value!r}; expected {low:g} to {high:g}", param=name)
        if self.logprobs_mode not in get_args(LogprobsMode):
            names = " or ".join(get_args(LogprobsMode))
            raise InvalidRequestError(
                f"logprobs_mode is {self.logprobs_mode!r}; expected {names}", param="logprobs_mode"
            )
        if self.return_kept_ids and self.is_filtered and not 0 < self.top_k <= MAX_KEPT_IDS:
            text = f"top_k is {self.top_k}; expected 1 to {MAX_KEPT_IDS} with kept sets"
            raise InvalidRequestError(text, param="top_k")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            text = f"min_tokens is {self.min_tokens}, more than max_tokens ({self.max_tokens})"
            raise InvalidRequestError(text, param="min_tokens")
        return self


FinishReason = Literal["stop", "length", "aborted", "error", "outdated"]

Delta = str | int
"""Piece of output: text that is safe to show, or the id of a control token such as `</think>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token with its log-probability, and the most likely alternatives.

    Attributes:
        token_id: The token.
        logprob: Natural logarithm of its probability under the distribution selected by `SamplingParams.logprobs_mode`.
        top: Alternatives with their log-probabilities, best first; in mode `processed_logprobs`, only those that the
            filters kept.
        sampled: True if the model chose the token. False where only one token was possible: at the end of reasoning
            over budget, where the grammar allows one token, and in a prompt.
        kept_ids: Kept set, in ascending order: the tokens that could be drawn after grammar, bans and filters. Empty if
            not requested, of a token that was not drawn, or if there are more than `MAX_KEPT_IDS`.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    sampled: bool = True
    kept_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One sequence to generate.

    Attributes:
        request_id: Id, unique among the requests in flight.
        prompt: Token ids and media.
        params: Sampling parameters.
        starts_in_reasoning: True if the prompt ends inside an open reasoning block.
        priority: Priority; lower runs first, requests of equal priority run in order of arrival.
    """

    request_id: str
    prompt: Prompt
    params: SamplingParams
    starts_in_reasoning: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """Output of one step for a sequence. The last one has a `finish_reason`.

    Attributes:
        token_ids: New tokens, including the end token.
        deltas: New text and control tokens. Text is held back while it may still become part of a stop text or a
            character; the model's end tokens and stop texts are left out.
        logprobs: Log-probability of each new token, if requested.
        prompt_logprobs: Log-probability of each prompt token, if requested, in the first output; None for the first
            token.
        finish_reason: Reason of the end; None while the sequence continues.
        stop_reason: Stop text or token id of the request that ended the sequence, if one did.
        error: Error text, if `finish_reason` is `error`.
        num_prompt_tokens: Number of prompt tokens.
        num_cached_tokens: Number of prompt tokens from the prefix cache.
        version: Version of the weights that computed `token_ids`.
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
    version: str = ""


OnUpdate = Literal["finish", "pause", "restart"]
"""Treatment of running requests at an update of the weights: they finish on the old ones while new requests wait, they
go on with the new ones after their tokens so far are computed again, or they end as `outdated`, to be sent again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUpdate:
    """New weights for a loaded model.

    Attributes:
        version: Version that replies of these weights carry.
        source: Folder of a checkpoint, or tensors by their names in the release; packed if the model's are.
        running: Treatment of running requests.
    """

    version: str
    source: "Path | Mapping[str, Tensor]" = field(repr=False)
    running: OnUpdate = "finish"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Properties of the model that a server needs."""

    name: str
    max_model_len: int
    vocab_size: int
    stop_token_ids: tuple[int, ...]

    @property
    def max_prompt_len(self) -> int:
        """Maximum prompt length in tokens: a reply has at least one token."""
        return self.max_model_len - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """State of the engine. Counters are cumulative; `histograms` hold the seconds observed since the last call."""

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
    """Interface of an engine for its users. All methods may be called from one event loop."""

    @property
    def card(self) -> ModelCard:
        """Properties of the model."""
        ...

    @property
    def tokenizer(self) -> "Tokenizer":
        """The model's tokenizer."""
        ...

    def check(self, request: EngineRequest) -> None:
        """Raise the errors that `generate` would raise immediately, without starting anything.

        Raises:
            RequestError: If the prompt does not fit the context, a value is out of range, or the grammar cannot be
                satisfied.
            BusyError: If the queue is full.
        """
        ...

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Yield outputs until one has a `finish_reason`. Closing the iterator early cancels the request.

        Raises:
            RequestError: See `check`.
            EngineDead: If the engine ended.
        """
        ...

    async def update_weights(self, update: WeightUpdate) -> None:
        """Replace the weights in place; returns when the next token comes from the new ones.

        Raises:
            CheckpointError: If a tensor is missing or misshapen; the old weights stay in use.
            EngineDead: If the engine ended, or the weights are a mix of old and new ones.
        """
        ...

    def stats(self) -> EngineStats:
        """Return counters, and times observed since the last call."""
        ...

    @property
    def fault(self) -> str | None:
        """Reason why it accepts no more requests; None while it is healthy."""
        ...

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Stop accepting requests, wait up to `drain_s` seconds for those in flight, cancel the rest, and free all
        resources.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Sizes of cache, batch and queue.

    Attributes:
        block_size: Tokens in one block of the latent cache; prefixes are shared in whole blocks.
        num_blocks: Blocks in the cache.
        max_model_len: Maximum length of a sequence, prompt and output; None for the limit of model and cache.
        max_num_seqs: Maximum number of concurrent sequences.
        max_num_batched_tokens: Maximum number of tokens in one step; a longer prompt is computed in chunks, between
            which others decode.
        max_waiting: Maximum number of queued requests; further ones are rejected.
        media_patches_per_step: Maximum number of patches that the vision tower encodes in one step; the first item may
            exceed it.
        feature_cache_bytes: Memory for encoded media, so that an image that is sent again is not encoded again.
        has_prefix_cache: True to share cache blocks of equal prefixes.
        is_batch_invariant: True to compute every token with the same bits alone and among others, for a model with the
            operators `invariant`; see `ops.invariant`.
        has_cuda_graphs: True to decode with CUDA graphs, captured at the start, on a GPU with Triton's kernels.
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
    is_batch_invariant: bool = False

    def check(self) -> "EngineOptions":
        """Return the options if they are valid.

        Raises:
            CapacityError: If a size is too small to run one sequence.
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
