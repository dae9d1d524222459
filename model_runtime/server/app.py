"""The application: routes, error answers, and what every request passes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from model_runtime.engine.contract import EngineClient
from model_runtime.errors import RequestError, RuntimeFault
from model_runtime.server.errors import ClientGoneError, dump, error_body, error_headers, status_of
from model_runtime.server.exchange import Exchange
from model_runtime.server.gate import Gate
from model_runtime.server.metrics import Metrics
from model_runtime.server.openapi import answers_of, body_of, describe
from model_runtime.server.options import ServerOptions
from model_runtime.server.reading.media import MediaProcessor, MediaReader
from model_runtime.server.routes import chat, service, text, tokens
from model_runtime.server.schemas import answers
from model_runtime.server.schemas.chat import ChatRequest
from model_runtime.server.schemas.text import DetokenizeRequest, TextRequest, TokenizeRequest
from model_runtime.server.state import Drain, ServerState

_POLL_S = 10.0
_SAMPLING_ERRORS = (400, 404, 408, 413, 429, 500, 503, 504)


def make_app(engine: EngineClient, processor: MediaProcessor, options: ServerOptions | None = None) -> FastAPI:
    """An OpenAI-compatible server as an ASGI application.

    Args:
        engine: Generates. It is closed when the application shuts down.
        processor: Decodes pictures and videos.
        options: Limits and manners.
    """
    options = options or ServerOptions()
    state = ServerState(
        engine=engine,
        media=MediaReader(processor, options.media),
        options=options,
        metrics=Metrics(engine),
        drain=Drain(),
        started_s=int(time.time()),
    )
    app = FastAPI(
        title="Kimi K2.5 runtime",
        version=service.find_version(),
        description="OpenAI-compatible. Unknown fields are ignored and named in the header `x-ignored-fields`.",
        lifespan=_lifespan,
        redirect_slashes=False,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.server = state
    _add_routes(app)
    for kind in (RequestError, RuntimeFault):
        app.add_exception_handler(kind, _show_error)
    app.add_exception_handler(ClientGoneError, _show_nothing)
    app.add_exception_handler(HTTPException, _show_http_error)
    app.add_exception_handler(Exception, _show_bug)
    replaceable: Any = app
    replaceable.openapi = lambda: describe(app, has_keys=bool(options.api_keys))
    app.add_middleware(Gate, options=options, metrics=state.metrics, drain=state.drain)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(options.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Empties the engine's lists of times while nobody scrapes them; closes the engine at the end."""
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
            response_class=Response if text else JSONResponse,  # of which the document takes the media type
            responses=answers_of(answer, *statuses, text=text),
        )

    post("/v1/chat/completions", chat.complete_chat, ChatRequest, answers.ChatAnswer, stream=True)
    post("/v1/completions", text.complete_text, TextRequest, answers.TextAnswer, stream=True)
    post("/tokenize", tokens.tokenize, TokenizeRequest, answers.TokensAnswer)
    post("/detokenize", tokens.detokenize, DetokenizeRequest, answers.DetokenizedAnswer)
    get("/v1/models", service.list_models, answers.ModelsAnswer)
    get("/v1/models/{name:path}", service.show_model, answers.ModelAnswer, 404)
    get("/health", service.show_health, answers.HealthAnswer, 503)
    get("/metrics", service.show_metrics, None, text=service.METRICS_TYPE)
    get("/version", service.show_version, answers.VersionAnswer)


def _error(error: RequestError | RuntimeFault, headers: dict[str, str] | None = None) -> Response:
    return Response(
        dump(error_body(error)),
        status_code=status_of(error),
        headers={"content-type": "application/json"} | error_headers(error) | (headers or {}),
    )


async def _show_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError | RuntimeFault)
    return _error(error)


async def _show_nothing(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the log does


async def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    path = request.url.path.encode("unicode_escape").decode()[:120]
    text = f"{request.method} {path}: {error.detail}; GET /openapi.json lists what there is"
    return _error(RequestError(text, code=code, status=error.status_code), dict(error.headers or {}))


async def _show_bug(request: Request, error: Exception) -> Response:
    text = "the server failed; its log has the reason under this request's x-request-id"
    exchange: Exchange = request.state.exchange
    return _error(RequestError(text, code="internal_error", status=500), {"x-request-id": exchange.request_id})
