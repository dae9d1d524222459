"""Tests of the K2.5 runtime; they need the extra `runtime-dev` and are skipped without it."""
