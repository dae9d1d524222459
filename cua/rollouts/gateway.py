"""Gateway between agents and an engine: records the ids of every reply, by session.

An agent that knows only an OpenAI-compatible server gets the gateway's address. The gateway continues conversations
from recorded ids where the engine takes them, so that what is trained is what was sampled, and refuses settings whose
effect on the probabilities it cannot account for.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from cua.errors import CuaError, ModelError
from cua.json_text import Json, JsonMapping, read_object
from cua.messages import ReplyTokens
from cua.models.accumulator import StreamAccumulator, number_of
from cua.models.token_turns import TOKEN_FIELDS
from cua.rollouts.turns import MAX_REALIGNED, Drift, TurnLog, realigned_share

MAX_SESSIONS = 10_000
NUM_REPLIES = 256
"""Replies of a session that a retry can get."""
PASSED = (
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "stop",
    "seed",
)
"""Fields of a request that the engine gets."""
DROPPED = frozenset(
    {"model", "stream", "stream_options", "user", "metadata", "store", "service_tier", "prompt_cache_key"}
)
"""Fields without an effect on the reply."""
NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "n": (1, None),
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "repetition_penalty": (1, None),
    "logit_bias": ({}, None),
    "response_format": ({"type": "text"}, None),
    "tool_choice": ("auto", "none", None),
    "logprobs": (True, False, None),
    "top_logprobs": (0, None),
    "reasoning_effort": (None,),
}
"""Values of fields that leave the distribution as it is, or change it in a way that is recorded."""
RECORDS = frozenset(
    {
        *("prompt_token_ids", "media", "processor", "token_ids", "logprobs", "kept_token_ids", "num_kept"),
        *("weight_versions", "sampling"),
    }
)
"""Fields of an answer that an agent does not get."""
FILTERS: Mapping[str, tuple[float, ...]] = {"top_p": (1,), "top_k": (0, -1), "min_p": (0,)}
"""Fields that leave tokens out, with the values that leave out none; the engine returns what they kept."""


class GatewayError(CuaError):
    """Request that the gateway refuses.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class EngineError(CuaError):
    """Error answer of the engine, passed to the agent as it is.

    Attributes:
        status: HTTP status.
        body: JSON body.
    """

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"the engine answered {status}")
        self.status = status
        self.body = body


