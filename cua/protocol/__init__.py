"""The GUI protocol of Kimi K2.5: prompts, messages of a step, and reading the answer."""

from cua.protocol.history import to_messages
from cua.protocol.options import ProtocolOptions
from cua.protocol.parse import parse
from cua.protocol.prompts import system_prompt

__all__ = ["ProtocolOptions", "parse", "system_prompt", "to_messages"]
