"""The body of a request: what is read, how soon, and what is said about a wrong one."""

import asyncio
import json
import threading
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator
from starlette.requests import Request

from model_runtime.errors import InvalidRequestError
from model_runtime.server.body import ClientGoneError, ignored_fields, parse_body, read_body
from model_runtime.server.schemas import OpenModel, StrictModel


class Circle(StrictModel):
    type: Literal["circle"]
    radius: int


class Square(StrictModel):
    type: Literal["square"]
    side: int


class Asked(OpenModel):
    """A request with every kind of field."""

    name: str
    count: int | list[int] = 0
    shapes: list[Annotated[Circle | Square, Field(discriminator="type")]] = Field(default_factory=list)
    sizes: dict[str, int] = Field(default_factory=dict)


SEEN: list[threading.Thread] = []


class Noting(OpenModel):
    """A request that notes in which thread it is checked."""

    @model_validator(mode="before")
    @classmethod
    def _note(cls, value: Any) -> Any:
        SEEN.append(threading.current_thread())
        return value


def refusal(raw: bytes) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        parse_body(raw, Asked)
    assert "\n" not in str(caught.value)
    return caught.value


def request_of(*messages: dict[str, Any]) -> Request:
    """One whose client sends these messages, and then nothing more."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def sent(raw: bytes) -> Request:
    return request_of({"type": "http.request", "body": raw, "more_body": False})


@pytest.mark.parametrize(
    ("body", "param", "code", "text"),
    [
        ({}, "name", "missing_required_parameter", "name: field required"),
        ({"name": 5}, "name", "invalid_value", "name: found 5, expected: input should be a valid string"),
        ({"name": "a", "count": "1"}, "count", "invalid_value", "count: found '1', expected: input should be a valid"),
        ({"name": "a", "count": [1, "x"]}, "count.1", "invalid_value", "count.1: found 'x', expected: input should be"),
        ({"count": [1, "x"]}, "name", "missing_required_parameter", "name: field required (2 more)"),
        ({"name": 5, "shapes": {}}, "name", "invalid_value", "expected: input should be a valid string (1 more)"),
        ({"name": "a", "shapes": {"a": 1}}, "shapes", "invalid_value", "shapes: found dict of 1, expected: input"),
        ({"name": [1, 2]}, "name", "invalid_value", "name: found list of 2, expected: input should be a valid string"),
        (
            {"name": "a", "shapes": [{"type": "star"}]},
            "shapes.0",
            "invalid_value",
            "shapes.0: found type 'star', expected one of 'circle', 'square'",
        ),
        (
            {"name": "a", "shapes": [{"type": "square", "side": 1}, {"type": "circle"}]},
            "shapes.1.radius",
            "missing_required_parameter",
            "shapes.1.radius: field required",
        ),
        (
            {"name": "a", "shapes": [{"type": "circle", "radius": "r"}]},
            "shapes.0.radius",
            "invalid_value",
            "shapes.0.radius: found 'r', expected: input should be a valid integer",
        ),
        ({"name": "a", "sizes": {"a": 1, "b": "c"}}, "sizes.b", "invalid_value", "sizes.b: found 'c', expected: input"),
        ([], None, "invalid_value", "body: found list of 0, expected: input should be"),
        ("a", None, "invalid_value", "body: found 'a', expected: input should be"),
    ],
)
def test_the_field_that_is_wrong_is_named(body: Any, param: str | None, code: str, text: str) -> None:
    error = refusal(json.dumps(body).encode())
    assert (error.param, error.code) == (param, code)
    assert text in str(error)


def test_what_is_no_json_is_said_once() -> None:
    error = refusal(b'{"name": }')
    assert (error.param, error.code) == (None, "invalid_json")
    assert str(error) == "the body is not valid JSON: expected value at line 1 column 10"


@pytest.mark.parametrize(("length", "shown"), [(58, "'" + "x" * 58 + "'"), (59, "'" + "x" * 59 + "...")])
def test_a_long_value_is_cut(length: int, shown: str) -> None:
    error = refusal(json.dumps({"name": "a", "count": "x" * length}).encode())
    assert f"count: found {shown}, expected" in str(error)


@pytest.mark.parametrize(
    ("names", "value"),
    [
        ([], ""),
        (["a", "b-c.d_9"], "a, b-c.d_9"),
        ([" a\r\nb:é"], "?a??b??"),
        ([""], "?"),
        (["x" * 61], "x" * 60),
        ([str(n) for n in range(20)], ", ".join(map(str, range(20)))),
        ([str(n) for n in range(21)], ", ".join(map(str, range(20))) + ", ..."),
    ],
)
def test_unknown_fields_as_a_header(names: list[str], value: str) -> None:
    assert ignored_fields(names) == value


@pytest.mark.parametrize(("length", "is_inline"), [(2, True), (64 * 1024, True), (64 * 1024 + 1, False)])
async def test_a_large_body_is_read_in_a_thread(length: int, is_inline: bool) -> None:
    SEEN.clear()
    await read_body(sent(b"{" + b" " * (length - 2) + b"}"), Noting, timeout_s=30)
    assert [thread is threading.current_thread() for thread in SEEN] == [is_inline]


async def test_a_body_in_pieces_is_put_together() -> None:
    pieces = [b'{"name":', b' "a", "unknown"', b": 1}"]
    messages = [{"type": "http.request", "body": piece, "more_body": piece is not pieces[-1]} for piece in pieces]
    asked = await read_body(request_of(*messages), Asked, timeout_s=30)
    assert (asked.name, asked.model_extra) == ("a", {"unknown": 1})


async def test_a_body_that_does_not_arrive_is_a_408() -> None:
    part = {"type": "http.request", "body": b'{"name":', "more_body": True}
    with pytest.raises(InvalidRequestError, match=r"did not arrive within 0.01 s") as caught:
        await read_body(request_of(part), Asked, timeout_s=0.01)
    assert (caught.value.status, caught.value.code) == (408, "request_timeout")


async def test_a_client_that_leaves_while_it_sends_is_told_from_one_that_errs() -> None:
    part = {"type": "http.request", "body": b'{"name":', "more_body": True}
    with pytest.raises(ClientGoneError):
        await read_body(request_of(part, {"type": "http.disconnect"}), Asked, timeout_s=30)
