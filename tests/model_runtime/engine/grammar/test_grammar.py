"""Schemas, expressions and grammars: what is sampled matches, what cannot be met is refused with a reason."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
import torch

from model_runtime.engine.grammar import MAX_CACHED, GrammarEngine, Matcher, apply_grammars, to_logits
from model_runtime.engine.sampling import GrammarSpec
from model_runtime.errors import InvalidRequestError
from model_runtime.tokenizer import Tokenizer
from tests.fuzz.settings import bounded_time
from tests.model_runtime.engine.grammar.sampled import make_states, sample_outputs

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}
SCHEMAS: dict[str, dict[str, Any]] = {
    "object": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["a", "b c", "é"]}, "maxItems": 3},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "refs": {"$defs": {"p": POINT}, "type": "array", "items": {"$ref": "#/$defs/p"}, "minItems": 1, "maxItems": 2},
    "any": {"anyOf": [{"type": "boolean"}, {"type": "null"}, {"const": "<|im_end|>"}, POINT]},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "deep": json.loads('{"type":"array","minItems":1,"maxItems":1,"items":' * 20 + '{"type":"null"}' + "}" * 20),
}


def json_spec(schema: dict[str, Any]) -> GrammarSpec:
    return GrammarSpec(kind="json_schema", text=json.dumps(schema))


def text_of(tokenizer: Tokenizer, output: list[int]) -> str:
    """The text before the end token; nothing in it may be a control token."""
    assert output[-1] == tokenizer.special.im_end
    assert not any(map(tokenizer.special.is_special, output[:-1]))
    return tokenizer.decode(output[:-1])


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_sampled_json_fits_its_schema(tokenizer: Tokenizer, grammars: GrammarEngine, schema: dict[str, Any]) -> None:
    states = make_states(tokenizer, grammars, json_spec(schema), range(6))
    for output in sample_outputs(tokenizer, states, max_tokens=400):
        jsonschema.validate(json.loads(text_of(tokenizer, output)), schema)


def test_json_object_and_regex(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    states = make_states(tokenizer, grammars, GrammarSpec(kind="json_object"), range(4))
    for output in sample_outputs(tokenizer, states, max_tokens=400, closing=7):
        assert isinstance(json.loads(text_of(tokenizer, output)), dict)
    states = make_states(tokenizer, grammars, GrammarSpec(kind="regex", text="(ab|[0-9]{2}|é)+!"), range(4))
    for output in sample_outputs(tokenizer, states, max_tokens=400):
        assert re.fullmatch("(ab|[0-9]{2}|é)+!", text_of(tokenizer, output))


def test_free_reasoning_comes_first(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    states = make_states(tokenizer, grammars, json_spec(POINT), range(4), in_reasoning=True)
    for output in sample_outputs(tokenizer, states, max_tokens=400):
        end = output.index(tokenizer.special.think_end)
        assert tokenizer.special.im_end not in output[:end]
        assert set(json.loads(text_of(tokenizer, output[end + 1 :]))) == {"x"}


def test_a_cut_output_is_the_beginning_of_a_whole_one(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    spec = json_spec(SCHEMAS["object"])
    for output in sample_outputs(tokenizer, make_states(tokenizer, grammars, spec, range(4)), max_tokens=9):
        matcher = grammars.compile(spec).make_matcher()
        assert all(matcher.accept(token_id) for token_id in output)


def allowed(matcher: Matcher, tokenizer: Tokenizer) -> set[int]:
    logits = torch.zeros(1, tokenizer.vocab_size)
    assert apply_grammars(logits, {0: matcher}) == {}
    return {token_id for token_id, value in enumerate(logits[0].tolist()) if value == 0}


def test_control_tokens_and_text_that_spells_them_are_apart(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    matcher = grammars.compile(GrammarSpec(kind="lark", text='start: <think> "</think>" <[1024]>')).make_matcher()
    assert allowed(matcher, tokenizer) == {tokenizer.special.think_begin}
    matcher.accept(tokenizer.special.think_begin)
    for token_id in tokenizer.encode("</think>"):
        assert token_id in allowed(matcher, tokenizer)
        assert tokenizer.special.think_end not in allowed(matcher, tokenizer)
        assert matcher.accept(token_id)
    assert allowed(matcher, tokenizer) == {tokenizer.special.bos}


def test_no_control_token_inside_a_string(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    matcher = grammars.compile(json_spec({"type": "string"})).make_matcher()
    matcher.accept(tokenizer.encode('"')[0])
    found = allowed(matcher, tokenizer)
    assert len(found) > 500
    assert not any(map(tokenizer.special.is_special, found))


def test_blanks_between_values_come_to_an_end(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    matcher = grammars.compile(GrammarSpec(kind="json_object")).make_matcher()
    [brace, blank] = tokenizer.encode("{")[0], tokenizer.encode(" ")[0]
    matcher.accept(brace)
    taken = 0
    while blank in allowed(matcher, tokenizer):
        matcher.accept(blank)
        taken += 1
    assert taken == 64


REFUSED: dict[str, tuple[GrammarSpec, str]] = {
    "no JSON": (GrammarSpec(kind="json_schema", text="{"), "is not JSON"),
    "no object": (GrammarSpec(kind="json_schema", text="[]"), "of type list"),
    "unknown type": (json_spec({"type": "strin"}), "Invalid type: strin"),
    "unsupported": (json_spec({"not": {"type": "string"}}), 'Unimplemented keys: ["not"]'),
    "format": (json_spec({"type": "string", "format": "xyz"}), "Unknown format"),
    "remote": (json_spec({"$ref": "http://127.0.0.1:1/x"}), "does not fetch"),
    "range": (json_spec({"type": "integer", "minimum": 5, "maximum": 4}), "Unsatisfiable"),
    "never": (json_spec({"properties": {"a": False}, "required": ["a"], "type": "object"}), "Unsatisfiable"),
    "itself": (json_spec({"$ref": "#"}), "cannot be followed"),
    "own options": (json_spec({"not": {}, "x-guidance": {"lenient": True}}), "Unimplemented"),
    "regex": (GrammarSpec(kind="regex", text="(("), "unclosed group"),
    "look-ahead": (GrammarSpec(kind="regex", text="(?=a)b"), "look-around"),
    "lark": (GrammarSpec(kind="lark", text="start: nothing"), 'unknown name: "nothing"'),
    "lark loop": (GrammarSpec(kind="lark", text="start: start"), "cannot be followed"),
    "no such token": (GrammarSpec(kind="lark", text="start: <|no_token|>"), "cannot be followed"),
}


@pytest.mark.parametrize(("spec", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_met_is_refused(grammars: GrammarEngine, spec: GrammarSpec, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        grammars.compile(spec)
    assert reason in str(raised.value)
    assert raised.value.param == "response_format"
    assert len(str(raised.value)) < 500


def nest(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


HOSTILE: dict[str, Callable[[], GrammarSpec]] = {
    "text": lambda: GrammarSpec(kind="json_schema", text='"' + "x" * 2**21 + '"'),
    "deep text": lambda: GrammarSpec(kind="json_schema", text='{"a":' * 100_000),
    "deep": lambda: json_spec(nest(400)),
    "deep lists": lambda: GrammarSpec(kind="json_schema", text='{"enum":' + "[" * 900 + "]" * 900 + "}"),
    "members": lambda: json_spec({"type": "object", "properties": {f"k{i}": {} for i in range(5_000)}}),
    "enum": lambda: json_spec({"enum": [[i, str(i)] for i in range(20_000)]}),
    "values": lambda: json_spec({"enum": [[[i], [[str(j)] for j in range(300)]] for i in range(100)]}),
    "products": lambda: json_spec(
        {
            "allOf": [
                {"anyOf": [{"properties": {f"p{i}": {"const": j}}, "required": [f"p{i}"]} for j in range(4)]}
                for i in range(10)
            ]
        }
    ),
    "regex": lambda: GrammarSpec(kind="regex", text="(a{1000}){1000}"),
    "nested regex": lambda: GrammarSpec(kind="regex", text="(" * 20_000 + "a" + ")" * 20_000),
    "nested lark": lambda: GrammarSpec(kind="lark", text="start: " + "(" * 20_000 + '"a"' + ")" * 20_000),
    "repeats": lambda: GrammarSpec(kind="lark", text='start: a{10000}\na: b{10000}\nb: c{10000}\nc: "x"'),
}


@pytest.mark.parametrize("make_spec", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_grammar_is_refused_soon(grammars: GrammarEngine, make_spec: Callable[[], GrammarSpec]) -> None:
    spec = make_spec()
    with bounded_time(8), pytest.raises(InvalidRequestError):
        grammars.compile(spec)


WIDE: dict[str, GrammarSpec] = {
    "counts": json_spec({"type": "array", "items": {"type": "array", "minItems": 10**6}, "minItems": 10**9}),
    "string": json_spec({"type": "string", "minLength": 10**6}),
    "enum": json_spec({"enum": [f"value {i * 7919 % 40_009}" for i in range(40_000)]}),
    "references": json_spec(
        {
            "$defs": {"0": {"type": "string"}}
            | {str(i): {"type": "array", "prefixItems": [{"$ref": f"#/$defs/{i - 1}"}] * 2} for i in range(1, 40)},
            "$ref": "#/$defs/39",
        }
    ),
    "optional": json_spec({"type": "object", "properties": {f"k{i}": {} for i in range(300)}}),
    "states": GrammarSpec(kind="regex", text="(.|\n)*a(.|\n){30}b"),
    "ambiguous": GrammarSpec(kind="lark", text='start: e\ne: e e | e "+" e | "x"'),
}


@pytest.mark.parametrize("spec", WIDE.values(), ids=WIDE)
def test_a_wide_grammar_is_followed_without_a_stall(
    tokenizer: Tokenizer, grammars: GrammarEngine, spec: GrammarSpec
) -> None:
    with bounded_time(8):
        outputs = sample_outputs(tokenizer, make_states(tokenizer, grammars, spec, range(2)), max_tokens=30, closing=0)
    assert min(map(len, outputs)) > 0


def test_a_grammar_is_compiled_once(tokenizer: Tokenizer) -> None:
    grammars = GrammarEngine(tokenizer)
    specs = [GrammarSpec(kind="regex", text=f"{i}a") for i in range(MAX_CACHED + 1)]
    first = [grammars.compile(spec) for spec in specs[:2]]
    assert grammars.compile(GrammarSpec(kind="regex", text="0a", starts_after_reasoning=False)) is first[0]
    for spec in specs[2:]:
        grammars.compile(spec)
    assert grammars.compile(specs[0]) is first[0], "used since, so it stays"
    assert grammars.compile(specs[1]) is not first[1], "the longest unused makes room"


def test_matchers_of_one_grammar_know_nothing_of_each_other(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    grammar = grammars.compile(GrammarSpec(kind="regex", text="ab"))
    one, other = grammar.make_matcher(), grammar.make_matcher()
    one.accept(tokenizer.encode("a")[0])
    assert other.accept(tokenizer.encode("b")[0]) is False
    assert other.fault is not None
    assert one.accept(tokenizer.encode("b")[0])
    assert (one.is_accepting, one.must_end, one.is_done) == (True, True, False)
    assert one.accept(tokenizer.special.im_end)
    assert one.is_done


def test_threads_may_compile_while_others_fill_masks(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    """Forced text is tokenized by a call back into Python, from a thread that has let go of the interpreter."""
    forced = json_spec({"const": "a rather long text that leaves no choice " * 8})

    def follow(seed: int) -> int:
        states = make_states(tokenizer, grammars, forced, [seed])
        return len(sample_outputs(tokenizer, states, max_tokens=500)[0])

    def compile_many(seed: int) -> int:
        specs = [json_spec({"const": f"forced {seed} {i}"}) for i in range(60)]
        return len({id(grammars.compile(spec)) for spec in specs})

    with ThreadPoolExecutor(4) as pool:
        lengths = [pool.submit(follow, seed) for seed in range(4)]
        counts = [pool.submit(compile_many, seed) for seed in range(4)]
        assert len({length.result(timeout=60) for length in lengths}) == 1
        assert [count.result(timeout=60) for count in counts] == [60] * 4


def test_only_the_rows_with_a_grammar_are_masked(tokenizer: Tokenizer, grammars: GrammarEngine) -> None:
    grammar = grammars.compile(GrammarSpec(kind="regex", text="[xy]"))
    broken = grammar.make_matcher()
    broken.accept(tokenizer.encode("q")[0])
    logits = torch.zeros(4, tokenizer.vocab_size)
    faults = apply_grammars(logits, {3: grammar.make_matcher(), 1: broken})
    assert list(faults) == [1]
    assert faults[1].startswith("the grammar cannot continue: ")
    assert torch.equal(logits[[0, 2]], torch.zeros(2, tokenizer.vocab_size))
    assert set(torch.nonzero(logits[3] == 0)[:, 0].tolist()) == {tokenizer.encode(char)[0] for char in "xy"}


def test_bits_to_logits() -> None:
    words = torch.tensor([[1 | 1 << 7, -1], [-(2**31), 2]], dtype=torch.int32)
    added = to_logits(words, 40)
    assert added.shape == (2, 40)
    assert [torch.nonzero(row == 0)[:, 0].tolist() for row in added] == [[0, 7, *range(32, 40)], [31, 33]]
    assert set(added.flatten().tolist()) == {0.0, float("-inf")}
