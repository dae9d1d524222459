"""Rollouts of a suite from the command line: the run and its page."""