class CompletionEngine(Protocol):
    """Server of chat completions that returns token ids."""

    async def complete(self, body: JsonMapping) -> Json:
        """Return the whole answer to a request of `/v1/chat/completions`.

        Raises:
            EngineError: If the engine answers with an error.
            ModelError: If it cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """What a conversation up to and including a reply is as ids."""

    ids: "array[int]"
    media: tuple[Json, ...]
    num_messages: int


@dataclass(slots=True)
class GatewaySession:
    """Recorded turns of one session; one agent, which may have sub-agents.

    Attributes:
        log: The turns.
        digests: SHA-256 of each image and video, by its URL as it was sent (with its data).
    """

    log: TurnLog = field(default_factory=TurnLog)
    digests: dict[str, str] = field(default_factory=dict)
    known: dict[bytes, _Known] = field(default_factory=dict)
    replies: dict[str, "asyncio.Task[tuple[Json, int]]"] = field(default_factory=dict)
    is_closed: bool = False

    def read_media(self) -> Iterator[bytes]:
        """Yield each image and video that was sent; its SHA-256 is the name in the turns."""
        return map(_bytes_of, self.digests)


class Gateway:
    """Sessions in front of one engine.

    Args:
        engine: The engine; the caller closes it.
        model: Name of the model at the engine, whatever an agent calls it; "" leaves it out.
    """

    def __init__(self, engine: CompletionEngine, model: str = "") -> None:
        self._engine = engine
        self._fields = TOKEN_FIELDS | ({"model": model} if model else {})
        self._drifts: Counter[Drift] = Counter()  # of all turns after the first of a session, closed ones included
        self._is_open, self._is_idle = asyncio.Event(), asyncio.Event()
        self._is_open.set()
        self._num_calls = 0
        self.sessions: dict[str, GatewaySession] = {}

    @asynccontextmanager
    async def paused(self, *, finish: bool = False) -> AsyncIterator[None]:
        """Hold new calls of the engine inside this context.

        Args:
            finish: True to wait first until those in flight have ended.
        """
        self._is_open.clear()
        try:
            while finish and self._num_calls:
                self._is_idle.clear()
                await self._is_idle.wait()
            yield
        finally:
            self._is_open.set()

    def open_session(self, session_id: str) -> GatewaySession:
        """Open a session.

        Raises:
            GatewayError: If there is one of this name, or there are too many.
        """
        if session_id in self.sessions:
            raise GatewayError(f"the session {session_id!r} is open already", 409)
        if len(self.sessions) >= MAX_SESSIONS:
            raise GatewayError(f"{MAX_SESSIONS:,} sessions are open; close some", 429)
        self.sessions[session_id] = session = GatewaySession()
        return session

    def close_session(self, session_id: str) -> GatewaySession:
        """Close a session and return what was recorded.

        Raises:
            GatewayError: If there is no such session.
        """
        session = self._find(session_id)
        session.is_closed = True
        for task in session.replies.values():
            task.cancel()
        return self.sessions.pop(session_id)

    def check_drift(self) -> None:
        """Check that histories are not tokenized again.

        Raises:
            GatewayError: If more than `MAX_REALIGNED` of the turns are `REALIGN`.
        """
        share = realigned_share(self._drifts)
        if share > MAX_REALIGNED:
            raise GatewayError(
                f"{share:.1%} of the turns had their history tokenized again (at most {MAX_REALIGNED:.0%}): the agent "
                "changes replies before it sends them back, or the engine does not take ids",
                409,
            )

    async def complete(
        self, session_id: str, body: JsonMapping, *, key: str = "", is_retry: bool = False
    ) -> tuple[Json, int]:
        """Answer a request of `/v1/chat/completions`; return the answer without the recorded fields, and the turn's id.

        The engine's call goes on if the client leaves, and its reply is recorded as not delivered; a retry of the same
        request gets that reply. Else the same request again is a second sample.

        Args:
            session_id: Session to record in.
            body: Request.
            key: Key that the client gives to a request and repeats with its retries; "" if it gives none.
            is_retry: True if the client says that it sends the request again after a lost answer.

        Raises:
            GatewayError: If the request is refused.
            EngineError: If the engine answers with an error.
            ModelError: If the engine cannot be reached, or its answer has no ids and log-probabilities.
        """
        session = self._find(session_id)
        self.check_drift()
        request = check_request(body)
        named, files = _keep_media(request["messages"], session.digests)
        sha256 = hashlib.sha256(json.dumps({**request, "messages": named}, sort_keys=True).encode()).hexdigest()
        name = f"{key}:{sha256}"
        task = session.replies.get(name) if key or is_retry else None
        if task is None:
            session.replies[name] = task = asyncio.ensure_future(self._complete(session, request, named, files, sha256))
            task.add_done_callback(partial(_forget_failure, session.replies, name))
            if len(session.replies) > NUM_REPLIES:
                session.replies.pop(next(iter(session.replies)))
        answer, turn_id = await asyncio.shield(task)
        turns = session.log.turns
        turns[turn_id] = replace(turns[turn_id], is_delivered=True)
        return answer, turn_id

    def _find(self, session_id: str) -> GatewaySession:
        if session_id not in self.sessions:
            raise GatewayError(f"there is no session {session_id!r}; open it first", 404)
        return self.sessions[session_id]

    async def _complete(
        self, session: GatewaySession, request: Json, named: Sequence[Json], files: tuple[str, ...], sha256: str
    ) -> tuple[Json, int]:
        messages = request["messages"]
        keys = _chain(named, request.get("tools"))
        known = next((session.known[key] for key in reversed(keys[:-1]) if key in session.known), None)
        await self._is_open.wait()
        self._num_calls += 1
        try:
            answer = await self._ask(request, messages, known)
        finally:
            self._num_calls -= 1
            self._is_idle.set()
        tokens = _tokens_of(answer)
        _check_kept(request, tokens)
        if session.is_closed:
            raise GatewayError("the session was closed", 409)
        choice = answer["choices"][0]
        sampling = answer.get("sampling") or request
        temperature, top_p = (number_of(sampling.get(name)) for name in ("temperature", "top_p"))
        turn = session.log.add(
            tokens,
            temperature=1.0 if temperature is None else temperature,
            top_p=1.0 if top_p is None else top_p,
            files=files,
            finish_reason=str(choice.get("finish_reason")),
            request_sha256=sha256,
            is_delivered=False,
        )
        self._drifts[turn.drift] += turn.turn_id > 0
        if tokens.processor:
            reply = _chain([choice["message"]], None, keys[-1])[0]
            media = tuple(answer.get("media") or ())
            session.known[reply] = _Known(turn.prompt_ids + turn.output_ids, media, len(messages) + 1)
        return _without_records(answer), turn.turn_id

    async def _ask(self, request: Json, messages: Sequence[Json], known: _Known | None) -> Json:
        """Ask the engine, from recorded ids if possible; if it has forgotten an image, that is sent again."""
        if known is None:
            return await self._engine.complete({**request, **self._fields})
        body = {**request, **self._fields, "messages": list(messages[known.num_messages :])}
        body |= {"prompt_token_ids": known.ids.tolist(), "media": list(known.media)}
        try:
            return await self._engine.complete(body)
        except EngineError as error:
            if (error.body.get("error") or {}).get("code") != "unknown_media":
                raise
        parts = [part for message in messages[: known.num_messages] for part in _media_parts(message)]
        return await self._engine.complete({**body, "media": parts})


def _forget_failure(
    replies: "dict[str, asyncio.Task[tuple[Json, int]]]", name: str, task: "asyncio.Task[object]"
) -> None:
    """Drop a call that failed, so that a retry asks the engine again; its client may have left."""
    if (task.cancelled() or task.exception() is not None) and replies.get(name) is task:
        del replies[name]


def check_request(body: JsonMapping) -> Json:
    """Return the fields for the engine.

    Raises:
        GatewayError: If a field is unknown, or changes the distribution in a way that is not recorded.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise GatewayError("messages is not a list of at least one message")
    for message in messages:
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(
            isinstance(call, dict) and isinstance(call.get("function") or {}, dict) for call in calls
        ):
            raise GatewayError("tool_calls of a message is not a list of calls")
        for part in _media_parts(message):
            if not isinstance(part.get(part["type"]), dict):
                raise GatewayError(f"{part['type']} of a part is not an object with a url")
    for name, value in body.items():
        if name in NEUTRAL and value not in NEUTRAL[name]:
            allowed = " or ".join(json.dumps(item) for item in NEUTRAL[name] if item is not None) or "nothing"
            raise GatewayError(
                f"{name} is {json.dumps(value)[:100]}: its effect on the probabilities is not recorded; send {allowed}"
            )
        if name not in (*PASSED, *NEUTRAL, *DROPPED, "max_completion_tokens", "chat_template_kwargs"):
            raise GatewayError(f"{name} is not a field that can be accounted for; leave it out")
    request: Json = {"top_p": 1.0}  # the engine's default is less
    request |= {name: body[name] for name in (*PASSED, "chat_template_kwargs") if body.get(name) is not None}
    if body.get("max_completion_tokens") is not None:
        request["max_tokens"] = body["max_completion_tokens"]
    return request


