import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.chat.template import MAX_DEPTH, declare_tools
from model_runtime.errors import InvalidRequestError
from tests.fuzz.settings import bounded_time, fuzzed
from tests.tables import table


def tool(name="f", description=None, **parameters):
    function = {"name": name, "parameters": parameters}
    return {"type": "function", "function": function | ({"description": description} if description else {})}


def declared(*lines):
    return "\n".join(["# Tools", "", "## functions", "namespace functions {", *lines, "}", ""])


def type_of(schema):
    """How one required property `p` of that schema is written, without what stands around it."""
    text = declare_tools([tool(properties={"p": schema}, required=["p"])])
    start, end = declared("type f = (_: {", "@", "}) => any;").split("@")
    assert text.startswith(start), text
    assert text.endswith(end), text
    return text.removeprefix(start).removesuffix(end)


def as_json(*tools):
    return json.dumps(tools, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def test_a_whole_declaration():
    search = tool(
        "search",
        "Searches the web.\n\nReturns 10 results.",
        type="object",
        required=["query", "lang"],
        properties={
            "query": {"type": "string", "description": "What to look for", "minLength": 1, "maxLength": 200},
            "lang": {"enum": ["en", "中文"], "type": "string"},
            "count": {"type": "integer", "default": 10, "maximum": 50, "minimum": 1},
            "fresh": {"type": "boolean", "description": "Newest\nfirst", "default": False},
            "sites": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "description": "Only these"},
            "where": {
                "type": "object",
                "properties": {"b": {"type": "number"}, "a": {"type": "null"}},
                "required": ["b"],
                "description": "Place",
            },
        },
    )
    assert declare_tools([search, tool("wait")]) == declared(
        "// Searches the web.",
        "",
        "// Returns 10 results.",
        "type search = (_: {",
        '  lang: "en" | "中文",',
        "  // What to look for",
        "  // maxLength: 200, minLength: 1",
        "  query: string,",
        "  // maximum: 50, minimum: 1",
        "  // Default: 10",
        "  count?: number,",
        "  // Newest",
        "  // first",
        "  // Default: False",
        "  fresh?: boolean,",
        "  // Only these",
        "  // maxItems: 3",
        "  sites?: Array<string>,",
        "  // Place",
        "  where?: {",
        "    b: number,",
        "    a?: null",
        "  }",
        "}) => any;",
        "type wait = (_: {}) => any;",
    )


@table(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "  p: number"),
        ({"type": "anything"}, "  p: anything"),
        ({}, "  p: any"),
        (True, "  p: any"),
        (False, "  p: null"),
        ({"type": "object"}, "  p: {}"),
        ({"type": "object", "properties": {}}, "  p: {}"),
        ({"type": "array"}, "  p: Array<any>"),
        ({"type": "array", "items": {}}, "  p: Array<any>"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "  p: Array<Array<number>>"),
        (
            {"type": "array", "items": {"type": "string", "description": "a\nb"}},
            "  p: Array<\n    // a\n    // b\n    string\n  >",
        ),
        (
            {"type": "array", "items": {"type": "number", "minimum": 0}},
            "  p: Array<\n    // minimum: 0\n    number\n  >",
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "  p: Array<{\n    a?: string\n  }>",
        ),
        (
            {"type": "array", "items": {"type": "object", "description": "d", "properties": {"a": {"type": "string"}}}},
            "  p: Array<\n    // d\n    {\n      a?: string\n    }\n  >",
        ),
        ({"type": ["string", "null"]}, "  p: string | null"),
        ({"type": ["integer", "object", "array", "boolean"]}, "  p: number | {} | Array<any> | boolean"),
        ({"type": []}, "  p: "),
        ({"enum": ["a", 'b"c', 1, 1.5, None, True]}, '  p: "a" | "b"c" | 1 | 1.5 | None | True'),
        ({"enum": ["a", None], "type": ["string", "null"]}, '  p: "a" | None'),
        ({"enum": [1, 2.5], "type": "number"}, "  p: 1 | 2.5"),
        ({"enum": [], "description": "none"}, "  // none\n  p: "),
        ({"anyOf": [{"type": "string", "description": "lost"}, {"type": "null"}]}, "  p: string | null"),
        (
            {"anyOf": [{"type": "integer"}], "description": "kept", "default": 3},
            "  // kept\n  // Default: 3\n  p: number",
        ),
        ({"type": "object", "additionalProperties": True}, "  p: {\n    [k: string]: any\n  }"),
        ({"type": "object", "additionalProperties": False}, "  p: {\n    [k: string]: never\n  }"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
            "  p: {\n    a?: string,\n    [k: string]: number\n  }",
        ),
        ({"type": "string", "pattern": "^a+$", "maxLength": 5}, "  // maxLength: 5, pattern: ^a+$\n  p: string"),
        ({"type": "number", "maximum": 1, "maxLength": 5}, "  // maximum: 1\n  p: number"),
        ({"type": "boolean", "maximum": 1}, "  p: boolean"),
        ({"type": "array", "minItems": 1, "maxItems": 2}, "  // maxItems: 2, minItems: 1\n  p: Array<any>"),
        ({"enum": ["a"], "type": "string", "maxLength": 5}, '  p: "a"'),
        ({"type": "string", "default": "é\n"}, '  // Default: "é\\n"\n  p: string'),
        ({"type": "number", "default": 1e22}, "  // Default: 1e+22\n  p: number"),
        ({"type": "string", "default": None}, "  p: string"),
        (
            {"type": "array", "default": [1, {"b": 1, "a": True}]},
            '  // Default: [1, {"a": true, "b": 1}]\n  p: Array<any>',
        ),
        ({"type": "string", "description": ""}, "  p: string"),
    ],
)
def test_types(schema, expected):
    assert type_of(schema) == expected


