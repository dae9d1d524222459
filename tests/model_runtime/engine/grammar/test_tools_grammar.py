"""Tool calls sampled from random logits can be read, and their arguments fit."""

import json
import re
from typing import Any

import jsonschema
import pytest

from model_runtime.engine.grammar import MAX_CALLS, GrammarEngine, make_tools_grammar
from model_runtime.engine.sampling import GrammarSpec
from model_runtime.errors import InvalidRequestError
from model_runtime.tokenizer import Tokenizer
from tests.fuzz.settings import bounded_time
from tests.model_runtime.engine.grammar.sampled import make_states, sample_outputs

SEARCH = {
    "type": "object",
    "properties": {"query": {"type": "string", "maxLength": 9}, "num": {"type": "integer"}, "in": {"enum": ["a", "b"]}},
    "required": ["query", "num"],
    "additionalProperties": False,
}
CLICK = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}


def make_tool(name: str, parameters: object, strict: bool | None = None) -> dict[str, Any]:
    function = {"name": name, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}


TOOLS = [
    make_tool("search", SEARCH, strict=True),
    make_tool("searches", CLICK),
    make_tool("mouse.click-it_2", CLICK),
    make_tool("nothing", None),
]
SCHEMA_OF = {"search": SEARCH, "searches": CLICK, "mouse.click-it_2": CLICK, "nothing": {"maxProperties": 0}}
CALL = re.compile(
    r"<\|tool_call_begin\|>functions\.([\w.-]+):(\d+)<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>", re.DOTALL
)


def read_calls(tokenizer: Tokenizer, output: list[int]) -> tuple[str, list[tuple[str, int]]]:
    """Text before the section and (name, index) of each call of a finished output, read strictly."""
    special = tokenizer.special
    assert output[-1] == special.im_end
    assert special.im_end not in output[:-1]
    text, marker, section = tokenizer.decode(output[:-1]).partition("<|tool_calls_section_begin|>")
    if not marker:
        return text, []
    assert section.endswith("<|tool_calls_section_end|>")
    body = section.removesuffix("<|tool_calls_section_end|>")
    calls = list(CALL.finditer(body))
    assert "".join(call[0] for call in calls) == body, "something stands between the calls"
    assert sum(map(special.is_special, output)) == 3 + 3 * len(calls), "a control token inside the arguments"
    for call in calls:
        arguments = json.loads(call[3])
        assert isinstance(arguments, dict)
        jsonschema.validate(arguments, SCHEMA_OF[call[1]])
    return text, [(call[1], int(call[2])) for call in calls]


def spec_of(tool_choice: str, *, parallel: bool = True, first_index: int = 0) -> GrammarSpec:
    spec = make_tools_grammar(TOOLS, tool_choice=tool_choice, parallel=parallel, first_index=first_index)
    assert spec is not None
    return spec


@pytest.mark.parametrize("first_index", [0, 9, 1234])
def test_required_calls_can_be_read(tokenizer: Tokenizer, grammars: GrammarEngine, first_index: int) -> None:
    states = make_states(tokenizer, grammars, spec_of("required", first_index=first_index), range(8))
    names, counts = set(), set()
    for output in sample_outputs(tokenizer, states, max_tokens=900):
        text, calls = read_calls(tokenizer, output)
        assert text == ""
        assert [index for _, index in calls] == list(range(first_index, first_index + len(calls)))
        names |= {name for name, _ in calls}
        counts.add(min(len(calls), 2))
    assert (names, counts) == (set(SCHEMA_OF), {1, 2})


