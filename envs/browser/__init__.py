"""A real Chromium as an environment: `BrowserEnv(BrowserOptions(start_url=...))`."""

from envs.browser.env import BrowserEnv
from envs.browser.launch import BrowserBinary, find_browser
from envs.browser.options import BrowserOptions

__all__ = ["BrowserBinary", "BrowserEnv", "BrowserOptions", "find_browser"]
