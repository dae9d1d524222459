"""Some of the same examples over HTTP: the embedded model behind a streaming OpenAI-compatible server.

It is the same model, so that one example in three shows what the way over HTTP could change.
"""

from pathlib import Path

import pytest

from cua.models.make import ModelSettings, make_model
from examples.example import Example
from tests.examples.running import EXAMPLES, example_params, run_example
from tests.fake_openai import FakeOpenAI

SOME = slice(2, None, 3)


def test_some_are_of_both_kinds() -> None:
    assert {example.env for example in EXAMPLES[SOME]} == {"browser", "desktop"}


@pytest.mark.slow
@pytest.mark.parametrize("example", example_params()[SOME])
async def test_literal_finishes_over_http(example: Example, tmp_path: Path) -> None:
    with FakeOpenAI(make_model("literal"), model_id="literal-over-http") as server:
        model = make_model("literal-over-http", ModelSettings(base_url=server.base_url, api_key="none"))
        try:
            result = await run_example(example, model, tmp_path)
        finally:
            await model.close()
        assert (result.end.status, result.end.score) == ("succeeded", 1.0), result.end.reason
        assert len(server.chats) == result.num_steps
        assert all(request.body["stream"] for request in server.chats)
