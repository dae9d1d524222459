"""Ids of tool calls on their way in and out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.chat.messages import ChatMessage, TextPart, ToolCall
from model_runtime.chat.tool_ids import IdMap, next_call_id, rewrite_history
from model_runtime.errors import InvalidRequestError
from tests.fuzz.settings import fuzzed

USER = ChatMessage(role="user", parts=(TextPart("go on"),))


def calls(*ids, name="exec"):
    """An assistant message; an id may bring its own name as (name, id)."""
    pairs = [each if isinstance(each, tuple) else (name, each) for each in ids]
    made = (ToolCall(id=raw_id, name=own, arguments=f'{{"n": {n}}}') for n, (own, raw_id) in enumerate(pairs))
    return ChatMessage(role="assistant", reasoning="hm", tool_calls=tuple(made))


def result(raw_id, text="done"):
    return ChatMessage(role="tool", parts=(TextPart(text),), tool_call_id=raw_id)


def shown(messages):
    """Ids as the template will show them: a list for calls, text for a result, None for others."""
    rewritten, ids = rewrite_history(messages)
    assert len(rewritten) == len(messages)
    for before, after in zip(messages, rewritten, strict=True):
        assert replace(after, tool_calls=(), tool_call_id=None) == replace(before, tool_calls=(), tool_call_id=None)
        assert [(c.name, c.arguments) for c in after.tool_calls] == [(c.name, c.arguments) for c in before.tool_calls]
    assert ids.external == tuple(call.id for message in messages for call in message.tool_calls)
    return [[call.id for call in m.tool_calls] if m.tool_calls else m.tool_call_id for m in rewritten]


def test_nothing_to_do():
    assert rewrite_history([]) == ((), IdMap())
    assert rewrite_history([USER, USER]) == ((USER, USER), IdMap())


def test_ids_that_are_right_stay():
    messages = [USER, calls("functions.exec:0"), result("functions.exec:0"), calls(("a.b", "functions.a.b:1")), USER]
    assert rewrite_history(messages) == (
        tuple(messages),
        IdMap(external=("functions.exec:0", "functions.a.b:1"), next_number=2),
    )


@pytest.mark.parametrize(
    "ids",
    [
        ("call_abc", "call_def", "call_ghi"),
        ("functions_exec_0", "functions_exec_1", "functions_exec_2"),
        ("search:0", "search:1", "search:2"),
        ("call_0", "call_0", "call_0"),
        ("functions.exec:0", "functions.exec:0", "functions.exec:0"),
        ("", "", ""),
        ("functions.exec:5", "functions.exec:6", "functions.exec:7"),
        ("toolu_01", "functions.exec:1", "3"),
        ("functions.exec:2", "functions.exec:1", "functions.exec:0"),
    ],
)
def test_foreign_ids_over_three_turns(ids):
    messages = [message for raw_id in ids for message in (calls(raw_id), result(raw_id))]
    numbered = ["functions.exec:0", "functions.exec:1", "functions.exec:2"]
    assert shown(messages) == [item for each in numbered for item in ([each], each)]


@pytest.mark.parametrize(
    "rename",
    [
        lambda raw_id: raw_id,
        lambda raw_id: raw_id.replace(".", "_").replace(":", "_"),
        lambda raw_id: raw_id.replace(".", "").replace(":", ""),
        lambda raw_id: "call_" + raw_id.encode().hex(),
        lambda raw_id: "hist_tool_" + raw_id[::-1],
        lambda raw_id: "call_1",
        lambda raw_id: "",
    ],
)
@pytest.mark.parametrize("only_results", [True, False])
def test_clients_that_rename_ids(rename, only_results):
    """Over five turns of one or two calls, what the model sees is the same as from a client that keeps ids."""
    kept: list[ChatMessage] = [USER]
    renamed: list[ChatMessage] = [USER]
    for turn in range(5):
        names = ["get_weather"] if turn % 2 else ["browser.click", "exec"]
        seen, ids = rewrite_history(renamed)
        assert seen == tuple(kept)
        new = [next_call_id(ids, name, index) for index, name in enumerate(names)]
        told = [(name, raw_id if only_results else rename(raw_id)) for name, raw_id in zip(names, new, strict=True)]
        renamed += [calls(*told), *(result(rename(raw_id), raw_id) for raw_id in new)]
        canonical = [f"functions.{name}:{len(ids.external) + index}" for index, name in enumerate(names)]
        kept += [calls(*zip(names, canonical, strict=True))]
        kept += [result(own, raw_id) for own, raw_id in zip(canonical, new, strict=True)]


def test_results_in_another_order():
    messages = [calls("a", "b", "c"), result("c"), result("a"), result("b")]
    assert shown(messages)[1:] == ["functions.exec:2", "functions.exec:0", "functions.exec:1"]


def test_sanitised_results_in_another_order():
    messages = [
        calls(("a", "functions.a:0"), ("b.c", "functions.b.c:1")),
        result("functions_b_c_1"),
        result("functionsa0"),
    ]
    assert shown(messages)[1:] == ["functions.b.c:1", "functions.a:0"]


def test_one_id_for_several_calls_of_a_message():
    messages = [calls("x", "x", "y"), result("x"), result("y"), result("x"), result("x")]
    assert shown(messages)[1:] == ["functions.exec:0", "functions.exec:2", "functions.exec:1", "functions.exec:1"]


def test_an_id_used_again_means_the_latest_call():
    messages = [calls("call_0", "call_1"), result("call_0"), result("call_1"), calls("call_0"), result("call_0")]
    assert shown(messages)[3:] == [["functions.exec:2"], "functions.exec:2"]


def test_calls_without_result_and_late_results():
    messages = [calls("a", "b"), result("a"), USER, calls("c"), result("b"), result("c")]
    assert shown(messages) == [
        ["functions.exec:0", "functions.exec:1"],
        "functions.exec:0",
        None,
        ["functions.exec:2"],
        "functions.exec:1",
        "functions.exec:2",
    ]


def test_messages_between_calls_and_results():
    messages = [calls("a", "b"), USER, result("a"), replace(USER, role="system"), result("b")]
    assert shown(messages)[1:] == [None, "functions.exec:0", None, "functions.exec:1"]


@pytest.mark.parametrize("ids", [(None, None), ("x", "y"), ("x", None), ("", ""), ("x", "x")])
def test_results_with_no_known_id_are_paired_in_order(ids):
    messages = [calls("a", "b", "c"), *map(result, ids)]
    assert shown(messages)[1:] == ["functions.exec:0", "functions.exec:1"]


@pytest.mark.parametrize(
    ("messages", "position", "found"),
    [
        ([USER, result("a")], 1, "'a'"),
        ([result(None)], 0, "missing"),
        ([calls("a", "b"), result("a"), result("x")], 2, "'x'"),
        ([calls("a", "b"), result(None), result("b")], 1, "missing"),
        ([calls("a", "b"), result("x"), result("y"), result("z")], 3, "'z'"),
        ([calls("a.b", "a_b"), result("a-b"), result("a.b")], 1, "'a-b'"),
        ([calls("a"), result("a"), USER, result("y" * 1000)], 3, repr("y" * 100)),
    ],
)
def test_a_result_of_no_call_is_refused(messages, position, found):
    with pytest.raises(InvalidRequestError) as caught:
        rewrite_history(messages)
    assert caught.value.param == f"messages.{position}.tool_call_id"
    assert f"its tool_call_id is {found}: " in str(caught.value)
    assert caught.value.status == 400


def test_new_ids_go_on_counting():
    _, ids = rewrite_history([calls("functions.exec:0", "call_9"), result("call_9")])
    assert [next_call_id(ids, name, n) for n, name in enumerate(["exec", "a.b"])] == [
        "functions.exec:2",
        "functions.a.b:3",
    ]
    assert next_call_id(IdMap(), "exec", 0) == "functions.exec:0"


def test_new_ids_after_a_history_that_was_cut_short():
    messages = [calls("functions.exec:7", "functions.exec:5"), result("functions.exec:5")]
    assert shown(messages) == [["functions.exec:0", "functions.exec:1"], "functions.exec:1"]
    _, ids = rewrite_history(messages)
    assert next_call_id(ids, "exec", 0) == "functions.exec:8"


@pytest.mark.parametrize("raw_id", ["functions.exec:" + "9" * 5000, "functions.exec:-3", "functions.exec:٣", "exec:9"])
def test_ids_that_only_look_numbered(raw_id):
    assert rewrite_history([calls(raw_id)])[1].next_number == 1


RAW_IDS = st.sampled_from(
    ["", "a", "b", "a.b", "a_b", "call_0", "functions.exec:0", "functions.exec:3", "functions_exec_3"]
)
MESSAGES = st.lists(
    st.just(USER) | st.lists(RAW_IDS, max_size=3).map(lambda ids: calls(*ids)) | (RAW_IDS | st.none()).map(result),
    max_size=12,
)


@fuzzed
@given(MESSAGES)
def test_any_history_is_numbered_or_refused(messages):
    try:
        rewritten, ids = rewrite_history(messages)
    except InvalidRequestError as error:
        position = int(str(error.param).split(".")[1])
        assert messages[position].role == "tool"
        return
    made = [call.id for message in rewritten for call in message.tool_calls]
    assert made == [f"functions.exec:{n}" for n in range(len(made))]
    for position, message in enumerate(rewritten):
        before = [call.id for earlier in rewritten[:position] for call in earlier.tool_calls]
        assert message.role != "tool" or message.tool_call_id in before
    assert rewrite_history(rewritten) == (rewritten, IdMap(external=tuple(made), next_number=len(made)))
    assert not {next_call_id(ids, "exec", n) for n in range(3)} & set(ids.external)
