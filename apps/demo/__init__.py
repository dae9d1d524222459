"""A small expense tracker to try the agent on: `DemoApp` serves it, `ExpenseTask` is a verified task in it."""

from apps.demo.app import DemoApp
from apps.demo.task import ExpenseTask

__all__ = ["DemoApp", "ExpenseTask"]
