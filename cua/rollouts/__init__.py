"""Rollouts for reinforcement learning: groups of tries at a task, their ends, and the samples that a trainer reads."""
