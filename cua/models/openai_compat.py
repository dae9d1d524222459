"""Client of OpenAI-compatible servers: the hosted K2.5, vLLM, SGLang, llama.cpp, and others."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cua.bounded_http import bound_body, is_packed
from cua.errors import ModelError, TruncatedReplyError, UnusableReplyError
from cua.messages import Message, Reply, Sampling, Usage
from cua.model import Tool
from cua.models.accumulator import Delta, StreamAccumulator, TokenCounts, count_of
from cua.models.endpoint import automatic_sampling, find_endpoint
from cua.models.failures import connection_failure, status_failure
from cua.models.gate import Clock, EndpointGate, Retry, RetryPolicy, gate_of, retry
from cua.models.images import ImageEncoder, ImageFormat
from cua.models.prices import PriceTable
from cua.models.reply_text import separate
from cua.models.response import MAX_BODY_BYTES, ResponseReader, too_long
from cua.models.wire import move_tool_images, to_wire, tools_to_wire
from envs.errors import require

_LIST_MODELS_TIMEOUT_S = 5.0
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
    prices: PriceTable = field(default_factory=PriceTable)


class OpenAICompatModel:
    """Model behind `/v1/chat/completions`, called through the official SDK; implements `cua.model.Model`.

    Proxies and certificates follow the SDK's own rules (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`).

    Args:
        options: Settings of the connection.
        on_delta: Called with each piece of a streamed reply, for live display.
        on_retry: Called before each wait for a retry.
        clock: Time and random numbers of the retries.
        gate: Limit on concurrent calls; None for the gate that all models of this endpoint share.
        http_client: `httpx.AsyncClient` for the requests instead of a new one, for example with a transport to an
            application in this process. It is closed with the model.

    Raises:
        ConfigError: If no endpoint is configured, or it is malformed.
    """

    def __init__(
        self,
        options: OpenAICompatOptions,
        *,
        on_delta: Callable[[Delta], None] | None = None,
        on_retry: Callable[[Retry], None] | None = None,
        clock: Clock | None = None,
        gate: EndpointGate | None = None,
        http_client: Any = None,
    ) -> None:
        self.name = options.model
        self.options = options
        self.endpoint = find_endpoint(options.base_url, options.api_key)
        self.last_reasoning_field: str | None = None
        self._on_delta = on_delta
        self._on_retry = on_retry
        self._clock = clock or Clock()
        self._own_gate = gate
        self._encoder = ImageEncoder(options.image_format)
        self._client: Any = None
        self._http_client = http_client

    def __repr__(self) -> str:
        return f"OpenAICompatModel({self.name!r} at {self.endpoint.shown_url})"

    async def prepare(self) -> None:
        """Import the SDK in a thread (about 0.5 s); the first call does it, but a caller can do it earlier."""
        await asyncio.to_thread(require, "openai", "all")

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
            await self.prepare()
        request = await self._request(messages, tools, sampling)
        num_calls = sum(len(message.tool_calls) for message in messages)
        return await retry(
            lambda: self._try(request, num_calls, tools),
            self.options.retry,
            on_retry=self._retrying,
            has_answered=lambda: self._gate.has_answered,
            clock=self._clock,
        )

    async def list_models(self) -> list[str]:
        """Return the ids of the server's models; empty if it does not list them."""
        openai = require("openai", "all")
        try:
            async with asyncio.timeout(_LIST_MODELS_TIMEOUT_S):
                page = await self._connected().models.list()
                return [str(model.id) for model in page.data or ()]
        except (TimeoutError, openai.OpenAIError, *_http_errors(), ValueError, AttributeError, TypeError):
            return []

    async def close(self) -> None:
        """Close the connections. Can be called twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _request(
        self, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling | None
    ) -> dict[str, Any]:
        sampling = sampling or self.options.sampling or automatic_sampling(self.name, self.endpoint)
        request: dict[str, Any] = {
            "model": self.name,
            "messages": await to_wire(self._sendable(messages), self._encoder),
        }
        if tools:
            request["tools"] = tools_to_wire(tools)
        if self.options.streaming:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        # OpenAI's newer models accept only the longer name of the limit; other servers only the shorter one.
        limit_name = "max_completion_tokens" if self.endpoint.is_openai else "max_tokens"
        chosen: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            limit_name: sampling.max_tokens,
        }
        chosen |= {"seed": sampling.seed, "stop": list(sampling.stop) or None}
        request |= {key: value for key, value in chosen.items() if value is not None}
        extra_body = dict(sampling.extra_body)
        if sampling.with_tokens:
            request |= {"logprobs": True}
            extra_body = {"return_token_ids": True, "logprobs_mode": "processed_logprobs"} | extra_body
        return request | {"extra_body": extra_body or None}

    def _sendable(self, messages: Sequence[Message]) -> Sequence[Message]:
        where = self.options.tool_images
        to_user = where == "user" or (where == "auto" and self.endpoint.is_openai)
        return move_tool_images(messages) if to_user else messages

    async def _try(self, request: dict[str, Any], num_earlier_calls: int, tools: Sequence[Tool]) -> Reply:
        started = time.perf_counter()
        try:
            async with self._gate.admit(max_away_s=self.options.retry.max_elapsed_s):
                draft = await self._exchange(request)
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
            self._tell_again(separated)
        self._check_length(separated, request)
        return separated

    async def _exchange(self, request: dict[str, Any]) -> StreamAccumulator:
        openai = require("openai", "all")
        reader = ResponseReader(self._on_delta)
        try:
            async with (
                asyncio.timeout(self.options.timeout_s),
                self._connected().chat.completions.with_streaming_response.create(**request) as response,
            ):
                async for chunk in response.iter_bytes():
                    reader.feed(chunk)
        except openai.APIStatusError as error:
            raise await self._refused(error) from None
        except (TimeoutError, openai.APIError, *_http_errors()) as error:
            if isinstance(error.__cause__, ModelError):
                raise error.__cause__ from None
            if not reader.is_complete:
                raise connection_failure(
                    error, self.endpoint, timeouts=self._shown_timeouts(), has_answered=reader.num_bytes > 0
                ) from None
        return reader.finish()

    async def _refused(self, error: Any) -> ModelError:
        known = await self.list_models() if error.status_code == 404 else []
        return status_failure(
            error.status_code,
            error.response.text,
            error.response.headers,
            self.endpoint,
            model=self.name,
            known_models=known,
        )

    def _check_refusal(self, reply: Reply, refusal: str) -> None:
        if reply.finish_reason == "content_filter":
            raise ModelError("the server's content filter stopped the reply", retryable=False)
        if refusal and not reply.content and not reply.tool_calls:
            raise ModelError(f"the model refuses: {refusal}", retryable=False)

    def _check_length(self, reply: Reply, request: dict[str, Any]) -> None:
        if reply.finish_reason == "length":
            limit = request.get("max_tokens") or request.get("max_completion_tokens")
            shown = f"max_tokens {limit}" if limit else "the server's own limit, no max_tokens was sent"
            raise TruncatedReplyError(
                f"the reply was cut at the token limit ({shown}) after {len(reply.reasoning)} characters of reasoning "
                f"and {len(reply.content)} of text. Raise it with --max-tokens",
                reply=reply,
            )

    def _usage(self, draft: StreamAccumulator) -> Usage:
        counted = draft.usage or TokenCounts()
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

    def _tell_again(self, reply: Reply) -> None:
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

    def _connected(self) -> Any:
        if self._client is None:
            openai = require("openai", "all")
            read_s = self.options.idle_timeout_s if self.options.streaming else self.options.timeout_s
            self._client = openai.AsyncOpenAI(
                base_url=self.endpoint.base_url,
                api_key=self.endpoint.api_key,
                timeout=openai.Timeout(read_s, connect=self.options.connect_timeout_s),
                max_retries=0,
                default_headers={"Accept-Encoding": "identity"},  # compressed data may expand to any size
                http_client=self._http_client or self._bounded_client(),
            )
        return self._client

    def _bounded_client(self) -> Any:
        """Return a client with limited body size that follows no redirects, which could send the key elsewhere."""
        hooks = {"response": [self._check_response]}
        return require("openai", "all").DefaultAsyncHttpxClient(follow_redirects=False, event_hooks=hooks)

    async def _check_response(self, response: Any) -> None:
        if response.status_code >= 300:
            bound_body(response, 0 if is_packed(response) else MAX_ERROR_BYTES, None)
            return
        if is_packed(response):
            raise UnusableReplyError("the server packs its reply although it was asked not to; turn compression off")
        size = count_of(response.headers.get("content-length")) or 0
        if size > MAX_BODY_BYTES:
            raise too_long()
        bound_body(response, MAX_BODY_BYTES, too_long())


def _http_errors() -> tuple[type[Exception], ...]:
    """Return the error classes of the SDK's HTTP library: `httpx2` since its version 3, `httpx` before."""
    return tuple(sys.modules[name].HTTPError for name in ("httpx2", "httpx") if name in sys.modules)
