"""Agent swarm: an orchestrator that makes sub-agents, assigns tasks to them, and answers from their results."""

from cua.swarm.plan import FinalStep
from cua.swarm.protocol import PRESETS, SwarmPreset
from cua.swarm.session import SwarmOptions, resume_swarm, run_plan, run_swarm

__all__ = ["PRESETS", "FinalStep", "SwarmOptions", "SwarmPreset", "resume_swarm", "run_plan", "run_swarm"]
