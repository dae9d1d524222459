"""Messages of an MCP server: one wrong tool, or one wrong part of a result, costs no more than itself.

The SDK checks a list as a whole, so that wrong entries are taken out of the message before it sees them.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from cua.json_text import well_formed
from cua.trajectory.describe import printable
from visual_tools.errors import require

_VERSION = "2025-11-25"
"""The revision of the protocol with the strictest form of a tool."""
_NEEDED = ("name", "description", "inputSchema")
_MAX_PARTS = 1000
_MAX_DEPTH = 64
"""Levels of a message that are kept where it has too many to be read; a tool may have half of that."""

Note = Callable[[str], None]


@asynccontextmanager
async def without_bad_tools(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], note: Note
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server; lists of tools on them hold only entries that can be read.

    Args:
        transport: Gives the streams.
        note: Called with a line about each tool that is left out.
    """
    async with transport as (incoming, outgoing):
        yield _CheckedStream(incoming, note), outgoing


class _CheckedStream:
    def __init__(self, incoming: Any, note: Note) -> None:
        self._incoming = incoming
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incoming, name)

    async def receive(self) -> Any:
        return self._checked(await self._incoming.receive())

    def __aiter__(self) -> "_CheckedStream":
        return self

    async def __anext__(self) -> Any:
        return self._checked(await self._incoming.__anext__())

    async def __aenter__(self) -> "_CheckedStream":
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._incoming.__aexit__(*raised)

    def _checked(self, received: Any) -> Any:
        result = getattr(getattr(received, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = [tool for entry in result["tools"] if (tool := _readable(entry, self._note)) is not None]
        if isinstance(result, dict) and isinstance(result.get("content"), list):
            result["content"] = [_readable_part(part) for part in result["content"][:_MAX_PARTS]]
        return received


def read_message(line: bytes) -> Any:
    """A message of the protocol; one that the SDK cannot read, with what it cannot read replaced.

    Lone surrogates become replacement characters, and what is nested too deep is left out. A reply that is still no
    message becomes an error for the request that it answers.

    Raises:
        ValueError: The line is no message, and does not say what it answers.
    """
    read = require("mcp.types", "mcp").jsonrpc_message_adapter
    try:
        return read.validate_json(line, by_name=False)
    except ValueError:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("the message is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("the message is not an object")
    try:
        return read.validate_python(_repaired(value, _MAX_DEPTH), by_name=False)
    except ValueError:
        if type(value.get("id")) is not int or "method" in value:
            raise
    error = {"code": -32700, "message": "its reply is not a message of the protocol"}
    return read.validate_python({"jsonrpc": "2.0", "id": value["id"], "error": error}, by_name=False)


def _repaired(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(key): _repaired(item, depth - 1) for key, item in value.items()} if depth else None
    if isinstance(value, list):
        return [_repaired(item, depth - 1) for item in value] if depth else None
    return value


def _readable_part(part: Any) -> Any:
    """A part of a result that the SDK can read: unchanged, or a text in its place."""
    methods, pydantic = require("mcp.types.methods", "mcp"), require("pydantic", "mcp")
    try:
        methods.validate_server_result("tools/call", _VERSION, {"content": [part]})
    except pydantic.ValidationError:
        kind = part.get("type") if isinstance(part, dict) else None
        shown = f"{printable(kind)[:40]!r}" if isinstance(kind, str) else "unknown"
        return {"type": "text", "text": f"[a part of the type {shown} cannot be read and was left out]"}
    return part


def _readable(entry: Any, note: Note) -> dict[str, Any] | None:
    """An entry that the SDK can read: unchanged, or without its optional fields; None when it is not a tool."""
    if not isinstance(entry, dict):
        note("a tool is left out: its entry is not an object")
        return None
    if isinstance(entry.get("inputSchema"), dict):
        entry = {**entry, "inputSchema": {"type": "object", **entry["inputSchema"]}}
    why = _why_wrong(entry)
    if why:
        entry = {key: entry[key] for key in _NEEDED if isinstance(entry.get(key), str | dict)}
        why = _why_wrong(entry)
    if why:
        note(f"{printable(str(entry.get('name', 'a tool without a name')))[:60]} is left out: {why}")
    return None if why else entry


def _why_wrong(entry: dict[str, Any]) -> str:
    methods, pydantic = require("mcp.types.methods", "mcp"), require("pydantic", "mcp")
    if entry.get("name") == "":
        return "its name is empty"
    try:
        methods.validate_server_result("tools/list", _VERSION, {"tools": [entry]})
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
    return ""
