"""Serves the example pages on this machine and keeps what they report about themselves."""

import json
from pathlib import Path
from typing import Any

from apps.demo.app import LoopbackServer
from envs.errors import require

PAGES = Path(__file__).with_name("pages")
_MAX_STATE_BYTES = 100_000


class PageServer:
    """The pages at `url`; `state` is the last thing that a page posted to `/state`, None before."""

    def __init__(self) -> None:
        self.state: Any = None
        self._server = LoopbackServer(self._make_app())

    def start(self) -> str:
        """Serve, and return the address that page names are appended to."""
        return f"{self._server.start()}/pages/"

    def stop(self) -> None:
        """Stop serving. May be called twice."""
        self._server.stop()

    def _make_app(self) -> Any:
        require("starlette", "demo")
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles

        async def take_state(request: Request) -> Response:
            body = await request.body()
            if len(body) > _MAX_STATE_BYTES:
                return Response("too much", status_code=413)
            self.state = json.loads(body)
            return Response(status_code=204)

        return Starlette(
            routes=[Route("/state", take_state, methods=["POST"]), Mount("/pages", StaticFiles(directory=PAGES))]
        )
