"""A conversation as the template takes it: media already read, everything else untrusted text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_runtime.media import MediaItem


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text; nothing in it can become a control token."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One image."""

    item: MediaItem


@dataclass(frozen=True, slots=True)
class VideoPart:
    """A video as (time of the first frame as HH:MM:SS.mmm, chunk of up to four frames), in order."""

    chunks: tuple[tuple[str, MediaItem], ...]


Part = TextPart | ImagePart | VideoPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as it stands in a message: `arguments` is JSON text, kept as it came."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message; `name` is shown in place of the role, and roles that are unknown are read as system.

    `reasoning` is an assistant's, without its markers; `tool_call_id` says which call a `tool` message answers.
    """

    role: str
    parts: tuple[Part, ...] = ()
    name: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


ToolSpec = Mapping[str, Any]
"""A tool as OpenAI's API has it: `{"type": "function", "function": {"name", "description", "parameters"}}`."""
