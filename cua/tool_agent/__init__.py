"""The tool-using agent: a loop beside the GUI loop, with function calls instead of screen actions."""

from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.profile import ContextOptions, ContextStrategy, Profile, Workplace

__all__ = ["ContextOptions", "ContextStrategy", "Profile", "ToolAgent", "Workplace"]
