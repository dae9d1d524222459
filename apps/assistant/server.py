"""Server of the app on one port: access, API, static files and page; start and shutdown."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.assistant.access import MIN_TOKEN_CHARS, Access, is_loopback, make_token
from apps.assistant.api import make_api
from apps.assistant.assistant import Assistant
from apps.assistant.errors import MAX_FILE_BYTES
from apps.assistant.page import EXTRA, HEAD, LOAD_JS, make_page, make_theme
from apps.assistant.preferences import Preferences
from cua.errors import ConfigError
from envs.errors import require

_STATIC = Path(__file__).with_name("static")
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
_QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "GRADIO_SSR_MODE": "False", "DO_NOT_TRACK": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Address and access of the server.

    Attributes:
        host: Host to listen on.
        port: Port to listen on; 0 for a free one.
        token: Access token; None for a random one.
        hosts: Further host names of the app.
    """

    host: str = "127.0.0.1"
    port: int = 7860
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()


def make_app(assistant: Assistant) -> Any:
    """Make the web application, without access control.

    Args:
        assistant: Assistant of the app.

    Raises:
        MissingDependencyError: If Gradio or FastAPI is not installed.
    """
    app = make_api(assistant)
    _add_static(app)
    for name, value in _QUIET.items():  # before its first import, which reads them
        os.environ.setdefault(name, value)
    os.environ["GRADIO_TEMP_DIR"] = str(assistant.page_dir)
    gr = require("gradio", EXTRA)
    gr.mount_gradio_app(
        app,
        make_page(assistant),
        path="/",
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        blocked_paths=[str(Path.home())],
        show_error=True,
        max_file_size=MAX_FILE_BYTES,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=make_theme(),
        head=HEAD,
        js=LOAD_JS,
    )
    return app


def _add_static(app: Any) -> None:
    from starlette.responses import FileResponse, Response

    async def static(name: str) -> Response:
        path = _STATIC / name
        if path.parent != _STATIC or not path.is_file():
            return Response(status_code=404)
        return FileResponse(path, media_type=_MEDIA_TYPES.get(path.suffix), headers={"cache-control": "no-cache"})

    app.add_api_route("/assistant/{name}", static, include_in_schema=False)


def check_options(options: ServeOptions) -> None:
    """Check that the options do not give others access.

    Raises:
        ConfigError: If it listens beyond this machine without a chosen token, or that token is too short.
    """
    if options.token is not None and len(options.token) < MIN_TOKEN_CHARS:
        raise ConfigError(f"the token has {len(options.token)} characters, expected {MIN_TOKEN_CHARS} or more")
    if not is_loopback(options.host) and options.token is None:
        raise ConfigError(
            f"{options.host} is reached from other machines: name a file with a token that you share with them, "
            "--token-file FILE, and put TLS in front of it. Without a token only 127.0.0.1 is listened on"
        )


def open_port(host: str, port: int) -> socket.socket:
    """Open the listening socket.

    Raises:
        ConfigError: If the port is taken, or the host does not belong to this machine.
    """
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}. Choose another one: --port 0") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise small responses are delayed by 40 ms
    return listener


def serve(
    options: ServeOptions,
    preferences: Preferences,
    *,
    tell: Callable[[str], None],
    open_browser: Callable[[str], object] | None = None,
) -> None:
    """Serve until Ctrl-C; active runs are then stopped in order, and can be resumed.

    Args:
        options: Address and access of the server.
        preferences: Settings of the app.
        tell: Called with the URL to open.
        open_browser: Opens the URL.

    Raises:
        ConfigError: If it cannot listen at that address.
        MissingDependencyError: If a package is not installed.
    """
    check_options(options)
    require("gradio", EXTRA)
    listener = open_port(options.host, options.port)
    token = options.token or make_token()
    port = listener.getsockname()[1]
    shown = "127.0.0.1" if options.host in ("0.0.0.0", "::", "localhost") else options.host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/?token={token}"
    asyncio.run(_serve(listener, token, options, preferences, lambda: _say(address, tell, open_browser)))


def _say(address: str, tell: Callable[[str], None], open_browser: Callable[[str], object] | None) -> None:
    tell(address)
    if open_browser is not None:
        open_browser(address)


async def _serve(
    listener: socket.socket, token: str, options: ServeOptions, preferences: Preferences, ready: Callable[[], None]
) -> None:
    uvicorn = require("uvicorn", EXTRA)
    require("websockets", EXTRA)
    assistant = Assistant(preferences, own_places=_own_places(listener, options))
    try:
        app = await asyncio.to_thread(make_app, assistant)
        guarded = protect(app, token, listener, options, assistant.has_room)
        config = uvicorn.Config(guarded, log_level="warning", timeout_graceful_shutdown=1, access_log=False)
        server = uvicorn.Server(config)
        with _ended_by_signals(server):
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.02)
            keeping = asyncio.create_task(assistant.run_schedule())
            if server.started:
                ready()
            await serving
            keeping.cancel()
            await assistant.close()
    finally:
        await assistant.close()


def _own_places(listener: socket.socket, options: ServeOptions) -> list[str]:
    """Return the names under which the app can be reached, as rules on domains."""
    names = {"localhost"}
    if not is_loopback(options.host):
        names |= {socket.gethostname(), *options.hosts} | ({options.host} - {"0.0.0.0", "::"})
        with suppress(OSError):
            names |= set(socket.gethostbyname_ex(socket.gethostname())[2])
    port = listener.getsockname()[1]
    return [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in sorted(names)]


@contextmanager
def _ended_by_signals(server: Any) -> Iterator[None]:
    """Shut down in order on Ctrl-C and SIGTERM; the server's own handler would exit before the runs have stopped."""

    def end(number: int, frame: object) -> None:
        server.should_exit, server.force_exit = True, server.should_exit

    server.capture_signals = nullcontext
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, end) for kind in kinds]
    try:
        yield
    finally:
        for kind, way in zip(kinds, before, strict=True):
            signal.signal(kind, way)


def protect(
    app: Any, token: str, listener: socket.socket, options: ServeOptions, has_room: Callable[[], bool]
) -> Access:
    """Wrap the app in its access rules."""
    port = listener.getsockname()[1]
    return Access(app, token=token, host=options.host, port=port, hosts=options.hosts, has_room=has_room)


def read_token(file: Path) -> str:
    """Read the token from a file.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {file} cannot be read: {error}") from error
