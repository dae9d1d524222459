"""Conversion between the frozen dataclasses and one line of JSON; token ids and log-probabilities are packed.

Encoding walks over the values and passes every text through `redact`. Decoding uses pydantic, since a file is untrusted
data. Lines contain no images; numbers that JSON cannot represent become text (`"nan"`).

Packing reduces a prompt of 10,000 tokens from 60 kB to about 15 kB; the prompt of the next step begins with the same
ids.
"""

import base64
import binascii
import dataclasses
import json
import math
import numbers
import sys
import zlib
from array import array
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import unquote_plus

from cua.json_text import Json, read_json, well_formed
from cua.messages import Reply, ReplyTokens
from cua.trajectory.events import Event, action_kind
from envs import Action

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_TOKENS_BYTES = 64 * 2**20
"""Limit of one unpacked list: eight million ids."""

_TOKEN_KINDS = {"prompt_ids": "q", "ids": "q", "logprobs": "d", "sampled": "b"}
_KEPT_KINDS = {"kept_ids": "I", "num_kept": "I"}


def pack_tokens(tokens: ReplyTokens) -> Json:
    """Pack each list of numbers as a text; media stay as they are."""
    kinds = _TOKEN_KINDS | (_KEPT_KINDS if tokens.num_kept else {})
    packed: Json = {name: _pack(kind, getattr(tokens, name)) for name, kind in kinds.items()}
    if tokens.processor:
        packed |= {"media": [dataclasses.asdict(item) for item in tokens.media], "processor": tokens.processor}
        packed["versions"] = [list(span) for span in tokens.versions]
    return packed


def unpack_tokens(packed: Any) -> Json:
    """Unpack the lists, as data that is not validated yet.

    Raises:
        ValueError: If the text was not made by `pack_tokens`, or exceeds the size limit.
    """
    kinds = _TOKEN_KINDS | (_KEPT_KINDS if isinstance(packed, dict) and "num_kept" in packed else {})
    if not isinstance(packed, dict) or not all(isinstance(packed.get(name), str) for name in kinds):
        raise ValueError("the tokens of a reply are not what a record holds")
    lists: Json = {name: _unpack(kind, packed[name]) for name, kind in kinds.items()}
    lists["sampled"] = [value != 0 for value in lists["sampled"]]
    return lists | {name: packed[name] for name in ("media", "processor", "versions") if name in packed}


def _pack(kind: str, values: tuple[Any, ...]) -> str:
    numbers = array(kind, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes())).decode() if values else ""


def _unpack(kind: str, text: str) -> list[Any]:
    numbers = array(kind)
    if not text:
        return []
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), MAX_TOKENS_BYTES)
        if inflate.unconsumed_tail or not inflate.eof:
            raise ValueError(f"the tokens of a reply are cut off, or more than {MAX_TOKENS_BYTES >> 20} MiB")
        numbers.frombytes(data)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the tokens of a reply cannot be unpacked: {error}") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


Redact = Callable[[str], str]


_KINDS: Mapping[type, str] = {action_class: action_kind(action_class) for action_class in get_args(Action)}


def encode(value: object, redact: Redact = str) -> Any:
    """Convert a value to a JSON value.

    Args:
        value: A dataclass, or a value that such a class may contain.
        redact: Applied to every text except the fixed values of `Literal` fields. Keys of free-form
            mappings are texts too.

    Returns:
        Dicts, lists, texts, numbers, booleans and None. Other values become descriptive text.
    """
    if value is None or type(value) in (bool, int):  # most values of a record: abstract classes take longer
        return value
    if isinstance(value, str):
        return _text(value, redact)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Reply) and value.tokens and _holds_secrets(value, redact):
        value = dataclasses.replace(value, tokens=None)  # token ids would reveal the redacted text
    if isinstance(value, ReplyTokens):
        return pack_tokens(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_fields(value, redact)
    if isinstance(value, dict | Mapping):
        return {_text(str(key), redact): encode(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(item, redact) for item in value]
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    return _text(str(value), redact)


def _holds_secrets(reply: Reply, redact: Redact) -> bool:
    text = reply.reasoning + reply.content + "".join(call.arguments for call in reply.tool_calls)
    return redact(text) != text


def _encode_fields(value: Any, redact: Redact) -> Json:
    kind = _KINDS.get(type(value))
    data: Json = {"kind": kind} if kind else {}
    for name, is_closed in _fields(value.__class__):
        item = getattr(value, name)
        data[name] = item if is_closed else encode(item, redact)
    return data


@cache
def _fields(data_class: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of the fields to encode, and for each if it has fixed values."""
    hints = get_type_hints(data_class, include_extras=True)
    return tuple(
        (field.name, _is_closed(hints[field.name]))
        for field in dataclasses.fields(data_class)
        if hints[field.name] is not bytes
    )


@cache
def open_fields(data_class: type) -> tuple[str, ...]:
    """Return the names of the fields that may contain texts of a person, a page or a model."""
    return tuple(name for name, is_closed in _fields(data_class) if not is_closed)


def _is_closed(hint: Any) -> bool:
    """Return True if a field has fixed values (or a hash) and never text of a person, a page or a model."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[0] is str
    return Literal in (get_origin(arm) for arm in (hint, *get_args(hint)))


def _text(text: str, redact: Redact) -> str:
    """Redact secrets in the text, including percent-encoded ones in an address."""
    redacted = redact(well_formed(text))
    if "%" in redacted or "+" in redacted:
        plain = unquote_plus(redacted)
        if redact(plain) != plain:
            return redact(plain)
    return redacted


_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_line(event: Event, redact: Redact = str) -> bytes:
    """Encode one event as one line of UTF-8, including its line end."""
    data = {"event": event.event} | encode(event, redact)
    return _to_json(data).encode() + b"\n"


@cache
def _adapter() -> "TypeAdapter[Event]":
    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[Event, Field(discriminator="event")])


def from_line(line: bytes) -> Event:
    """Decode one event; its observation has an empty screenshot.

    Raises:
        ValueError: If the line is not JSON, or not a known event; the message is one line.
    """
    from pydantic import ValidationError

    data = read_json(line)
    if isinstance(data, dict) and isinstance(data.get("observation"), dict):
        data["observation"]["screenshot"] = b""
    if isinstance(data, dict) and isinstance(data.get("reply"), dict) and data["reply"].get("tokens") is not None:
        data["reply"]["tokens"] = unpack_tokens(data["reply"]["tokens"])
    try:
        return _adapter().validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{field}: {first['msg']}" if field else first["msg"]) from error
