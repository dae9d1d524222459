"""Suites of tasks: the environment, tasks and evaluation of each benchmark."""
