"""Logging in where a server asks by HTTP authentication, for which a headless browser has no window."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envs.http_login import HttpLogin

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession

_MAX_KEPT = 1000


class Logins:
    """Answers for the origins that there is a login for, in all tabs, frames and workers; others get nothing.

    Args:
        logins: What is known from the start.
    """

    def __init__(self, logins: Sequence[HttpLogin]) -> None:
        self._by_origin = {login.origin.lower().rstrip("/"): login for login in logins}
        self._browser: Browser | None = None
        self._session: CDPSession | None = None
        self._asked: deque[str] = deque(maxlen=_MAX_KEPT)
        self._answers: set[asyncio.Task[None]] = set()

    async def install(self, browser: "Browser | None") -> None:
        """Answer from now on."""
        self._browser = browser
        if self._by_origin:
            await self._listen()

    async def add(self, login: HttpLogin) -> None:
        """Answer for one more origin, or otherwise than before."""
        if self._by_origin.get(login.origin) != login:
            self._by_origin[login.origin] = login
            await self._listen()

    async def close(self) -> None:
        """Answer no more."""
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

    def _on_paused(self, event: dict[str, Any]) -> None:
        self._send("Fetch.continueRequest", {"requestId": event["requestId"]})

    def _on_asked(self, event: dict[str, Any]) -> None:
        asker, number = event["authChallenge"], event["requestId"]
        login = self._by_origin.get(asker["origin"]) if asker.get("source") == "Server" else None
        answer: dict[str, str] = {"response": "Default"}
        if login is not None and number in self._asked:  # it was not taken
            answer = {"response": "CancelAuth"}
        elif login is not None:
            self._asked.append(number)
            answer = {"response": "ProvideCredentials", "username": login.username, "password": login.password}
        self._send("Fetch.continueWithAuth", {"requestId": number, "authChallengeResponse": answer})

    def _send(self, method: str, parameters: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._answer(method, parameters))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, method: str, parameters: dict[str, Any]) -> None:
        from playwright.async_api import Error

        if self._session is not None:
            with contextlib.suppress(Error):  # the request is gone
                await self._session.send(method, parameters)