def test_required_properties_come_first_both_by_name():
    properties = {name: {"type": "string"} for name in "zbcay"}
    assert declare_tools([tool(properties=properties, required=["z", "b", "missing"])]) == declared(
        "type f = (_: {", "  b: string,", "  z: string,", "  a?: string,", "  c?: string,", "  y?: string", "}) => any;"
    )


def test_definitions_become_interfaces():
    definitions = {
        "Point": {"type": "object", "description": "On screen", "properties": {"x": {"type": "number"}}},
        "Kind": {"enum": ["left", "right"]},
        "Tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}},
    }
    properties = {"at": {"$ref": "#/$defs/Point", "description": "Where"}, "kind": {"$ref": "#/$defs/Kind"}}
    assert declare_tools([tool(description="Clicks.", properties=properties, **{"$defs": definitions})]) == declared(
        'interface Kind "left" | "right"',
        "// On screen",
        "interface Point {",
        "  x?: number",
        "}",
        "interface Tree {",
        "  kids?: Array<Tree>",
        "}",
        "// Clicks.",
        "type f = (_: {",
        "  // Where",
        "  at?: Point,",
        "  kind?: Kind",
        "}) => any;",
    )


def test_parameters_that_refer_to_themselves():
    properties = {"next": {"$ref": "#"}, "all": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}}
    assert declare_tools([tool(properties=properties, required=["next"])]) == declared(
        "interface parameters {",
        "  all?: Array<parameters>,",
        "  name?: string,",
        "  next: parameters",
        "}",
        "type f = (_: parameters) => any;",
    )


def test_functions_without_much():
    tools = [
        {"type": "function", "function": {"name": "a"}},
        {"type": "function", "function": {"name": "b", "parameters": None, "description": ""}},
        {"type": "function", "function": {"description": "No name"}},
        {"type": "function", "function": {}},
        {"type": "function"},
        {"type": "_plugin", "function": {"name": "hidden"}},
        {"function": {"name": "hidden"}},
    ]
    assert declare_tools(tools) == declared(
        "type a = (_: {}) => any;", "type b = (_: {}) => any;", "// No name", "type function = (_: {}) => any;"
    )


