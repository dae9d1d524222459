"""A bound on what a server may send in one response, for the clients of httpx and httpx2."""

import sys
from collections.abc import AsyncIterator
from typing import Any


def bound_body(response: Any, max_bytes: int, error: Exception | None) -> None:
    """Let a response be read up to a size only; for an event hook.

    Args:
        response: One whose body was not read yet.
        max_bytes: Bytes as they are sent; ask for `Accept-Encoding: identity`, or they may unpack to any size.
        error: Raised beyond the size; None ends the body there.
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
    """True if the body is compressed."""
    return bool(response.headers.get("content-encoding", "identity") != "identity")
