"""Verifier of office files: opens a file with a second library, renders it, and counts its contents."""
