"""HTTP API: sessions, their events and images, files, recorded runs, settings. `/api/docs.json` is its OpenAPI.

The page and programs use the same routes; a program sends `Authorization: Bearer TOKEN`. Errors are returned as
`{"error": text}`; for a request that does not match the schema, `detail` lists what is wrong. Updates are sent in two
ways: server-sent events (`/events`) for programs, and one WebSocket (`/live`) with images for the page, because
browsers limit the number of connections.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from apps.assistant.answers import (
    ApiError,
    RunDetails,
    RunRow,
    SavedTaskRow,
    SecretRow,
    SessionRow,
    SessionState,
    SettingRow,
    UploadedFile,
)
from apps.assistant.assistant import Assistant
from apps.assistant.errors import FileTooLargeError, NotFoundError
from apps.assistant.history import EXPORTS
from apps.assistant.run_request import EXAMPLES, MODES, PRACTICE_INSTRUCTION, RunRequest
from apps.assistant.saved_tasks import SavedTask
from apps.assistant.session import AssistantSession
from apps.assistant.user_input import INPUTS, UserInput
from apps.assistant.wording import invalid_object, phrase
from cua.config import FIELDS
from cua.errors import ConfigError, CuaError
from cua.json_text import Json
from cua.run.end import Status
from cua.trajectory.events import AgentMode
from envs.errors import EnvError, require
from visual_tools.errors import VisualError

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI
    from starlette.websockets import WebSocket

EXTRA = "assistant"
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_BATCH_S = 0.08
"""Time within which updates are sent together."""
_ALIVE_S = 15.0
"""Interval of keep-alive messages; proxies close silent connections after 30 s or more."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Instruction(_Body):
    """Message of the user."""

    instruction: str = Field(min_length=1, max_length=200_000)


class NamedSecret(_Body):
    """Value that the agent types without seeing it."""

    value: str = Field(max_length=1000, repr=False)
    domains: tuple[str, ...] = Field(default=(), max_length=20)


class ApprovalAnswer(_Body):
    """Answer to a question of the agent."""

    answer: Literal["once", "site", "deny"]


class Inputs(_Body):
    """Inputs of the user on the image after a take-over."""

    inputs: Annotated[list[UserInput], Field(max_length=200)]


class Setting(_Body):
    """Value of a setting as text; empty to reset it."""

    value: str = Field(max_length=20_000)


class RunFilter(_Body):
    """Recorded runs to list: those with all words of the search, and with each of the other values that is given."""

    search: str = Field(default="", max_length=2000)
    limit: int = Field(default=50, ge=1, le=200)
    mode: AgentMode | None = None
    status: Status | Literal["running", "interrupted", "damaged"] | None = None
    env: str | None = Field(default=None, max_length=200)
    model: str | None = Field(default=None, max_length=400)


class Values(_Body):
    """Values of the parameters of a saved task; missing ones keep the saved value."""

    values: dict[str, Annotated[str, Field(max_length=4000)]] = Field(default_factory=dict, max_length=50)


def make_api(assistant: Assistant) -> "FastAPI":
    """Make the web application of the API.

    Raises:
        MissingDependencyError: If FastAPI is not installed.
    """
    fastapi = require("fastapi", EXTRA)
    bearer = require("fastapi.security", EXTRA).HTTPBearer(auto_error=False, description="Token of the start address")
    app: FastAPI = fastapi.FastAPI(
        title="Assistant of cua-k25",
        version="1",
        description=(__doc__ or "").partition("\n\n")[2],
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/docs.json",
        dependencies=[fastapi.Depends(bearer)],  # for the document; `Access` checks the token
        responses={status: {"model": ApiError} for status in (400, 401, 404, 422)},
    )
    for add in (_add_sessions, _add_control, _add_streams, _add_files, _add_runs, _add_tasks, _add_settings):
        router = fastapi.APIRouter(prefix="/api")
        add(router, assistant)
        app.include_router(router)
    app.add_api_route("/api/{path:path}", _find_nothing, methods=_METHODS, include_in_schema=False)
    for kind in (CuaError, EnvError, VisualError, Exception):
        app.add_exception_handler(kind, _say_error)
    app.add_exception_handler(require("fastapi.exceptions", EXTRA).RequestValidationError, _say_invalid)
    app.add_exception_handler(require("starlette.exceptions", EXTRA).HTTPException, _say_http)
    return app


