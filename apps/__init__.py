"""The ways people use the agent."""
