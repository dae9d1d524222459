"""Expense tracker: routes over the store, and `DemoApp`, which serves it on a free loopback port."""

import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from apps.demo.pages import parse_expense, parse_settings, render_edit, render_expenses, render_summary
from apps.demo.store import SEED, Expense, ExpenseStore, State, StoreSettings
from envs.errors import EnvSetupError, require

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


class LoopbackServer:
    """Server of `app` on 127.0.0.1 until `stop`, as a context manager. The system selects the port."""

    def __init__(self, app: "Starlette") -> None:
        self._app = app
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self, timeout_s: float = 10.0) -> str:
        """Start serving and return the address, for example `http://127.0.0.1:40001`.

        Raises:
            EnvSetupError: If the server does not start in time.
        """
        uvicorn = require("uvicorn", "demo")
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else small responses wait 40 ms
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self._app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none", loop="asyncio"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="loopback-server", daemon=True
        )
        self._thread.start()
        if not _is_answering(self.url, timeout_s):
            raise EnvSetupError(f"the local web app at {self.url} did not answer within {timeout_s:g} s")
        return self.url

    def stop(self) -> None:
        """Stop serving and wait for the thread. May be called twice."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(timeout=5.0)
        self._server = self._thread = None

    def __enter__(self) -> "LoopbackServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _is_answering(url: str, timeout_s: float) -> bool:
    """Return True if any response arrives in time; the socket queues the request until the server is ready."""
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(4) == b"HTTP"
    except OSError:
        return False


_STATIC = Path(__file__).with_name("static")


class DemoApp:
    """Expense tracker on a free loopback port, as a context manager.

    Args:
        folder: Folder of `expenses.json`; None for a temporary folder, removed after `stop`.
        seed: Initial content of a new file.
    """

    def __init__(self, folder: Path | None = None, seed: State = SEED) -> None:
        self._folder = folder
        self._seed = seed
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._store: ExpenseStore | None = None
        self._server: LoopbackServer | None = None

    def start(self) -> str:
        """Serve the app and return its address."""
        if self._folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="k25-demo-")
        folder = Path(self._scratch.name) if self._scratch else self._folder or Path()
        folder.mkdir(parents=True, exist_ok=True)
        self._store = ExpenseStore(folder / "expenses.json", self._seed)
        self._server = LoopbackServer(make_app(self._store))
        return self._server.start()

    def state(self) -> State:
        """Return the saved state, read from the file.

        Raises:
            RuntimeError: If the app was not started.
        """
        if self._store is None:
            raise RuntimeError("start the app before reading its state")
        return self._store.load()

    def stop(self) -> None:
        """Stop serving; remove a temporary folder. May be called twice."""
        if self._server is not None:
            self._server.stop()
        if self._scratch is not None:
            self._scratch.cleanup()
        self._server = self._scratch = None

    def __enter__(self) -> "DemoApp":
        self.url = self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def make_app(store: ExpenseStore) -> "Starlette":
    """Make the web application for a store."""
    require("starlette", "demo")
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    pages = _Pages(store)
    return Starlette(
        routes=[
            Route("/", pages.show_expenses),
            Route("/expenses", pages.add, methods=["POST"]),
            Route("/expenses/{id:int}/edit", pages.show_edit),
            Route("/expenses/{id:int}", pages.change, methods=["POST"]),
            Route("/expenses/{id:int}/delete", pages.delete, methods=["POST"]),
            Route("/summary", pages.show_summary),
            Route("/settings", pages.set_settings, methods=["POST"]),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ]
    )


class _Pages:
    """Route handlers, one method per route."""

    def __init__(self, store: ExpenseStore) -> None:
        self._store = store

    async def show_expenses(self, request: "Request") -> "Response":
        return _show(render_expenses(self._store.load(), flash=_flash_of(request)))

    async def show_summary(self, request: "Request") -> "Response":
        return _show(render_summary(self._store.load(), flash=_flash_of(request)))

    async def add(self, request: "Request") -> "Response":
        form = await _form_of(request)
        expense = parse_expense(form)
        if not isinstance(expense, Expense):
            return _show(render_expenses(self._store.load(), form=form, errors=expense), status=422)
        self._store.add(expense)
        return _go("/", flash="Saved")

    async def show_edit(self, request: "Request") -> "Response":
        expense = self._find(request)
        return _show(render_edit(expense)) if expense else _go("/", flash="This expense is gone")

    async def change(self, request: "Request") -> "Response":
        before = self._find(request)
        if before is None:
            return _go("/", flash="This expense is gone")
        form = await _form_of(request)
        after = parse_expense(form, before.id)
        if not isinstance(after, Expense):
            return _show(render_edit(before, form=form, errors=after), status=422)
        self._store.change(after)
        return _go("/", flash="Saved")

    async def delete(self, request: "Request") -> "Response":
        self._store.delete(request.path_params["id"])
        return _go("/", flash="Deleted")

    async def set_settings(self, request: "Request") -> "Response":
        form = await _form_of(request)
        settings = parse_settings(form)
        if not isinstance(settings, StoreSettings):
            return _show(render_summary(self._store.load(), form=form, errors=settings), status=422)
        self._store.set_settings(settings)
        return _go("/summary", flash="Saved")

    def _find(self, request: "Request") -> Expense | None:
        wanted = request.path_params["id"]
        return next((row for row in self._store.load().expenses if row.id == wanted), None)


async def _form_of(request: "Request") -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode("utf-8"), keep_blank_values=True))


def _flash_of(request: "Request") -> str:
    return request.cookies.get("flash", "").replace("_", " ")


def _show(html: str, status: int = 200) -> "Response":
    """Return a page; the flash message in it is then deleted."""
    from starlette.responses import HTMLResponse

    response = HTMLResponse(html, status_code=status)
    response.delete_cookie("flash")
    return response


def _go(address: str, *, flash: str) -> "Response":
    """Redirect the browser, with a message for the next page."""
    from starlette.responses import RedirectResponse

    response = RedirectResponse(address, status_code=303)
    response.set_cookie("flash", flash.replace(" ", "_"), samesite="strict")
    return response
