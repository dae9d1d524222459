"""Tool-using agent: a loop with function calls, in contrast to the GUI loop with screen actions."""

from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.profile import ContextOptions, ContextStrategy, Profile, ToolContext

__all__ = ["ContextOptions", "ContextStrategy", "Profile", "ToolAgent", "ToolContext"]
