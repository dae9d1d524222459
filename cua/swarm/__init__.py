"""The agent swarm: an orchestrator that makes sub-agents, hands them tasks, and answers from what they bring back."""

from cua.swarm.protocol import PRESETS, SwarmPreset
from cua.swarm.session import SwarmOptions, resume_swarm, run_swarm

__all__ = ["PRESETS", "SwarmOptions", "SwarmPreset", "resume_swarm", "run_swarm"]
