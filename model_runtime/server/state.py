"""State shared by the routes: the engine, the media reader, limits, and the drain status."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from model_runtime.engine.contract import EngineClient
from model_runtime.errors import InvalidRequestError
from model_runtime.server.body import DrainingError
from model_runtime.server.media import MediaReader
from model_runtime.server.metrics import ServerMetrics
from model_runtime.server.options import ServerOptions


class Drain:
    """Counter of requests in flight; after `begin`, new ones are rejected."""

    def __init__(self) -> None:
        self.is_draining = False
        self._num_in_flight = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def begin(self) -> None:
        """Stop accepting requests."""
        self.is_draining = True

    def check(self, retry_after_s: float) -> None:
        """Reject a request while the server drains.

        Raises:
            DrainingError: If the server drains.
        """
        if self.is_draining:
            raise DrainingError(retry_after_s)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count one request in flight."""
        self._num_in_flight += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._num_in_flight -= 1
            if not self._num_in_flight:
                self._is_idle.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for all requests to end; return False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        except TimeoutError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """Parts of one server, in `app.state.server`; `started_s` is Unix time."""

    engine: EngineClient
    media: MediaReader
    options: ServerOptions
    metrics: ServerMetrics
    drain: Drain
    started_s: int

    @property
    def model_names(self) -> tuple[str, ...]:
        """Accepted model names, the model's own first."""
        return (self.engine.card.name, *self.options.model_names)

    def check_model(self, name: str | None) -> str:
        """Return the model name for the answer.

        Raises:
            RequestError: If the model does not exist (404).
        """
        names = self.model_names
        if name is None:
            return names[0]
        if name not in names:
            text = f"the model {name[:80]!r} does not exist; this server has {', '.join(map(repr, names))}"
            raise InvalidRequestError(text, param="model", code="model_not_found", status=404)
        return name
