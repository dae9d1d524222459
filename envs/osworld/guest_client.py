"""A client of OSWorld's guest server: the program on the desktop's machine that runs commands and takes screenshots.

Source: `desktop_env/server` of xlang-ai/OSWorld, whose routes, bodies and answers these are.
"""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from envs.errors import EnvDiedError, EnvError

_NUM_TRIES = 3
_CONNECT_TIMEOUT_S = 10.0
_READ_TIMEOUT_S = 20.0
_EXECUTE_TIMEOUT_S = 130.0
"""The server ends a command after 120 s itself."""
_OPEN_TIMEOUT_S = 1810.0
"""The server waits up to 1,800 s for a window."""
_TRANSFER_TIMEOUT_S = 600.0
_A11Y_TIMEOUT_S = 60.0
_MAX_JSON_BYTES = 32 * 2**20
_MAX_SCREENSHOT_BYTES = 64 * 2**20
MAX_FILE_BYTES = 2 * 2**30
_MAX_TOLD_CHARS = 300
_PNG_START, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"

Command = str | Sequence[str]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a command ended on the guest.

    Attributes:
        returncode: 0 is fine, as a rule; None where the guest does not tell.
        stdout: What it printed.
        stderr: What it complained about.
    """

    returncode: int | None
    stdout: str
    stderr: str


class GuestClient:
    """Speaks to one guest. For one event loop.

    What changes nothing is asked again when it fails, up to three times. What changes something (a command, an upload,
    a click on a window) is sent once: a server that answers with an error may have done it.

    Args:
        base_url: `http://HOST:PORT`.
        token: Sent as a bearer token, if the guest wants one; upstream's has none.
        retry_s: Seconds between tries.
    """

    def __init__(self, base_url: str, *, token: str | None = None, retry_s: float = 1.0) -> None:
        self.base_url = base_url.rstrip("/")
        self._retry_s = retry_s
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(_READ_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def screenshot(self) -> bytes:
        """The screen as a whole PNG file, with the pointer drawn in.

        Raises:
            EnvDiedError: The guest does not give one.
        """
        told = ""
        for number in range(_NUM_TRIES):
            if number:
                await asyncio.sleep(self._retry_s)
            try:
                data = await self._ask("GET", "/screenshot", max_bytes=_MAX_SCREENSHOT_BYTES, num_tries=1)
            except EnvError as error:
                told = str(error)
                continue
            if data.startswith(_PNG_START) and data.rstrip(b"\0").endswith(_PNG_END):
                return data
            told = f"its screenshot is {_describe(data)}"
        raise EnvDiedError(f"the guest {self.base_url} gives no screenshot: {told}")

    async def execute(
        self, command: Command, *, shell: bool = False, timeout_s: float = _EXECUTE_TIMEOUT_S
    ) -> Execution:
        """Run a command to its end. It is sent once.

        Raises:
            UncertainError: Whether it ran is not known.
            EnvDiedError: The guest is not there; it did not run.
        """
        given = command if isinstance(command, str) else list(command)
        return _execution(await self._change("/execute", {"command": given, "shell": shell}, timeout_s))

    async def run_script(self, script: str, *, timeout_s: float = 100.0, working_dir: str | None = None) -> Execution:
        """Run a bash script to its end. It is sent once.

        Raises:
            UncertainError: Whether it ran is not known.
        """
        body = {"script": script, "timeout": timeout_s, "working_dir": working_dir}
        return _execution(await self._change("/run_bash_script", body, timeout_s + _READ_TIMEOUT_S))

    async def launch(self, command: Command, *, shell: bool = False) -> None:
        """Start a program and do not wait for it.

        Raises:
            UncertainError: Whether it started is not known.
        """
        given = command if isinstance(command, str) else list(command)
        await self._change("/setup/launch", {"command": given, "shell": shell})

    async def open_file(self, path: str) -> None:
        """Open a file with its program, and wait for its window.

        Raises:
            UncertainError: It did not open.
        """
        await self._change("/setup/open_file", {"path": path}, _OPEN_TIMEOUT_S)

    async def activate_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        """Bring a window to the front.

        Raises:
            UncertainError: The guest answered with an error.
        """
        await self._change("/setup/activate_window", {"window_name": name, "strict": strict, "by_class": by_class})

    async def close_window(self, name: str, *, strict: bool = False, by_class: bool = False) -> None:
        """Close a window.

        Raises:
            UncertainError: The guest answered with an error.
        """
        await self._change("/setup/close_window", {"window_name": name, "strict": strict, "by_class": by_class})

    async def change_wallpaper(self, path: str) -> None:
        """Show an image of the guest behind its windows.

        Raises:
            UncertainError: The guest answered with an error.
        """
        await self._change("/setup/change_wallpaper", {"path": path})

    async def upload(self, path: str, data: bytes) -> None:
        """Write a file on the guest; folders above it are made. Sent again when it fails: it says the same twice.

        Raises:
            EnvError: The guest did not take it.
        """
        fields, files = {"file_path": path}, {"file_data": (path.rpartition("/")[2] or "file", data)}
        await self._ask("POST", "/setup/upload", data=fields, files=files, timeout_s=_TRANSFER_TIMEOUT_S)

    async def read_file(self, path: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes | None:
        """A file of the guest; None: there is none.

        Raises:
            EnvError: The guest does not give it, or it is larger than `max_bytes`.
        """
        try:
            return await self._ask(
                "POST", "/file", data={"file_path": path}, max_bytes=max_bytes, timeout_s=_TRANSFER_TIMEOUT_S
            )
        except GuestAnswerError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    async def screen_size_px(self) -> tuple[int, int]:
        """Width and height of the screen.

        Raises:
            EnvError: The guest does not tell.
        """
        found = await self._ask_json("POST", "/screen_size")
        width, height = found.get("width"), found.get("height")
        if not (isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0):
            raise GuestAnswerError(f"the guest's screen size is {found!r:.200}, expected width and height", 200)
        return width, height

    async def pointer_px(self) -> tuple[int, int] | None:
        """Where the mouse pointer is; None where the guest does not tell."""
        try:
            found = json.loads(await self._ask("GET", "/cursor_position"))
        except (EnvError, ValueError):
            return None
        is_point = isinstance(found, list) and len(found) == 2 and all(isinstance(value, int) for value in found)
        return (found[0], found[1]) if is_point else None

    async def accessibility_tree(self, *, timeout_s: float = _A11Y_TIMEOUT_S) -> str:
        """The XML of what is on the screen. Upstream's client waits for it without end.

        Raises:
            EnvError: The guest does not give it in time.
        """
        found = await self._ask_json("GET", "/accessibility", timeout_s=timeout_s, num_tries=1)
        tree = found.get("AT")
        if not isinstance(tree, str):
            raise GuestAnswerError("the guest's accessibility tree is no text", 200)
        return tree

    async def terminal_output(self) -> str | None:
        """What the active terminal shows; None: no terminal is active.

        Raises:
            EnvError: The guest does not tell.
        """
        output = (await self._ask_json("GET", "/terminal")).get("output")
        return output if isinstance(output, str) else None

    async def platform(self) -> str:
        """`Linux`, `Windows` or `Darwin`.

        Raises:
            EnvError: The guest does not tell.
        """
        return (await self._ask("GET", "/platform")).decode("utf-8", "replace").strip()

    async def wallpaper(self) -> bytes | None:
        """The image behind the windows; None: there is none.

        Raises:
            EnvError: The guest does not tell.
        """
        try:
            return await self._ask("POST", "/wallpaper", max_bytes=_MAX_SCREENSHOT_BYTES)
        except GuestAnswerError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    async def desktop_path(self) -> str:
        """The folder that the desktop shows.

        Raises:
            EnvError: The guest does not tell.
        """
        return str((await self._ask_json("POST", "/desktop_path")).get("desktop_path"))

    async def list_directory(self, path: str) -> Mapping[str, Any]:
        """A folder and everything below it: `type`, `name`, `children`.

        Raises:
            EnvError: There is no such folder.
        """
        found = (await self._ask_json("POST", "/list_directory", json_body={"path": path})).get("directory_tree")
        return found if isinstance(found, dict) else {}

    async def window_size_px(self, app_class_name: str) -> tuple[int, int] | None:
        """Width and height of a program's window; None: there is none.

        Raises:
            EnvDiedError: The guest is gone.
        """
        try:
            found = await self._ask_json("POST", "/window_size", data={"app_class_name": app_class_name})
        except GuestAnswerError:
            return None
        width, height = found.get("width"), found.get("height")
        return (width, height) if isinstance(width, int) and isinstance(height, int) else None

    async def start_recording(self) -> None:
        """Begin to record the screen.

        Raises:
            UncertainError: The guest answered with an error.
        """
        await self._change("/start_recording", {})

    async def end_recording(self) -> bytes:
        """End the recording; an mp4 file.

        Raises:
            EnvError: None was going on.
        """
        return await self._ask(
            "POST", "/end_recording", max_bytes=MAX_FILE_BYTES, timeout_s=_TRANSFER_TIMEOUT_S, num_tries=1
        )

    async def _change(self, path: str, body: Mapping[str, Any], timeout_s: float = _READ_TIMEOUT_S) -> bytes:
        """Send what changes something, once; only what did certainly not arrive is sent again."""
        for number in range(_NUM_TRIES):
            try:
                async with self._sent("POST", path, timeout_s, json=dict(body)) as response:
                    data = await _read(response, _MAX_JSON_BYTES)
                    break
            except httpx.ConnectError as error:
                if number == _NUM_TRIES - 1:
                    raise self._gone(error) from error
                await asyncio.sleep(self._retry_s)
            except httpx.HTTPError as error:
                raise UncertainError(
                    f"the guest did not answer to {path} ({_name(error)}); whether it was done is not known"
                ) from error
        if response.is_error:
            raise UncertainError(f"the guest answered {path} with {response.status_code}: {_message(data)}")
        return data

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        max_bytes: int = _MAX_JSON_BYTES,
        timeout_s: float = _READ_TIMEOUT_S,
        num_tries: int = _NUM_TRIES,
        json_body: Mapping[str, Any] | None = None,
        **sent: Any,
    ) -> bytes:
        """Ask for what changes nothing, again if need be; returns the body.

        Raises:
            EnvDiedError: The guest is gone.
            GuestAnswerError: It answers with an error.
        """
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
            await asyncio.sleep(self._retry_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _ask_json(self, method: str, path: str, **asked: Any) -> Mapping[str, Any]:
        data = await self._ask(method, path, **asked)
        found = _parse(data)
        if not isinstance(found, dict):
            raise GuestAnswerError(f"the guest answered {path} with {_describe(data)}, expected a JSON object", 200)
        return found

    @asynccontextmanager
    async def _sent(self, method: str, path: str, timeout_s: float, **sent: Any) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_TIMEOUT_S)
        try:
            async with (
                asyncio.timeout(timeout_s + _CONNECT_TIMEOUT_S),
                self._http.stream(method, path, timeout=timeout, **sent) as response,
            ):
                yield response
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no whole answer in {timeout_s:g} s") from error

    def _gone(self, error: httpx.HTTPError) -> EnvDiedError:
        return EnvDiedError(f"the guest {self.base_url} does not answer: {_name(error)}")


def png_size_px(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG file."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
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


def _execution(data: bytes) -> Execution:
    found = _parse(data)
    if not isinstance(found, dict):
        raise UncertainError(f"the guest answered with {_describe(data)}; whether the command ran is not known")
    code = found.get("returncode")
    return Execution(
        returncode=code if isinstance(code, int) else None,
        stdout=str(found.get("output") or ""),
        stderr=str(found.get("error") or ""),
    )


def _parse(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _message(data: bytes) -> str:
    """What an error of the guest says."""
    found = _parse(data)
    told = found.get("message") or found.get("error") if isinstance(found, dict) else None
    return str(told)[:_MAX_TOLD_CHARS] if told else _describe(data)


def _describe(data: bytes) -> str:
    if not data:
        return "empty"
    if data.startswith(_PNG_START):
        return f"a PNG cut off after {len(data)} bytes"
    text = " ".join(data[:_MAX_TOLD_CHARS].decode("utf-8", "replace").split())
    return f"{len(data)} bytes, {text[:80]!r}"


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
