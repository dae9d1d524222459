"""A conversation as input of the template: media are loaded, everything else is untrusted text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_runtime.media import MediaItem


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text; no part of it can become a control token."""

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
    """A call in a message: `arguments` is unmodified JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message; `name` replaces the role in the prompt, and unknown roles are treated as system.

    `reasoning` is an assistant's, without its markers; `tool_call_id` names the call that a `tool` message answers.
    """

    role: str
    parts: tuple[Part, ...] = ()
    name: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


ToolSpec = Mapping[str, Any]
"""A tool in OpenAI's form: `{"type": "function", "function": {"name", "description", "parameters"}}`."""
