"""Engine in its own thread, for the server."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from model_runtime.engine.contract import EngineOutput, EngineRequest, EngineStats, ModelCard, WeightUpdate
from model_runtime.engine.engine import Engine
from model_runtime.errors import BusyError, CheckpointError, EngineDead, InvalidRequestError
from model_runtime.tokenizer import Tokenizer

LAST_STEP_S = 60.0
"""Timeout for the last step at shutdown; a step that hangs does not prevent the process from exiting."""


@dataclass(slots=True)
class _Listener:
    """Receiver of a request's outputs."""

    loop: asyncio.AbstractEventLoop
    outputs: "asyncio.Queue[EngineOutput | EngineDead]" = field(default_factory=asyncio.Queue)


@dataclass(frozen=True, slots=True)
class _Updating:
    """An update of the weights, and the task that waits for it."""

    update: WeightUpdate
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[None]"

    def end(self, error: CheckpointError | EngineDead | None) -> None:
        """Wake the task from any thread."""

        def wake() -> None:
            if not self.done.done():
                self.done.set_result(None) if error is None else self.done.set_exception(error)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(wake)


class EngineThread:
    """`EngineClient` whose `generate` works from any event loop; only its thread may use the engine from now on."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._inbox: deque[EngineRequest | _Updating | str] = deque()
        self._updating: list[_Updating] = []
        self._listeners: dict[str, _Listener] = {}
        self._wake = threading.Condition()
        self._fault: str | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def card(self) -> ModelCard:
        """Properties of the model."""
        return self._engine.admission.card

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._tokenizer

    @property
    def fault(self) -> str | None:
        """Reason why it accepts no more requests, or None."""
        return self._fault

    def check(self, request: EngineRequest) -> None:
        """Raise the errors that `generate` would raise immediately. See `EngineClient.check`."""
        self._check_alive()
        self._engine.admission.check(request)
        most = self._engine.options.max_waiting
        waiting = len(self._engine.scheduler.waiting) + len(self._inbox)
        if waiting >= most:
            text = f"{waiting} requests wait already; this server queues {most}. Try again later"
            raise BusyError(text, retry_after_s=max(1.0, round(waiting / 50, 1)))

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Yield outputs until one has a `finish_reason`. See `EngineClient.generate`."""
        self.check(request)
        if request.request_id in self._listeners:
            raise InvalidRequestError(
                f"a request {request.request_id!r} is in flight already; ids must differ", param="id"
            )
        listener = _Listener(asyncio.get_running_loop())
        self._listeners[request.request_id] = listener
        self._send(request)
        is_over = False
        try:
            while not is_over:
                output = await listener.outputs.get()
                is_over = isinstance(output, EngineDead) or output.finish_reason is not None
                if isinstance(output, EngineDead):
                    raise EngineDead(str(output))
                yield output
        finally:
            self._listeners.pop(request.request_id, None)
            if not is_over:
                self._send(request.request_id)

    async def update_weights(self, update: WeightUpdate) -> None:
        """Replace the weights. See `EngineClient.update_weights`."""
        self._check_alive()
        loop = asyncio.get_running_loop()
        updating = _Updating(update, loop, loop.create_future())
        self._updating.append(updating)
        self._send(updating)
        try:
            await updating.done
        finally:
            self._updating.remove(updating)

    def stats(self) -> EngineStats:
        """Return counters and times."""
        return self._engine.stats()

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Shut down. See `EngineClient.close`."""
        self._fault = self._fault or "the server is shutting down"
        deadline = asyncio.get_running_loop().time() + drain_s
        while self._listeners and self._thread.is_alive() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        self._is_closing = True
        self._send(None)
        await asyncio.to_thread(self._thread.join, LAST_STEP_S)
        self._tell_all(EngineOutput(finish_reason="aborted", error=self._fault))

    def die(self, reason: str) -> None:
        """Report the end of the engine to all requests, even while its thread hangs in a step."""
        self._fault = reason
        self._tell_all(EngineDead(reason))

    def _check_alive(self) -> None:
        if self._fault is not None:
            raise EngineDead(self._fault)

    def _send(self, message: EngineRequest | _Updating | str | None) -> None:
        with self._wake:
            if message is not None:
                self._inbox.append(message)
            self._wake.notify()

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._read_inbox()
                self._deliver(self._engine.step())
        except BaseException as error:
            self.die(str(error) if isinstance(error, EngineDead) else f"the engine failed: {error!r}")
            if not isinstance(error, EngineDead):
                raise
        finally:
            self._engine.runner.close()

    def _read_inbox(self) -> None:
        with self._wake:
            while not self._inbox and not self._engine.has_work and not self._is_closing:
                self._wake.wait()
            messages = list(self._inbox)
            self._inbox.clear()
        for message in messages:
            if isinstance(message, str):
                self._engine.abort(message)
            elif isinstance(message, _Updating):
                self._engine.update_weights(message.update, message.end)
            elif message.request_id in self._listeners:  # else cancelled before it was queued
                self._add(message)

    def _add(self, request: EngineRequest) -> None:
        try:
            self._engine.add(request)
        except InvalidRequestError as error:  # passed `check`, but is rejected: only this request fails
            self._deliver([(request.request_id, EngineOutput(finish_reason="error", error=str(error)))])

    def _deliver(self, outputs: list[tuple[str, EngineOutput]]) -> None:
        """Deliver a step's outputs with one call into each event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Listener, EngineOutput]]] = {}
        for request_id, output in outputs:
            listener = self._listeners.get(request_id)
            if listener is not None:
                by_loop.setdefault(listener.loop, []).append((listener, output))
        for loop, deliveries in by_loop.items():
            _call(loop, deliveries)

    def _tell_all(self, output: EngineOutput | EngineDead) -> None:
        for listener in list(self._listeners.values()):
            _call(listener.loop, [(listener, output)])
        for updating in list(self._updating):
            updating.end(output if isinstance(output, EngineDead) else EngineDead(output.error or "the engine ended"))


def _call(loop: asyncio.AbstractEventLoop, deliveries: "Sequence[tuple[_Listener, EngineOutput | EngineDead]]") -> None:
    def put() -> None:
        for listener, output in deliveries:
            listener.outputs.put_nowait(output)

    if not loop.is_closed():
        loop.call_soon_threadsafe(put)
