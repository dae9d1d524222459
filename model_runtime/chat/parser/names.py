"""Which tool a call's id means, also where the id is not `functions.NAME:NUMBER`.

A model that saw other ids in its history imitates them: separators missing (`functionsexec5`), replaced
(`functions_exec_5`), or an id that names no tool at all (`call00003`, `3`).
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model_runtime.chat.messages import ToolSpec

MAX_ID_CHARS = 256
"""What is longer is no id and is dropped from there on; OpenAI's API takes names of up to 64."""

_CONVENTION = re.compile(r"(?:functions\.)?(.+):[0-9]+", re.DOTALL)
_PREFIXED = re.compile(r"functions[^A-Za-z0-9]*(.*?)[^A-Za-z0-9]*[0-9]*", re.DOTALL)
_NAMELESS = re.compile(
    r"(?:functions?|tools?|tool_calls?|calls?)?[^A-Za-z0-9]*[0-9]*"
    r"|(?:call|toolu|fc|tool_call|chatcmpl-tool)[_-]?[A-Za-z0-9_-]*"
    r"|[0-9a-fA-F-]{16,}"
)
_CANONICAL = re.compile(r"functions\..+:[0-9]+", re.DOTALL)
_NOT_ALNUM = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolKeys:
    """The keys of a tool's arguments."""

    known: frozenset[str]
    required: frozenset[str]
    is_open: bool


class ToolNames:
    """Names of the declared tools, to be found by what a call looks like."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """`tools`: as the request has them; what is not a function with a name is passed over."""
        self._keys = dict(filter(None, map(_read_tool, tools)))
        self._by_compact: dict[str, list[str]] = defaultdict(list)
        for name in self._keys:
            self._by_compact[_compact(name) or name].append(name)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, raw_id: str) -> str | None:
        """The name in an id, declared or not; None where the id names nothing."""
        text = raw_id.strip()
        if len(text) >= MAX_ID_CHARS:
            return None
        convention = _CONVENTION.fullmatch(text)
        name = convention[1] if convention else text
        declared = self._find_exact(text, name) or self._find_compact(name, has_number=convention is None)
        if declared is not None:
            return declared
        if _NAMELESS.fullmatch(name):
            return None
        prefixed = None if convention else _PREFIXED.fullmatch(name)
        return prefixed[1] if prefixed and prefixed[1] else name

    def _find_exact(self, text: str, name: str) -> str | None:
        without_number = text.rpartition(":")[0]
        candidates = (name, without_number, text, text.removeprefix("functions."), name.rpartition(".")[2])
        return next((candidate for candidate in candidates if candidate in self._keys), None)

    def _find_compact(self, text: str, *, has_number: bool) -> str | None:
        """The declared name that a text spells when only letters and digits count.

        Where a number may follow, the longest name that leaves one goes first: `sha2565` is call 5 of `sha256`.
        """
        compact = _compact(text)
        for body in (compact.removeprefix("functions"), compact):
            shortest = len(body.rstrip("0123456789")) if has_number else len(body)
            for end in (*range(len(body) - 1, shortest - 1, -1), len(body)):
                names = self._by_compact.get(body[:end])
                if names:
                    return next((name for name in names if name in text), names[0])
        return None

    def find_by_arguments(self, arguments: str) -> str | None:
        """The only tool that takes these arguments, or None."""
        if len(self._keys) == 1:
            return next(iter(self._keys))
        given = _keys_of(arguments)
        if given is None:
            return None
        taking = [name for name, keys in self._keys.items() if _takes(keys, given)]
        exact = [name for name in taking if self._keys[name].known == given]
        return next((names[0] for names in (taking, exact) if len(names) == 1), None)


def is_canonical_id(raw_id: str) -> bool:
    """Whether an id is as the convention has it."""
    return _CANONICAL.fullmatch(raw_id) is not None


def _compact(text: str) -> str:
    return _NOT_ALNUM.sub("", text)


def _takes(keys: ToolKeys, given: Collection[str]) -> bool:
    return keys.required.issubset(given) and (keys.is_open or keys.known.issuperset(given))


def _keys_of(arguments: str) -> frozenset[str] | None:
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return frozenset(value) if isinstance(value, dict) else None


def _read_tool(tool: ToolSpec) -> tuple[str, ToolKeys] | None:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        return None
    parameters = function.get("parameters")
    schema: Mapping[str, Any] = parameters if isinstance(parameters, Mapping) else {}
    properties, required = schema.get("properties"), schema.get("required")
    keys = ToolKeys(
        known=frozenset(properties if isinstance(properties, Mapping) else ()),
        required=frozenset(filter(_is_text, required if isinstance(required, list) else ())),
        is_open=schema.get("additionalProperties") not in (None, False),
    )
    return name, keys


def _is_text(value: object) -> bool:
    return isinstance(value, str)
