"""What chat answers and plain completions share: the head of every object, the end of a sequence, the usage."""

import hashlib
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from model_runtime.engine.contract import EngineOutput
from model_runtime.errors import RequestError
from model_runtime.server.errors import DrainingError, dump
from model_runtime.server.schemas.common import SamplingFields

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"


def event(data: object) -> bytes:
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
    """What stands in every object of one answer.

    Args:
        reply_id: Of the answer.
        kind: OpenAI's `object`.
        model: The name the client used.
    """

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


@dataclass(frozen=True, slots=True)
class StreamWishes:
    """What a stream carries beside the deltas."""

    is_stream: bool
    usage_at_end: bool
    usage_always: bool


def read_wishes(asked: SamplingFields) -> StreamWishes:
    """What the request says of streaming.

    Raises:
        RequestError: Options of a stream without a stream.
    """
    options = asked.stream_options
    if options is not None and not asked.stream:
        raise RequestError("stream_options is set; expected stream: true beside it", param="stream_options")
    at_end = options is not None and bool(options.include_usage)
    always = options is not None and bool(options.continuous_usage_stats)
    return StreamWishes(bool(asked.stream), at_end, at_end and always)


def check_output(output: EngineOutput) -> None:
    """Refuse to go on with a sequence that did not end by itself.

    Raises:
        RequestError: It failed in the engine, or was cancelled there.
    """
    if output.finish_reason == "error":
        raise RequestError(f"the engine failed: {output.error}", code="engine_error", status=500)
    if output.finish_reason == "aborted":
        raise DrainingError(1.0)
