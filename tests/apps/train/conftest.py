"""Tests of what needs torch are left out where it is missing: see `tests/test_runtime_extra.py`."""

import importlib.util

NEED_TORCH = ("episodes", "exam", "lessons", "loader", "page", "run", "skills")

collect_ignore = [] if importlib.util.find_spec("torch") else [f"test_{name}.py" for name in NEED_TORCH]
