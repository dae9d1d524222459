"""However a reply is cut: the same events; whatever comes: an answer, promptly, in time linear in its length."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.chat.parser.events import ContentText, ReasoningText, ToolCallArguments, ToolCallEnd, ToolCallStart
from model_runtime.chat.parser.parser import ReplyParser
from tests.fuzz.settings import fuzzed
from tests.model_runtime.chat.parser.replies import (
    ARGS,
    BEGIN,
    CALL,
    DONE,
    END,
    ONE_BEGIN,
    SPECIAL,
    TOOLS,
    WILD,
    as_ids,
    call,
    cut,
    joined,
    options,
    run,
    section,
    well_formed,
)

CALLS = (call("functions.get_weather:0", '{"city": "Oslo"}'), call("3", '{"path": "<a>"}'))
REPLY = "Let me see </think>On it.\n" + section(*CALLS)


def same(deltas, how, expected):
    events, summary = run(deltas, how)
    assert (joined(events), summary) == expected


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("text", [True, False])
def test_one_cut_at_each_place(thinking, text):
    how = options(thinking=thinking, text=text)
    events, summary = run([REPLY], how)
    for place in range(len(REPLY) + 1):
        same(cut(REPLY, [place]), how, (joined(events), summary))
    same(list(REPLY), how, (joined(events), summary))


@fuzzed
@given(WILD | well_formed().map(lambda made: made[1]), st.booleans(), st.data())
def test_text_cut_anywhere(reply, thinking, data):
    how = options(thinking=thinking, text=True)
    events, summary = run([reply], how)
    places = data.draw(st.lists(st.integers(0, len(reply)), max_size=8))
    same(cut(reply, places), how, (joined(events), summary))
    same(list(reply), how, (joined(events), summary))


@fuzzed
@given(WILD | well_formed().map(lambda made: made[1]), st.booleans())
def test_text_between_ids_cut_to_characters(reply, thinking):
    how = options(thinking=thinking)
    deltas = as_ids(reply)
    events, summary = run(deltas, how)
    pieces = [piece for delta in deltas for piece in (delta if isinstance(delta, str) else [delta])]
    same(pieces, how, (joined(events), summary))


DELTAS = st.lists(WILD | st.integers(1020, 1300) | st.integers() | st.sampled_from(as_ids(REPLY)), max_size=20)


@fuzzed
@given(DELTAS, st.booleans(), st.booleans(), st.booleans())
def test_any_deltas_give_whole_calls_in_order(deltas, thinking, text, with_tools):
    how = options(thinking=thinking, text=text) if with_tools else options(thinking=thinking, text=text, tools=())
    events, _ = run(deltas, how)
    calls = [event for event in events if isinstance(event, ToolCallStart | ToolCallArguments | ToolCallEnd)]
    spoken = [event for event in events if not isinstance(event, ToolCallStart | ToolCallArguments | ToolCallEnd)]
    assert all(isinstance(event, ReasoningText | ContentText) and event.text for event in spoken)
    expected = 0
    is_open = False
    for event in calls:
        assert event.index == expected
        assert isinstance(event, ToolCallStart) is not is_open
        is_open = not isinstance(event, ToolCallEnd)
        expected += not is_open
    assert not is_open


@fuzzed
@given(WILD, st.booleans())
def test_markers_given_as_ids_never_turn_up_as_text(reply, thinking):
    deltas = [delta if isinstance(delta, int) else delta.replace("<", "(") for delta in as_ids(reply)]
    events, _ = run(deltas, options(thinking=thinking))
    assert not [event for event in events if "<" in repr(event)]


@fuzzed
@given(WILD, st.booleans())
def test_markers_given_as_text_are_no_content(reply, thinking):
    events, _ = run([reply], options(thinking=thinking, text=True))
    content = "".join(event.text for event in joined(events) if isinstance(event, ContentText))
    leaked = [mark for mark in (BEGIN, END, CALL, ARGS, DONE, ONE_BEGIN) if mark in content]
    assert not leaked or "<|tool" in reply.replace(leaked[0], "")  # two halves around a dropped marker can make one


PLAIN_MARKS = st.sampled_from([BEGIN, END, CALL, ARGS, DONE, BEGIN + CALL, "functions.exec:0" + ARGS, DONE + END])
PLAIN_WORDS = st.sampled_from(
    ["a", " ", "\n", "{}", "{", "[1, 2]", "functions.exec:0", "3", "functionsexec5", "b" * 300]
)


@fuzzed
@given(st.lists(PLAIN_MARKS | PLAIN_WORDS, max_size=16).map("".join), st.booleans(), st.booleans())
def test_text_and_tokens_say_the_same(reply, thinking, with_tools):
    """Where no marker stands inside quotes, nor think markers in content, it does not matter how markers come."""
    tools = TOOLS if with_tools else ()
    events, summary = run(as_ids(reply), options(thinking=thinking, tools=tools))
    same([reply], options(thinking=thinking, tools=tools, text=True), (joined(events), summary))


@pytest.mark.parametrize("text", [True, False])
def test_text_is_told_at_once(text):
    parser = ReplyParser(options(text=text))
    told = [parser.feed(delta) for delta in ["I", " think", " 1 <", " 2", "<|tool_call", "er"]]
    assert told == [
        [ReasoningText("I")],
        [ReasoningText(" think")],
        [ReasoningText(" 1 ")],
        [ReasoningText("< 2")],
        [],
        [ReasoningText("<|tool_caller")],
    ]


def test_a_call_is_told_as_it_comes():
    parser = ReplyParser(options())
    section_begin, begin, arguments, end = (SPECIAL.id_of(mark) for mark in (BEGIN, CALL, ARGS, DONE))
    deltas = [section_begin, begin, "functions.ex", "ec:7", arguments, " ", '{"comm', 'and": "ls"', "}", end]
    assert [parser.feed(delta) for delta in deltas] == [
        [],
        [],
        [],
        [],
        [ToolCallStart(0, "functions.exec:7", "exec")],
        [],
        [ToolCallArguments(0, ' {"comm')],
        [ToolCallArguments(0, 'and": "ls"')],
        [ToolCallArguments(0, "}")],
        [ToolCallEnd(0)],
    ]


def test_a_call_whose_arguments_decide_is_told_at_its_end():
    parser = ReplyParser(options())
    deltas = as_ids(CALL + "call_00003" + ARGS + '{"command": "ls"}' + DONE)
    assert [parser.feed(delta) for delta in deltas][:-1] == [[]] * 4
    parser = ReplyParser(options())
    assert [event for delta in deltas for event in parser.feed(delta)] == [
        ToolCallStart(0, "call_00003", "exec"),
        ToolCallArguments(0, '{"command": "ls"}'),
        ToolCallEnd(0),
    ]


def spent_s(deltas, how):
    started = time.thread_time()
    run(deltas, how)
    return time.thread_time() - started


@pytest.mark.slow
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize(
    "filler", ["a", '\\"', "\\\\", "<", "<|tool_call", "</think>", " ", '"', '{"a": "b"}', CALL, BEGIN + END, ONE_BEGIN]
)
def test_time_is_linear(filler, text):
    """Sixteen times the length may not take a hundred times the time: quadratic would be 256."""
    how = options(text=text)
    head = BEGIN + CALL + "functions.exec:0" + ARGS + '{"command": "'
    times = []
    for size in (20_000, 320_000):
        fill = (filler * (size // len(filler)))[:size]
        deltas = [*as_ids(head), fill] if not text else [head + fill]
        times.append(min(spent_s(deltas, how) for _ in range(3)) + 0.002)
    assert times[1] < 100 * times[0]


@pytest.mark.slow
@pytest.mark.parametrize("text", [True, False])
def test_a_long_call_in_small_pieces(text):
    value = "x\\n<y>" * 50_000
    arguments = '{"command": "' + value + '"}'
    reply = "hm" + section(call("functions.exec:0", arguments))
    whole = [reply] if text else as_ids(reply)
    pieces = [p for d in whole for p in ([d] if isinstance(d, int) else cut(d, range(3, len(d), 3)))]
    events, summary = run(pieces, options(text=text))
    assert joined(events) == [
        ReasoningText("hm"),
        ToolCallStart(0, "functions.exec:0", "exec"),
        ToolCallArguments(0, arguments),
        ToolCallEnd(0),
    ]
    assert not summary.is_truncated
