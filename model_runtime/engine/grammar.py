"""Constrained outputs with llguidance: JSON schemas, regular expressions, grammars, and tool calls.

    grammars = GrammarEngine(tokenizer)
    matcher = grammars.compile(GrammarSpec(kind="json_object")).make_matcher()

llguidance needs neither torch nor transformers, distinguishes control tokens from text that only spells them, and
supports JSON schema, regular expressions and Lark. The limits prevent a hostile schema from stalling all requests:
within them, the worst schema found took about a second to be rejected, and a tenth of a second per token to be applied.

Tool calls are a section of `<|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{...}<|tool_call_end|>`,
at least once. INDEX counts the calls of the whole conversation.

Source: `docs/tool_call_guidance.md` of MoonshotAI/Kimi-K2; rules with a parameter: llguidance's docs/parametric.md.
"""

import json
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from model_runtime.engine.contract import GrammarSpec
from model_runtime.errors import InvalidRequestError, require
from model_runtime.json_types import Json

if TYPE_CHECKING:
    import llguidance

    from model_runtime.tokenizer import Tokenizer


MAX_TEXT_CHARS = 2**20  # bounds the time to compile a client's schema
MAX_LARK_CHARS = 8 * 2**20  # grammars generated from many tools are longer than one schema
MAX_MEMBERS = 1_000
"""Maximum number of members of one object in a schema, or of objects and lists in one of its lists. The cost of
optional properties is quadratic: a mask of 1,000 takes up to 60 ms, one of 2,000 a quarter of a second.
"""

MAX_DEPTH = 100  # bounds recursion over a client's schema
MAX_VALUES = 20_000  # bounds the time to walk a client's schema
PARSER_LIMITS: Json = {
    "max_items_in_row": 20_000,
    "step_max_items": 200_000,
    "max_grammar_size": 100_000,
    "max_lexer_states": 50_000,
    "verbose_errors": False,
}
JSON_OPTIONS: Json = {
    "whitespace_flexible": True,
    "whitespace_pattern": r"[ \n\r\t]{1,64}",  # a model can generate whitespace without end
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
}


def parse_schema(text: str, *, param: str) -> Json:
    """Parse a JSON schema within the limits.

    Raises:
        RequestError: If it is not a JSON object, or too large.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidRequestError(
            f"the schema has {len(text)} characters; at most {MAX_TEXT_CHARS} are taken", param=param
        )
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the schema is not JSON: {error}", param=param) from error
    if not isinstance(schema, dict):
        raise InvalidRequestError(f"the schema is of type {type(schema).__name__}; expected an object", param=param)
    check_size(schema, param=param)
    return schema


def check_size(schema: Json, *, param: str) -> None:
    """Check that a schema is not too deep, too wide or too large.

    Raises:
        RequestError: If it exceeds a limit.
    """
    level: list[Json | list[object]] = [schema]
    num_values = 0
    for _ in range(MAX_DEPTH):
        inner = [_find_inner(value) for value in level]
        if any(len(value) > MAX_MEMBERS for value in level if isinstance(value, dict)) or any(
            len(values) > MAX_MEMBERS for values in inner
        ):
            text = f"an object or list of the schema has more than {MAX_MEMBERS} members"
            raise InvalidRequestError(f"{text}; only lists of plain values may be longer", param=param)
        level = [value for values in inner for value in values]
        num_values += len(level)
        if num_values > MAX_VALUES:
            raise InvalidRequestError(f"the schema has more than {MAX_VALUES} objects and lists", param=param)
        if not level:
            return
    raise InvalidRequestError(f"the schema is nested more than {MAX_DEPTH} deep", param=param)


def _find_inner(value: Json | Sequence[object]) -> list[Json | list[object]]:
    members = value.values() if isinstance(value, dict) else value
    return [member for member in members if isinstance(member, dict | list)]


class Matcher:
    """Matcher that follows one output through a grammar.

    Args:
        inner: llguidance's matcher, used by this object only.
        end_id: Token that ends an output.
    """

    def __init__(self, inner: "llguidance.LLMatcher", end_id: int) -> None:
        self._inner = inner
        self._end_id = end_id
        self.is_done = False

    @property
    def fault(self) -> str | None:
        """Reason why it cannot continue, in one line; None if it can."""
        return read_reason(self._inner.get_error()) if self._inner.is_error() else None

    @property
    def is_accepting(self) -> bool:
        """True if the output so far matches the grammar."""
        return self._inner.is_accepting()

    @property
    def must_end(self) -> bool:
        """True if only the end token is allowed next."""
        return self._inner.is_stopped()

    def fill(self, words: Tensor) -> None:
        """Write a bit for each allowed next token into one row, (W,) int32 on the CPU."""
        self._inner.unsafe_compute_mask_ptr(words.data_ptr(), words.numel() * words.element_size())

    def accept(self, token_id: int) -> bool:
        """Accept a token; return False, with a `fault`, if the grammar does not allow it."""
        was_accepting = token_id == self._end_id and self.is_accepting
        is_taken = self._inner.consume_token(token_id)
        self.is_done = is_taken and was_accepting
        return is_taken


def read_reason(text: str) -> str:
    """Return the library's reason in one line, without its dump of stack and state."""
    return " ".join(text.split("<backtrace>")[0].split("<state>")[0].split())[:400]


