"""Agent swarm: an orchestrator that makes sub-agents, assigns tasks to them, and answers from their results."""

from cua.swarm.plan import Then
from cua.swarm.protocol import PRESETS, SwarmPreset
from cua.swarm.session import SwarmOptions, resume_swarm, run_plan, run_swarm

__all__ = ["PRESETS", "SwarmOptions", "SwarmPreset", "Then", "resume_swarm", "run_plan", "run_swarm"]
