"""Rollouts for reinforcement learning: many episodes in groups, their tokens, and their rewards."""
