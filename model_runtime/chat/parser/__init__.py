"""Parser of model replies: reasoning, content, tool calls.

parser = ReplyParser(ParserOptions(starts_in_reasoning=True, tools=tools))
parser.feed("I think")                     # [ReasoningText("I think")]
events, summary = parser.finish()
parse_reply(deltas, options).tool_calls    # the same in one call
"""

from model_runtime.chat.parser.events import (
    ContentText,
    Event,
    ParsedCall,
    ParsedReply,
    Problem,
    ReasoningText,
    ReplySummary,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    collect_reply,
    starts_in_reasoning,
)
from model_runtime.chat.parser.parser import ParserOptions, ReplyParser, parse_reply

__all__ = [
    "ContentText",
    "Event",
    "ParsedCall",
    "ParsedReply",
    "ParserOptions",
    "Problem",
    "ReasoningText",
    "ReplyParser",
    "ReplySummary",
    "ToolCallArguments",
    "ToolCallEnd",
    "ToolCallStart",
    "collect_reply",
    "parse_reply",
    "starts_in_reasoning",
]
