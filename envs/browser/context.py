"""Fresh browser contexts from options, with folders for downloads and uploads, and HTTP logins."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envs.browser.camera import read_script
from envs.browser.filter_proxy import FilterProxy
from envs.browser.options import BrowserOptions
from envs.browser.redact import STARS, Redactor
from envs.errors import EnvSetupError
from envs.json_fields import Json
from envs.secret_texts import HttpLogin

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Download

_MAX_KEPT = 1000
_MAX_NAME_BYTES = 200
"""Limit of a file name. Common file systems allow 255 bytes, encrypted ones fewer; a number may be added."""
_RESERVED = re.compile(r'[\x00-\x1f\x7f<>:"/|?*\u202a-\u202e\u2066-\u2069]|[\ud800-\udfff]')
_DEVICES = frozenset({"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10))})
_EXTENSION = re.compile(r"(?<=.)(\.tar)?\.[^.\s]{1,20}$", re.IGNORECASE)
_OPEN_TIMEOUT_S = 30.0  # a cold browser on a busy machine; longer, and it does not answer at all
_CLOSE_TIMEOUT_S = 5.0  # a page that hangs must not hold up the end; the process is killed afterwards
_DATABASES_TIMEOUT_S = 3.0  # saving IndexedDB waits for the page; the rest of the state is saved without it


async def new_context(
    browser: "Browser", options: BrowserOptions, episode: int, filter_proxy: FilterProxy | None = None
) -> "BrowserContext":
    """Open a context with our scripts and a blank page for the `episode`-th episode, counted from 1.

    Args:
        browser: Browser of the context.
        options: Settings of the context.
        episode: Number of the episode.
        filter_proxy: Proxy of this context alone; None: the proxy of the whole browser.

    Raises:
        EnvSetupError: If a setting is invalid (no such time zone, unreadable storage state, ...), or the browser does
            not answer.
    """
    from playwright.async_api import Error

    own_way: Json = {"proxy": filter_proxy.proxy} if filter_proxy is not None else {}
    try:
        async with asyncio.timeout(_OPEN_TIMEOUT_S):
            context = await browser.new_context(**context_settings(options, episode), **own_way)
            await _prepare(context)
    except TimeoutError as error:
        raise EnvSetupError(f"the browser opens no page within {_OPEN_TIMEOUT_S:g} s", retryable=True) from error
    except Error as error:
        if not browser.is_connected():
            raise EnvSetupError("the browser process is gone", retryable=True) from error
        lines = error.message.splitlines()
        raise EnvSetupError(f"the browser does not take these options: {lines[0]}") from error
    context.set_default_timeout(options.navigation_timeout_s * 1000)
    return context


async def _prepare(context: "BrowserContext") -> None:
    """Add our scripts and a first page; close the context if that fails, since others may share the browser."""
    try:
        await context.add_init_script("\n".join(map(read_script, ("page.js", "select.js", "pickers.js"))))
        await context.new_page()  # some settings are only validated here
    except BaseException:
        closing = asyncio.ensure_future(context.close())
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be gone already
        await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT_S)
        raise


def context_settings(options: BrowserOptions, episode: int = 1) -> Json:
    """Return the context settings for Playwright.

    Raises:
        EnvSetupError: If the storage state cannot be read.
    """
    width, height = options.viewport_px
    settings: Json = {
        "viewport": {"width": width, "height": height},
        "screen": {"width": width, "height": height},
        "device_scale_factor": options.device_scale,
        "accept_downloads": True,
        "ignore_https_errors": options.ignore_https_errors,
        "locale": options.locale,
        "timezone_id": options.timezone,
        "user_agent": options.user_agent,
        "service_workers": "block" if options.allowed_domains or options.denied_domains else "allow",
        "permissions": [],
    }
    if options.geolocation is not None:
        latitude, longitude = options.geolocation
        settings["geolocation"] = {"latitude": latitude, "longitude": longitude}
        settings["permissions"] = ["geolocation"]
    if options.storage_state is not None:
        settings["storage_state"] = read_storage_state(Path(options.storage_state))
    if options.har_path is not None:
        settings["record_har_path"] = har_path_of(Path(options.har_path), episode)
    return {name: value for name, value in settings.items() if value is not None}


def read_storage_state(path: Path) -> Json:
    """Read cookies, local storage and IndexedDB that `save_storage_state` or Playwright wrote.

    Raises:
        EnvSetupError: If the file cannot be read, or has other content.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EnvSetupError(f"the storage state {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise EnvSetupError(f"the storage state {path} is not JSON: {error}") from error
    if not isinstance(state, dict) or not {"cookies", "origins"} & state.keys():
        raise EnvSetupError(
            f"the storage state {path} is not a storage state: expected an object with cookies and origins"
        )
    return state


async def save_storage_state(context: "BrowserContext", path: Path) -> None:
    """Write cookies, local storage and IndexedDB to a file that only its owner can read.

    If the databases cannot be read within 3 s or not be written as JSON, all of them are omitted to keep the cookies.

    Raises:
        playwright.async_api.Error: If the browser is gone.
        OSError: If the file cannot be written.
    """
    from playwright.async_api import Error

    try:
        state = await asyncio.wait_for(context.storage_state(indexed_db=True), _DATABASES_TIMEOUT_S)
    except (Error, TimeoutError):
        state = await context.storage_state()
    await asyncio.to_thread(_write_private, path, json.dumps(state, indent=2))


def _write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def har_path_of(path: Path, episode: int) -> Path:
    """Return the HAR file of the `episode`-th episode."""
    return path if episode == 1 else path.with_name(f"{path.stem}-{episode}{path.suffix}")


class Folders:
    """Folders of the options, or temporary ones.

    Attributes:
        downloads: Folder of the downloads.
        uploads: Folder of the files to upload; None if there is none.
    """

    def __init__(self, options: BrowserOptions) -> None:
        self._temporary: Path | None = None
        self._redact = Redactor(options.masked_texts)
        self.uploads = Path(options.uploads_dir) if options.uploads_dir is not None else None
        if self.uploads is not None and not self.uploads.is_dir():
            raise EnvSetupError(f"uploads_dir {self.uploads} is not a folder")
        if options.downloads_dir is not None:
            self.downloads = Path(options.downloads_dir)
            self.downloads.mkdir(parents=True, exist_ok=True)
        else:
            self.downloads = self._temporary = Path(tempfile.mkdtemp(prefix="k25-downloads-"))

    async def save(self, download: "Download") -> tuple[Path | None, str]:
        """Save a download under a free name.

        Returns:
            The file, None if the download failed; and a line about it for the agent.
        """
        from playwright.async_api import Error

        name = safe_name(self._redact(download.suggested_filename).replace(STARS, "secret"))
        path = None
        try:
            path = self._take_free_path(name)
            await download.save_as(path)
            size_bytes = path.stat().st_size
        except (Error, OSError) as error:
            if path is not None:
                path.unlink(missing_ok=True)
            why = error.message.splitlines()[0] if isinstance(error, Error) else error.strerror
            return None, f"the download of {name!r} failed: {why}"
        how = "type this path into the address bar to see it"
        return path, f"{path.name!r} was downloaded ({size_bytes} bytes) to {path}; {how}"

    def remove_temporary(self) -> None:
        """Remove the temporary folder, if there is one."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _take_free_path(self, name: str) -> Path:
        """Create an empty file, so that a concurrent download gets another name.

        Raises:
            OSError: If it cannot be created.
        """
        stem, suffix = split_name(name)
        for number in itertools.count():
            path = self.downloads / (f"{stem} ({number}){suffix}" if number else name)
            with contextlib.suppress(FileExistsError):
                path.touch(exist_ok=False)
                return path
        raise AssertionError("unreachable")


def safe_name(text: str) -> str:
    """Return a file name of at most 200 bytes with its extension, without characters and names that are reserved."""
    name = _RESERVED.sub("_", text.replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem, suffix = split_name(name)
    if stem.upper() in _DEVICES:
        stem = f"_{stem}"
    stem_bytes = stem.encode("utf-8", "replace")[: _MAX_NAME_BYTES - len(suffix.encode())]
    return (stem_bytes.decode("utf-8", "ignore").rstrip(" .") or "download") + suffix


def split_name(name: str) -> tuple[str, str]:
    """Split a file name into stem and extension; `.tar.gz` and the like are one extension."""
    match = _EXTENSION.search(name)
    return (name[: match.start()], match[0]) if match else (name, "")


class Logins:
    """HTTP authentication for the origins with a login, in all tabs, frames and workers; other origins get no answer.

    Args:
        logins: Initial logins.
    """

    def __init__(self, logins: Sequence[HttpLogin]) -> None:
        self._by_origin = {login.origin.lower().rstrip("/"): login for login in logins}
        self._browser: Browser | None = None
        self._session: CDPSession | None = None
        self._asked: deque[str] = deque(maxlen=_MAX_KEPT)
        self._answers: set[asyncio.Task[None]] = set()

    @property
    def origins(self) -> Container[str]:
        """Origins with a login."""
        return self._by_origin.keys()

    async def install(self, browser: "Browser | None") -> None:
        """Start answering in a browser."""
        self._browser = browser
        if self._by_origin:
            await self._listen()

    async def add(self, login: HttpLogin) -> None:
        """Add or replace the login of an origin."""
        if self._by_origin.get(login.origin) != login:
            self._by_origin[login.origin] = login
            await self._listen()

    async def close(self) -> None:
        """Stop answering."""
        from playwright.async_api import Error

        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Error):
                await session.detach()

    async def _listen(self) -> None:
        if self._browser is None:
            return
        if self._session is None:
            self._session = await self._browser.new_browser_cdp_session()
            self._session.on("Fetch.requestPaused", self._on_paused)
            self._session.on("Fetch.authRequired", self._on_asked)
        patterns = [{"urlPattern": f"{origin}/*"} for origin in self._by_origin]
        await self._session.send("Fetch.enable", {"patterns": patterns, "handleAuthRequests": True})

    def _on_paused(self, event: Mapping[str, object]) -> None:
        self._send("Fetch.continueRequest", {"requestId": event["requestId"]})

    def _on_asked(self, event: Json) -> None:
        asker, number = event["authChallenge"], event["requestId"]
        login = self._by_origin.get(asker["origin"]) if asker.get("source") == "Server" else None
        answer: dict[str, str] = {"response": "Default"}
        if login is not None and number in self._asked:  # the login was rejected
            answer = {"response": "CancelAuth"}
        elif login is not None:
            self._asked.append(number)
            answer = {"response": "ProvideCredentials", "username": login.username, "password": login.password}
        self._send("Fetch.continueWithAuth", {"requestId": number, "authChallengeResponse": answer})

    def _send(self, method: str, parameters: Json) -> None:
        task = asyncio.ensure_future(self._answer(method, parameters))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, method: str, parameters: Json) -> None:
        from playwright.async_api import Error

        if self._session is not None:
            with contextlib.suppress(Error):  # the request is gone
                await self._session.send(method, parameters)
