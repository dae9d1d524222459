"""Client of OSWorld's guest server, the program on the guest that runs commands and takes screenshots.

It decides which requests are retried; all requests are limited in time and size.

Source: `desktop_env/server` of xlang-ai/OSWorld, for routes, bodies and responses.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envs.errors import EnvDiedError, EnvError
from envs.suites.osworld.guest_answers import Fault, find_fault, is_absent

if TYPE_CHECKING:
    import httpx

_NUM_TRIES = 3  # of requests that change nothing, or certainly did not arrive
_CONNECT_TIMEOUT_S = 10.0  # a guest that starts refuses connections at once; this is for one that hangs
READ_TIMEOUT_S = 20.0  # above the time of any command but those with their own limit
MAX_JSON_BYTES = 32 * 2**20  # bounds memory; a tree of a full desktop has some MB
_UNCERTAIN = "whether it was done is not known"
_EXECUTE_TIMEOUT_S = 130.0
"""Timeout of a command; the server kills it after 120 s."""
_OPEN_TIMEOUT_S = 1810.0
"""Timeout for opening a file; the server waits up to 1,800 s for a window."""
_TRANSFER_TIMEOUT_S = 600.0  # files up to the limit below, over a slow network
_A11Y_TIMEOUT_S = 60.0
_MAX_SCREENSHOT_BYTES = 64 * 2**20  # an uncompressed 4K screen fits
MAX_FILE_BYTES = 2 * 2**30

Command = str | Sequence[str]


class GuestAnswerError(EnvError):
    """Raised when the guest, or another server at its address, gave an invalid response.

    Attributes:
        is_absent: True if the guest reports that a file, folder or window does not exist.
    """

    def __init__(self, message: str, *, is_absent: bool = False, retryable: bool = True) -> None:
        super().__init__(message, retryable=retryable)
        self.is_absent = is_absent


class UncertainError(EnvError):
    """Raised when it is unknown whether a request was executed; it must not be retried."""


class GuestHttp:
    """HTTP connection to one guest. For one event loop.

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
        """Send a request that changes something, once; it is retried only if it certainly did not arrive.

        Returns:
            Body of a valid response.

        Raises:
            EnvDiedError: If the guest is gone; nothing was changed.
            GuestAnswerError: If another server answers in place of the guest; nothing was changed.
            UncertainError: If it is unknown whether the change was made.
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
            raise UncertainError(f"{_describe_fault(path, fault)}; {_UNCERTAIN}")
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
        """Send a read-only request, with retries; return the body of a valid response.

        Raises:
            EnvDiedError: If the guest is gone.
            GuestAnswerError: If the response is invalid.
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
        self, method: str, path: str, max_bytes: int, timeout_s: float, **sent: object
    ) -> tuple[int, Fault | None, bytes]:
        """Send once; return status, fault and body of the response."""
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
        GuestAnswerError: If the body is too large.
    """
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > max_bytes:
            raise GuestAnswerError(f"the guest's answer has more than {max_bytes} bytes", retryable=False)
        chunks.append(chunk)
    return b"".join(chunks)


def _answer_error(path: str, status: int, fault: Fault, data: bytes) -> GuestAnswerError:
    return GuestAnswerError(
        _describe_fault(path, fault), is_absent=is_absent(path, status, data), retryable=not fault.is_foreign
    )


def _describe_fault(path: str, fault: Fault) -> str:
    return f"the guest answered {path} with {fault.text}"


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Result of a command on the guest.

    Attributes:
        returncode: Exit status, usually 0 for success.
        stdout: Its standard output.
        stderr: Its standard error.
    """

    returncode: int
    stdout: str
    stderr: str