def _chain(messages: Sequence[JsonMapping], tools: object, before: bytes = b"") -> list[bytes]:
    """Return a key for each beginning of a conversation; reasoning does not count, since agents may leave it out."""
    key = before or hashlib.sha256(json.dumps(tools, sort_keys=True).encode()).digest()
    keys = []
    for message in messages:
        calls = [_call_key(call) for call in message.get("tool_calls") or ()]
        seen = [message.get("role"), message.get("content") or "", calls, message.get("tool_call_id")]
        key = hashlib.sha256(key + json.dumps(seen, sort_keys=True).encode()).digest()
        keys.append(key)
    return keys


def _call_key(call: JsonMapping) -> list[object]:
    """Return what identifies a call; agents may write its arguments with other spaces."""
    function = call.get("function") or {}
    arguments = str(function.get("arguments") or "")
    return [call.get("id"), function.get("name"), read_object(arguments) or arguments]


def _media_parts(message: JsonMapping) -> list[Json]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") in ("image_url", "video_url")]


def _keep_media(messages: Sequence[JsonMapping], digests: dict[str, str]) -> tuple[list[Json], tuple[str, ...]]:
    """Keep each image and video once.

    Returns:
        The messages with the SHA-256 of each image or video in its place, and these hashes in order.
    """
    named, hashes = [], []
    for message in messages:
        parts = []
        for part in _media_parts(message):
            url = str((part.get(part["type"]) or {}).get("url"))
            if url not in digests:
                digests[url] = hashlib.sha256(_bytes_of(url)).hexdigest()
            hashes.append(digests[url])
            parts.append(digests[url])
        texts = message.get("content")
        if parts and isinstance(texts, list):
            known = iter(parts)
            media = {id(part) for part in _media_parts(message)}
            texts = [next(known) if id(part) in media else part for part in texts]
        named.append({**message, "content": texts})
    return named, tuple(hashes)


