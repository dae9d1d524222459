"""Sampling fields of a request to the engine's parameters."""

from dataclasses import replace

from model_runtime.engine.sampling.params import GrammarSpec, SamplingParams
from model_runtime.errors import RequestError
from model_runtime.server.schemas import ChatRequest, SamplingFields, TextRequest

TOP_P = 0.95
THINKING_TEMPERATURE, INSTANT_TEMPERATURE = 1.0, 0.6
"""Source: README of moonshotai/Kimi-K2.5, recommended sampling."""


def chat_params(asked: ChatRequest, *, thinking: bool, grammar: GrammarSpec | None) -> SamplingParams:
    """Parameters of a chat request; temperature and top_p are the model card's where it names none.

    Raises:
        RequestError: Fields contradict each other.
    """
    _refuse_unsupported(asked)
    if asked.top_logprobs and not asked.logprobs:
        raise RequestError("top_logprobs is set; expected logprobs: true beside it", param="top_logprobs")
    max_tokens = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
    if max_tokens == 0:
        raise RequestError("max_tokens is 0; expected 1 or more", param="max_tokens")
    budget = asked.thinking_budget
    if budget is None and asked.thinking is not None:
        budget = asked.thinking.budget_tokens
    temperature = THINKING_TEMPERATURE if thinking else INSTANT_TEMPERATURE
    return replace(
        _common(asked, temperature=temperature, top_p=TOP_P),
        max_tokens=max_tokens,
        logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
        thinking_budget=budget if thinking else None,
        grammar=grammar,
    ).check()


def text_params(asked: TextRequest) -> SamplingParams:
    """Parameters of a plain completion; temperature and top_p are 1 where it names none.

    Raises:
        RequestError: Fields contradict each other, or are not supported.
    """
    _refuse_unsupported(asked)
    if asked.suffix:
        raise RequestError("suffix is not supported; leave it out", param="suffix", code="unsupported_parameter")
    if asked.best_of is not None and asked.best_of != (asked.n or 1):
        text = f"best_of is {asked.best_of}; expected it left out, or equal to n"
        raise RequestError(text, param="best_of", code="unsupported_parameter")
    if asked.max_tokens == 0 and not asked.echo:
        raise RequestError("max_tokens is 0; expected 1 or more, or echo beside it", param="max_tokens")
    prompt_logprobs = asked.prompt_logprobs
    if prompt_logprobs is None and asked.echo:
        prompt_logprobs = asked.logprobs
    return replace(
        _common(asked, temperature=1.0, top_p=1.0),
        max_tokens=max(1, asked.max_tokens) if asked.max_tokens is not None else None,
        logprobs=asked.logprobs,
        prompt_logprobs=prompt_logprobs,
    ).check()


def _common(asked: SamplingFields, *, temperature: float, top_p: float) -> SamplingParams:
    stop = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
    return SamplingParams(
        temperature=temperature if asked.temperature is None else asked.temperature,
        top_p=top_p if asked.top_p is None else asked.top_p,
        top_k=max(0, asked.top_k or 0),
        min_p=asked.min_p or 0.0,
        presence_penalty=asked.presence_penalty or 0.0,
        frequency_penalty=asked.frequency_penalty or 0.0,
        repetition_penalty=1.0 if asked.repetition_penalty is None else asked.repetition_penalty,
        seed=asked.seed,
        logprobs_mode=asked.logprobs_mode or "raw_logprobs",
        min_tokens=asked.min_tokens or 0,
        stop=stop,
        stop_token_ids=tuple(asked.stop_token_ids or ()),
        ignore_eos=bool(asked.ignore_eos),
    )


def _refuse_unsupported(asked: SamplingFields) -> None:
    """Refuse what would change the answer and is not there; what would not is ignored.

    Raises:
        RequestError: A field asks for it.
    """
    wrong: dict[str, object] = {"logit_bias": asked.logit_bias}
    if isinstance(asked, ChatRequest):
        wrong |= {"functions": asked.functions, "function_call": asked.function_call, "audio": asked.audio}
        wrong |= {"web_search_options": asked.web_search_options}
        wrong |= {"modalities": None if asked.modalities in (None, ["text"]) else asked.modalities}
    for name, value in wrong.items():
        if value:
            instead = {"functions": "; use tools", "function_call": "; use tool_choice"}.get(name, "; leave it out")
            raise RequestError(f"{name} is not supported{instead}", param=name, code="unsupported_parameter")
