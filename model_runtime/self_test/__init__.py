"""Probes for any endpoint that serves K2.5."""
