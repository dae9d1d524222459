"""Parser of model replies: reasoning, content, tool calls.

parser = ReplyParser(ParserOptions(starts_in_reasoning=True, tools=tools))
parser.feed("I think")                     # [ReasoningText("I think")]
events, summary = parser.finish()
parse_reply(deltas, options).tool_calls    # the same in one call
"""
