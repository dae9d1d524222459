"""Images and video chunks as model input, and prompts: token ids with media."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model_runtime.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaItem:
    """One image, or one chunk of up to four video frames: resized and padded, not yet normalized.

    Attributes:
        frames: (t, height, width, 3) uint8 RGB. Height and width are multiples of 28 px; an image has t = 1.
        content_hash: Hash of shape and pixels, used as a cache key: equal hashes mean equal embeddings.
    """

    frames: NDArray[np.uint8] = field(repr=False, compare=False)
    content_hash: bytes

    @property
    def grid(self) -> tuple[int, int, int]:
        """(t, h, w) in patches of 14 x 14 px."""
        t, height, width, _ = self.frames.shape
        return t, height // 14, width // 14

    @property
    def num_patches(self) -> int:
        """Number of rows in the vision tower."""
        t, h, w = self.grid
        return t * h * w

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the prompt: one for each 2 x 2 patches, for any t."""
        _, h, w = self.grid
        return (h // 2) * (w // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSpan:
    """Position of a media item in a prompt: `item.num_tokens` placeholder tokens from `offset` on."""

    offset: int
    item: MediaItem

    @property
    def end(self) -> int:
        """Index after its last placeholder token."""
        return self.offset + self.item.num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Token ids with repeated media placeholders, and the media, in order."""

    token_ids: tuple[int, ...] = field(repr=False)
    media: tuple[MediaSpan, ...] = ()

    def __add__(self, other: "Prompt") -> "Prompt":
        moved = (MediaSpan(offset=len(self.token_ids) + span.offset, item=span.item) for span in other.media)
        return Prompt(token_ids=self.token_ids + other.token_ids, media=(*self.media, *moved))


def place_media(
    token_ids: tuple[int, ...], media: Iterable[tuple[int | None, MediaItem]], placeholder_id: int, param: str
) -> Prompt:
    """Assign media to the placeholders of given token ids, in order.

    Args:
        token_ids: Ids in which each media item has as many placeholders as tokens.
        media: Index of the first placeholder, or None for the next one, and the item.
        placeholder_id: Id of the placeholder token.
        param: Field of the request that holds the ids, for errors.

    Raises:
        RequestError: If placeholders and media differ in number, size or position.
    """
    places = [index for index, token_id in enumerate(token_ids) if token_id == placeholder_id]
    spans: list[MediaSpan] = []
    num_taken = 0
    for number, (offset, item) in enumerate(media):
        taken = places[num_taken : num_taken + item.num_tokens]
        if not taken or offset not in (None, taken[0]):
            found = f"the next placeholder is token {taken[0]}" if taken else "there are no more placeholders"
            place = "" if offset is None else f" for token {offset}"
            raise InvalidRequestError(f"media item {number} is sent{place}: {found} in {param}", param="media")
        length = next((n for n, place in enumerate(taken) if place != taken[0] + n), len(taken))
        if length < item.num_tokens:
            text = f"media item {number} takes {item.num_tokens} placeholders: {param} has {length} at token {taken[0]}"
            raise InvalidRequestError(text, param="media")
        spans.append(MediaSpan(offset=taken[0], item=item))
        num_taken += item.num_tokens
    if num_taken < len(places):
        text = f"{param} has a media placeholder at token {places[num_taken]}, and no media for it"
        raise InvalidRequestError(f"{text}; send `media` in the order of the placeholders", param=param)
    return Prompt(token_ids=token_ids, media=tuple(spans))
