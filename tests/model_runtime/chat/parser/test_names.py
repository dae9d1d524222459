"""Which tool an id means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.chat.parser.events import ParsedCall
from model_runtime.chat.parser.parser import MAX_ID_CHARS, ToolNames, is_canonical_id
from tests.fuzz.settings import fuzzed
from tests.model_runtime.chat.parser.replies import TOOLS, as_ids, call, options, parse, section, tool
from tests.tables import table


@table(
    ("raw_id", "name"),
    [
        ("functions.exec:0", "exec"),
        ("functions.exec:123456", "exec"),
        ("exec:0", "exec"),
        ("functionsexec5", "exec"),
        ("functions.exec5", "exec"),
        ("functionsexec:5", "exec"),
        ("functions:exec:5", "exec"),
        ("functions.exec", "exec"),
        ("functions.exec:", "exec"),
        ("functions/exec#5", "exec"),
        ("exec", "exec"),
        ("exec_5", "exec"),
        ("functions_exec_5", "exec"),
        ("functions_get_weather_1", "get_weather"),
        ("functions-get-weather-1", "get_weather"),
        ("functionsgetweather1", "get_weather"),
        ("functions.get_weather:0\n", "get_weather"),
        ("\n functions.get_weather:0 ", "get_weather"),
        ("functions.\nget_weather\n:0", "get_weather"),
        ("functions.browser.click:1", "browser.click"),
        ("functions_browser_click_12", "browser.click"),
        ("mcp.server.exec:1", "exec"),
        ("functions.read-file:0", "read-file"),
        ("functions_read_file_0", "read-file"),
        ("functions.sha256:5", "sha256"),
        ("functions.sha2565", "sha256"),
        ("functions.sha256", "sha256"),
        ("functions.ns:sub:run:7", "ns:sub:run"),
        ("functions.ns:sub:run", "ns:sub:run"),
        # not declared: as they are
        ("functions.unknown:0", "unknown"),
        ("search:0", "search"),
        ("functions.exec5:0", "exec5"),
        ("functions.un.kno-wn_2:0", "un.kno-wn_2"),
        ("functions_unknown_0", "unknown"),
        ("functionsunknown7", "unknown"),
        ("functions.Ünï:0", "Ünï"),
        ("some_tool", "some_tool"),
    ],
)
def test_names_in_ids(raw_id, name):
    assert ToolNames(TOOLS).find(raw_id) == name


@pytest.mark.parametrize(
    "raw_id",
    [
        "", "3", "00003", "call00003", "call_3", "call_abcDEF", "call-7", "call:3", "functions.3", "functions:3",
        "functions.:3", "functions", "tool_call_1", "toolu_01AbCd", "chatcmpl-tool-5f1e",
        "f5734200dfb64103b998a97831aa19d8", "6b0e7c24-f0c4-4f0d-996b-59e5aa001122", "x" * 300,
    ],
)  # fmt: skip
def test_ids_that_name_nothing(raw_id):
    assert ToolNames(TOOLS).find(raw_id) is None


def test_a_name_may_look_like_an_id():
    names = ToolNames([tool(name) for name in ("call_center", "functions.run", "call", "functions", "7", "_")])
    found = [
        "functions.call_center:0",
        "functions.functions.run:1",
        "call_3",
        "functions.functions:0",
        "functions.7:2",
        "functions._:0",
    ]
    assert [names.find(raw_id) for raw_id in found] == ["call_center", "functions.run", "call", "functions", "7", "_"]


def test_a_name_of_signs_only_is_in_no_number():
    assert ToolNames([tool("_"), tool("exec")]).find("3") is None


def test_names_alike_but_for_signs():
    names = ToolNames([tool("readfile"), tool("read_file"), tool("exec"), tool("exec5")])
    found = ["functions_read_file_1", "functions_readfile_1", "functions.read_file:0", "functions.readfile:0"]
    assert [names.find(raw_id) for raw_id in found] == ["read_file", "readfile", "read_file", "readfile"]
    assert [names.find(raw_id) for raw_id in ["functionsexec5", "functions.exec5:0", "functionsexec55"]] == [
        "exec",
        "exec5",
        "exec5",
    ]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ('{"city": "Oslo"}', "get_weather"),
        ('{"city": "Oslo", "unit": "C"}', "get_weather"),
        ('{"x": 1, "y": 2}', "browser.click"),
        ("{}", "list_files"),
        ("", "list_files"),
        ('{"x": 1}', None),
        ('{"city": "Oslo", "path": "a"}', None),
        ("[1]", None),
        ("ls", None),
    ],
)
def test_tools_by_arguments(arguments, name):
    assert ToolNames(TOOLS).find_by_arguments(arguments) == name


def test_of_several_tools_the_one_with_just_these_arguments():
    read, write = tool("read", optional=["path"]), tool("write", optional=["path", "text"])
    assert ToolNames([read, write]).find_by_arguments('{"path": "a"}') == "read"
    assert ToolNames([read, read | {}, write]).find_by_arguments('{"text": "a"}') == "write"
    assert ToolNames([write, tool("append", optional=["path", "text"])]).find_by_arguments('{"path": "a"}') is None


def test_a_tool_that_takes_any_keys():
    anything = tool("anything", "kind")
    anything["function"]["parameters"]["additionalProperties"] = True
    assert ToolNames([anything, tool("exec", "command")]).find_by_arguments('{"kind": 1, "more": 2}') == "anything"


def test_the_only_tool():
    assert ToolNames([tool("exec", "command")]).find_by_arguments("no JSON") == "exec"
    assert ToolNames([]).find_by_arguments("{}") is None


def test_what_an_id_names_nothing_and_no_tool_takes_is_kept():
    made = as_ids("</think>" + section(call("call_7", '{"z": 1}'), call("call_8", '{"path": "a"}')))
    found = parse(made, options())
    assert [(each.raw_id, each.name) for each in found.tool_calls] == [("call_7", "call_7"), ("call_8", "read-file")]
    assert [problem.name for problem in found.summary.problems] == ["MALFORMED_ID", "UNKNOWN_TOOL"]


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize(
    "ids",
    [
        ("functionsexec5", "functionsexec6", "functionsexec7"),
        ("functions.exec5", "functions.exec6\n", "functions.exec:7"),
        ("functions_exec_1", "functions_exec_2", "exec:3"),
        ("call00003", "call00004", "call00005"),
        ("3", "4", "5"),
    ],
)
def test_a_reply_with_ids_out_of_form(ids, text):
    arguments = ['{"command": "ls -la ~ 2>/dev/null || echo \\"none\\""}', '{"command": "a"}', '{"command": "b"}']
    made = "hm" + section(*map(call, ids, arguments))
    expected = [ParsedCall(raw_id=i.strip(), name="exec", arguments=a) for i, a in zip(ids, arguments, strict=True)]
    for pieces in ([made], list(made)) if text else (as_ids(made),):
        found = parse(pieces, options(text=text))
        assert (found.reasoning, found.content, list(found.tool_calls)) == ("hm", None, expected)
        assert not found.summary.is_truncated


def test_a_long_id_is_cut():
    made = as_ids(
        "</think>" + section(call("x" * 5000, '{"command": "ls"}'), call(" " * 5000 + "functions.exec:0", "{}"))
    )
    found = parse(made, options())
    assert [(each.raw_id, each.name) for each in found.tool_calls] == [
        ("x" * MAX_ID_CHARS, "exec"),
        ("functions.exec:0", "exec"),
    ]


@fuzzed
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_id_any_name(raw_id, name):
    names = ToolNames([tool(name), *TOOLS])
    found = names.find(raw_id)
    assert found is None or found in names or found in raw_id


@fuzzed
@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,63}", fullmatch=True), st.integers(0, 10**9))
def test_a_canonical_id_is_its_name(name, number):
    raw_id = f"functions.{name}:{number}"
    assert is_canonical_id(raw_id)
    assert ToolNames([tool(name), *TOOLS]).find(raw_id) == name
    assert ToolNames([tool(name)]).find(f"functions_{name}_{number}") == name