_STATUSES = {NotFoundError: 404, FileTooLargeError: 413}


async def _find_nothing(path: str) -> None:
    raise NotFoundError(f"there is no such method of /api/{path[:200]}; /api/docs.json lists all")


async def _say_error(request: Any, error: Exception) -> Any:
    from starlette.responses import JSONResponse

    if not isinstance(error, (CuaError, EnvError, VisualError)):
        return JSONResponse({"error": "Internal error. The terminal of the assistant shows it."}, status_code=500)
    status = next((number for kind, number in _STATUSES.items() if isinstance(error, kind)), 400)
    return JSONResponse({"error": phrase(error)}, status_code=status)


async def _say_http(request: Any, error: Any) -> Any:
    """Return an error of the web framework, such as a body that is not JSON, in the documented form."""
    from starlette.responses import JSONResponse

    return JSONResponse({"error": phrase(str(error.detail))}, status_code=error.status_code, headers=error.headers)


async def _say_invalid(request: Any, error: Any) -> Any:
    from starlette.responses import Response

    body = json.dumps(invalid_object(error.errors()))  # in ASCII: a request may hold lone surrogates
    return Response(body, status_code=422, media_type="application/json")


def _add_sessions(router: "APIRouter", assistant: Assistant) -> None:
    @router.get("/sessions", summary="All sessions, newest first", response_model=list[SessionRow])
    async def list_sessions() -> list[Json]:
        return [_short(session) for session in reversed(assistant.sessions.values())]

    @router.post("/sessions", summary="Start a run in a new session", status_code=201, response_model=SessionState)
    async def start(request: RunRequest) -> Json:
        return (await assistant.send(request)).view()

    @router.get("/sessions/{session_id}", summary="State of a session", response_model=SessionState)
    async def show(session_id: str) -> Json:
        return assistant.find(session_id).view()

    @router.post(
        "/sessions/{session_id}/orders",
        summary="Redirect the active run, or start the next run of a session",
        response_model=SessionState,
    )
    async def order_more(session_id: str, request: RunRequest) -> Json:
        return (await assistant.send(request, session_id)).view()

    @router.delete("/sessions/{session_id}", summary="Close and delete a session; its runs stay")
    async def discard(session_id: str) -> Json:
        await assistant.discard(session_id)
        return {}

    @router.get("/about", summary="Modes, examples, and the instruction that the practice page can verify")
    async def about() -> Json:
        return {"modes": MODES, "practice": PRACTICE_INSTRUCTION, "examples": EXAMPLES}


def _add_control(router: "APIRouter", assistant: Assistant) -> None:
    def add(path: str, do: str, summary: str) -> None:
        @router.post(f"/sessions/{{session_id}}/{path}", summary=summary, operation_id=do, response_model=SessionState)
        async def command(session_id: str) -> Json:
            return await _run_command(assistant, session_id, {"do": do})

    add("pause", "pause", "Pause the agent before its next action")
    add("resume", "resume", "Resume the agent; ends a take-over")
    add("stop", "stop", "Stop the run immediately")
    add("take-over", "take_over", "Take over mouse and keyboard")

    @router.post(
        "/sessions/{session_id}/redirect",
        summary="Replace the instruction from the next step on",
        response_model=SessionState,
    )
    async def redirect(session_id: str, words: Instruction) -> Json:
        assistant.find(session_id).redirect(words.instruction)
        return assistant.find(session_id).view()

    @router.post(
        "/sessions/{session_id}/children/{child}/cancel",
        summary="End a sub-agent; its parent gets its text",
        response_model=SessionState,
    )
    async def cancel_child(session_id: str, child: str) -> Json:
        return await _run_command(assistant, session_id, {"do": "cancel_child", "child": child})

    @router.post(
        "/sessions/{session_id}/children/{child}/redirect",
        summary="Give a sub-agent a new instruction",
        response_model=SessionState,
    )
    async def redirect_child(session_id: str, child: str, words: Instruction) -> Json:
        return await _run_command(
            assistant, session_id, {"do": "redirect_child", "child": child, "instruction": words.instruction}
        )

    @router.post("/sessions/{session_id}/approvals/{approval_id}", summary="Answer a question of the agent")
    async def approve(session_id: str, approval_id: str, given: ApprovalAnswer) -> Json:
        assistant.find(session_id).answer(approval_id, given.answer)
        return {}

    @router.post("/sessions/{session_id}/input", summary="Execute mouse and keyboard inputs after a take-over")
    async def act(session_id: str, given: Inputs) -> Json:
        error = await assistant.find(session_id).act(given.inputs)
        return {"error": error and phrase(error)}


