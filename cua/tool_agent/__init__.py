"""The tool-using agent: a loop beside the GUI loop, with function calls instead of screen actions."""

from cua.tool_agent.agent import ToolAgent
from cua.tool_agent.options import ContextOptions, ContextStrategy, ToolAgentOptions

__all__ = ["ContextOptions", "ContextStrategy", "ToolAgent", "ToolAgentOptions"]
