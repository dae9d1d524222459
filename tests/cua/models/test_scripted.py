import itertools
import time
from pathlib import Path

import pytest

from cua.errors import ConfigError, ModelError
from cua.messages import Message, Reply, Sampling, TextPart, ToolCall, Usage
from cua.models.scripted import ScriptedModel
from tests.cua.models.clients import user


async def test_replies_in_order_and_calls_recorded() -> None:
    model = ScriptedModel(["one", Reply(content="two", reasoning="r"), ModelError("down", retryable=True)])
    assert await model.generate(user("a")) == Reply(content="one", model="scripted")
    assert await model.generate(user("b"), sampling=Sampling(temperature=0.0)) == Reply(content="two", reasoning="r")
    with pytest.raises(ModelError, match=r"^down$"):
        await model.generate(user("c"))
    with pytest.raises(ModelError) as caught:
        await model.generate(user("d"))
    assert str(caught.value) == "the script has run out: it held 3 replies, and this is call 4"
    assert not caught.value.retryable
    assert model.received == [(Message(role="user", parts=(TextPart(text=text),)),) for text in "abcd"]
    assert model.received_sampling == [None, Sampling(temperature=0.0), None, None]
    await model.close()


async def test_endless_script() -> None:
    model = ScriptedModel(itertools.repeat("again"), name="loop")
    assert {(await model.generate(user())).content for _ in range(100)} == {"again"}


async def test_latency() -> None:
    started = time.perf_counter()
    await ScriptedModel(["x"], latency_s=0.05).generate(user())
    assert time.perf_counter() - started >= 0.05


async def test_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(
        '"one\\n```python\\n```"\n\n'
        '{"content": "two\u2028", "reasoning": "r", "usage": {"input_tokens": 5}, "finish_reason": "stop",'
        ' "tool_calls": [{"id": "functions.f:0", "name": "f", "arguments": "{}"}]}\n'
        '{"error": "server down", "retryable": true}\n',
        encoding="utf-8",
    )
    model = ScriptedModel.from_file(path)
    assert (await model.generate(user())).content == "one\n```python\n```"
    assert await model.generate(user()) == Reply(
        content="two\u2028",
        reasoning="r",
        usage=Usage(input_tokens=5),
        tool_calls=(ToolCall(id="functions.f:0", name="f", arguments="{}"),),
    )
    with pytest.raises(ModelError, match=r"^server down$") as caught:
        await model.generate(user())
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('"ok"\n{"content": 5}', "{path}, line 2: content: Input should be a valid string"),
        ('{"contents": "x"}', "{path}, line 1: content: Field required"),
        ('{"content": "x", "resoning": "y"}', "{path}, line 1: resoning: Unexpected keyword argument"),
        ('{"error": "x", "retry": true}', "{path}, line 1: retry: Extra inputs are not permitted"),
        ("[1]", "{path}, line 1: expected a string or an object, found list"),
        ("\n\nhello", "{path}, line 3: not JSON: Expecting value: line 1 column 1 (char 0)"),
        (" \n", "the script {path} holds no replies: expected one JSON value a line"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        ScriptedModel.from_file(path)
    assert str(caught.value) == complaint.format(path=path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the script .*none.jsonl cannot be read"):
        ScriptedModel.from_file(tmp_path / "none.jsonl")
