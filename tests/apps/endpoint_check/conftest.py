"""The test of our own server needs torch."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["test_native.py"]
