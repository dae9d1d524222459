"""Tests of the model need torch and are left out where it is missing: see `tests/test_runtime_extra.py`."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["test_model.py", "test_weights.py"]
