"""Requests to OSWorld's guest server: what is sent once and what again, bounded in time and size."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from envs.errors import EnvDiedError, EnvError
from envs.suites.osworld.guest_answers import Fault, find_fault, is_absent

if TYPE_CHECKING:
    import httpx

_NUM_TRIES = 3
_CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 20.0
MAX_JSON_BYTES = 32 * 2**20
_UNCERTAIN = "whether it was done is not known"


class GuestAnswerError(EnvError):
    """The guest, or something in its place, answered, but not with what was asked for.

    Attributes:
        is_absent: True if the guest says that there is no such file, folder or window.
    """

    def __init__(self, message: str, *, is_absent: bool = False, retryable: bool = True) -> None:
        super().__init__(message, retryable=retryable)
        self.is_absent = is_absent


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

    async def change(self, path: str, body: Mapping[str, object], timeout_s: float = READ_TIMEOUT_S) -> bytes:
        """Send what changes something, once; only what did certainly not arrive is sent again.

        Returns:
            The body of an answer that its route gives.

        Raises:
            EnvDiedError: The guest is gone; nothing was done.
            GuestAnswerError: Something else answers in place of the guest; nothing was done.
            UncertainError: Whether it was done is not known.
        """
        import httpx

        for number in range(_NUM_TRIES):
            try:
                status, fault, data = await self._exchange("POST", path, MAX_JSON_BYTES, timeout_s, json=dict(body))
                break
            except httpx.ConnectError as error:
                if number == _NUM_TRIES - 1:
                    raise self._gone(error) from error
                await asyncio.sleep(self.retry_s)
            except httpx.HTTPError as error:
                raise UncertainError(f"the guest did not answer to {path} ({_name(error)}); {_UNCERTAIN}") from error
            except GuestAnswerError as error:
                raise UncertainError(f"{error}; {_UNCERTAIN}") from error
        if fault is not None and fault.is_foreign:
            raise _answer_error(path, status, fault, data)
        if fault is not None:
            raise UncertainError(f"{_told(path, fault)}; {_UNCERTAIN}")
        return data

    async def ask(
        self,
        method: str,
        path: str,
        *,
        max_bytes: int = MAX_JSON_BYTES,
        timeout_s: float = READ_TIMEOUT_S,
        num_tries: int = _NUM_TRIES,
        json_body: Mapping[str, object] | None = None,
        **sent: Any,
    ) -> bytes:
        """Ask for what changes nothing, again if need be; returns the body of an answer that its route gives.

        Raises:
            EnvDiedError: The guest is gone.
            GuestAnswerError: It answers with something else.
        """
        import httpx

        for number in range(num_tries):
            is_last = number == num_tries - 1
            try:
                status, fault, data = await self._exchange(method, path, max_bytes, timeout_s, json=json_body, **sent)
            except httpx.HTTPError as error:
                if is_last:
                    raise self._gone(error) from error
            else:
                if fault is None:
                    return data
                if is_last or fault.is_foreign or 400 <= status < 500:
                    raise _answer_error(path, status, fault, data)
            await asyncio.sleep(self.retry_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _exchange(
        self, method: str, path: str, max_bytes: int, timeout_s: float, **sent: Any
    ) -> tuple[int, Fault | None, bytes]:
        """Send once; returns status, fault and body of the answer."""
        async with self._sent(method, path, timeout_s, **sent) as response:
            data = await _read(response, max_bytes)
            return response.status_code, find_fault(path, response.status_code, response.headers, data), data

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
    """Read the body.

    Raises:
        GuestAnswerError: It is too large.
    """
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > max_bytes:
            raise GuestAnswerError(f"the guest's answer has more than {max_bytes} bytes", retryable=False)
        chunks.append(chunk)
    return b"".join(chunks)


def _answer_error(path: str, status: int, fault: Fault, data: bytes) -> GuestAnswerError:
    return GuestAnswerError(_told(path, fault), is_absent=is_absent(path, status, data), retryable=not fault.is_foreign)


def _told(path: str, fault: Fault) -> str:
    return f"the guest answered {path} with {fault.text}"


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
