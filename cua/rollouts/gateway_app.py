"""HTTP routes of the gateway: one OpenAI-compatible address for each session, or the session as the API key.

POST /sessions/{id}                       opens a session
POST /sessions/{id}/v1/chat/completions   also /v1/chat/completions with the id as the key
DELETE /sessions/{id}                     closes it; the answer counts its turns
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING

from pydantic_core import from_json

from cua.errors import ConfigError, ModelError
from cua.json_text import Json, read_object
from cua.models.endpoint import Endpoint
from cua.rollouts.dialects import DIALECTS, Dialect
from cua.rollouts.gateway import EngineError, Gateway, GatewayError
from envs.errors import require

if TYPE_CHECKING:
    import httpx2
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

MAX_BODY_BYTES = 64 * 2**20
MAX_ANSWER_BYTES = 64 * 2**20
_WAITING = re.compile(rb"^(?:k25|vllm:num)_requests_waiting(?:\{[^\n]{0,1000}\})? (\d+(?:\.\d+)?)$", re.MULTILINE)
PING_S = 5.0
"""Seconds between comments in a stream whose reply is not there yet, so that clients do not give up."""


class HttpEngine:
    """Engine behind an OpenAI-compatible address; implements `CompletionEngine`. The caller closes it.

    Each connection is a transport of its own: the work of httpx2's pool, at every call, is linear in its connections.

    Args:
        endpoint: Address and key.
        timeout_s: Limit of a call.
        app: ASGI application in this process that answers instead of the address.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float = 3600.0, app: "ASGIApp | None" = None) -> None:
        import httpx2

        self._base_url = endpoint.base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {endpoint.api_key}", "Content-Type": "application/json"}
        self._timeout = httpx2.Timeout(timeout_s, connect=10.0).as_dict()
        self._tls = httpx2.create_ssl_context(trust_env=False)
        self._app = app
        self._transports: list[httpx2.AsyncBaseTransport] = []
        self._idle: list[httpx2.AsyncBaseTransport] = []

    async def complete(self, body: object) -> Json:
        """See `CompletionEngine.complete`."""
        value = await self._post("chat/completions", body)
        if value is None or not value.get("choices"):
            raise ModelError("the engine's answer is not a chat completion", retryable=False)
        return value

    async def _post(self, path: str, body: object) -> Json | None:
        status, data = await self._send("POST", f"{self._base_url}/{path}", json.dumps(body).encode())
        value = _read_answer(data) if len(data) <= MAX_ANSWER_BYTES else None
        if status != 200:
            raise EngineError(status, value or {"error": {"message": data[:500].decode("utf-8", "replace")}})
        return value

    async def _send(self, method: str, url: str, content: bytes | None = None) -> tuple[int, bytes]:
        import httpx2

        timeout = {"timeout": self._timeout}
        request = httpx2.Request(method, url, headers=self._headers, content=content, extensions=timeout)
        transport = self._take_transport()
        try:
            answer = await transport.handle_async_request(request)
            return answer.status_code, await answer.aread()
        except httpx2.HTTPError as error:
            raise ModelError(f"the engine cannot be reached: {error!r}", retryable=True) from error
        finally:
            self._idle.append(transport)

    async def find_num_waiting(self) -> int | None:
        """Return the number of requests in the engine's queue, from its metrics (ours or vLLM's); None if unknown."""
        try:
            status, data = await self._send("GET", f"{self._base_url.removesuffix('/v1')}/metrics")
        except ModelError:
            return None
        found = _WAITING.findall(data) if status == 200 and len(data) <= MAX_ANSWER_BYTES else []
        return sum(int(float(number)) for number in found) if found else None

    async def update_weights(self, version: str, folder: str, running: str = "pause") -> None:
        """Replace the weights of a server of `cua serve`; returns when the next token comes from the new ones.

        Args:
            version: Name of the new version, a number for `GatewayModels`.
            folder: Folder below the one that the server allows.
            running: What happens to running requests: `finish`, `pause` or `restart`.

        Raises:
            EngineError: If the server refuses.
            ModelError: If it cannot be reached.
        """
        await self._post("update_weights", {"version": version, "folder": folder, "running": running})

    async def check_access(self) -> None:
        """Check that the engine answers, and accepts the key.

        Raises:
            ConfigError: If not.
        """
        try:
            status, _ = await self._send("GET", f"{self._base_url}/models")
        except ModelError as error:
            raise ConfigError(f"{self._base_url}: {error}. Check --base-url, and that the server runs") from error
        if status in (401, 403):
            raise ConfigError(f"{self._base_url} answered {status}: it refuses the key; set OPENAI_API_KEY to its key")

    async def close(self) -> None:
        """Close the connections."""
        for transport in self._transports:
            await transport.aclose()

    def _take_transport(self) -> "httpx2.AsyncBaseTransport":
        """Return the most recently used transport without a call, or a new one."""
        import httpx2

        if self._idle:
            return self._idle.pop()
        if self._app is not None:
            self._transports.append(httpx2.ASGITransport(self._app, raise_app_exceptions=False))
        else:
            limits = httpx2.Limits(max_connections=1)
            self._transports.append(httpx2.AsyncHTTPTransport(verify=self._tls, limits=limits, trust_env=False))
        return self._transports[-1]


