"""Data URLs: `data:image/png;base64,iVBORw0...`.

Source: RFC 2397. Blanks are dropped everywhere in the data: the model card's own example has one after the comma.
"""

import base64
import binascii
import re

from model_runtime.errors import MediaError

_HEAD = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*(?P<base64>;base64)?$", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")
_ANY_TYPE = "application/octet-stream"
_MAX_HEAD_CHARS = 200


def is_data_url(url: str) -> bool:
    """Whether the URL carries its data."""
    return url[:5].lower() == "data:"


def read_data_url(url: str, kind: str, *, max_bytes: int) -> bytes:
    """The bytes of a data URL.

    Args:
        url: The URL.
        kind: `image` or `video`: what its media type must begin with, where it has one.
        max_bytes: More are refused before they are decoded.

    Raises:
        MediaError: It is malformed, of another kind, or too large.
    """
    comma = url.find(",", 0, _MAX_HEAD_CHARS)
    head = _HEAD.match(url[:comma].strip()) if comma >= 0 else None
    if head is None or not head["base64"]:
        shown = url[:40].split(",")[0]
        raise MediaError(f"found {shown!r}; expected data:{kind}/...;base64,...", code="invalid_data_url")
    found = (head["type"] or _ANY_TYPE).lower()
    if found != _ANY_TYPE and not found.startswith(f"{kind}/"):
        raise MediaError(f"the data URL is of type {found}; expected {kind}/...", code="invalid_media_type")
    if (len(url) - comma) * 3 // 4 > max_bytes + _MAX_HEAD_CHARS + len(url) // 50:  # room for line ends
        raise too_large(kind, max_bytes)
    data = _decode(url[comma + 1 :], kind)
    if len(data) > max_bytes:
        raise too_large(kind, max_bytes)
    return data


def too_large(kind: str, max_bytes: int) -> MediaError:
    """More bytes than one item may have."""
    return MediaError(f"the {kind} is larger than {max_bytes} bytes; send a smaller one", code="media_too_large")


def _decode(text: str, kind: str) -> bytes:
    if _BLANKS.search(text):
        text = _BLANKS.sub("", text)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MediaError(f"the {kind} is not valid base64: {error}", code="invalid_base64") from None
    if not data:
        raise MediaError(f"the {kind} is empty", code="invalid_media")
    return data
