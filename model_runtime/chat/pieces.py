"""A rendered conversation: control markers, untrusted text and media, kept apart until they are ids."""

from dataclasses import dataclass

from model_runtime.media import MediaItem


@dataclass(frozen=True, slots=True)
class Marker:
    """A control token by its text, for example `Marker("<|im_end|>")`. Only the template makes them."""

    text: str


Piece = str | Marker | MediaItem
"""Untrusted text, a control token, or media, which takes `num_tokens` placeholder tokens."""