def _read_answer(data: bytes) -> Json | None:
    """Parse a JSON object of ids and log-probabilities, in a quarter of the time of `read_object`; None for others."""
    try:
        value = from_json(data)  # refuses what is nested deeper than 200
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def make_gateway_app(gateway: Gateway) -> "Starlette":
    """Return the application that serves a gateway."""
    require("starlette", "demo")
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def complete(request: "Request") -> "Response":
        """Answer a request in one of the dialects, as a stream if it asks for one."""
        return await _answered(_complete(gateway, request))

    async def open_session(request: "Request") -> "Response":
        """Open a session."""

        async def opened() -> "Response":
            gateway.open_session(request.path_params["session"])
            return JSONResponse({"session": request.path_params["session"]}, 201)

        return await _answered(opened())

    async def close_session(request: "Request") -> "Response":
        """Close a session."""

        async def closed() -> "Response":
            log = gateway.close_session(request.path_params["session"]).log
            return JSONResponse({"turns": len(log.turns), "drift": {str(k): v for k, v in log.counts().items()}})

        return await _answered(closed())

    routes = [
        Route("/sessions/{session}", open_session, methods=["POST"]),
        Route("/sessions/{session}", close_session, methods=["DELETE"]),
        *(Route(f"/sessions/{{session}}/v1/{path}", complete, methods=["POST"]) for path in DIALECTS),
        *(Route(f"/v1/{path}", complete, methods=["POST"]) for path in DIALECTS),
    ]
    return Starlette(routes=routes)


async def _answered(work: "Awaitable[Response]") -> "Response":
    """Return a response, or the error in OpenAI's form."""
    from starlette.responses import JSONResponse

    try:
        return await work
    except EngineError as error:
        return JSONResponse(error.body, error.status)
    except GatewayError as error:
        return JSONResponse(_error(str(error), "invalid_request_error"), error.status)
    except ModelError as error:
        return JSONResponse(_error(str(error), "engine_error"), 503 if error.retryable else 424)


def _error(message: str, kind: str) -> Json:
    return {"error": {"message": message, "type": kind, "code": None, "param": None}}


async def _complete(gateway: Gateway, request: "Request") -> "Response":
    from starlette.responses import JSONResponse, StreamingResponse

    dialect = DIALECTS[request.url.path.partition("/v1/")[2]]
    session = request.path_params.get("session") or _session_key(request)
    body = await _read_body(request)
    key, is_retry = _retry_of(request)
    work = asyncio.ensure_future(gateway.complete(session, dialect.read(body), key=key, is_retry=is_retry))
    if not body.get("stream"):
        return JSONResponse(dialect.from_chat((await work)[0]))
    return StreamingResponse(_stream(work, dialect, body), media_type="text/event-stream")


def _session_key(request: "Request") -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    key = key if kind.lower() == "bearer" else request.headers.get("x-api-key", "")  # the latter is Anthropic's
    if not key:
        raise GatewayError("the API key names the session; it is missing", 401)
    return key.strip()


def _retry_of(request: "Request") -> tuple[str, bool]:
    """Return the key of a request, and True if it is a retry by the count that the official clients send."""
    return request.headers.get("idempotency-key", ""), request.headers.get("x-stainless-retry-count", "0") != "0"


async def _read_body(request: "Request") -> Json:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise GatewayError(f"the body has more than {MAX_BODY_BYTES >> 20} MB", 413)
    body = read_object(bytes(data))
    if body is None:
        raise GatewayError("the body is not a JSON object")
    return body


async def _stream(work: "asyncio.Future[tuple[Json, int]]", dialect: Dialect, body: Json) -> AsyncIterator[str]:
    """Yield a stream: comments until the reply is there, then the whole reply."""
    while not work.done():
        await asyncio.wait([work], timeout=PING_S)
        if not work.done():
            yield ": the reply is being computed\n\n"
    try:
        answer, _ = work.result()
    except EngineError as error:
        yield f"data: {json.dumps(error.body)}\n\n"
        return
    except (GatewayError, ModelError) as error:
        yield f"data: {json.dumps(_error(str(error), 'engine_error'))}\n\n"
        return
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    for name, event in dialect.events(dialect.from_chat(answer)):
        if not event.get("choices", True) and not wants_usage:
            continue
        yield (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
    yield dialect.end
