"""GUI protocol of Kimi K2.5: prompts, messages of a step, and parsing of the reply."""

from cua.gui_agent.protocol.history import mark_points, to_messages
from cua.gui_agent.protocol.parse import parse
from cua.gui_agent.protocol.prompts import ProtocolOptions, system_prompt

__all__ = ["ProtocolOptions", "mark_points", "parse", "system_prompt", "to_messages"]
