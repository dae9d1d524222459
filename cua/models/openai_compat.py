"""Client of OpenAI-compatible servers: the hosted K2.5, vLLM, SGLang, llama.cpp, and others."""

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cua.bounded_http import bound_body, is_packed
from cua.errors import ModelError, TruncatedReplyError, UnusableReplyError
from cua.json_text import Json, read_object
from cua.messages import Message, Reply, Sampling, Usage
from cua.model import Tool
from cua.models.accumulator import Delta, StreamAccumulator, UsageCounts, count_of
from cua.models.endpoint import automatic_sampling, find_endpoint
from cua.models.failures import connection_failure, status_failure
from cua.models.gate import EndpointGate, Retry, RetryClock, RetryPolicy, gate_of, retry
from cua.models.prices import PriceTable
from cua.models.reply_text import separate
from cua.models.response import MAX_BODY_BYTES, ResponseReader, too_long
from cua.models.token_turns import TOKEN_FIELDS, TokenTurn, TokenTurns
from cua.models.wire import ImageFormat, RequestEncoder, move_tool_images, tools_to_wire

if TYPE_CHECKING:
    import httpx2

_LIST_MODELS_TIMEOUT_S = 5.0  # only for the names in an error message, so it must be short
# Above the sub-agents of any swarm; idle ones are kept for the next calls
_MAX_CONNECTIONS, _MAX_IDLE_CONNECTIONS = 1000, 100
UNKNOWN_MEDIA = "unknown_media"  # our server's code for a media hash that is not in its cache
NO_TOKENS = "{url} returns no token ids: replies are recorded without tokens"
NO_IDS_IN = (
    "{url} returns token ids and takes none with images: each request is tokenized again from its text, so that a turn "
    "may not extend the one before"
)
MAX_ERROR_BYTES = 2**20
"""Maximum size of the body of an error status; the rest is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAICompatOptions:
    """Settings of the connection to a model.

    Attributes:
        model: Id of the model at the server.
        base_url: URL up to `/v1`; by default `OPENAI_BASE_URL`, else OpenAI's own.
        api_key: API key; by default `OPENAI_API_KEY`, else `none` for self-hosted servers.
        sampling: Used for calls without their own; None selects one by model and host (`endpoint.automatic_sampling`).
        streaming: True to request a stream. The reply is the same; a broken one is noticed earlier.
        image_format: Encoding of images in requests.
        tool_images: Position of images of tool results: in the `tool` message, as K2.5 and its servers accept them;
            in a `user` message after it, for servers that refuse the former; `auto` selects by host.
        connect_timeout_s: Timeout of the connection.
        idle_timeout_s: Timeout between two chunks of an answer, including the first; only with streaming.
        timeout_s: Timeout of one whole try.
        retry: Limits of retries.
        record_tokens: True to request `Reply.tokens` in every call, and to continue conversations from the ids that the
            server returned, where it takes them.
        prices: Prices for `Usage.cost_usd`.
    """

    model: str
    base_url: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    sampling: Sampling | None = None
    streaming: bool = True
    image_format: ImageFormat = field(default_factory=ImageFormat)
    tool_images: Literal["auto", "tool", "user"] = "auto"
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 300.0
    timeout_s: float = 1200.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    record_tokens: bool = False
    prices: PriceTable = field(default_factory=PriceTable)


class OpenAICompatModel:
    """Model behind `/v1/chat/completions`; implements `cua.model.Model`.

    Requests are sent with httpx2: the OpenAI SDK copies and checks the whole conversation at every call, which takes
    70 ms of processor time at 100 turns. Proxies and certificates follow the rules of httpx2 (`HTTPS_PROXY`,
    `NO_PROXY`, `SSL_CERT_FILE`).

    Args:
        options: Settings of the connection.
        on_delta: Called with each piece of a streamed reply, for live display.
        on_retry: Called before each wait for a retry.
        on_note: Called once with a text if `record_tokens` gets less from the server than it should.
        clock: Time and random numbers of the retries.
        gate: Limit on concurrent calls; None for the gate that all models of this endpoint share.
        http_client: Client for the requests instead of a new one, for example with a transport to an application in
            this process. It is closed with the model.

    Raises:
        ConfigError: If no endpoint is configured, or it is malformed.
    """

    def __init__(
        self,
        options: OpenAICompatOptions,
        *,
        on_delta: Callable[[Delta], None] | None = None,
        on_retry: Callable[[Retry], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        clock: RetryClock | None = None,
        gate: EndpointGate | None = None,
        http_client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        self.name = options.model
        self.options = options
        self.endpoint = find_endpoint(options.base_url, options.api_key)
        self.last_reasoning_field: str | None = None
        self._on_delta = on_delta
        self._on_retry = on_retry
        self._on_note = on_note
        self._turns = TokenTurns()
        self._clock = clock or RetryClock()
        self._own_gate = gate
        self._encoder = RequestEncoder(options.image_format)
        self._client = http_client
        self._is_own_client = http_client is not None

    def __repr__(self) -> str:
        return f"OpenAICompatModel({self.name!r} at {self.endpoint.shown_url})"

    @property
    def portable_options(self) -> OpenAICompatOptions | None:
        """Options with URL and key for another process; None for a model with its own client or gate."""
        if self._own_gate is not None or self._is_own_client:
            return None
        return replace(self.options, base_url=self.endpoint.base_url, api_key=self.endpoint.api_key)

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Answer a conversation; see `cua.model.Model`. A given `sampling` replaces all of the options' sampling.

        Raises:
            ModelError: If the server cannot be reached or refuses, after all retries.
            UnusableReplyError: If two replies are unusable.
            TruncatedReplyError: If the reply was truncated at the token limit; its `reply` is the part received.
        """
        if self._client is None:
            await asyncio.to_thread(importlib.import_module, "httpx2")  # takes about 0.1 s
        sampling = sampling or self.options.sampling or automatic_sampling(self.name, self.endpoint)
        if not self.options.record_tokens:
            body = await self._encoder.encode(self._fields(tools, sampling), self._sendable(messages))
            return await self._generate(body, messages, tools, sampling)
        return await self._generate_with_tokens(messages, tools, replace(sampling, with_tokens=True))

    async def _generate_with_tokens(
        self, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling
    ) -> Reply:
        """Answer a conversation from the ids of its last turn, if they are known, else from its text."""
        turn, fields = self._turns.find(messages), self._fields(tools, sampling)
        if turn is None:
            body = await self._encoder.encode(fields, self._sendable(messages))
            return await self._generate(body, messages, tools, sampling)
        new = self._sendable(messages[turn.num_messages :])
        try:
            body = await self._encoder.encode(fields | turn.fields(), new)
            return await self._generate(body, messages, tools, sampling, turn)
        except ModelError as error:
            if error.code != UNKNOWN_MEDIA:
                raise
        parts = await self._encoder.encode_media(messages[: turn.num_messages])
        body = await self._encoder.encode(fields | turn.fields(parts), new)
        return await self._generate(body, messages, tools, sampling, turn)

    async def _generate(
        self,
        body: bytes,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        sampling: Sampling,
        turn: TokenTurn | None = None,
    ) -> Reply:
        num_calls = sum(len(message.tool_calls) for message in messages)

        async def call() -> Reply:
            reply = await self._try(body, num_calls, tools)
            if self.options.record_tokens:
                self._check_tokens(reply, turn)
                self._turns.add(messages, reply)
            self._check_length(reply, sampling.max_tokens)
            return reply

        return await retry(
            call,
            self.options.retry,
            on_retry=self._retrying,
            has_answered=lambda: self._gate.has_answered,
            clock=self._clock,
        )

    async def list_models(self) -> list[str]:
        """Return the ids of the server's models; empty if it does not list them."""
        import httpx2

        try:
            async with asyncio.timeout(_LIST_MODELS_TIMEOUT_S):
                answer = await self._connected().get(f"{self.endpoint.base_url}/models", headers=self._headers())
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ModelError):
            return []
        listed = (read_object(answer.content) or {}).get("data") if answer.is_success else None
        entries = listed if isinstance(listed, list) else []
        return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]

    async def close(self) -> None:
        """Close the connections. Can be called twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _fields(self, tools: Sequence[Tool], sampling: Sampling) -> Json:
        """Return the fields of a request without the messages."""
        fields: Json = {"model": self.name}
        if tools:
            fields["tools"] = tools_to_wire(tools)
        if self.options.streaming:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        # OpenAI's newer models accept only the longer name of the limit; other servers only the shorter one.
        limit_name = "max_completion_tokens" if self.endpoint.is_openai else "max_tokens"
        chosen: Json = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            limit_name: sampling.max_tokens,
        }
        chosen |= {"seed": sampling.seed, "stop": list(sampling.stop) or None}
        fields |= {key: value for key, value in chosen.items() if value is not None}
        if sampling.with_tokens:
            fields |= TOKEN_FIELDS
        return fields | dict(sampling.extra_body)

    def _sendable(self, messages: Sequence[Message]) -> Sequence[Message]:
        placement = self.options.tool_images
        to_user = placement == "user" or (placement == "auto" and self.endpoint.is_openai)
        return move_tool_images(messages) if to_user else messages

    async def _try(self, body: bytes, num_earlier_calls: int, tools: Sequence[Tool]) -> Reply:
        started = time.perf_counter()
        try:
            async with self._gate.admit(max_away_s=self.options.retry.max_elapsed_s):
                draft = await self._exchange(body)
            self.last_reasoning_field = draft.reasoning_field or self.last_reasoning_field
            reply = Reply(
                content=draft.content,
                reasoning=draft.reasoning,
                tool_calls=draft.tool_calls(num_earlier_calls),
                usage=self._usage(draft),
                finish_reason=draft.known_finish_reason,
                model=draft.model or self.name,
                duration_s=time.perf_counter() - started,
                tokens=draft.tokens(),
                model_version=draft.model_version,
            )
            self._check_refusal(reply, draft.refusal)
            separated = separate(reply, tools)
        except ModelError as error:
            error.args = (self.endpoint.redact(str(error)),)
            raise
        if separated.content != reply.content:
            self._emit_whole(separated)
        return separated

    async def _exchange(self, body: bytes) -> StreamAccumulator:
        import httpx2

        reader = ResponseReader(self._on_delta)
        url, headers = f"{self.endpoint.base_url}/chat/completions", self._headers()
        try:
            async with (
                asyncio.timeout(self.options.timeout_s),
                self._connected().stream(
                    "POST", url, content=body, headers=headers, timeout=self._timeout()
                ) as response,
            ):
                if not response.is_success:
                    await response.aread()
                    raise await self._refused(response)
                async for chunk in response.aiter_bytes():
                    reader.feed(chunk)
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            if not reader.is_complete:
                raise connection_failure(
                    error, self.endpoint, timeouts=self._shown_timeouts(), has_answered=reader.num_bytes > 0
                ) from None
        return reader.finish()

    async def _refused(self, response: "httpx2.Response") -> ModelError:
        status = response.status_code
        known = await self.list_models() if status == 404 else []
        return status_failure(
            status, response.text, response.headers, self.endpoint, model=self.name, known_models=known
        )

    def _check_refusal(self, reply: Reply, refusal: str) -> None:
        if reply.finish_reason == "content_filter":
            raise ModelError("the server's content filter stopped the reply", retryable=False)
        if refusal and not reply.content and not reply.tool_calls:
            raise ModelError(f"the model refuses: {refusal}", retryable=False)

    def _check_tokens(self, reply: Reply, turn: TokenTurn | None) -> None:
        """Check that the reply continues the turn whose ids were sent; note once what the server does not give."""
        if turn is not None and not (reply.tokens and turn.is_start_of(reply.tokens.prompt_ids)):
            raise ModelError("the server did not continue from the token ids that it was sent", retryable=False)
        if self._on_note is not None and (reply.tokens is None or not reply.tokens.processor):
            text = NO_TOKENS if reply.tokens is None else NO_IDS_IN
            self._on_note(text.format(url=self.endpoint.shown_url))
            self._on_note = None

    def _check_length(self, reply: Reply, limit: int | None) -> None:
        if reply.finish_reason == "length":
            shown = f"max_tokens {limit}" if limit else "the server's own limit, no max_tokens was sent"
            raise TruncatedReplyError(
                f"the reply was cut at the token limit ({shown}) after {len(reply.reasoning)} characters of reasoning "
                f"and {len(reply.content)} of text. Raise it with --max-tokens",
                reply=reply,
            )

    def _usage(self, draft: StreamAccumulator) -> Usage:
        counted = draft.usage or UsageCounts()
        price = self.options.prices.find(self.name)
        cost = 0.0 if price is None and self.endpoint.is_loopback else None
        if price is not None and draft.usage is not None:
            cost = price.cost_usd(counted.num_input, counted.num_output, counted.num_cached)
        return Usage(
            input_tokens=counted.num_input,
            output_tokens=counted.num_output,
            cached_tokens=counted.num_cached,
            cost_usd=cost,
        )

    def _emit_whole(self, reply: Reply) -> None:
        """Display the reply again, without the parts that were removed from its text."""
        if self._on_delta is not None:
            self._on_delta(Delta(kind="restart"))
            self._on_delta(Delta(kind="reasoning", text=reply.reasoning))
            self._on_delta(Delta(kind="content", text=reply.content))

    @property
    def _gate(self) -> EndpointGate:
        return self._own_gate or gate_of(self.endpoint.base_url)

    def _retrying(self, coming: Retry) -> None:
        if self._on_delta is not None:
            self._on_delta(Delta(kind="restart"))
        if self._on_retry is not None:
            self._on_retry(coming)

    def _shown_timeouts(self) -> str:
        options = self.options
        idle = f", {options.idle_timeout_s:g} s between pieces" if options.streaming else ""
        return f" (limits: {options.connect_timeout_s:g} s to connect{idle}, {options.timeout_s:g} s in all)"

    def _headers(self) -> dict[str, str]:
        """Return the headers of a request; compressed replies are refused, as they may expand to any size."""
        account = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
        return {
            "Authorization": f"Bearer {self.endpoint.api_key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "cua-k25",
        } | {header: os.environ[name] for header, name in account.items() if os.environ.get(name)}

    def _timeout(self) -> "httpx2.Timeout":
        import httpx2

        options = self.options
        read_s = options.idle_timeout_s if options.streaming else options.timeout_s
        return httpx2.Timeout(read_s, connect=options.connect_timeout_s)

    def _connected(self) -> "httpx2.AsyncClient":
        """Return a client with limited body size that follows no redirects, which could send the key elsewhere."""
        import httpx2

        if self._client is None:
            limits = httpx2.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_IDLE_CONNECTIONS)
            self._client = httpx2.AsyncClient(limits=limits, event_hooks={"response": [self._check_response]})
        return self._client

    async def _check_response(self, response: "httpx2.Response") -> None:
        if response.has_redirect_location:  # refused here, before httpx2 parses the target
            raise status_failure(response.status_code, "", response.headers, self.endpoint)
        if response.status_code >= 300:
            bound_body(response, 0 if is_packed(response) else MAX_ERROR_BYTES, None)
            return
        if is_packed(response):
            raise UnusableReplyError(
                "the server compresses its reply although the request forbids it; turn its compression off"
            )
        size = count_of(response.headers.get("content-length")) or 0
        if size > MAX_BODY_BYTES:
            raise too_long()
        bound_body(response, MAX_BODY_BYTES, too_long())
