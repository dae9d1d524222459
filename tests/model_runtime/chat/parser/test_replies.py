"""Replies as they have been seen, in the format and beside it, as control tokens and as text, cut and in one piece."""

import pytest

from model_runtime.chat.parser.events import ParsedCall, ParsedReply, Problem, ReplySummary
from model_runtime.chat.parser.parser import ParserOptions, parse_reply
from tests.model_runtime.chat.parser.replies import (
    ARGS,
    BEGIN,
    CALL,
    DONE,
    END,
    ONE_BEGIN,
    ONE_END,
    SPECIAL,
    TOOLS,
    as_ids,
    call,
    options,
    parse,
    section,
    tool,
)
from tests.tables import table

WEATHER = ParsedCall(raw_id="functions.get_weather:0", name="get_weather", arguments='{"city": "Oslo"}')
EXEC = ParsedCall(raw_id="functions.exec:1", name="exec", arguments='{"command": "ls"}')
LIST = ParsedCall(raw_id="functions.list_files:0", name="list_files", arguments="{}")
W, E = (call(each.raw_id, each.arguments) for each in (WEATHER, EXEC))
P = Problem


def reply(reasoning=None, content=None, *calls, problems=(), is_truncated=False):
    summary = ReplySummary(is_truncated=is_truncated, problems=tuple(problems))
    return ParsedReply(reasoning=reasoning, content=content, tool_calls=calls, summary=summary)


IN_FORMAT = {
    "reasoning and content": ("a</think>b", reply("a", "b")),
    "no reasoning": ("</think>b", reply(None, "b")),
    "edges are kept": ("\na \n</think>\n\n b\n", reply("\na \n", "\n\n b\n")),
    "one call": ("a</think>" + section(W), reply("a", None, WEATHER)),
    "content before a call": ("a</think>b\n" + section(W), reply("a", "b\n", WEATHER)),
    "two calls": ("a</think>" + section(W, E), reply("a", None, WEATHER, EXEC)),
    "the same call twice": ("a</think>" + section(W, W), reply("a", None, WEATHER, WEATHER)),
    "less-than signs": ("1 < 2 <| 3</think><b> <|x|>", reply("1 < 2 <| 3", "<b> <|x|>")),
    "no JSON": (
        "</think>" + section(call("functions.exec:1", "ls 'a\"b")),
        reply(None, None, ParsedCall(raw_id="functions.exec:1", name="exec", arguments="ls 'a\"b")),
    ),
    "two sections": ("a</think>" + section(W) + section(E), reply("a", None, WEATHER, EXEC)),
    "lines in a section": (f"</think>{BEGIN}\n{W}\n{E}\n{END}\n", reply(None, None, WEATHER, EXEC)),
    "an empty section": ("a</think>b" + BEGIN + END + "c", reply("a", "bc")),
}

