"""Replies to take apart: how they arrive, and how to make many."""

import json
import re
from itertools import pairwise

from hypothesis import strategies as st

from model_runtime.chat.parser.events import (
    ContentText,
    Event,
    ParsedReply,
    ReasoningText,
    ToolCallArguments,
    collect_reply,
)
from model_runtime.chat.parser.parser import ParserOptions, ReplyParser
from model_runtime.tokenizer import SpecialTokens
from model_runtime.tokenizer.special import SLOT_OF

SPECIAL = SpecialTokens(1024)
TOKEN = re.compile("|".join(map(re.escape, SLOT_OF)))
BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGS, DONE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
ONE_BEGIN, ONE_END = "<|tool_call_section_begin|>", "<|tool_call_section_end|>"


def tool(name, *required, optional=()):
    properties = {key: {"type": "string"} for key in (*required, *optional)}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = (
    tool("get_weather", "city", optional=("unit",)),
    tool("exec", "command"),
    tool("browser.click", "x", "y"),
    tool("read-file", "path"),
    tool("sha256", "data"),
    tool("ns:sub:run", "job"),
    tool("list_files"),
)


def call(raw_id, arguments):
    return f"{CALL}{raw_id}{ARGS}{arguments}{DONE}"


def section(*calls):
    return BEGIN + "".join(calls) + END


def as_ids(reply):
    """The reply as an engine gives it: control tokens by their ids."""
    deltas, done = [], 0
    for match in TOKEN.finditer(reply):
        deltas += [reply[done : match.start()]] * (match.start() > done)
        deltas.append(SPECIAL.id_of(match[0]))
        done = match.end()
    return [*deltas, *[reply[done:]] * (done < len(reply))]


def options(*, thinking=True, tools=TOOLS, text=False):
    return ParserOptions(starts_in_reasoning=thinking, tools=tools, text_markers=text, special=SPECIAL)


def run(deltas, how):
    """All events and the summary."""
    parser = ReplyParser(how)
    events = [event for delta in deltas for event in parser.feed(delta)]
    last, summary = parser.finish()
    return [*events, *last], summary


def parse(deltas, how) -> ParsedReply:
    return collect_reply(*run(deltas, how))


def joined(events: list[Event]) -> list[Event]:
    """Events with neighbours of the same kind made one: what has to be the same for each way to cut a stream."""
    result: list[Event] = []
    for event in events:
        match (result[-1] if result else None), event:
            case (ReasoningText(a), ReasoningText(b)) | (ContentText(a), ContentText(b)):
                result[-1] = type(event)(a + b)
            case ToolCallArguments(index, a), ToolCallArguments(_, b):
                result[-1] = ToolCallArguments(index, a + b)
            case _:
                result.append(event)
    return result


def cut(text, places):
    edges = [0, *sorted(places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


WORDS = st.sampled_from(
    [
        "I think",
        "\n",
        " ",
        "  \n\t ",
        "é漢🙂",
        "\ud800",
        "<",
        "<|",
        "<|tool_call",
        "<|tool_calls_section_beg",
        "</thin",
        "|>",
        ">",
        '"',
        "\\",
        '\\"',
        "{",
        "}",
        "[]",
        '{"city": "Oslo"}',
        '{"command": "echo \\"<|tool_call_end|>\\""}',
        '{"x": 1, "y"',
        "functions.get_weather:0",
        "functionsexec5",
        "functions.browser.click:12",
        "functions_read_file_1",
        "call_ab12",
        "3",
        ":",
        ".",
        "a" * 300,
        " " * 70,
    ]
)
MARKS = st.sampled_from([*SLOT_OF, BEGIN, END, CALL, ARGS, DONE, BEGIN + CALL, DONE + CALL, ONE_BEGIN, ONE_END])
WILD = st.lists(WORDS | MARKS | st.text(max_size=4), max_size=14).map("".join)
"""Anything, near the format."""

PLAIN = st.text(st.characters(blacklist_characters="<", blacklist_categories=["Cs"]), max_size=20)
JSON = st.dictionaries(
    st.sampled_from(["city", "command", "x", "a b"]),
    st.none() | st.integers() | PLAIN | st.lists(PLAIN, max_size=2),
    max_size=3,
)
NAMES = st.sampled_from([each["function"]["name"] for each in TOOLS] + ["unknown", "a.b-c_d:e"])


@st.composite
def well_formed(draw):
    """A reply in the format: (starts in reasoning, text)."""
    thinking = draw(st.booleans())
    text = draw(PLAIN) + "</think>" if thinking else ""
    text += draw(PLAIN)
    calls = draw(st.lists(st.tuples(NAMES, st.integers(0, 300), JSON), max_size=3))
    if calls:
        text += section(*(call(f"functions.{name}:{n}", _dump(value)) for name, n, value in calls))
    return thinking, text


def _dump(value):
    return json.dumps(value, ensure_ascii=False)
