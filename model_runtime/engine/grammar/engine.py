"""Grammars compiled for a vocabulary, with llguidance.

llguidance needs neither torch nor transformers, knows control tokens apart from text that only spells them, and takes
JSON schema, regular expressions and Lark.
"""

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from model_runtime.engine.grammar.matcher import Matcher, read_reason
from model_runtime.engine.grammar.options import JSON_OPTIONS, MAX_LARK_CHARS, PARSER_LIMITS, parse_schema
from model_runtime.engine.sampling.params import GrammarSpec
from model_runtime.errors import RequestError
from model_runtime.require import require

if TYPE_CHECKING:
    import llguidance

    from model_runtime.tokenizer import Tokenizer

MAX_CACHED = 256
MAX_CACHED_CHARS = 32 * 2**20
MAX_FORCED_BYTES = 1024
NUM_PROBED = 3
_PARAM = "response_format"


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
        tokenizer: Building takes a good half second for the release's vocabulary.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        llguidance = require("llguidance")
        self._end_id = tokenizer.special.im_end
        self._vocabulary = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary(tokenizer)))
        self._grammars: OrderedDict[tuple[str, str], Grammar] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, spec: GrammarSpec) -> Grammar:
        """The grammar of a request. Takes milliseconds for what is common, a second or two at the limits.

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
            while len(self._grammars) > MAX_CACHED or sum(len(text) for _, text in self._grammars) > MAX_CACHED_CHARS:
                self._grammars.popitem(last=False)
        return grammar

    def _make_grammar(self, spec: GrammarSpec) -> Grammar:
        llguidance = require("llguidance")
        form, limits = _to_library_form(spec), llguidance.LLParserLimits(**PARSER_LIMITS)
        prototype = llguidance.LLMatcher(self._vocabulary, form, log_level=0, limits=limits)
        if error := _find_error(prototype.deep_copy()):
            raise RequestError(f"this {spec.kind} cannot be followed: {read_reason(error)}", param=_PARAM)
        return Grammar(prototype, self._end_id)


class _Vocabulary:
    """The tokenizer as llguidance wants it."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        special = tokenizer.special
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
        self.special_token_ids = list(range(special.first_id, tokenizer.vocab_size))
        self.eos_token_id = special.im_end
        self.bos_token_id = None
        self._encode = tokenizer.encode
        self._id_of_byte = {token[0]: token_id for token_id, token in enumerate(self.tokens) if len(token) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Tokens of text that the grammar leaves no choice about; only the first of them are ever looked at."""
        head = text[:MAX_FORCED_BYTES].decode("utf-8", "ignore")
        return self._encode(head) + [self._id_of_byte[byte] for byte in text[len(head.encode()) :]]


def _find_error(probe: "llguidance.LLMatcher") -> str:
    """What is wrong with a grammar, as far as it shows at once or with the first tokens of some output."""
    for _ in range(NUM_PROBED):
        mask = b"" if probe.is_error() else probe.compute_bitmask()
        if probe.is_stopped():  # also after an error
            break
        bits = int.from_bytes(mask, "little")
        probe.consume_token((bits & -bits).bit_length() - 1)
    return probe.get_error()


def check_schema(schema: str, options: dict[str, Any], *, param: str) -> None:
    """Raise when a JSON schema cannot be followed.

    Raises:
        RequestError: With llguidance's reason.
    """
    llguidance = require("llguidance")
    form = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides=options)
    reason = llguidance.LLMatcher.validate_grammar(form, limits=llguidance.LLParserLimits(**PARSER_LIMITS))
    if reason and not reason.startswith("WARNING"):
        raise RequestError(f"this schema cannot be followed: {read_reason(reason)}", param=param)


def _to_library_form(spec: GrammarSpec) -> str:
    if len(spec.text) > MAX_LARK_CHARS:
        text = f"the {spec.kind} has {len(spec.text)} characters; at most {MAX_LARK_CHARS} are taken"
        raise RequestError(text, param=_PARAM)
    make: Any = require("llguidance").LLMatcher
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