async def _run_command(assistant: Assistant, session_id: str, command: Json) -> Json:
    """Execute a command that a page may also send over its WebSocket."""
    session = assistant.find(session_id)
    match command.get("do"):
        case "pause":
            session.pause()
        case "resume":
            await session.resume()
        case "stop":
            session.stop()
        case "take_over":
            await session.take_over()
        case "answer":
            given = ApprovalAnswer.model_validate({"answer": command.get("answer")})
            session.answer(str(command.get("approval")), given.answer)
        case "cancel_child":
            await session.cancel_child(str(command.get("child")))
        case "redirect_child":
            words = Instruction.model_validate({"instruction": command.get("instruction")})
            await session.redirect_child(str(command.get("child")), words.instruction)
        case "input":
            error = await session.act(INPUTS.validate_python(command.get("inputs")))
            if error:
                raise CuaError(error)
        case other:
            raise CuaError(
                f"unknown command {str(other)[:40]!r}; expected pause, resume, stop, take_over, answer, cancel_child, "
                "redirect_child or input"
            )
    return session.view()


def _add_streams(router: "APIRouter", assistant: Assistant) -> None:
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.websockets import WebSocket

    @router.get("/sessions/{session_id}/events", summary="Server-sent events: `event` (one event), `view` (the state)")
    async def events(session_id: str, request: Request, after: int = 0) -> Response:
        session = assistant.find(session_id)
        last = request.headers.get("last-event-id")
        if last and not re.fullmatch(r"[0-9]{1,18}", last):
            raise CuaError(f"Last-Event-ID is {last[:40]!r}, expected the id of an event, a whole number")
        after = int(last) if last else after
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(_sse(session, after), media_type="text/event-stream", headers=headers)

    @router.get("/sessions/{session_id}/screen", summary="Newest image of the screen")
    async def screen(session_id: str) -> Response:
        frame = assistant.find(session_id).screen.frame
        if frame is None:
            raise NotFoundError("there is no image yet")
        return Response(frame.image, media_type=frame.media_type)

    @router.get("/sessions/{session_id}/approvals/{approval_id}/crop", summary="Image around the click of a question")
    async def crop(session_id: str, approval_id: str) -> Response:
        approval = assistant.find(session_id).questions.open.get(approval_id)
        if approval is None or not approval.crop:
            raise NotFoundError("there is no such image (any more)")
        return Response(approval.crop, media_type="image/png")

    @router.get("/sessions/{session_id}/images/{name}", summary="Image of a tool result")
    async def tool_image(session_id: str, name: str) -> Response:
        image = assistant.find(session_id).log.images.get(name)
        if image is None:
            raise NotFoundError("there is no such image (any more)")
        return Response(image[0], media_type=image[1])

    @router.get("/sessions/{session_id}/evidence/{mark}", summary="Result of a sub-agent that a citation refers to")
    async def evidence(session_id: str, mark: str) -> dict[str, str]:
        result = assistant.find(session_id).log.evidence.get(mark)
        if result is None:
            raise NotFoundError("there is no such result here (any more); the run's report has all")
        return result

    @router.websocket("/sessions/{session_id}/live")
    async def live(socket: WebSocket, session_id: str) -> None:
        await socket.accept()
        session = assistant.sessions.get(session_id)
        if session is None:
            await socket.close(4404, "there is no such session")
            return
        await _serve_live(assistant, session, socket)


