"""Operators with one signature and one implementation for each kind of device."""
