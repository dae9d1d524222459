"""Desktop environments: X11 displays, private or attached; other systems through pyautogui."""

from envs.desktop.env import DesktopEnv
from envs.desktop.options import DesktopOptions

__all__ = ["DesktopEnv", "DesktopOptions"]