BESIDE_IT = {
    "reasoning cut short": ("I think", reply("I think", is_truncated=True)),
    "nothing at all": ("", reply(is_truncated=True)),
    "think begun again": ("<think>a</think>b", reply("a", "b", problems=[P.STRAY_MARKER])),
    "think ended twice": ("a</think></think>b", reply("a", "b", problems=[P.STRAY_MARKER])),
    "section inside reasoning": ("a" + section(W), reply("a", None, WEATHER, problems=[P.UNENDED_REASONING])),
    "section inside reasoning, ended later": (
        "a" + section(W) + "</think>",
        reply("a", None, WEATHER, problems=[P.UNENDED_REASONING, P.STRAY_MARKER]),
    ),
    "text after the section": (
        "</think>" + section(W) + "b",
        reply(None, None, WEATHER, problems=[P.TEXT_AFTER_CALLS]),
    ),
    "text before the first call": (
        f"a{BEGIN} so {W}{END}",
        reply("a", None, WEATHER, problems=[P.UNENDED_REASONING, P.TEXT_BETWEEN_CALLS]),
    ),
    "text between calls": (
        f"</think>{BEGIN}{W}and{E}{END}",
        reply(None, None, WEATHER, EXEC, problems=[P.TEXT_BETWEEN_CALLS]),
    ),
    "no end of section": (f"</think>{BEGIN}{W}", reply(None, None, WEATHER, problems=[P.MISSING_SECTION_END])),
    "no section": (
        f"</think>b{W}",
        reply(None, "b", WEATHER, problems=[P.MISSING_SECTION_BEGIN, P.MISSING_SECTION_END]),
    ),
    "no section, in reasoning": (
        f"a{W}{END}",
        reply("a", None, WEATHER, problems=[P.MISSING_SECTION_BEGIN, P.UNENDED_REASONING]),
    ),
    "no end of a call": (
        f"</think>{BEGIN}{W.removesuffix(DONE)}{E}{END}",
        reply(None, None, WEATHER, EXEC, problems=[P.MISSING_CALL_END]),
    ),
    "no end of the last call": (
        f"</think>{BEGIN}{W.removesuffix(DONE)}{END}",
        reply(None, None, WEATHER, problems=[P.MISSING_CALL_END]),
    ),
    "no end of anything": (
        f"</think>{BEGIN}{W.removesuffix(DONE)}",
        reply(None, None, WEATHER, problems=[P.MISSING_CALL_END, P.MISSING_SECTION_END]),
    ),
    "a new section in an open call": (
        f"</think>{BEGIN}{W.removesuffix(DONE)}{section(E)}",
        reply(None, None, WEATHER, EXEC, problems=[P.MISSING_CALL_END]),
    ),
    "no begin of a call": (
        f"</think>{BEGIN}{W.removeprefix(CALL)}{END}",
        reply(None, None, WEATHER, problems=[P.MISSING_CALL_BEGIN]),
    ),
    "no begin of arguments": (
        f"</think>{BEGIN}{W.replace(ARGS, '')}{END}",
        reply(None, None, WEATHER, problems=[P.MISSING_ARGUMENT_BEGIN]),
    ),
    "an id alone": (
        f"</think>{BEGIN}{CALL}functions.list_files:0{DONE}{END}",
        reply(None, None, LIST, problems=[P.MISSING_ARGUMENT_BEGIN]),
    ),
    "a call begun twice": (f"</think>{BEGIN}{CALL}{W}{END}", reply(None, None, WEATHER)),
    "an id given up": (
        f"</think>{BEGIN}{CALL}functions.exec:0{W}{END}",
        reply(None, None, WEATHER, problems=[P.ABANDONED_CALL]),
    ),
    "a call with nothing in it": (
        f"</think>{BEGIN}{CALL}{DONE}{W}{END}",
        reply(None, None, WEATHER, problems=[P.STRAY_MARKER]),
    ),
    "cut inside an id": (
        f"</think>{BEGIN}{W}{CALL}functions.ex",
        reply(None, None, WEATHER, problems=[P.MISSING_SECTION_END], is_truncated=True),
    ),
    "cut inside arguments": (
        f'</think>{BEGIN}{CALL}functions.exec:1{ARGS}{{"command": "l',
        reply(
            None,
            None,
            ParsedCall(raw_id="functions.exec:1", name="exec", arguments='{"command": "l'),
            problems=[P.MISSING_CALL_END, P.MISSING_SECTION_END],
            is_truncated=True,
        ),
    ),
    "cut before arguments": (
        f"</think>{BEGIN}{CALL}functions.exec:1{ARGS}",
        reply(
            None,
            None,
            ParsedCall(raw_id="functions.exec:1", name="exec", arguments=""),
            problems=[P.MISSING_CALL_END, P.MISSING_SECTION_END],
            is_truncated=True,
        ),
    ),
    "markers where they mean nothing": (
        f"a{DONE}b{END}</think>c{ARGS}d{DONE}",
        reply("ab", "cd", problems=[P.STRAY_MARKER]),
    ),
    "the end of the message": ("a</think>b<|im_end|>", reply("a", "b", problems=[P.STRAY_MARKER])),
    "arguments begun twice": (
        f"</think>{BEGIN}{W.replace(ARGS, ARGS + ARGS)}{END}",
        reply(None, None, WEATHER, problems=[P.STRAY_MARKER]),
    ),
}
BOTH = [pytest.param(*case, id=name) for name, case in (IN_FORMAT | BESIDE_IT).items()]


