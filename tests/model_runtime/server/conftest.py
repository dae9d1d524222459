"""An application over a fake engine, asked without sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from model_runtime.server import ServerOptions, make_app
from model_runtime.server.media import MediaProcessor
from tests.model_runtime.fakes import FakeEngine, FakeProcessor

Ask = Callable[..., TestClient]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Clients of new applications: `ask(engine, options, processor)`."""
    with ExitStack() as stack:

        def make(
            engine: FakeEngine | None = None,
            options: ServerOptions | None = None,
            processor: MediaProcessor | None = None,
        ) -> TestClient:
            app = make_app(engine or FakeEngine(), processor or FakeProcessor(), options)
            return stack.enter_context(TestClient(app, raise_server_exceptions=False))

        yield make