def test_without_parallel_calls_there_is_one(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    states = make_states(tokenizer, grammars, spec_of("required", parallel=False, first_index=3), range(8))
    for output in sample_outputs(tokenizer, states, max_tokens=400):
        _, calls = read_calls(tokenizer, output)
        assert [index for _, index in calls] == [3]


def test_a_named_tool_is_called_once(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    states = make_states(tokenizer, grammars, spec_of("search", first_index=5), range(4))
    for output in sample_outputs(tokenizer, states, max_tokens=400):
        assert read_calls(tokenizer, output) == ("", [("search", 5)])


def test_auto_allows_text_and_then_a_section_or_none(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    states = make_states(tokenizer, grammars, spec_of("auto", first_index=2), range(16))
    texts, counts = set(), set()
    for output in sample_outputs(tokenizer, states, max_tokens=900, closing=5):
        text, calls = read_calls(tokenizer, output)
        texts.add(text != "")
        counts.add(len(calls) > 0)
    assert (texts, counts) == ({True, False}, {True, False})


def test_reasoning_comes_first_and_must_be_closed(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    states = make_states(tokenizer, grammars, spec_of("required"), range(24), in_reasoning=True)
    for output in sample_outputs(tokenizer, states, max_tokens=900):
        end = output.index(tokenizer.special.think_end)
        assert not any(map(tokenizer.special.is_special, output[:end])), "a control token inside the reasoning"
        assert read_calls(tokenizer, output[end + 1 :])[1]


def test_a_cut_output_is_the_beginning_of_a_whole_one(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    spec = spec_of("required", first_index=41)
    for output in sample_outputs(tokenizer, make_states(tokenizer, grammars, spec, range(4)), max_tokens=17):
        matcher = grammars.compile(spec).make_matcher()
        assert all(matcher.accept(token_id) for token_id in output)


def test_the_number_of_calls_has_an_end(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    special = tokenizer.special
    spec = make_tools_grammar([make_tool("f", None)], tool_choice="required", parallel=True, first_index=3)
    assert spec is not None
    matcher = grammars.compile(spec).make_matcher()
    matcher.accept(special.section_begin)
    taken = 0
    while matcher.accept(special.id_of("<|tool_call_begin|>")):
        call = [*tokenizer.encode(f"functions.f:{3 + taken}"), special.id_of("<|tool_call_argument_begin|>")]
        assert all(map(matcher.accept, [*call, *tokenizer.encode("{}"), special.id_of("<|tool_call_end|>")]))
        taken += 1
    assert taken == MAX_CALLS


def test_auto_without_a_strict_tool_is_free() -> None:
    assert make_tools_grammar(TOOLS[1:], tool_choice="auto", parallel=True, first_index=0) is None
    assert make_tools_grammar([make_tool("a b", 3)], tool_choice="auto", parallel=True, first_index=0) is None
    assert make_tools_grammar([], tool_choice="auto", parallel=True, first_index=0) is None


def test_a_loose_tool_may_use_what_the_grammar_does_not_know(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    tools = [make_tool("f", CLICK | {"not": {"required": ["y"]}})]
    spec = make_tools_grammar(tools, tool_choice="f", parallel=True, first_index=0)
    assert spec is not None
    [output] = sample_outputs(tokenizer, make_states(tokenizer, grammars, spec, [0]), max_tokens=300)
    [(_, _, arguments)] = CALL.findall(tokenizer.decode(output))
    jsonschema.validate(json.loads(arguments), CLICK)


@pytest.mark.parametrize(
    ("tools", "tool_choice", "param"),
    [
        ([], "required", "tool_choice"),
        (TOOLS, "other", "tool_choice"),
        ([make_tool("a b", CLICK)], "required", "tools.0.function.name"),
        ([make_tool('a":', CLICK)], "required", "tools.0.function.name"),
        ([make_tool("a", CLICK), make_tool("a", CLICK)], "required", "tools"),
        ([TOOLS[0], make_tool("b", {"type": "string"})], "auto", "tools.1.function.parameters"),
        ([make_tool("b", [])], "required", "tools.0.function.parameters"),
        ([make_tool("b", CLICK | {"not": {}}, strict=True)], "auto", "tools.0.function.parameters"),
        (
            [make_tool("b", CLICK | {"not": {}, "x-guidance": {"lenient": True}}, strict=True)],
            "auto",
            "tools.0.function.parameters",
        ),
        ([make_tool("b", {"properties": {"a": False}, "required": ["a"]})], "b", "tools.0.function.parameters"),
    ],
)
def test_what_cannot_be_called_is_refused(tools: list[dict[str, Any]], tool_choice: str, param: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        make_tools_grammar(tools, tool_choice=tool_choice, parallel=True, first_index=0)
    assert raised.value.param == param


def test_text_of_a_schema_cannot_leave_its_place(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    """Texts that would mean something in the grammar's own language, or to the model, are text."""
    value = '"}\n%ignore /x/ <|im_end|> <|tool_call_end|> <[5]> // é \\'
    schema = {"type": "object", "properties": {value: {"const": value}}, "required": [value], "description": value}
    tools = [make_tool("f", schema | {"additionalProperties": False}, strict=True)]
    spec = make_tools_grammar(tools, tool_choice="required", parallel=False, first_index=0)
    assert spec is not None
    [output] = sample_outputs(tokenizer, make_states(tokenizer, grammars, spec, [0]), max_tokens=400, closing=0)
    assert sum(map(tokenizer.special.is_special, output)) == 6
    begin, end = (tokenizer.special.id_of(f"<|tool_call_{name}|>") for name in ("argument_begin", "end"))
    assert json.loads(tokenizer.decode(output[output.index(begin) + 1 : output.index(end)])) == {value: value}


def test_a_thousand_tools_with_one_schema(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    tools = [make_tool(f"tool_{i}", SEARCH) for i in range(1_000)]
    spec = make_tools_grammar(tools, tool_choice="required", parallel=True, first_index=0)
    assert spec is not None
    matcher = grammars.compile(spec).make_matcher()
    begin, argument = map(tokenizer.special.id_of, ("<|tool_call_begin|>", "<|tool_call_argument_begin|>"))
    call = [tokenizer.special.section_begin, begin, *tokenizer.encode("functions.tool_999:0"), argument]
    assert all(map(matcher.accept, call))


def test_too_many_tools_with_schemas_of_their_own_are_refused() -> None:
    tools = [make_tool(f"tool_{i}", CLICK | {"title": str(i)}) for i in range(10_000)]
    with bounded_time(8), pytest.raises(InvalidRequestError, match="there are 10000 tools with schemas of their own"):
        make_tools_grammar(tools, tool_choice="required", parallel=True, first_index=0)
