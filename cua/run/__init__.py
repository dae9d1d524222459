"""What every run has: control, limits, a budget, a record, listeners, and one mapping from errors to its end."""
