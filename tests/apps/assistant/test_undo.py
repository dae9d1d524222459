"""What a person is told about taking steps back."""

from typing import Any

import pytest

from apps.assistant.run_request import RunRequest, policy_of, undo_note_for
from apps.assistant.undo import FinishedStep, how_to_undo
from envs import Action, Click, Drag, Hotkey, PressKey, Scroll, Terminate, TypeText, Wait

CLICK = Click(x_px=1, y_px=2)


def done(*actions: Action, description: str = "Act", **more: Any) -> FinishedStep:
    return FinishedStep(number=3, description=description, actions=actions, url="https://a.example/list?id=1", **more)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (done(CLICK, url_after="https://a.example/2"), "left a.example/list. Alt+Left goes back"),
        (done(CLICK, description="Click Delete"), 'was "Click Delete". There is no sure way back.'),
        (done(CLICK, description='Click "Pay now"'), "Money cannot be called back"),
        (
            done(CLICK, description='Click "Send"', url_after="https://a.example/2"),
            "What was sent cannot be called back.",
        ),
        (done(CLICK, description="Tick the box"), "A second click changes"),
        (done(CLICK, TypeText(text="hello")), "typed 5 characters. Press Ctrl+Z"),
        (done(TypeText(text="hello\n")), "typed 5 characters and pressed Enter. What that sent"),
        (done(Hotkey(keys=("ctrl", "s"))), "saved over the old content"),
        (done(Hotkey(keys=("ctrl", "q"))), "pressed ctrl+q. There is no rule for that"),
        (done(PressKey(key="delete")), "deleted something. Press Ctrl+Z"),
        (done(Drag(x_px=1, y_px=1)), "dragged something"),
    ],
)
def test_each_kind_of_step_has_its_advice(step: FinishedStep, told: str) -> None:
    (text,) = how_to_undo([step])
    assert text.startswith("Step 3 ") and told in text


def test_steps_that_change_nothing_are_left_out_and_the_newest_comes_first() -> None:
    steps = [done(TypeText(text="ab")), done(Scroll(dy=1), Wait(duration_s=1)), done(PressKey(key="tab")), done(CLICK)]
    steps.append(done(Terminate(status="success")))
    assert ["characters" in text for text in how_to_undo(steps)] == [False, True]


@pytest.mark.parametrize(
    ("order", "settings", "told"),
    [
        ({"place": "practice"}, {}, "each start has a new practice page"),
        ({"place": "desktop"}, {}, "private desktop ends with the session"),
        ({"place": "desktop"}, {"display": ":0"}, ""),
        ({"place": "web", "url": "https://a.example"}, {}, ""),
        ({"mode": "agent"}, {}, "works on copies"),
        ({"mode": "agent"}, {"sandbox": "none"}, ""),
    ],
)
def test_where_nothing_is_to_be_undone_it_says_so(order: Any, settings: Any, told: str) -> None:
    text = undo_note_for(RunRequest(instruction="Do it", **order), settings)
    assert told in text and bool(told) == bool(text)


def test_the_policy_in_words() -> None:
    assert policy_of({}) == "It asks about risky steps."
    told = policy_of({"approve": "ask", "policy": "/x/rules.toml", "allow_domains": "a.example,b.example"})
    assert told == "It asks about every step. Rules are in rules.toml. It may open only a.example, b.example."
