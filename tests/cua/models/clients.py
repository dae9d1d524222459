"""Clients and messages for the tests of the models."""

import io
from dataclasses import dataclass, field
from typing import Any, Protocol

from PIL import Image

from cua.messages import Message, TextPart
from cua.models.accumulator import Delta
from cua.models.gate import EndpointGate, Retry, RetryClock
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions


@dataclass
class FakeTime:
    """Time that passes only while someone sleeps; chance that always takes the upper bound."""

    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def clock(self) -> RetryClock:
        return RetryClock(now=lambda: sum(self.slept), sleep=self.sleep, uniform=lambda low, high: high)


@dataclass
class Watched:
    """A client, and all that it tells."""

    model: OpenAICompatModel
    time: FakeTime
    deltas: list[Delta]
    retries: list[Retry]


def make_client(base_url: str, **options: Any) -> Watched:
    time = FakeTime()
    deltas: list[Delta] = []
    retries: list[Retry] = []
    model = OpenAICompatModel(
        OpenAICompatOptions(**({"model": "fake", "base_url": base_url} | options)),
        on_delta=deltas.append,
        on_retry=retries.append,
        clock=time.clock,
        gate=EndpointGate(clock=time.clock),
    )
    return Watched(model, time, deltas, retries)


class Connect(Protocol):
    """What the fixture `connect` gives."""

    def __call__(self, base_url: str, **options: Any) -> Watched: ...


def user(text: str = "hi") -> list[Message]:
    return [Message(role="user", parts=(TextPart(text=text),))]


def png(size: tuple[int, int] = (40, 30), colour: str = "blue") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, format="png")
    return out.getvalue()
