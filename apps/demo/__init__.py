"""Small expense tracker to test the agent: `DemoApp` serves it, `ExpenseTask` is a task in it."""

from apps.demo.app import DemoApp
from apps.demo.task import ExpenseTask

__all__ = ["DemoApp", "ExpenseTask"]