async def _sse(session: AssistantSession, after: int) -> AsyncIterator[str]:
    shown: Json = {}
    while True:
        version = session.log.version  # updates that arrive during sending must not be missed
        for event in session.log.after(after):
            after = event["seq"]
            yield f"id: {after}\nevent: event\ndata: {json.dumps(event, default=str)}\n\n"
        view = session.view()
        if view != shown:
            shown = view
            yield f"event: view\ndata: {json.dumps(view, default=str)}\n\n"
        await asyncio.sleep(_BATCH_S)
        if not await session.log.wait_for_change(_ALIVE_S, version):
            yield ": still here\n\n"


async def _serve_live(assistant: Assistant, session: AssistantSession, socket: "WebSocket") -> None:
    """Send events and images, receive commands, until either side closes the connection."""
    with session.screen.viewing():
        out = asyncio.create_task(_send_updates(session, socket))
        into = asyncio.create_task(_receive_commands(assistant, session, socket))
        await asyncio.wait({out, into}, return_when=asyncio.FIRST_COMPLETED)
        for task in (out, into):
            task.cancel()
        await asyncio.gather(out, into, return_exceptions=True)


async def _send_updates(session: AssistantSession, socket: "WebSocket") -> None:
    shown: Json = {}
    seq, frame_number = 0, 0
    while True:
        version = session.log.version  # updates that arrive during sending must not be missed
        events = session.log.after(seq)
        view = session.view()
        if events or view != shown:
            seq, shown = events[-1]["seq"] if events else seq, view
            await socket.send_text(json.dumps({"events": events, "view": view}, default=str))
        if session.screen.frame is not None and session.screen.frame_number != frame_number:
            frame_number = session.screen.frame_number
            await socket.send_bytes(session.screen.frame.image)
        await asyncio.sleep(_BATCH_S)
        await session.log.wait_for_change(_ALIVE_S, version)


async def _receive_commands(assistant: Assistant, session: AssistantSession, socket: "WebSocket") -> None:
    from starlette.websockets import WebSocketDisconnect

    with contextlib.suppress(WebSocketDisconnect):
        while True:
            text = await socket.receive_text()
            try:
                command = json.loads(text)
                await _run_command(assistant, session.id, command if isinstance(command, dict) else {})
            except (CuaError, EnvError) as error:
                await socket.send_text(json.dumps({"error": phrase(error)}))
            except (ValueError, ValidationError):
                await socket.send_text(
                    json.dumps({"error": "This is not a command. Expected a JSON object with `do`."})
                )


def _add_files(router: "APIRouter", assistant: Assistant) -> None:
    from starlette.requests import Request

    @router.post(
        "/files", summary="Upload a file: its bytes are the body", status_code=201, response_model=UploadedFile
    )
    async def upload(request: Request, name: str) -> Json:
        return {"name": await assistant.save_upload(name, request.stream())}


