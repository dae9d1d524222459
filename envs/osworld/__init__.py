"""Deprecated alias of `envs.suites.osworld`, kept for one release."""