def apply_grammars(logits: Tensor, matchers: Mapping[int, Matcher]) -> dict[int, str]:
    """Mask the tokens that the grammars do not allow next.

    Args:
        logits: (S, V) float32; rows of `matchers` get -inf in place.
        matchers: Matchers by row.

    Returns:
        Errors by row.
    """
    if not matchers:
        return {}
    vocab_size = logits.shape[1]
    bits = torch.zeros(len(matchers), (vocab_size + 31) // 32, dtype=torch.int32)
    for place, matcher in enumerate(matchers.values()):
        matcher.fill(bits[place])
    added = to_logits(bits.to(logits.device), vocab_size)
    for place, row in enumerate(matchers):
        logits[row] += added[place]
    return {row: f"the grammar cannot continue: {matcher.fault}" for row, matcher in matchers.items() if matcher.fault}


def to_logits(bits: Tensor, size: int) -> Tensor:
    """Convert (N, W) int32 words, lowest bit first, to (N, size) float32: 0 where a bit is set, -inf elsewhere."""
    octets = bits.view(torch.uint8).int()  # (N, 4 W); assumes a little-endian machine
    return _OCTETS.to(bits.device).index_select(0, octets.view(-1)).view(len(bits), -1)[:, :size]


_OCTETS = torch.where((torch.arange(256)[:, None] >> torch.arange(8)) & 1 == 1, 0.0, float("-inf"))  # (256, 8)


MAX_CACHED = 256  # compiled grammars in memory, by number and by length of their texts
MAX_CACHED_CHARS = 32 * 2**20
MAX_FORCED_BYTES = 1024  # only the first tokens of a forced text are used, so a longer text is not tokenized
NUM_PROBED = 3
_PARAM = "response_format"


class Grammar:
    """A compiled grammar, shared by any number of requests."""

    def __init__(self, prototype: "llguidance.LLMatcher", end_id: int) -> None:
        self._prototype = prototype
        self._end_id = end_id

    def make_matcher(self) -> Matcher:
        """Return a matcher at the start of the grammar."""
        return Matcher(self._prototype.deep_copy(), self._end_id)


class GrammarEngine:
    """Compiler of grammars for one vocabulary, with a cache. Thread-safe.

    Args:
        tokenizer: Tokenizer; construction takes about half a second for the release's vocabulary.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        llguidance = require("llguidance")
        self._end_id = tokenizer.special.im_end
        self._vocabulary = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary(tokenizer)))
        self._grammars: OrderedDict[tuple[str, str], Grammar] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, spec: GrammarSpec) -> Grammar:
        """Return the grammar of a request. Takes milliseconds for common ones, a second or two at the limits.

        Raises:
            RequestError: If it is malformed, unsupported, too large, or matches nothing.
        """
        key = (spec.kind, spec.text)
        with self._lock:
            if grammar := self._grammars.get(key):
                self._grammars.move_to_end(key)
                return grammar
        grammar = self._make_grammar(spec)
        with self._lock:
            self._grammars[key] = grammar
            while len(self._grammars) > MAX_CACHED or sum(len(text) for _, text in self._grammars) > MAX_CACHED_CHARS:
                self._grammars.popitem(last=False)
        return grammar

    def _make_grammar(self, spec: GrammarSpec) -> Grammar:
        llguidance = require("llguidance")
        form, limits = _to_library_form(spec), llguidance.LLParserLimits(**PARSER_LIMITS)
        prototype = llguidance.LLMatcher(self._vocabulary, form, log_level=0, limits=limits)
        if error := _find_error(prototype.deep_copy()):
            raise InvalidRequestError(f"this {spec.kind} cannot be followed: {read_reason(error)}", param=_PARAM)
        return Grammar(prototype, self._end_id)


class _Vocabulary:
    """Adapter of the tokenizer to llguidance."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        special = tokenizer.special
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
        self.special_token_ids = list(range(special.first_id, tokenizer.vocab_size))
        self.eos_token_id = special.im_end
        self.bos_token_id = None
        self._encode = tokenizer.encode
        self._id_of_byte = {token[0]: token_id for token_id, token in enumerate(self.tokens) if len(token) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Tokenize text that the grammar forces; only the first tokens are used."""
        head = text[:MAX_FORCED_BYTES].decode("utf-8", "ignore")
        return self._encode(head) + [self._id_of_byte[byte] for byte in text[len(head.encode()) :]]


def _find_error(probe: "llguidance.LLMatcher") -> str:
    """Return the error of a grammar that is found at once or with the first tokens of some output; empty if there is
    none.
    """
    for _ in range(NUM_PROBED):
        mask = b"" if probe.is_error() else probe.compute_bitmask()
        if probe.is_stopped():  # also after an error
            break
        bits = int.from_bytes(mask, "little")
        probe.consume_token((bits & -bits).bit_length() - 1)
    return probe.get_error()


def check_schema(schema: str, options: Json, *, param: str) -> None:
    """Check that a JSON schema can be applied.

    Raises:
        RequestError: If it cannot, with llguidance's reason.
    """
    llguidance = require("llguidance")
    form = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=options)
    reason = llguidance.LLMatcher.validate_grammar(form, limits=llguidance.LLParserLimits(**PARSER_LIMITS))
    if reason and not reason.startswith("WARNING"):
        raise InvalidRequestError(f"this schema cannot be followed: {read_reason(reason)}", param=param)


def _to_library_form(spec: GrammarSpec) -> str:
    if len(spec.text) > MAX_LARK_CHARS:
        text = f"the {spec.kind} has {len(spec.text)} characters; at most {MAX_LARK_CHARS} are taken"
        raise InvalidRequestError(text, param=_PARAM)
    make = require("llguidance").LLMatcher
    match spec.kind:
        case "json_object":
            form: str = make.grammar_from_json_schema({"type": "object"}, overrides=JSON_OPTIONS)
        case "json_schema":
            form = make.grammar_from_json_schema(parse_schema(spec.text, param=_PARAM), overrides=JSON_OPTIONS)
        case "regex":
            form = make.grammar_from_regex(spec.text)
        case "lark":
            form = make.grammar_from_lark(spec.text)
    return form


MAX_CALLS = 128
MAX_SCHEMAS = 2_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    param: str
    name: str
    schema: str
    is_strict: bool


def make_tools_grammar(
    tools: Sequence[Mapping[str, Any]], *, tool_choice: str, parallel: bool, first_index: int
) -> GrammarSpec | None:
    """Return a grammar that guarantees tool calls that can be parsed.

    `auto` allows any text and then an optional section. `required` and the name of a tool require a section at once:
    otherwise the model could postpone it indefinitely. Arguments of tools with `strict` follow their schema exactly;
    for others, only the keywords that the grammar supports.

    Args:
        tools: Tools in OpenAI's form.
        tool_choice: `auto`, `required`, or the name of a tool, which is then called once.
        parallel: True to allow several calls in a section, up to 128.
        first_index: Index of the first call: the number of calls in the conversation so far.

    Returns:
        The grammar; None if nothing is constrained: `auto` without a strict tool.

    Raises:
        RequestError: If the tool does not exist, or a schema cannot be applied.
    """
    if tool_choice == "auto" and not any(tool.get("function", {}).get("strict") is True for tool in tools):
        return None
    read = [_read_tool(tool, f"tools.{place}.function") for place, tool in enumerate(tools)]
    names = [tool.name for tool in read]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidRequestError(f"two tools are called {twice[0]!r}", param="tools")
    if tool_choice not in ("auto", "required"):
        read, parallel = [tool for tool in read if tool.name == tool_choice], False
    if not read:
        known = ", ".join(names[:20]) or "none"
        raise InvalidRequestError(f"tool_choice is {tool_choice!r}; the tools are: {known}", param="tool_choice")
    _check_schemas(read)
    start = "TEXT section?" if tool_choice == "auto" else "section"
    return GrammarSpec(kind="lark", text=_make_lark(read, start, range(first_index, first_index + _count(parallel))))


def _check_schemas(tools: Sequence[_Tool]) -> None:
    """Check each tool's schema separately, so that the error names the tool."""
    first = {tool.schema: tool for tool in reversed(tools)}
    if len(first) > MAX_SCHEMAS:
        text = f"there are {len(first)} tools with schemas of their own; at most {MAX_SCHEMAS} can be followed"
        raise InvalidRequestError(text, param="tools")
    for tool in first.values():
        options = JSON_OPTIONS | {"lenient": not tool.is_strict}
        check_schema(tool.schema, options, param=f"{tool.param}.parameters")


def _count(parallel: bool) -> int:
    return MAX_CALLS if parallel else 1


def _read_tool(tool: Mapping[str, Any], param: str) -> _Tool:
    function = tool.get("function", {})
    name, schema = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text = f"a tool's name is {name!r}; expected letters, digits, '_', '-' and '.', 256 at most"
        raise InvalidRequestError(text, param=f"{param}.name")
    if schema is None:
        schema = {"type": "object", "additionalProperties": False}
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidRequestError("parameters must be a schema of an object", param=f"{param}.parameters")
    check_size(schema, param=f"{param}.parameters")
    is_strict = function.get("strict") is True
    options = JSON_OPTIONS | {"lenient": not is_strict}
    text = json.dumps({"type": "object"} | schema | {"x-guidance": options})
    return _Tool(param=param, name=name, schema=text, is_strict=is_strict)


def _make_lark(tools: Sequence[_Tool], start: str, indices: range) -> str:
    schemas = {tool.schema: f"args_{place}" for place, tool in enumerate(tools)}
    calls = '"functions.{}:" index::_ <|tool_call_argument_begin|> {}'
    lines = (
        "%llguidance {}",
        f"start: {start}",
        f"section: <|tool_calls_section_begin|> calls::{indices.start} <|tool_calls_section_end|>",
        f"calls::_: call::_ | call::_ calls::incr(_) %if lt(_, {indices.stop - 1})",
        "call::_: <|tool_call_begin|> tool::_ <|tool_call_end|>",
        "tool::_: " + "\n | ".join(calls.format(tool.name, schemas[tool.schema]) for tool in tools),
        "index::_: " + "\n | ".join(f'"{index}" %if eq(_, {index})' for index in indices),
        *(f"{rule}: %json {schema}" for schema, rule in schemas.items()),
        r"TEXT: /(.|\n)*/",
    )
    return "\n".join(lines) + "\n"
