"""Grammars compiled for a vocabulary, with llguidance.

llguidance needs neither torch nor transformers, knows control tokens apart from text that only spells them, and takes
JSON schema, regular expressions and Lark.
"""

import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from model_runtime.engine.grammar.matcher import Matcher, first_line
from model_runtime.engine.sampling.params import GrammarSpec
from model_runtime.errors import RequestError
from model_runtime.require import require

if TYPE_CHECKING:
    import llguidance

    from model_runtime.tokenizer import Tokenizer

MAX_TEXT_BYTES = 8 * 2**20
MAX_CACHED = 256
MAX_CACHED_BYTES = 32 * 2**20
JSON_OPTIONS = {
    "whitespace_flexible": True,
    "whitespace_pattern": r"[ \n\r\t]{1,64}",  # a model can lose itself in blanks without end
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
}


class Grammar:
    """A compiled grammar. One serves any number of requests."""

    def __init__(self, prototype: "llguidance.LLMatcher", end_id: int) -> None:
        self._prototype = prototype
        self._end_id = end_id

    def make_matcher(self) -> Matcher:
        """A matcher at the start of the grammar."""
        return Matcher(self._prototype.deep_copy(), self._end_id)


class GrammarEngine:
    """Compiles grammars for one vocabulary and keeps the last ones. Safe to use from several threads.

    Args:
        tokenizer: Building takes about half a second for the release's vocabulary.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._end_id = tokenizer.special.im_end
        self._vocabulary = _make_vocabulary(tokenizer)
        self._grammars: OrderedDict[tuple[str, str], Grammar] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, spec: GrammarSpec) -> Grammar:
        """The grammar of a request.

        Raises:
            RequestError: It is malformed, uses what is not supported, can match nothing, or is too large.
        """
        key = (spec.kind, spec.text)
        with self._lock:
            if grammar := self._grammars.get(key):
                self._grammars.move_to_end(key)
                return grammar
        grammar = self._make_grammar(spec)
        with self._lock:
            self._grammars[key] = grammar
            while len(self._grammars) > MAX_CACHED or self._cached_bytes() > MAX_CACHED_BYTES:
                self._grammars.popitem(last=False)
        return grammar

    def _cached_bytes(self) -> int:
        return sum(len(text) for _, text in self._grammars)

    def _make_grammar(self, spec: GrammarSpec) -> Grammar:
        if len(spec.text) > MAX_TEXT_BYTES:
            text = f"the grammar has {len(spec.text)} characters; at most {MAX_TEXT_BYTES} are taken"
            raise RequestError(text, param="response_format")
        llguidance = require("llguidance")
        prototype = llguidance.LLMatcher(
            self._vocabulary,
            _to_library_form(spec),
            log_level=0,
            limits=llguidance.LLParserLimits(verbose_errors=False),
        )
        if prototype.is_error():
            reason = first_line(prototype.get_error())
            raise RequestError(f"this {spec.kind} cannot be followed: {reason}", param="response_format")
        return Grammar(prototype, self._end_id)


def _make_vocabulary(tokenizer: "Tokenizer") -> "llguidance.LLTokenizer":
    special = tokenizer.special
    names = {special.text_of(slot): slot for slot in range(special.first_id, tokenizer.vocab_size)}
    ranks = {tokenizer.token_bytes(token_id): token_id for token_id in range(special.first_id)}
    make_tokenizer: Any = require("llguidance").LLTokenizer.from_tiktoken  # what llguidance.tiktoken calls
    vocabulary: llguidance.LLTokenizer = make_tokenizer(
        encoder=ranks,
        special_tokens=names,
        pattern=tokenizer.encoding._pat_str,
        eos_token=special.im_end,
        n_vocab=tokenizer.vocab_size,
        slices=None,
    )
    return vocabulary


def _to_library_form(spec: GrammarSpec) -> str:
    make: Any = require("llguidance").LLMatcher
    match spec.kind:
        case "json_object":
            form: str = make.grammar_from_json_schema('{"type": "object"}', overrides=JSON_OPTIONS)
        case "json_schema":
            form = make.grammar_from_json_schema(_check_schema(spec.text), overrides=JSON_OPTIONS)
        case "regex":
            form = make.grammar_from_regex(spec.text)
        case "lark":
            form = make.grammar_from_lark(spec.text)
    return form


def _check_schema(text: str) -> str:
    """The text itself when it is a JSON object."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the schema is no JSON: {error}", param="response_format") from error
    if not isinstance(schema, dict):
        raise RequestError(f"the schema is {type(schema).__name__}, not an object", param="response_format")
    return text