@table(
    "schema",
    [
        {"description": "no type"},
        {"oneOf": [{"type": "string"}]},
        {"const": 1},
        {"type": ["odd"]},
        {"type": [["string"]]},
        {"type": None},
        {"$ref": "#/definitions/a"},
        {"$ref": "#/$defs/missing"},
        {"$ref": 3},
        {"enum": ["a"], "type": "integer"},
        {"enum": [1.5], "type": "integer"},
        {"enum": [1], "type": ["integer", "string"]},
        {"enum": [1], "type": []},
        {"enum": "abc"},
        {"anyOf": {}},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "object", "additionalProperties": "yes"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": "string"}},
        {"type": "object", "required": 3},
        {"type": "object", "required": [["a"]]},
        {"type": "object", "$defs": [1]},
        {"type": "string", "description": ["a"]},
        "string",
        3,
        None,
    ],
)
def test_what_cannot_be_declared_makes_all_tools_json(schema):
    tools = [tool("fine", "é"), tool("f", properties={"p": schema})]
    assert declare_tools(tools) == as_json(*tools)


def test_tools_of_other_types_alone_are_json():
    assert declare_tools([{"type": "_plugin", "b": 1, "a": {"d": 1, "c": "é"}}]) == (
        '[{"a":{"c":"é","d":1},"b":1,"type":"_plugin"}]'
    )


def nested(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_deep_tools():
    assert declare_tools([tool(properties={"p": nested(40)})]).count("a?:") == 40
    for depth in (60, 200, 10_000):
        with pytest.raises(InvalidRequestError) as caught:
            declare_tools([tool(), tool(properties={"p": nested(depth)})])
        assert (str(caught.value), caught.value.param) == (
            f"tools are nested deeper than {MAX_DEPTH} levels",
            "tools.1",
        )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1, 2}, "tools must be JSON, which has no set"),
        (b"a", "tools must be JSON, which has no bytes"),
        ([10**4400], "a number of tools has more than 10000 bits"),
        ({1: 2}, "keys of tools must be strings, not 1"),
        ({"a": 1, None: 2}, "keys of tools must be strings, not None"),
    ],
)
def test_what_is_no_json(value, told):
    with pytest.raises(InvalidRequestError) as caught:
        declare_tools([tool(properties={"p": value})])
    assert (str(caught.value), caught.value.param) == (told, "tools.0")


def test_a_tool_that_is_no_object_makes_json():
    assert declare_tools(["a", tool()]) == as_json("a", tool())
    assert declare_tools([tool(), {"type": "function", "function": "f"}]) == as_json(
        tool(), {"type": "function", "function": "f"}
    )


@pytest.mark.long
def test_many_tools_in_bounded_time():
    properties = {f"field_{n}": {"type": "string", "description": f"Number {n}"} for n in range(10)}
    tools = [tool(f"tool_{n}", f"Does {n}.", properties=properties, required=["field_1"]) for n in range(10_000)]
    with bounded_time(10):
        text = declare_tools(tools)
    assert text.count("\ntype tool_") == 10_000


def test_many_properties_in_bounded_time():
    names = [f"field_{n}" for n in range(50_000)]
    with bounded_time():
        text = declare_tools([tool(properties={key: {"type": "string"} for key in names}, required=names)])
    assert text.count(": string") == 50_000


name = st.sampled_from(list("abc"))
leaf = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "boolean", "array", "object", "odd")),
        *({"$ref": reference} for reference in ("#", "#/$defs/a", "#/$defs/b", "elsewhere")),
        {},
        True,
        None,
        {"description": "x"},
    ]
)
schemas = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={"properties": st.dictionaries(name, inner, max_size=3), "$defs": st.dictionaries(name, inner)},
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)}),
    ),
    max_leaves=10,
)


@fuzzed
@given(st.dictionaries(name, schemas, max_size=4), st.dictionaries(name, schemas, max_size=3))
def test_any_schema_gives_a_declaration_or_the_same_json(properties, definitions):
    tools = [tool(properties=properties, **{"$defs": definitions})]
    text = declare_tools(tools)
    if text.startswith("["):
        assert text == as_json(*tools)
    else:
        assert text.startswith(declared("@").split("@")[0])
        assert text.endswith(") => any;\n}\n")
        assert text.count("{") == text.count("}")
        assert text.count("<") == text.replace("=>", "").count(">")
