from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from cua.messages import Reply, Usage
from tests.cua.models.clients import Connect, Watched, make_client
from tests.fake_openai import FakeOpenAI

REPLY = Reply(
    content="## Action:\nClick the button.\n\n## Code:\n```python\npyautogui.click(0.5, 0.25)\n```",
    reasoning="The button is in the middle.",
    usage=Usage(input_tokens=120, output_tokens=30, cached_tokens=100),
)


@pytest.fixture(autouse=True)
def no_endpoint_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "K25_PRICES",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    """A server whose model gives `REPLY` to everything."""
    with FakeOpenAI(lambda messages: REPLY) as fake:
        yield fake


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Connect]:
    """Makes clients for a base URL, and closes them after the test."""
    made: list[Watched] = []

    def connect_to(base_url: str, **options: object) -> Watched:
        made.append(make_client(base_url, **options))
        return made[-1]

    yield connect_to
    for client in made:
        await client.model.close()
