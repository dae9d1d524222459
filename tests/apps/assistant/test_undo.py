"""What a person is told about taking steps back."""

from typing import Any

import pytest

from apps.assistant.order import RunRequest, aftermath_of, policy_of
from apps.assistant.undo import Done, how_to_undo
from envs import Action, Click, Drag, Hotkey, PressKey, Scroll, Terminate, TypeText, Wait

CLICK = Click(x_px=1, y_px=2)


def done(*actions: Action, says: str = "Act", **more: Any) -> Done:
    return Done(number=3, says=says, actions=actions, url="https://a.example/list?id=1", **more)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (done(CLICK, url_after="https://a.example/2"), "left a.example/list: Alt+Left goes back"),
        (done(CLICK, says="Click Delete"), '("Click Delete"): there is no sure way back'),
        (done(CLICK, says='Click "Pay now"'), "money cannot be called back"),
        (done(CLICK, says='Click "Send"', url_after="https://a.example/2"), "what was sent cannot be called back"),
        (done(CLICK, says="Tick the box"), "changes back with a second click"),
        (done(CLICK, TypeText(text="hello")), "typed 5 characters: Ctrl+Z"),
        (done(TypeText(text="hello\n")), "typed 5 characters and pressed Enter: what that sent"),
        (done(Hotkey(keys=("ctrl", "s"))), "saved over the old content"),
        (done(Hotkey(keys=("ctrl", "q"))), "pressed ctrl+q: there is no rule for that"),
        (done(PressKey(key="delete")), "deleted something: Ctrl+Z"),
        (done(Drag(x_px=1, y_px=1)), "dragged something"),
    ],
)
def test_each_kind_of_step_has_its_advice(step: Done, told: str) -> None:
    (text,) = how_to_undo([step])
    assert text.startswith("Step 3 ") and told in text


def test_steps_that_change_nothing_are_left_out_and_the_newest_comes_first() -> None:
    steps = [done(TypeText(text="ab")), done(Scroll(dy=1), Wait(duration_s=1)), done(PressKey(key="tab")), done(CLICK)]
    steps.append(done(Terminate(status="success")))
    assert ["characters" in text for text in how_to_undo(steps)] == [False, True]


@pytest.mark.parametrize(
    ("order", "settings", "told"),
    [
        ({"place": "practice"}, {}, "the practice page is made anew"),
        ({"place": "desktop"}, {}, "private desktop and its files end"),
        ({"place": "desktop"}, {"display": ":0"}, ""),
        ({"place": "web", "url": "https://a.example"}, {}, ""),
        ({"mode": "agent"}, {}, "works on copies"),
        ({"mode": "agent"}, {"sandbox": "none"}, ""),
    ],
)
def test_where_nothing_is_to_be_undone_it_says_so(order: Any, settings: Any, told: str) -> None:
    text = aftermath_of(RunRequest(instruction="Do it", **order), settings)
    assert told in text and bool(told) == bool(text)


def test_the_policy_in_words() -> None:
    assert policy_of({}) == "It asks about risky steps (approve: auto)."
    told = policy_of({"approve": "ask", "policy": "/x/rules.toml", "allow_domains": "a.example,b.example"})
    assert told.startswith(
        "It asks about every step (approve: ask); rules from rules.toml; beyond a.example, b.example"
    )
