"""Converts model code to actions and back. Model code is parsed to a syntax tree and never executed."""

from cua.gui_agent.interpreter.coordinates import Mode
from cua.gui_agent.interpreter.limits import CodeLimits
from cua.gui_agent.interpreter.render import to_pyautogui
from cua.gui_agent.interpreter.run import run

__all__ = ["CodeLimits", "Mode", "run", "to_pyautogui"]
