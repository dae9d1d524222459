"""Detectors that find events in frames and sound without a model, one detector per kind of event."""
