"""Application with its routes, operator endpoints, error answers, and the middleware of all requests."""

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import metadata
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from model_runtime.engine.contract import EngineClient, WeightUpdate
from model_runtime.errors import CheckpointError, InvalidRequestError, RuntimeFault
from model_runtime.json_types import Json
from model_runtime.server.body import ClientGoneError, dump, error_body, error_headers, read_body, status_of
from model_runtime.server.chat_completions import complete_chat, complete_text, detokenize, tokenize
from model_runtime.server.media import MediaProcessor, MediaReader
from model_runtime.server.metrics import AccessLogRecord, ServerMetrics, make_request_id
from model_runtime.server.openapi import (
    ChatAnswer,
    DetokenizedAnswer,
    HealthAnswer,
    ModelAnswer,
    ModelsAnswer,
    TextAnswer,
    TokensAnswer,
    UpdatedAnswer,
    VersionAnswer,
    answers_of,
    body_of,
    describe,
)
from model_runtime.server.options import ServerOptions
from model_runtime.server.responses import state_of
from model_runtime.server.schemas import ChatRequest, DetokenizeRequest, TextRequest, TokenizeRequest, UpdateRequest
from model_runtime.server.state import Drain, ServerState

OPEN_PATHS = frozenset({"/health"})
_SHOWN_PATH_CHARS = 120  # of a client's path in the log


class RequestMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, options: ServerOptions, metrics: ServerMetrics, drain: Drain) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics
        self._drain = drain
        self._key_digests = [_digest(key) for key in options.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].encode("unicode_escape").decode()[:_SHOWN_PATH_CHARS]
        record = AccessLogRecord(
            request_id=make_request_id(headers.get("x-request-id", "")), method=scope["method"], path=path
        )
        scope.setdefault("state", {})["access_log_record"] = record

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = record.request_id
            await send(message)

        with self._drain.counting():
            try:
                await self._pass(scope, headers, receive, send_marked)
            except Exception:
                record.late_status = 500
                raise
            finally:
                self._metrics.count(record, getattr(scope.get("route"), "path", "other"))
                record.log()

    async def _pass(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        try:
            self._check(scope, headers)
        except InvalidRequestError as error:
            await _refuse(error, send)
        else:
            await self._app(scope, self._limited(receive), send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if scope["path"] not in OPEN_PATHS and self._key_digests:
            self._check_key(headers.get("authorization", ""))
        if scope["method"] == "POST":
            self._drain.check(self._options.retry_after_s)
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._options.max_body_bytes:
            raise _too_large(self._options.max_body_bytes)

    def _check_key(self, header: str) -> None:
        kind, _, key = header.partition(" ")
        digest = _digest(key.strip())
        matches = [hmac.compare_digest(digest, known) for known in self._key_digests]
        if kind.lower() != "bearer" or not any(matches):
            problem = "an unknown key" if header else "no key"
            text = f"found {problem}; expected the header 'Authorization: Bearer KEY' with a key of this server"
            raise InvalidRequestError(text, code="invalid_api_key", status=401)

    def _limited(self, receive: Receive) -> Receive:
        most, size_bytes = self._options.max_body_bytes, 0

        async def receive_limited() -> Message:
            nonlocal size_bytes
            message = await receive()
            size_bytes += len(message.get("body", b""))
            if size_bytes > most:
                raise _too_large(most)
            return message

        return receive_limited


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _too_large(most: int) -> InvalidRequestError:
    text = f"the body is larger than {most} bytes; send fewer or smaller images"
    return InvalidRequestError(text, code="request_too_large", status=413)


async def _refuse(error: InvalidRequestError, send: Send) -> None:
    body = dump(error_body(error))
    headers: Json = {"content-type": "application/json", "content-length": str(len(body))}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [(name.encode(), value.encode()) for name, value in (headers | error_headers(error)).items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


_POLL_S = 10.0  # interval at which lists of times are cleared: bounds their memory without metrics requests
_SAMPLING_ERRORS = (400, 403, 404, 408, 413, 429, 500, 503, 504)


def make_app(engine: EngineClient, processor: MediaProcessor, options: ServerOptions | None = None) -> FastAPI:
    """Return an OpenAI-compatible server as an ASGI application, which closes the engine when it shuts down."""
    options = options or ServerOptions()
    state = ServerState(
        engine=engine,
        media=MediaReader(processor, options.media),
        options=options,
        metrics=ServerMetrics(engine),
        drain=Drain(),
        started_s=int(time.time()),
    )
    app = FastAPI(
        title="Kimi K2.5 runtime",
        version=find_version(),
        description="OpenAI-compatible. Unknown fields are ignored and named in the header `x-ignored-fields`.",
        lifespan=_lifespan,
        redirect_slashes=False,
        docs_url=None,  # its page would load external scripts
        redoc_url=None,
    )
    app.state.server = state
    _add_routes(app)
    for kind in (InvalidRequestError, RuntimeFault):
        app.add_exception_handler(kind, _show_error)
    app.add_exception_handler(ClientGoneError, _show_nothing)
    app.add_exception_handler(HTTPException, _show_http_error)
    app.add_exception_handler(Exception, _show_bug)
    replaceable: Any = app
    replaceable.openapi = lambda: describe(app, has_keys=bool(options.api_keys))
    app.add_middleware(RequestMiddleware, options=options, metrics=state.metrics, drain=state.drain)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(options.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Clear the engine's lists of times regularly, also without metrics requests; close the engine at the end."""
    state: ServerState = app.state.server

    async def poll() -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            state.metrics.poll()

    polling = asyncio.create_task(poll())
    try:
        yield
    finally:
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling
        await state.engine.close()


def _add_routes(app: FastAPI) -> None:
    def post(path: str, endpoint: Any, body: type, answer: type, *, stream: bool = False) -> None:
        app.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            response_model=None,
            responses=answers_of(answer, *_SAMPLING_ERRORS, text="text/event-stream" if stream else None),
            openapi_extra=body_of(body),
        )

    def get(path: str, endpoint: Any, answer: type | None, *statuses: int, text: str | None = None) -> None:
        app.add_api_route(
            path,
            endpoint,
            methods=["GET"],
            response_model=None,
            response_class=Response if text else JSONResponse,  # used only for the media type in the OpenAPI document
            responses=answers_of(answer, *statuses, text=text),
        )

    post("/v1/chat/completions", complete_chat, ChatRequest, ChatAnswer, stream=True)
    post("/v1/completions", complete_text, TextRequest, TextAnswer, stream=True)
    post("/tokenize", tokenize, TokenizeRequest, TokensAnswer)
    post("/detokenize", detokenize, DetokenizeRequest, DetokenizedAnswer)
    post("/v1/update_weights", update_weights, UpdateRequest, UpdatedAnswer)
    get("/v1/models", list_models, ModelsAnswer)
    get("/v1/models/{name:path}", show_model, ModelAnswer, 404)
    get("/health", show_health, HealthAnswer, 503)
    get("/metrics", show_metrics, None, text=METRICS_TYPE)
    get("/version", show_version, VersionAnswer)


def _error(error: InvalidRequestError | RuntimeFault, headers: dict[str, str] | None = None) -> Response:
    return Response(
        dump(error_body(error)),
        status_code=status_of(error),
        headers={"content-type": "application/json"} | error_headers(error) | (headers or {}),
    )


async def _show_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidRequestError | RuntimeFault)
    return _error(error)


async def _show_nothing(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # the answer is not read, but logged


async def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    path = request.url.path.encode("unicode_escape").decode()[:120]
    text = f"{request.method} {path}: {error.detail}; GET /openapi.json lists what there is"
    return _error(InvalidRequestError(text, code=code, status=error.status_code), dict(error.headers or {}))


async def _show_bug(request: Request, error: Exception) -> Response:
    text = "the server failed; its log has the reason under this request's x-request-id"
    record: AccessLogRecord = request.state.access_log_record
    return _error(InvalidRequestError(text, code="internal_error", status=500), {"x-request-id": record.request_id})


METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


async def show_health(request: Request) -> Response:
    """Return 200 while requests are accepted, otherwise 503 with the reason."""
    state = state_of(request)
    reason = "the server is shutting down" if state.drain.is_draining else state.engine.fault
    if reason is None:
        return JSONResponse({"status": "ok"})
    error = InvalidRequestError(reason, code="unhealthy", status=503)
    return JSONResponse(error_body(error) | {"status": "unhealthy"}, status_code=503)


async def show_metrics(request: Request) -> Response:
    """Return metrics in Prometheus' text format."""
    return Response(state_of(request).metrics.render(), headers={"content-type": METRICS_TYPE})


async def show_version(request: Request) -> Response:
    """Return the version of this package."""
    return JSONResponse({"version": find_version()})


async def list_models(request: Request) -> Response:
    """List the model under each of its names."""
    state = state_of(request)
    return JSONResponse({"object": "list", "data": [_model(name, state) for name in state.model_names]})


async def show_model(request: Request, name: str) -> Response:
    """Return one model by its name, which may contain slashes."""
    state = state_of(request)
    return JSONResponse(_model(state.check_model(name), state))


async def update_weights(request: Request) -> Response:
    """Replace the weights by those of a folder that the operator allows."""
    state = state_of(request)
    body = await read_body(request, UpdateRequest, timeout_s=state.options.body_timeout_s)
    root = state.options.weights_dir
    if root is None:
        text = "this server takes no new weights; the operator allows them with --set weights_dir=FOLDER"
        raise InvalidRequestError(text, code="forbidden", status=403)
    folder = (root / body.folder).resolve()
    if not folder.is_relative_to(root.resolve()):
        text = f"the folder {body.folder[:80]!r} is not below the one that the operator allows"
        raise InvalidRequestError(text, param="folder", code="forbidden", status=403)
    update = WeightUpdate(version=body.version, source=folder, running=body.running)
    try:
        await state.engine.update_weights(update)
    except CheckpointError as error:
        raise InvalidRequestError(str(error), param="folder") from None
    return JSONResponse({"weight_version": body.version})


def find_version() -> str:
    """Return the version of the installed distribution; `unknown` in a bare source tree."""
    try:
        return metadata.version("cua-k25")
    except metadata.PackageNotFoundError:
        return "unknown"


def _model(name: str, state: ServerState) -> Json:
    return {
        "id": name,
        "object": "model",
        "created": state.started_s,
        "owned_by": "model_runtime",
        "max_model_len": state.engine.card.max_model_len,
    }
