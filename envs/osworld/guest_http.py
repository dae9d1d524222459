"""Requests to OSWorld's guest server: what is sent once and what again, bounded in time and size."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from envs.errors import EnvDiedError, EnvError

if TYPE_CHECKING:
    import httpx

_NUM_TRIES = 3
_CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 20.0
MAX_JSON_BYTES = 32 * 2**20
_MAX_TOLD_CHARS = 300
PNG_START, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


class GuestAnswerError(EnvError):
    """The guest answered, but not with what was asked for.

    Attributes:
        status: Its HTTP status.
    """

    def __init__(self, message: str, status: int, *, retryable: bool = True) -> None:
        super().__init__(message, retryable=retryable)
        self.status = status


class UncertainError(EnvError):
    """Something was sent that may have been carried out or not; it must not be sent again."""


class GuestHttp:
    """Sends requests to one guest. For one event loop.

    Args:
        base_url: `http://HOST:PORT`.
        token: Sent as a bearer token.
        retry_s: Seconds between tries.
    """

    def __init__(self, base_url: str, token: str | None, retry_s: float) -> None:
        import httpx

        self.base_url = base_url.rstrip("/")
        self.retry_s = retry_s
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def change(self, path: str, body: Mapping[str, Any], timeout_s: float = READ_TIMEOUT_S) -> bytes:
        """Send what changes something, once; only what did certainly not arrive is sent again."""
        import httpx

        for number in range(_NUM_TRIES):
            try:
                async with self._sent("POST", path, timeout_s, json=dict(body)) as response:
                    data = await _read(response, MAX_JSON_BYTES)
                    break
            except httpx.ConnectError as error:
                if number == _NUM_TRIES - 1:
                    raise self._gone(error) from error
                await asyncio.sleep(self.retry_s)
            except httpx.HTTPError as error:
                raise UncertainError(
                    f"the guest did not answer to {path} ({_name(error)}); whether it was done is not known"
                ) from error
        if response.is_error:
            raise UncertainError(f"the guest answered {path} with {response.status_code}: {_message(data)}")
        return data

    async def ask(
        self,
        method: str,
        path: str,
        *,
        max_bytes: int = MAX_JSON_BYTES,
        timeout_s: float = READ_TIMEOUT_S,
        num_tries: int = _NUM_TRIES,
        json_body: Mapping[str, Any] | None = None,
        **sent: Any,
    ) -> bytes:
        """Ask for what changes nothing, again if need be; returns the body.

        Raises:
            EnvDiedError: The guest is gone.
            GuestAnswerError: It answers with an error.
        """
        import httpx

        for number in range(num_tries):
            is_last = number == num_tries - 1
            try:
                async with self._sent(method, path, timeout_s, json=json_body, **sent) as response:
                    data = await _read(response, max_bytes)
            except httpx.HTTPError as error:
                if is_last:
                    raise self._gone(error) from error
            else:
                if not response.is_error:
                    return data
                if is_last or response.is_client_error:
                    told = f"the guest answered {path} with {response.status_code}: {_message(data)}"
                    raise GuestAnswerError(told, response.status_code)
            await asyncio.sleep(self.retry_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def ask_json(self, method: str, path: str, **asked: Any) -> Mapping[str, Any]:
        """As `ask`, for an answer that is a JSON object."""
        data = await self.ask(method, path, **asked)
        found = parse_json(data)
        if not isinstance(found, dict):
            raise GuestAnswerError(f"the guest answered {path} with {describe(data)}, expected a JSON object", 200)
        return found

    @asynccontextmanager
    async def _sent(self, method: str, path: str, timeout_s: float, **sent: Any) -> "AsyncIterator[httpx.Response]":
        import httpx

        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_TIMEOUT_S)
        try:
            async with (
                asyncio.timeout(timeout_s + _CONNECT_TIMEOUT_S),
                self._http.stream(method, path, timeout=timeout, **sent) as response,
            ):
                yield response
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no whole answer in {timeout_s:g} s") from error

    def _gone(self, error: "httpx.HTTPError") -> EnvDiedError:
        return EnvDiedError(f"the guest {self.base_url} does not answer: {_name(error)}")


async def _read(response: "httpx.Response", max_bytes: int) -> bytes:
    """The body, when it is not too large.

    Raises:
        GuestAnswerError: It is.
    """
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > max_bytes:
            raise GuestAnswerError(
                f"the guest's answer has more than {max_bytes} bytes", response.status_code, retryable=False
            )
        chunks.append(chunk)
    return b"".join(chunks)


def parse_json(data: bytes) -> object:
    """What an answer says; None where it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _message(data: bytes) -> str:
    """What an error of the guest says."""
    found = parse_json(data)
    told = found.get("message") or found.get("error") if isinstance(found, dict) else None
    return str(told)[:_MAX_TOLD_CHARS] if told else describe(data)


def describe(data: bytes) -> str:
    """An answer that is not what was asked for, in a few words."""
    if not data:
        return "empty"
    if data.startswith(PNG_START):
        return f"a PNG cut off after {len(data)} bytes"
    text = " ".join(data[:_MAX_TOLD_CHARS].decode("utf-8", "replace").split())
    return f"{len(data)} bytes, {text[:80]!r}"


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