def _add_runs(router: "APIRouter", assistant: Assistant) -> None:
    from fastapi import Query
    from starlette.responses import Response

    @router.get("/runs", summary="Recorded runs, newest first", response_model=list[RunRow])
    async def list_runs(wanted: Annotated[RunFilter, Query()]) -> list[Json]:
        values = wanted.model_dump(exclude={"search", "limit"}, exclude_none=True)
        return await asyncio.to_thread(assistant.history.find_runs, wanted.search, wanted.limit, values)

    @router.get("/runs/{run_id}", summary="A run with its steps", response_model=RunDetails)
    async def show(run_id: str) -> Json:
        return await asyncio.to_thread(assistant.history.details, run_id)

    @router.get("/runs/{run_id}/thumbnail", summary="Thumbnail of the last screenshot")
    async def thumbnail(run_id: str) -> Response:
        return Response(await asyncio.to_thread(assistant.history.thumbnail, run_id), media_type="image/jpeg")

    @router.get("/runs/{run_id}/steps/{step}/image", summary="Screenshot of a step; 0 for the last step")
    async def image(run_id: str, step: int) -> Response:
        return Response(await asyncio.to_thread(assistant.history.image, run_id, step), media_type="image/png")

    @router.get("/runs/{run_id}/export/{kind}", summary=f"A run as one file: {', '.join(EXPORTS)}")
    async def export(run_id: str, kind: str) -> Response:
        data = await asyncio.to_thread(assistant.history.export, run_id, kind)
        name = f"{run_id}-{kind}.{EXPORTS[kind].suffix}"
        headers = {"content-disposition": f'attachment; filename="{name}"', "content-security-policy": "sandbox"}
        return Response(data, media_type=EXPORTS[kind].media_type, headers=headers)

    @router.post("/runs/{run_id}/resume", summary="Resume a run", status_code=201, response_model=SessionState)
    async def resume(run_id: str) -> Json:
        return assistant.resume(run_id).view()

    @router.post(
        "/runs/{run_id}/again", summary="Repeat the task of a run", status_code=201, response_model=SessionState
    )
    async def again(run_id: str) -> Json:
        return (await assistant.again(run_id)).view()

    @router.delete("/runs/{run_id}", summary="Remove a run")
    async def delete(run_id: str) -> Json:
        await asyncio.to_thread(assistant.history.delete, run_id)
        return {}


def _add_tasks(router: "APIRouter", assistant: Assistant) -> None:
    @router.get(
        "/tasks",
        summary="Saved tasks with their next time and last result",
        response_model=list[SavedTaskRow],
    )
    async def list_tasks() -> list[Json]:
        return assistant.tasks.rows()

    @router.put(
        "/tasks/{name}",
        summary="Save a task; `{word}` in it is a parameter",
        response_model=list[SavedTaskRow],
    )
    async def save(name: str, task: SavedTask) -> list[Json]:
        assistant.tasks.save(name, task)
        return assistant.tasks.rows()

    @router.post("/tasks/{name}/run", summary="Start a saved task", status_code=201, response_model=SessionState)
    async def run(name: str, given: Values) -> Json:
        return (await assistant.run_task(name, given.values)).view()

    @router.delete("/tasks/{name}", summary="Delete a task")
    async def delete(name: str) -> Json:
        assistant.tasks.delete(name)
        return {}


def _add_settings(router: "APIRouter", assistant: Assistant) -> None:
    @router.get(
        "/settings",
        summary="Settings with value and source; secrets show whether they are set",
        response_model=list[SettingRow],
    )
    async def show() -> list[Json]:
        return assistant.preferences.rows()

    @router.put(
        "/settings/{name}", summary="Change a setting; an empty value resets it", response_model=list[SettingRow]
    )
    async def change(name: str, setting: Setting) -> list[Json]:
        try:
            await asyncio.to_thread(assistant.preferences.change, name, setting.value)
        except ConfigError as error:
            if name in FIELDS:
                raise
            raise NotFoundError(str(error)) from error
        return assistant.preferences.rows()

    @router.post("/settings/test", summary="Test the endpoint of the settings; takes a while")
    async def test() -> Json:
        return await asyncio.to_thread(assistant.preferences.test_endpoint)

    @router.get(
        "/secrets",
        summary="Names of the secrets that are typed as {{name}}, and their domains",
        response_model=list[SecretRow],
    )
    async def show_secrets() -> list[Json]:
        return assistant.preferences.secret_rows()

    @router.put(
        "/secrets/{name}",
        summary="Store a secret, write-only; an empty value deletes it",
        response_model=list[SecretRow],
    )
    async def change_secret(name: str, secret: NamedSecret) -> list[Json]:
        await asyncio.to_thread(assistant.preferences.change_secret, name, secret.value, secret.domains)
        return assistant.preferences.secret_rows()


def _short(session: AssistantSession) -> Json:
    view = session.view()
    return {name: view[name] for name in ("id", "mode", "title", "phase", "step", "result", "run_id", "error")}
