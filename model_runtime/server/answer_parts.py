"""Common parts of chat answers and plain completions: head of objects, token counts, log-probabilities, events."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from model_runtime.engine.contract import EngineOutput, SamplingParams, TokenLogprob
from model_runtime.errors import InvalidRequestError
from model_runtime.json_types import Json
from model_runtime.media import Prompt
from model_runtime.server.body import DrainingError, WeightsReplacedError, dump
from model_runtime.server.openapi import SamplingAnswer
from model_runtime.server.schemas import SamplingFields
from model_runtime.tokenizer import Tokenizer


@dataclass(slots=True)
class UsageCounter:
    """Token counts over all sequences of a request; a prompt that several choices share counts once."""

    num_choices: int = 1
    num_completion: int = 0
    num_reasoning: int = 0
    _prompts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, index: int, output: EngineOutput) -> None:
        """Add an output of sequence `index`."""
        self.num_completion += len(output.token_ids)
        if index % self.num_choices == 0 and output.num_prompt_tokens:
            self._prompts[index] = (output.num_prompt_tokens, output.num_cached_tokens)

    @property
    def num_prompt(self) -> int:
        """Number of prompt tokens."""
        return sum(prompt for prompt, _ in self._prompts.values())

    @property
    def num_cached(self) -> int:
        """Number of prompt tokens from the prefix cache."""
        return sum(cached for _, cached in self._prompts.values())

    def to_json(self) -> Json:
        """Return the counts in OpenAI's form."""
        return {
            "prompt_tokens": self.num_prompt,
            "completion_tokens": self.num_completion,
            "total_tokens": self.num_prompt + self.num_completion,
            "prompt_tokens_details": {"cached_tokens": self.num_cached},
            "completion_tokens_details": {"reasoning_tokens": self.num_reasoning},
        }


def chat_logprobs(logprobs: Iterable[TokenLogprob], tokenizer: Tokenizer, *, with_sampled: bool) -> list[Json]:
    """Return `logprobs.content` of a chat answer; `with_sampled` adds a flag for tokens chosen by the model."""
    return [
        _entry(entry.token_id, entry.logprob, tokenizer)
        | {"top_logprobs": [_entry(token_id, logprob, tokenizer) for token_id, logprob in entry.top]}
        | ({"sampled": entry.sampled} if with_sampled else {})
        for entry in logprobs
    ]


def text_logprobs(
    logprobs: Sequence[TokenLogprob | None],
    ids: Sequence[int],
    tokenizer: Tokenizer,
    offset: int,
    *,
    with_sampled: bool,
) -> Json:
    """Return `logprobs` of a plain completion, with one entry per token; `offset` is that of the first in the choice's
    text.
    """
    texts = [token_text(token_id, tokenizer) for token_id in ids]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [None if logprob is None else finite(logprob.logprob) for logprob in logprobs],
        "top_logprobs": [
            {token_text(token_id, tokenizer): finite(logprob) for token_id, logprob in entry.top}
            if entry and entry.top
            else None
            for entry in logprobs
        ],
        "text_offset": offsets,
        **({"sampled": [logprob is not None and logprob.sampled for logprob in logprobs]} if with_sampled else {}),
    }


def kept_json(logprobs: Sequence[TokenLogprob | None]) -> Json:
    """Return the kept sets of tokens, one after the other, and the number of ids in each."""
    sets = [() if entry is None else entry.kept_ids for entry in logprobs]
    return {"kept_token_ids": [token_id for ids in sets for token_id in ids], "num_kept": list(map(len, sets))}


def add_version(versions: list[Json], output: EngineOutput) -> None:
    """Add the number of an output's tokens to the list of versions that computed a reply's tokens, in order."""
    if not versions or versions[-1]["version"] != output.version:
        versions.append({"version": output.version, "num_tokens": 0})
    versions[-1]["num_tokens"] += len(output.token_ids)


