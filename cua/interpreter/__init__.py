"""Model code to actions, and actions back to code. Model text is read as a syntax tree and never executed."""

from cua.interpreter.coordinates import Mode
from cua.interpreter.limits import Limits
from cua.interpreter.render import to_pyautogui
from cua.interpreter.run import run

__all__ = ["Limits", "Mode", "run", "to_pyautogui"]
