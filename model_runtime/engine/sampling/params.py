"""What a request asks of sampling."""

from dataclasses import dataclass
from typing import Literal, get_args

from model_runtime.errors import RequestError

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