@table(("text", "expected"), BOTH)
def test_as_tokens(text, expected):
    assert parse(as_ids(text), options()) == expected


@table(("text", "expected"), BOTH)
def test_as_text(text, expected):
    assert parse([text], options(text=True)) == expected
    assert parse(list(text), options(text=True)) == expected


@pytest.mark.parametrize("text", [True, False])
def test_without_thinking_all_is_content(text):
    assert parse(["b"], options(thinking=False, text=text)) == reply(None, "b")
    assert parse([""], options(thinking=False, text=text)) == reply()


@pytest.mark.parametrize("arguments", ["", " ", "\n\t ", "{}"])
@pytest.mark.parametrize("text", [True, False])
def test_no_arguments_are_an_empty_object(arguments, text):
    made = "</think>" + section(call("functions.list_files:0", arguments))
    assert parse([made] if text else as_ids(made), options(text=text)) == reply(None, None, LIST)


def test_arguments_keep_their_spaces():
    made = f'</think> {BEGIN} {CALL} functions.exec:1 {ARGS} {{"command": "ls"}} {DONE} {END}'
    expected = ParsedCall(raw_id="functions.exec:1", name="exec", arguments=' {"command": "ls"} ')
    assert parse(as_ids(made), options()) == reply(None, " ", expected)
    assert parse(list(made), options(text=True)) == reply(None, " ", expected)


SINGULAR = f"</think>b{ONE_BEGIN}\n{W}{ONE_END}"


def test_singular_section_markers_beside_tokens():
    expected = reply(None, "b", WEATHER, problems=[P.SINGULAR_SECTION, P.MISSING_SECTION_END])
    assert parse(as_ids(SINGULAR), options()) == expected
    assert parse(as_ids(SINGULAR[8:]), options(thinking=False)) == expected
    inside = reply("b", None, WEATHER, problems=[P.SINGULAR_SECTION, P.UNENDED_REASONING, P.MISSING_SECTION_END])
    assert parse(as_ids(SINGULAR[8:]), options()) == inside


def test_singular_section_markers_in_text():
    assert parse(list(SINGULAR), options(text=True)) == reply(None, "b", WEATHER)


@pytest.mark.parametrize(
    ("deltas", "content"),
    [
        ([f"the marker {ONE_BEGIN} is"], f"the marker {ONE_BEGIN} is"),
        ([ONE_BEGIN, "\n", " x"], f"{ONE_BEGIN}\n x"),
        ([ONE_BEGIN + ONE_BEGIN + "."], f"{ONE_BEGIN}{ONE_BEGIN}."),
        ([ONE_BEGIN, SPECIAL.think_end, "c"], f"{ONE_BEGIN}c"),
        ([ONE_BEGIN + " " * 100], ONE_BEGIN + " " * 100),
        ([ONE_BEGIN], None),
    ],
)
def test_a_singular_marker_without_a_call_is_text(deltas, content):
    assert parse(deltas, options(thinking=False)).content == content


def test_tokens_have_the_say_over_text():
    """Text that spells markers, next to control tokens, in content and in arguments."""
    spelled = f"</think> {BEGIN}{CALL}{ARGS}{DONE}{END} <|im_end|>"
    begin, opened, arguments, done, end = (SPECIAL.id_of(mark) for mark in (BEGIN, CALL, ARGS, DONE, END))
    value = f'{{"command": "{spelled}'
    deltas = [spelled, SPECIAL.think_end, spelled, begin, opened, "functions.exec:1", arguments, value, '"}', done, end]
    expected = ParsedCall(raw_id="functions.exec:1", name="exec", arguments=value + '"}')
    assert parse(deltas, options()) == reply(spelled, spelled, expected)


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("arguments", ['{"command": "a</think>b <think>"}', "sed s/<think>/</think>/"])
def test_think_markers_in_a_value_are_part_of_it(arguments, text):
    """Also as control tokens: a call's arguments can speak of them, and nothing else may stand there."""
    made = "</think>" + section(call("functions.exec:1", arguments), E)
    expected = reply(None, None, ParsedCall(raw_id="functions.exec:1", name="exec", arguments=arguments), EXEC)
    assert parse([made] if text else as_ids(made), options(text=text)) == expected


