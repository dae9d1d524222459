"""OSWorld's guest protocol over HTTP: the routes of a guest server, and the program that serves them.

    python -m envs.suites.osworld.guest_server --display :1 --port 5000

By design, a client can run programs as the server's user. It listens on loopback by default, and requires a token if
one is set.

Source: the routes, bodies and answers of `desktop_env/server` of xlang-ai/OSWorld.
"""

import argparse
import asyncio
import contextlib
import hmac
import http.client
import json
import os
import platform
import shlex
import shutil
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from envs.errors import EnvSetupError, require
from envs.json_fields import Json, JsonMapping
from envs.suites.osworld.guest import Guest, GuestRequestError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_PYTHON_TIMEOUT_S = 30.0
_MAX_BODY_BYTES = 2 * 2**30
_MAX_JSON_BYTES = 2**24
_MAX_ENTRIES = 20_000
_DOWNLOAD_TIMEOUT_S = 60.0
_RETRY_S = 1.0


def make_app(guest: Guest, *, token: str | None = None) -> "Starlette":
    """Make the HTTP application.

    Args:
        guest: Guest to serve; it is closed with the server.
        token: Bearer token that requests must have; None for none.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    async def execute(request: Request) -> Response:
        body = await _json(request)
        return JSONResponse(await guest.run(body.get("command"), shell=bool(body.get("shell"))))

    async def execute_with_verification(request: Request) -> Response:
        body = await _json(request)
        began_s = time.monotonic()
        result = await guest.run(body.get("command"), shell=bool(body.get("shell")))
        wanted = body.get("verification") or {}
        limit_s, interval_s = float(body.get("max_wait_time") or 10), float(body.get("check_interval") or 1)
        while not (is_right := await _verify(guest, wanted)) and time.monotonic() - began_s < min(limit_s, 600):
            await asyncio.sleep(max(interval_s, 0.05))
        result |= {"wait_time": time.monotonic() - began_s, "verification": {"success": is_right}}
        result["status"] = "success" if is_right else "verification_failed"
        return JSONResponse(result, 200 if is_right else 500)

    async def launch(request: Request) -> Response:
        body = await _json(request)
        return PlainTextResponse(await guest.launch(body.get("command"), shell=bool(body.get("shell"))))

    async def screenshot(request: Request) -> Response:
        return Response(await guest.screenshot(), media_type="image/png")

    async def terminal(request: Request) -> Response:
        return JSONResponse({"output": await guest.terminal_output(), "status": "success"})

    async def accessibility(request: Request) -> Response:
        return JSONResponse({"AT": await guest.accessibility_tree()})

    async def screen_size(request: Request) -> Response:
        width, height = await guest.screen_size_px()
        return JSONResponse({"width": width, "height": height})

    async def window_size(request: Request) -> Response:
        size = await guest.window_size_px(str((await request.form()).get("app_class_name") or ""))
        if size is None:
            raise GuestRequestError("no such window")
        return JSONResponse({"width": size[0], "height": size[1]})

    async def desktop_path(request: Request) -> Response:
        folder = guest.path("~/Desktop")
        if not folder.is_dir():
            raise GuestRequestError("Desktop path not found", 404)
        return JSONResponse({"desktop_path": str(folder)})

    async def list_directory(request: Request) -> Response:
        folder = guest.path((await _json(request)).get("path"))
        if not folder.is_dir():
            raise GuestRequestError(f"{folder} is not a folder", 404)
        return JSONResponse({"directory_tree": await run_in_threadpool(_tree, folder)})

    async def file(request: Request) -> Response:
        path = guest.path((await request.form()).get("file_path"))
        if not path.is_file():
            raise GuestRequestError("File not found", 404)
        return FileResponse(path, filename=path.name)

    async def upload(request: Request) -> Response:
        async with request.form(max_part_size=_MAX_BODY_BYTES) as form:
            path, data = guest.path(form.get("file_path")), form.get("file_data")
            if data is None or isinstance(data, str):
                raise GuestRequestError("file_data is required", 400)
            await run_in_threadpool(_save, path, data.file)
        return PlainTextResponse("File Uploaded")

    async def guest_platform(request: Request) -> Response:
        return PlainTextResponse(platform.system())

    async def cursor_position(request: Request) -> Response:
        return JSONResponse(list(await guest.pointer_px()))

    async def open_file(request: Request) -> Response:
        return PlainTextResponse(await guest.open_file(str((await _json(request)).get("path") or "")))

    async def window(request: Request) -> Response:
        body = await _json(request)
        act = guest.activate if request.url.path.endswith("activate_window") else guest.close_window
        name = str(body.get("window_name") or "")
        is_there = await act(name, strict=bool(body.get("strict")), by_class=bool(body.get("by_class")))
        return PlainTextResponse("Done" if is_there else f"there is no window {name!r}")  # upstream also returns 200

    async def wallpaper(request: Request) -> Response:
        return FileResponse(await guest.wallpaper())

    async def change_wallpaper(request: Request) -> Response:
        await guest.change_wallpaper(guest.path((await _json(request)).get("path")))
        return PlainTextResponse("Wallpaper changed successfully")

    async def download_file(request: Request) -> Response:
        body = await _json(request)
        await run_in_threadpool(_download, body.get("url"), guest.path(body.get("path")))
        return PlainTextResponse("File downloaded successfully")

    async def start_recording(request: Request) -> Response:
        await guest.start_recording()
        return JSONResponse({"status": "success"})

    async def end_recording(request: Request) -> Response:
        return FileResponse(await guest.end_recording(), media_type="video/mp4")

    async def run_python(request: Request) -> Response:
        code = str((await _json(request)).get("code") or "")
        result = await guest.run(["python3", "-c", code], shell=False, timeout_s=_PYTHON_TIMEOUT_S)
        return JSONResponse(
            {
                "status": "success" if result["returncode"] == 0 else "error",
                "message": result["output"] + result["error"],
                "output": result["output"],
                "error": result["error"],
                "return_code": result["returncode"],
                "need_more": False,
            }
        )

    async def run_bash_script(request: Request) -> Response:
        body = await _json(request)
        folder = body.get("working_dir")
        script = f"cd {shlex.quote(str(guest.path(folder)))} || exit 1\n" if folder else ""
        limit_s = min(float(body.get("timeout") or 100), 3600.0)
        result = await guest.run(["bash", "-c", script + str(body.get("script") or "")], shell=False, timeout_s=limit_s)
        return JSONResponse(result | {"status": "success" if result["returncode"] == 0 else "error"})

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, GuestRequestError)
        return JSONResponse({"status": "error", "message": str(error)}, error.status)

    async def break_off(request: Request, error: Exception) -> Response:
        return JSONResponse({"status": "error", "message": f"{type(error).__name__}: {error}"}, 500)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await guest.close()

    asked = {
        "/screenshot": screenshot,
        "/terminal": terminal,
        "/accessibility": accessibility,
        "/platform": guest_platform,
        "/cursor_position": cursor_position,
    }
    posted = {
        "/execute": execute,
        "/setup/execute": execute,
        "/execute_with_verification": execute_with_verification,
        "/setup/execute_with_verification": execute_with_verification,
        "/setup/launch": launch,
        "/screen_size": screen_size,
        "/window_size": window_size,
        "/desktop_path": desktop_path,
        "/list_directory": list_directory,
        "/file": file,
        "/setup/upload": upload,
        "/wallpaper": wallpaper,
        "/setup/change_wallpaper": change_wallpaper,
        "/setup/download_file": download_file,
        "/setup/open_file": open_file,
        "/setup/activate_window": window,
        "/setup/close_window": window,
        "/start_recording": start_recording,
        "/end_recording": end_recording,
        "/run_python": run_python,
        "/run_bash_script": run_bash_script,
    }
    routes = [Route(path, _guarded(work, token), methods=["GET"]) for path, work in asked.items()]
    routes += [Route(path, _guarded(work, token), methods=["POST"]) for path, work in posted.items()]
    handlers: Any = {GuestRequestError: refuse, ValueError: break_off, OSError: break_off}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


def _guarded(work: Callable[["Request"], Any], token: str | None) -> Callable[["Request"], Any]:
    """Wrap a route: require the token, and reject requests from web pages."""

    async def answer(request: "Request") -> "Response":
        if "origin" in request.headers:
            raise GuestRequestError("requests of web pages are not taken", 403)
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token is not None and not hmac.compare_digest(given.encode(), token.encode()):
            raise GuestRequestError("a bearer token is wanted", 401)
        response: Response = await work(request)
        return response

    return answer


async def _json(request: "Request") -> JsonMapping:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MAX_JSON_BYTES:
            raise GuestRequestError(f"the request has more than {_MAX_JSON_BYTES} bytes", 413)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise GuestRequestError(f"the request is not JSON: {error}", 400) from error
    if not isinstance(value, dict):
        raise GuestRequestError("the request is not a JSON object", 400)
    return value


async def _verify(guest: Guest, wanted: Mapping[str, object]) -> bool:
    if (name := wanted.get("window_exists")) and not await guest.activate(str(name)):
        return False
    if command := wanted.get("command_success"):
        return bool((await guest.run(command, shell=True))["returncode"] == 0)
    return True


def _tree(folder: Path) -> Json:
    left = _MAX_ENTRIES

    def describe(path: Path) -> Json:
        nonlocal left
        left -= 1
        if path.is_symlink() or not path.is_dir():
            return {"type": "file", "name": path.name}
        with contextlib.suppress(OSError):
            children = [describe(child) for child in sorted(path.iterdir()) if left > 0]
            return {"type": "directory", "name": path.name, "children": children}
        return {"type": "directory", "name": path.name, "children": []}

    return describe(folder)


def _save(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(data, file)


def _download(url: object, path: Path) -> None:
    """Download a file, with three attempts; an incomplete file is removed.

    Raises:
        RequestError: If the address is invalid, or the download fails.
    """
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise GuestRequestError(f"url is {url!r:.200}, expected an address that begins with http", 400)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for is_last in (False, False, True):
        try:
            with urllib.request.urlopen(url, timeout=_DOWNLOAD_TIMEOUT_S) as answer, part.open("wb") as file:
                _copy(answer, file)
                if answer.length:  # read() does not report that the connection closed early
                    raise ValueError(f"it was cut off, {answer.length} bytes are missing")
            part.replace(path)
            return
        except (OSError, ValueError, http.client.HTTPException) as error:
            part.unlink(missing_ok=True)
            if is_last:
                raise GuestRequestError(f"{url} cannot be downloaded: {error}") from error
            time.sleep(_RETRY_S)


def _copy(answer: IO[bytes], file: IO[bytes]) -> None:
    left = _MAX_BODY_BYTES
    while chunk := answer.read(2**20):
        left -= len(chunk)
        if left < 0:
            raise ValueError(f"it has more than {_MAX_BODY_BYTES} bytes")
        file.write(chunk)


def main() -> None:
    """Serve until a signal arrives."""
    parser = argparse.ArgumentParser(description="OSWorld's guest server over one X display.")
    parser.add_argument("--display", default=os.environ.get("DISPLAY"), help="the X display, such as :1")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens; anybody who reaches it runs programs")
    parser.add_argument("--port", type=int, default=5000, help="0 takes a free one and prints it")
    parser.add_argument("--root", type=Path, help="files that are read and written have to lie below it")
    parser.add_argument("--token-file", type=Path, help="requests have to carry what this file holds")
    given = parser.parse_args()
    if not given.display:
        parser.error("there is no display; name one with --display, or set DISPLAY")
    uvicorn = require("uvicorn", "osworld")
    try:
        guest = Guest(given.display, root=given.root)
    except EnvSetupError as error:
        sys.exit(f"error: {error}")
    token = given.token_file.read_text("utf-8").strip() if given.token_file else None
    uvicorn.run(make_app(guest, token=token), host=given.host, port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
