"""Chromium browser as an environment: `BrowserEnv(BrowserOptions(start_url=...))`."""

from envs.browser.env import BrowserEnv
from envs.browser.launch import BrowserBinary, find_browser
from envs.browser.options import BrowserOptions
from envs.browser.pool import BrowserPool

__all__ = ["BrowserBinary", "BrowserEnv", "BrowserOptions", "BrowserPool", "find_browser"]
