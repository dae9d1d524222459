"""What a list of actions does to mouse and keyboard, as pyautogui on X11 would do it, in one normal form."""

from envs import (
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    TypeText,
    Wait,
)
from envs.actions import normalize_key

_BUTTONS = {"left": 1, "middle": 2, "right": 3, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7}


def tidy(events, start_px):
    """Buttons as numbers, keys by canonical names, no moves that move nothing, a glide as one pause and one move."""
    result, pointer = [], list(start_px)
    pause, goal = 0.0, pointer
    for verb, *values in [*events, ["end"]]:
        if verb == "sleep":
            pause += values[0]
        elif verb == "move":
            goal = values
        else:
            tenths = int(pause * 10 + 1e-6)  # a glide of pyautogui takes one step of 0.05 s too long
            if tenths:
                result.append(["sleep", tenths / 10])
            if goal != pointer:
                result.append(["move", *goal])
            pause, pointer = 0.0, goal
            if verb in ("down", "up"):
                result.append([verb, _BUTTONS[values[0]]])
            elif verb != "end":
                result.append([verb, normalize_key(values[0])])
    return result


def events_of(actions):
    """Low-level events of actions, not yet tidied."""
    return [event for action in actions for event in _events(action)]


def _events(action):
    match action:
        case Click(button=button, clicks=clicks, interval_s=pause):
            return _goto(action) + [["down", button], ["up", button], ["sleep", pause]] * clicks
        case Move(duration_s=duration):
            return [["sleep", duration], *_goto(action)]
        case Drag(button=button, duration_s=duration):
            return [["down", button], ["sleep", duration], *_goto(action), ["up", button]]
        case Scroll(dy=dy, dx=dx):
            vertical = [["down", 4 if dy > 0 else 5], ["up", 4 if dy > 0 else 5]] * abs(dy)
            horizontal = [["down", 7 if dx > 0 else 6], ["up", 7 if dx > 0 else 6]] * abs(dx)
            return _goto(action) + vertical + horizontal
        case MouseDown(button=button):
            return [*_goto(action), ["down", button]]
        case MouseUp(button=button):
            return [*_goto(action), ["up", button]]
        case TypeText(text=text, interval_s=pause):
            return [event for key in text for event in (["key_down", key], ["key_up", key], ["sleep", pause])]
        case PressKey(key=key, presses=presses, interval_s=pause):
            return [["key_down", key], ["key_up", key], ["sleep", pause]] * presses
        case Hotkey(keys=keys):
            return [["key_down", key] for key in keys] + [["key_up", key] for key in reversed(keys)]
        case KeyDown(key=key):
            return [["key_down", key]]
        case KeyUp(key=key):
            return [["key_up", key]]
        case Wait(duration_s=duration):
            return [["sleep", duration]]


def _goto(action):
    return [] if action.x_px is None else [["move", action.x_px, action.y_px]]
