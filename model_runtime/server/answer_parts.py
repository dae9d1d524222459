"""What chat answers and plain completions share: the head of every object, token counts, log-probabilities, events."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from model_runtime.engine.contract import EngineOutput, TokenLogprob
from model_runtime.errors import RequestError
from model_runtime.server.body import DrainingError, dump
from model_runtime.server.schemas import SamplingFields
from model_runtime.tokenizer import Tokenizer


@dataclass(slots=True)
class Usage:
    """Counts over all sequences of a request; a prompt that several choices share counts once."""

    num_choices: int = 1
    num_completion: int = 0
    num_reasoning: int = 0
    _prompts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, index: int, output: EngineOutput) -> None:
        """Add what one step brought to sequence `index`."""
        self.num_completion += len(output.token_ids)
        if index % self.num_choices == 0 and output.num_prompt_tokens:
            self._prompts[index] = (output.num_prompt_tokens, output.num_cached_tokens)

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompts."""
        return sum(prompt for prompt, _ in self._prompts.values())

    @property
    def num_cached(self) -> int:
        """Of these, how many came from the prefix cache."""
        return sum(cached for _, cached in self._prompts.values())

    def to_json(self) -> dict[str, Any]:
        """OpenAI's form."""
        return {
            "prompt_tokens": self.num_prompt,
            "completion_tokens": self.num_completion,
            "total_tokens": self.num_prompt + self.num_completion,
            "prompt_tokens_details": {"cached_tokens": self.num_cached},
            "completion_tokens_details": {"reasoning_tokens": self.num_reasoning},
        }


Json = dict[str, Any]


def chat_logprobs(logprobs: Iterable[TokenLogprob], tokenizer: Tokenizer, *, with_sampled: bool) -> list[Json]:
    """Entries of `logprobs.content` of a chat answer; `with_sampled` says of each who chose it."""
    return [
        _entry(one.token_id, one.logprob, tokenizer)
        | {"top_logprobs": [_entry(token_id, logprob, tokenizer) for token_id, logprob in one.top]}
        | ({"sampled": one.sampled} if with_sampled else {})
        for one in logprobs
    ]


def text_logprobs(
    logprobs: Sequence[TokenLogprob | None],
    ids: Sequence[int],
    tokenizer: Tokenizer,
    offset: int,
    *,
    with_sampled: bool,
) -> Json:
    """`logprobs` of a plain completion, an entry a token; the first begins at `offset` in the text of the choice."""
    texts = [token_text(token_id, tokenizer) for token_id in ids]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [None if one is None else finite(one.logprob) for one in logprobs],
        "top_logprobs": [
            {token_text(token_id, tokenizer): finite(logprob) for token_id, logprob in one.top}
            if one and one.top
            else None
            for one in logprobs
        ],
        "text_offset": offsets,
        **({"sampled": [one is not None and one.sampled for one in logprobs]} if with_sampled else {}),
    }


def prompt_logprobs_json(logprobs: Sequence[TokenLogprob | None], tokenizer: Tokenizer) -> list[Json | None]:
    """One entry for each token of a prompt: by id, its own first, then the likeliest; None for the first token."""
    return [
        None
        if one is None
        else {
            str(token_id): {"logprob": finite(logprob), "decoded_token": token_text(token_id, tokenizer)}
            for token_id, logprob in [(one.token_id, one.logprob), *one.top]
        }
        for one in logprobs
    ]


def token_text(token_id: int, tokenizer: Tokenizer) -> str:
    """A token as text; what is no whole character shows as U+FFFD."""
    return tokenizer.token_bytes(token_id).decode("utf-8", "replace")


def finite(logprob: float) -> float:
    """JSON has no infinity: what cannot happen gets the lowest value that OpenAI uses."""
    return max(logprob, -9999.0)


def _entry(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    data = tokenizer.token_bytes(token_id)
    return {"token": data.decode("utf-8", "replace"), "logprob": finite(logprob), "bytes": list(data)}


DONE = b"data: [DONE]\n\n"


def format_event(data: object) -> bytes:
    """One server-sent event."""
    return b"data: " + dump(data) + b"\n\n"


class Reply(Protocol):
    """One answer in the making."""

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add a step of sequence `index`; the events to stream now, nothing where the answer comes whole."""
        ...

    def end(self) -> bytes:
        """The whole answer, or a stream's last events."""
        ...


class ReplyHead:
    """What stands in every object of one answer."""

    def __init__(self, reply_id: str, kind: str, model: str) -> None:
        self._fields = {
            "id": reply_id,
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": fingerprint(model),
        }
        self._opening = b"data: " + dump(self._fields).removesuffix(b"}") + b',"choices":['

    def to_json(self, choices: list[Json]) -> Json:
        """An object with these choices."""
        return self._fields | {"choices": choices}

    def to_event(self, choice: Json, more: Json) -> bytes:
        """An event of a stream: one choice, and further fields of the object."""
        rest = b"".join(b',"%s":%s' % (name.encode(), dump(value)) for name, value in more.items())
        return self._opening + dump(choice) + b"]" + rest + b"}\n\n"


@lru_cache(maxsize=64)
def fingerprint(model: str) -> str:
    """The same for the same model name and version of this server."""
    return "fp_" + hashlib.sha256(f"model_runtime 1 {model}".encode()).hexdigest()[:12]


def check_stream_options(asked: SamplingFields) -> None:
    """Refuse options of a stream without a stream.

    Raises:
        RequestError: There are some.
    """
    if asked.stream_options is not None and not asked.stream:
        raise RequestError("stream_options is set; expected stream: true beside it", param="stream_options")


def check_output(output: EngineOutput) -> None:
    """Refuse to go on with a sequence that did not end by itself.

    Raises:
        RequestError: It failed in the engine, or was cancelled there.
    """
    if output.finish_reason == "error":
        raise RequestError(f"the engine failed: {output.error}", code="engine_error", status=500)
    if output.finish_reason == "aborted":
        raise DrainingError(1.0)
