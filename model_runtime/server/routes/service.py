"""`/health`, `/metrics`, `/version` and `/v1/models`: what operators and clients ask before anything else."""

from importlib import metadata
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from model_runtime.errors import RequestError
from model_runtime.server.errors import error_body
from model_runtime.server.routes.run import state_of
from model_runtime.server.state import ServerState

METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


async def show_health(request: Request) -> Response:
    """200 while requests are taken, 503 with the reason while not."""
    state = state_of(request)
    reason = "the server is shutting down" if state.drain.is_draining else state.engine.fault
    if reason is None:
        return JSONResponse({"status": "ok"})
    error = RequestError(reason, code="unhealthy", status=503)
    return JSONResponse(error_body(error) | {"status": "unhealthy"}, status_code=503)


async def show_metrics(request: Request) -> Response:
    """Prometheus' text format."""
    return Response(state_of(request).metrics.render(), headers={"content-type": METRICS_TYPE})


async def show_version(request: Request) -> Response:
    """The version of this package."""
    return JSONResponse({"version": find_version()})


async def list_models(request: Request) -> Response:
    """The model, under each of its names."""
    state = state_of(request)
    return JSONResponse({"object": "list", "data": [_model(name, state) for name in state.model_names]})


async def show_model(request: Request, name: str) -> Response:
    """One model by its name, which may hold slashes."""
    state = state_of(request)
    return JSONResponse(_model(state.check_model(name), state))


def find_version() -> str:
    """Of the installed distribution; `unknown` in a bare source tree."""
    try:
        return metadata.version("cua-k25")
    except metadata.PackageNotFoundError:
        return "unknown"


def _model(name: str, state: ServerState) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": state.started_s,
        "owned_by": "model_runtime",
        "max_model_len": state.engine.card.max_model_len,
    }
