"""A second reader of well-formed replies, by regular expressions over the whole text: slow, and nothing in common."""

import re

from model_runtime.chat.parser.events import ParsedCall, ParsedReply

REPLY = re.compile(
    r"(?P<reasoning>(?:(?!</think>).)*</think>)?"
    r"(?P<content>(?:(?!<\|tool_calls_section_begin\|>).)*)"
    r"(?:<\|tool_calls_section_begin\|>(?P<calls>.+)<\|tool_calls_section_end\|>)?",
    re.DOTALL,
)
ONE_CALL = re.compile(
    r"<\|tool_call_begin\|>(?P<id>functions\.(?P<name>.+?):\d+)<\|tool_call_argument_begin\|>(?P<arguments>.*?)"
    r"<\|tool_call_end\|>",
    re.DOTALL,
)


def read(reply: str, thinking: bool) -> ParsedReply:
    """The message of a well-formed reply whose arguments hold no marker."""
    whole = REPLY.fullmatch(reply)
    assert whole is not None
    reasoning = (whole["reasoning"] or "").removesuffix("</think>")
    assert bool(whole["reasoning"]) is thinking
    calls = [
        ParsedCall(raw_id=match["id"], name=match["name"], arguments=match["arguments"])
        for match in ONE_CALL.finditer(whole["calls"] or "")
    ]
    return ParsedReply(reasoning=reasoning or None, content=whole["content"] or None, tool_calls=tuple(calls))