class GuestClient:
    """Client of one guest. For one event loop.

    Read-only requests are retried up to three times. Requests that change something (a command, an upload, a click on a
    window) are sent once: a server that answers with an error may have executed them, which is an `UncertainError`.

    Args:
        base_url: `http://HOST:PORT`.
        token: Bearer token, if the guest requires one; upstream's server has none.
        retry_s: Seconds between attempts.
    """

    def __init__(self, base_url: str, *, token: str | None = None, retry_s: float = 1.0) -> None:
        self.base_url = base_url.rstrip("/")
        self._http = GuestHttp(base_url, token, retry_s)

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    async def screenshot(self) -> bytes:
        """Return the screen as a complete PNG file, with the pointer.

        Raises:
            EnvDiedError: If the guest does not return one.
        """
        try:
            return await self._http.ask("GET", "/screenshot", max_bytes=_MAX_SCREENSHOT_BYTES)
        except GuestAnswerError as error:
            raise EnvDiedError(f"the guest gives no screenshot: {error}", retryable=error.retryable) from error

    async def execute(
        self, command: Command, *, shell: bool = False, timeout_s: float = _EXECUTE_TIMEOUT_S
    ) -> Execution:
        """Run a command and wait for its end. It is sent once.

        Raises:
            UncertainError: If it is unknown whether the command ran.
            EnvDiedError: If the guest cannot be reached; the command did not run.
        """
        given = command if isinstance(command, str) else list(command)
        return _execution(await self._http.change("/execute", {"command": given, "shell": shell}, timeout_s))

    async def run_script(self, script: str, *, timeout_s: float = 100.0, working_dir: str | None = None) -> Execution:
        """Run a bash script and wait for its end. It is sent once.

        Raises:
            UncertainError: If it is unknown whether the command ran.
        """
        body = {"script": script, "timeout": timeout_s, "working_dir": working_dir}
        return _execution(await self._http.change("/run_bash_script", body, timeout_s + READ_TIMEOUT_S))

    async def launch(self, command: Command, *, shell: bool = False) -> None:
        """Start a program without waiting for it.

        Raises:
            UncertainError: If it is unknown whether the program started.
        """
        given = command if isinstance(command, str) else list(command)
        await self._http.change("/setup/launch", {"command": given, "shell": shell})

    async def open_file(self, path: str) -> None:
        """Open a file with its program, and wait for its window.

        Raises:
            UncertainError: If the file did not open.
        """
        await self._http.change("/setup/open_file", {"path": path}, _OPEN_TIMEOUT_S)

    async def activate_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        """Bring a window to the front."""
        await self._http.change("/setup/activate_window", {"window_name": name, "strict": strict, "by_class": by_class})

    async def close_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        """Close a window."""
        await self._http.change("/setup/close_window", {"window_name": name, "strict": strict, "by_class": by_class})

    async def change_wallpaper(self, path: str) -> None:
        """Use an image on the guest as wallpaper."""
        await self._http.change("/setup/change_wallpaper", {"path": path})

    async def upload(self, path: str, data: bytes) -> None:
        """Write a file on the guest; parent folders are made. Retried on failure, since it is idempotent.

        Raises:
            EnvError: If the guest did not accept the file.
        """
        fields, files = {"file_path": path}, {"file_data": (path.rpartition("/")[2] or "file", data)}
        await self._http.ask("POST", "/setup/upload", data=fields, files=files, timeout_s=_TRANSFER_TIMEOUT_S)

    async def read_file(self, path: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes | None:
        """Read a file of the guest; return None if it does not exist.

        Raises:
            EnvError: If the guest does not return the file, or it is larger than `max_bytes`.
        """
        try:
            return await self._http.ask(
                "POST", "/file", data={"file_path": path}, max_bytes=max_bytes, timeout_s=_TRANSFER_TIMEOUT_S
            )
        except GuestAnswerError as error:
            if error.is_absent:
                return None
            raise

    async def screen_size_px(self) -> tuple[int, int]:
        """Return width and height of the screen.

        Raises:
            EnvError: If the guest does not return it.
        """
        size = await self._ask_json("POST", "/screen_size")
        return size["width"], size["height"]

    async def pointer_px(self) -> tuple[int, int] | None:
        """Return the position of the mouse pointer; None if the guest does not provide it."""
        try:
            x_px, y_px = await self._ask_json("GET", "/cursor_position")
        except GuestAnswerError:
            return None
        return x_px, y_px

    async def accessibility_tree(self, *, timeout_s: float = _A11Y_TIMEOUT_S) -> str:
        """Return the accessibility tree as XML. Unlike upstream's client, it has a timeout.

        Raises:
            EnvError: If the guest does not return it in time.
        """
        answer = await self._ask_json("GET", "/accessibility", timeout_s=timeout_s, num_tries=1)
        return str(answer["AT"])

    async def terminal_output(self) -> str | None:
        """Return the text of the active terminal; None if no terminal is active.

        Raises:
            EnvError: If the guest does not return it.
        """
        output: str | None = (await self._ask_json("GET", "/terminal"))["output"]
        return output

    async def platform(self) -> str:
        """Return `Linux`, `Windows` or `Darwin`.

        Raises:
            EnvError: If the guest does not return it.
        """
        return (await self._http.ask("GET", "/platform")).decode("utf-8", "replace").strip()

    async def wallpaper(self) -> bytes | None:
        """Return the wallpaper image; None if none is set.

        Raises:
            EnvError: If the guest does not return it.
        """
        try:
            return await self._http.ask("POST", "/wallpaper", max_bytes=_MAX_SCREENSHOT_BYTES)
        except GuestAnswerError as error:
            if error.is_absent:
                return None
            raise

    async def desktop_path(self) -> str:
        """Return the path of the desktop folder.

        Raises:
            EnvError: If the guest does not return it.
        """
        return str((await self._ask_json("POST", "/desktop_path"))["desktop_path"])

    async def list_directory(self, path: str) -> Mapping[str, object]:
        """Return a folder and everything below it: `type`, `name`, `children`.

        Raises:
            EnvError: If the folder does not exist.
        """
        answer = await self._ask_json("POST", "/list_directory", json_body={"path": path})
        tree: Mapping[str, object] = answer["directory_tree"]
        return tree

    async def window_size_px(self, app_class_name: str) -> tuple[int, int] | None:
        """Return width and height of a program's window; None if it does not exist.

        Raises:
            EnvError: If the guest does not return it.
        """
        try:
            size = await self._ask_json("POST", "/window_size", data={"app_class_name": app_class_name})
        except GuestAnswerError as error:
            if error.is_absent:
                return None
            raise
        return size["width"], size["height"]

    async def start_recording(self) -> None:
        """Start recording the screen."""
        await self._http.change("/start_recording", {})

    async def end_recording(self) -> bytes:
        """End the recording; return an mp4 file.

        Raises:
            EnvError: If no recording was running.
        """
        return await self._http.ask(
            "POST", "/end_recording", max_bytes=MAX_FILE_BYTES, timeout_s=_TRANSFER_TIMEOUT_S, num_tries=1
        )

    async def _ask_json(self, method: str, path: str, **asked: Any) -> Any:
        return json.loads(await self._http.ask(method, path, **asked))


def _execution(data: bytes) -> Execution:
    result = json.loads(data)
    return Execution(returncode=result["returncode"], stdout=result["output"], stderr=result["error"])
