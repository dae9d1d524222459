"""Output that must match a schema or the form of tool calls."""
