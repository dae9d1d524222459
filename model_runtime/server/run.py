"""Serving of an application: the listening line, signals, and graceful shutdown."""

import asyncio
import contextlib
import socket
from types import FrameType
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from model_runtime.errors import EngineDead, RuntimeFault, require
from model_runtime.server.state import ServerState

if TYPE_CHECKING:
    from uvicorn import Server

_BACKLOG = 4096  # connections that wait for the event loop; above the requests of a large swarm
_LAST_CALL_S = 5  # seconds for open responses to finish at shutdown
_POLL_S = 0.25  # delay after which a fault of the engine ends the server
_FAULT_SEEN_S = 3.0  # time for clients and probes to receive the error before the server exits
_KEEP_ALIVE_S = 75
"""Keep-alive timeout, longer than the clients', so that they close idle connections."""


def serve(app: FastAPI, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve until SIGINT or SIGTERM; returns when all requests have been answered or cancelled.

    Prints `listening on http://host:port` when requests are accepted. The first signal lets requests in flight finish
    within `drain_s`, rejects new ones with 503, then cancels the rest; a second one cancels at once.

    Args:
        app: Result of `make_app`.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.

    Raises:
        RuntimeFault: If the server cannot listen on the address.
        EngineDead: If the engine ended unexpectedly. This was reported to requests in flight, and by `/health` for a
            few seconds.
    """
    server = make_server(app)
    listener = listen(host, port)
    with contextlib.closing(listener), asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(run_server(server, app.state.server, listener))


def make_server(app: FastAPI) -> "Server":
    """Return a `uvicorn.Server` with our settings, on uvloop if that is installed."""
    uvicorn = require("uvicorn")
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_LAST_CALL_S,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket.

    Raises:
        RuntimeFault: If the address is taken, not of this machine, or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only for sockets with an explicit protocol
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        text = f"cannot listen at {host}:{port}: {error.strerror or error}; choose another with --host and --port"
        raise RuntimeFault(text) from error
    return listener


async def run_server(server: Any, state: ServerState, listener: socket.socket) -> None:
    """Serve until `server.handle_exit` is called, as signals do; it may be called from any thread."""
    leaving: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()

    def leave() -> None:
        if not leaving:
            leaving.append(asyncio.create_task(_leave(server, state)))
        else:
            leaving[0].cancel()

    def on_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(leave)

    server.handle_exit = on_signal
    running = asyncio.create_task(server.serve(sockets=[listener]))
    watching = asyncio.create_task(_wait_for_fault(state))
    watching.add_done_callback(lambda task: None if task.cancelled() else leave())
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if server.started:
        name, port = listener.getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        print(f"listening on http://{shown}:{port}", flush=True)
    await running
    if watching.done():
        raise EngineDead(watching.result())
    watching.cancel()


async def _wait_for_fault(state: ServerState) -> str:
    """Wait until the engine ends unexpectedly; return the reason after clients have had time to receive it."""
    while state.drain.is_draining or state.engine.fault is None:
        await asyncio.sleep(_POLL_S)
    fault = state.engine.fault
    await asyncio.sleep(_FAULT_SEEN_S)
    return fault


async def _leave(server: "Server", state: ServerState) -> None:
    state.drain.begin()
    try:
        await state.drain.wait(state.options.drain_s)
    finally:
        await state.engine.close()  # requests that still run end here, with an error text
        server.should_exit = True
