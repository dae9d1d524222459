"""Environment with real web apps on loopback, and the suite `apps`."""

from envs.suites.apps.app import Command, Facts, Packages, RunningApp, WebApp, apps_dir, run_tool
from envs.suites.apps.env import AppsEnv
from envs.suites.apps.task import AppTask, AppTaskConfig, has

__all__ = [
    "AppTask",
    "AppTaskConfig",
    "AppsEnv",
    "Command",
    "Facts",
    "Packages",
    "RunningApp",
    "WebApp",
    "apps_dir",
    "has",
    "run_tool",
]
