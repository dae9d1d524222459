"""The two functions of the protocol, `computer.wait` and `computer.terminate`, and what else models put there."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from cua.interpreter.arguments import Arguments
from cua.interpreter.limits import Refused
from cua.interpreter.pyautogui_calls import call_pyautogui
from cua.interpreter.recording import Recording
from cua.interpreter.signatures import COMPUTER, COMPUTER_ALIASES, PYAUTOGUI, PYAUTOGUI_ALIASES, bind, nearest
from cua.interpreter.values import Value, is_number, kind, short
from envs import Terminate

WAIT_S = 20.0
"""How long `computer.wait()` waits. Source: the report's system prompt (Appendix E.7)."""


def call_computer(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], recording: Recording) -> Value:
    """Carry out `computer.<name>(*args, **kwargs)`; input functions are passed on to pyautogui's.

    Raises:
        Refused: No such function, or arguments that it does not take.
    """
    shown = f"computer.{name}"
    if name == "wait":
        given = Arguments(shown, bind(shown, COMPUTER["wait"], args, kwargs), recording)
        recording.pause(given.duration_s("seconds") if "seconds" in given.given else WAIT_S)
        return None
    if name == "terminate":
        given = Arguments(shown, bind(shown, COMPUTER["terminate"], args, kwargs), recording)
        recording.add(Terminate(status=_status(given.given["status"]), answer=_answer(given.given.get("answer"))))
        return None
    target = COMPUTER_ALIASES.get(name, name)
    if target in PYAUTOGUI or target in PYAUTOGUI_ALIASES:
        return call_pyautogui(target, args, kwargs, recording, shown_as=shown)
    known = [*COMPUTER, *COMPUTER_ALIASES, *PYAUTOGUI]
    raise Refused(f"computer has no function {name!r}{nearest(name, known)}; use pyautogui for mouse and keyboard")


def _status(value: Value) -> Literal["success", "failure"]:
    match value.strip().lower() if isinstance(value, str) else value:
        case "success":
            return "success"
        case "failure":
            return "failure"
        case _:
            raise Refused(f"computer.terminate(): status must be 'success' or 'failure', got {short(value)}")


def _answer(value: Value) -> str | None:
    """The answer as text; a list or dict becomes JSON, for tasks that ask for structured answers."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | list | tuple | dict):
        try:
            return json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            raise Refused("computer.terminate(): answer must be a text") from None
    if is_number(value):
        return str(value)
    raise Refused(f"computer.terminate(): answer must be a text, not {kind(value)}")
