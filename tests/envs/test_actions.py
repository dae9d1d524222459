"""The union of actions is closed: every class of it is frozen data, named in `envs`, and known to the renderer."""

import dataclasses
import typing

import pytest

import envs
from cua.gui_agent.interpreter import to_pyautogui
from envs.actions import Action

EXAMPLES = [
    envs.Click(x_px=1, y_px=2),
    envs.Move(x_px=1, y_px=2),
    envs.Drag(x_px=1, y_px=2),
    envs.Scroll(dy=1),
    envs.TypeText(text="x"),
    envs.PressKey(key="enter"),
    envs.Hotkey(keys=("ctrl", "c")),
    envs.KeyDown(key="shift"),
    envs.KeyUp(key="shift"),
    envs.MouseDown(),
    envs.MouseUp(),
    envs.Wait(duration_s=1.0),
    envs.Terminate(status="success"),
]


def test_one_example_for_each_class():
    assert [type(example) for example in EXAMPLES] == list(typing.get_args(Action))


@pytest.mark.parametrize("action", EXAMPLES, ids=lambda action: type(action).__name__)
def test_an_action_is_frozen_hashable_data(action):
    assert dataclasses.replace(action) == action
    assert len({action, dataclasses.replace(action)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(action, dataclasses.fields(action)[0].name, 1)
    assert type(action).__name__ in envs.__all__


@pytest.mark.parametrize("action", EXAMPLES, ids=lambda action: type(action).__name__)
def test_the_renderer_knows_it(action):
    assert len(to_pyautogui([action]).splitlines()) == 1