def _bytes_of(url: str) -> bytes:
    """Return the data of a data URL, else the URL itself."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        with contextlib.suppress(ValueError):
            return base64.b64decode(data)
    return url.encode(errors="replace")


def _tokens_of(answer: Json) -> ReplyTokens:
    """Return ids and log-probabilities of an answer.

    Raises:
        ModelError: If they are missing: nothing could be trained on the reply.
    """
    reader = StreamAccumulator()
    reader.take(answer, "message")
    tokens = reader.tokens()
    if tokens is None or not tokens.prompt_ids or len(tokens.logprobs) != len(tokens.ids):
        raise ModelError(
            "the engine's answer has no token ids with log-probabilities; use `cua serve`, or vLLM with "
            "--logprobs-mode processed_logprobs",
            retryable=False,
        )
    return tokens


def _check_kept(request: JsonMapping, tokens: ReplyTokens) -> None:
    """Check that the sets which filters kept are known: log-probabilities are normalized over them.

    Raises:
        GatewayError: If the request has a filter, and the engine does not return the kept sets.
    """
    filters = [name for name, neutral in FILTERS.items() if request.get(name, neutral[0]) not in neutral]
    sampled = tokens.sampled or (True,) * len(tokens.ids)
    kept = tokens.num_kept or (0,) * len(tokens.ids)
    if filters and any(is_sampled and not num for is_sampled, num in zip(sampled, kept, strict=True)):
        raise GatewayError(
            f"{filters[0]} is {json.dumps(request[filters[0]])}, and the engine returns no kept sets "
            f"(return_kept_token_ids), over which log-probabilities are normalized: send {FILTERS[filters[0]][0]}, or "
            "use `cua serve`"
        )


def _without_records(answer: Json) -> Json:
    """Return an answer as an OpenAI client expects it."""
    choices = [{name: value for name, value in choice.items() if name not in RECORDS} for choice in answer["choices"]]
    return {name: value for name, value in answer.items() if name not in RECORDS} | {"choices": choices}