def prompt_json(prompt: Prompt, processor_id: str) -> Json:
    """Return the fields that describe a prompt: its ids, its media by content hashes, and the processor's id."""
    media = [
        {
            "type": "media_hash",
            "media_hash": span.item.content_hash.hex(),
            "offset": span.offset,
            "num_tokens": span.item.num_tokens,
        }
        for span in prompt.media
    ]
    return {"prompt_token_ids": prompt.token_ids, "media": media, "processor": processor_id}


def prompt_logprobs_json(logprobs: Sequence[TokenLogprob | None], tokenizer: Tokenizer) -> list[Json | None]:
    """Return one entry per prompt token: by id, its own first, then the most likely; None for the first token."""
    return [
        None
        if entry is None
        else {
            str(token_id): {"logprob": finite(logprob), "decoded_token": token_text(token_id, tokenizer)}
            for token_id, logprob in [(entry.token_id, entry.logprob), *entry.top]
        }
        for entry in logprobs
    ]


def token_text(token_id: int, tokenizer: Tokenizer) -> str:
    """Return a token as text; incomplete characters become U+FFFD."""
    return tokenizer.token_bytes(token_id).decode("utf-8", "replace")


def finite(logprob: float) -> float:
    """Replace minus infinity, which JSON does not support, by the lowest value that OpenAI uses."""
    return max(logprob, -9999.0)


def _entry(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    data = tokenizer.token_bytes(token_id)
    return {"token": data.decode("utf-8", "replace"), "logprob": finite(logprob), "bytes": list(data)}


DONE = b"data: [DONE]\n\n"


def format_event(data: object) -> bytes:
    """Format one server-sent event."""
    return b"data: " + dump(data) + b"\n\n"


class ReplyBuilder(Protocol):
    """Interface of an answer in progress."""

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add an output of sequence `index`, and return the events to stream now; none for an answer that is not
        streamed.
        """
        ...

    def end(self) -> bytes:
        """Return the whole answer, or a stream's last events."""
        ...


class ReplyHead:
    """Fields of every object of one answer."""

    def __init__(self, reply_id: str, kind: str, model: str, params: SamplingParams) -> None:
        self._fields = {
            "id": reply_id,
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": fingerprint(model),
        }
        self._sampling = {"sampling": {name: getattr(params, name) for name in SamplingAnswer.model_fields}}
        self._has_begun = False
        self.version = ""
        self._opening = b"data: " + dump(self._fields).removesuffix(b"}") + b',"choices":['

    def to_json(self, choices: list[Json]) -> Json:
        """Return a whole answer with these choices, or the last object of a stream with none."""
        return self._fields | self._sampling | {"weight_version": self.version, "choices": choices}

    def to_event(self, choice: Json, more: Json) -> bytes:
        """Return an event of a stream: one choice, and further fields of the object."""
        if not self._has_begun:
            self._has_begun, more = True, self._sampling | more
        more = {"weight_version": self.version} | more
        rest = b"".join(b',"%s":%s' % (name.encode(), dump(value)) for name, value in more.items())
        return self._opening + dump(choice) + b"]" + rest + b"}\n\n"


@lru_cache(maxsize=64)
def fingerprint(model: str) -> str:
    """Return a fingerprint that depends only on the model name and the version of this server."""
    return "fp_" + hashlib.sha256(f"model_runtime 1 {model}".encode()).hexdigest()[:12]


def check_stream_options(body: SamplingFields) -> None:
    """Check that stream options are given only with a stream.

    Raises:
        RequestError: If they are given without a stream.
    """
    if body.stream_options is not None and not body.stream:
        raise InvalidRequestError("stream_options is set; expected stream: true as well", param="stream_options")


def check_output(output: EngineOutput) -> None:
    """Check that a sequence did not end with an error.

    Raises:
        RequestError: If it failed in the engine, or was cancelled there.
    """
    if output.finish_reason == "error":
        raise InvalidRequestError(f"the engine failed: {output.error}", code="engine_error", status=500)
    if output.finish_reason == "aborted":
        raise DrainingError(1.0)
    if output.finish_reason == "outdated":
        raise WeightsReplacedError(output.error or "the weights were replaced; send the request again")
