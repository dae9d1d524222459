"""Secret values leave a run nowhere: events, streamed text, questions to a person, the result."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cua.guard import GuardVerdict
from cua.messages import Reply, ToolCall, Usage
from cua.redaction import redacted, redacting
from cua.run.end import End, RunResult
from cua.run.events import CallsStarted, Event, Noted, RunEnded, StepDone, Thinking, Watch
from cua.secrets import Secret, Secrets
from cua.step import Turn
from envs import TypeText
from tests.cua.trajectory import samples

SECRET = "hunter2-99"
SECRETS = Secrets({"pin": Secret(value=SECRET)})


def watched(*events: Event) -> list[Event]:
    seen: list[Event] = []
    listener = redacting(Watch(listener=seen.append), SECRETS).listener
    assert listener is not None
    for event in events:
        listener(event)
    return seen


def test_every_text_of_an_event_is_redacted() -> None:
    step = samples.make_step(
        1,
        observation=samples.make_observation(1, url=f"http://h/?p={SECRET}", title=SECRET, notes=(SECRET,)),
        actions=(TypeText(text=SECRET),),
        error=SECRET,
    )
    reply = Reply(content=SECRET, tool_calls=(ToolCall(id="a", name="b", arguments=json.dumps({"c": SECRET})),))
    result = RunResult(
        end=End(status="unverified", reason=SECRET, answer=SECRET), num_steps=1, usage=Usage(), duration_s=1.0
    )
    seen = watched(
        StepDone(step=step, usage=Usage()),
        CallsStarted(index=1, reply=reply),
        Noted(kind="refused", text=SECRET),
        RunEnded(result=result),
    )
    assert len(seen) == 4
    assert SECRET not in repr(seen)
    assert repr(seen).count("{{pin}}") == 10
    assert redacted(step, SECRETS.redact).observation.screenshot is step.observation.screenshot


def test_words_of_ours_stay_even_when_a_secret_is_one_of_them() -> None:
    result = RunResult(end=End(status="failed", reason="failed"), num_steps=1, usage=Usage(), duration_s=1.0)
    told = redacted(result, Secrets({"pin": Secret(value="failed")}).redact)
    assert (told.end.status, told.end.reason) == ("failed", "{{pin}}")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_value_over_several_pieces_of_streamed_text(size: int) -> None:
    text = f"first {SECRET} then {SECRET}{SECRET} last"
    pieces: list[Event] = [Thinking(text=text[at : at + size]) for at in range(0, len(text), size)]
    seen = watched(*pieces, Noted(kind="loop", text="x"))
    assert "".join(event.text for event in seen if isinstance(event, Thinking)) == text.replace(SECRET, "{{pin}}")
    assert isinstance(seen[-1], Noted)


def test_a_person_is_asked_without_the_value() -> None:
    asked: list[Any] = []

    async def approver(verdict: GuardVerdict, turn: Turn, actions: Any) -> bool:
        asked.extend((verdict, turn, actions))
        return True

    ask = redacting(Watch(approver=approver), SECRETS).approver
    assert ask is not None
    turn = Turn(thought="", action_text=SECRET, code=SECRET)
    assert asyncio.run(ask(GuardVerdict(decision="ask", reason=SECRET), turn, (TypeText(text=SECRET),)))
    assert SECRET not in repr(asked)


def test_without_secrets_nothing_is_touched() -> None:
    seen: list[Event] = []
    listener = redacting(Watch(listener=seen.append), Secrets()).listener
    assert listener is not None
    step = samples.make_step(1)
    told = StepDone(step=step, usage=Usage())
    listener(told)
    listener(Thinking(text="see https:"))
    listener(Thinking(text="//ann:pw@host/ and"))
    listener(told)
    assert seen[0] is told and seen[-1] is told
    assert "".join(event.text for event in seen if isinstance(event, Thinking)) == "see https://***@host/ and"
    assert redacted(step, SECRETS.redact) is step
    assert redacted(replace(step, error=SECRET), SECRETS.redact) == replace(step, error="{{pin}}")
