"""Limit on the size of a server's response, for the clients of httpx and httpx2."""

import sys
from collections.abc import AsyncIterator
from typing import Any


def bound_body(response: Any, max_bytes: int, error: Exception | None) -> None:
    """Limit the size of a response's body; for an event hook.

    Args:
        response: Response whose body was not read yet.
        max_bytes: Size as transferred; request `Accept-Encoding: identity`, as compressed data may expand to any size.
        error: Raised at the limit; None truncates the body.
    """
    library = sys.modules[type(response).__module__.partition(".")[0]]
    whole = response.stream

    class Bounded(library.AsyncByteStream):  # type: ignore[name-defined,misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = max_bytes
            async for chunk in whole:
                if len(chunk) > left:
                    if error is not None:
                        raise error
                    yield chunk[:left]
                    return
                left -= len(chunk)
                yield chunk

        async def aclose(self) -> None:
            await whole.aclose()

    response.stream = Bounded()


def is_packed(response: Any) -> bool:
    """Return True if the body is compressed."""
    return bool(response.headers.get("content-encoding", "identity") != "identity")
