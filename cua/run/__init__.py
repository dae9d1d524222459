"""Common parts of every run: control, limits, budget, record, listeners, and the mapping from errors to the result."""