def test_think_tokens_between_the_values_are_dropped():
    made = as_ids("</think>" + section(call("functions.exec:1", '</think>{"command": <think>"a"}</think>')))
    expected = ParsedCall(raw_id="functions.exec:1", name="exec", arguments='{"command": "a"}')
    assert parse(made, options()) == reply(None, None, expected, problems=[P.STRAY_MARKER])


@pytest.mark.parametrize("escaped", ['\\"', "\\\\", '\\\\\\"', 'a", "b": "', ""])
def test_in_text_a_marker_in_an_open_string_is_text(escaped):
    arguments = f'{{"command": "{escaped}{DONE}{END}{CALL}</think><|im_end|>"}}'
    made = "</think>" + section(call("functions.exec:1", arguments), E)
    expected = reply(None, None, ParsedCall(raw_id="functions.exec:1", name="exec", arguments=arguments), EXEC)
    assert parse([made], options(text=True)) == expected
    assert parse(list(made), options(text=True)) == expected


def test_in_text_think_markers_after_content_are_text():
    made = "a <think> b</think>The tags <think> and </think>."
    expected = reply("a <think> b", "The tags <think> and </think>.")
    assert parse([made], options(text=True)) == expected
    assert parse(["\n<think>a</think>b"], options(text=True, thinking=False)) == reply("a", "\nb")


def test_other_control_tokens_are_left_out():
    deltas = ["a", 5, SPECIAL.think_end, "b", SPECIAL.media_pad, "c", SPECIAL.id_of("[PAD]"), -1]
    assert parse(deltas, options()) == reply("a", "bc", problems=[P.STRAY_MARKER])


def test_calls_are_told_without_declared_tools():
    made = as_ids("a</think>" + section(W, call("functions_exec_5", "{}"), call("3", '{"city": "Oslo"}')))
    expected = [
        WEATHER,
        ParsedCall(raw_id="functions_exec_5", name="exec", arguments="{}"),
        ParsedCall(raw_id="3", name="3", arguments='{"city": "Oslo"}'),
    ]
    assert parse(made, options(tools=())) == reply("a", None, *expected, problems=[P.MALFORMED_ID])


def test_many_calls():
    calls = [
        ParsedCall(raw_id=f"functions.exec:{n}", name="exec", arguments=f'{{"command": "{n}"}}') for n in range(200)
    ]
    made = as_ids("</think>" + section(*(call(each.raw_id, each.arguments) for each in calls)))
    assert parse(made, options()) == reply(None, None, *calls)


@pytest.mark.parametrize("size_bytes", [8 * 1024 + 1, 5 * 1024 * 1024])
@pytest.mark.parametrize("text", [True, False])
def test_long_arguments(size_bytes, text):
    arguments = '{"command": "' + "x" * size_bytes + '"}'
    made = "</think>" + section(call("functions.exec:1", arguments))
    expected = reply(None, None, ParsedCall(raw_id="functions.exec:1", name="exec", arguments=arguments))
    assert parse([made] if text else as_ids(made), options(text=text)) == expected


def test_deeply_nested_arguments_that_are_cut():
    made = as_ids(f"</think>{BEGIN}{CALL}3{ARGS}" + "[" * 200_000)
    found = parse(made, options())
    assert found.summary.is_truncated
    assert [(each.name, len(each.arguments)) for each in found.tool_calls] == [("3", 200_000)]


def test_at_once():
    assert parse_reply(["a", 163_607, "b"], ParserOptions()) == reply("a", "b")
    strange = [
        {},
        {"type": "builtin", "name": "x"},
        {"function": {"name": 3}},
        {"function": {"name": "exec"}},
        tool("a"),
    ]
    made = as_ids("</think>" + section(call("0", "{}")))
    found = parse(made, options(tools=[*strange, *TOOLS]))
    assert [each.name for each in found.tool_calls] == ["0"]
