"""Pool of sessions in one browser: isolated contexts that are leased and returned.

    async with BrowserPool(max_sessions=20) as pool:
        env = pool.make_env(BrowserOptions(start_url="http://localhost:8000"))

Each session is a `BrowserEnv` with its own context (cookies, storage, permissions, downloads, tabs) and filter proxy
for all its traffic, with or without domain rules: the browser itself has no network access. The remaining shared state
of a process is separated too: each session has its own clipboard, and a session with HTTP logins gets a separate
browser, because these are answered for a whole browser.
"""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from envs.browser.context import context_settings, new_context
from envs.browser.env import BrowserEnv
from envs.browser.filter_proxy import FilterProxy, read_upstream
from envs.browser.launch import LaunchedBrowser, launch
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from envs.errors import EnvSetupError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

_OF_THE_BROWSER = ("headless", "executable_path", "extra_args", "env")
"""Options of the browser as a whole."""


@dataclass(slots=True, kw_only=True, eq=False)
class BrowserLease:
    """Slot in the browser of a pool; implements `envs.browser.launch.RunningBrowser`."""

    browser: "Browser"
    filter_proxy: FilterProxy
    pool: "BrowserPool"
    is_shared: bool = True
    _prepared: "BrowserContext | None" = None

    async def new_context(self, options: BrowserOptions, episode: int) -> "BrowserContext":
        """Return the prepared context, or open a new one; the filter proxy of this lease has all its traffic."""
        prepared, self._prepared = self._prepared, None
        return prepared or await new_context(self.browser, options, episode, self.filter_proxy)

    async def close(self) -> None:
        """Return the slot. May be called twice."""
        self.pool.return_lease(self)
        await asyncio.to_thread(self.filter_proxy.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spare:
    """Context prepared in advance, with the options of the pool and its own filter proxy."""

    browser: "Browser"
    context: "BrowserContext"
    filter_proxy: FilterProxy


class BrowserPool:
    """One browser for many sessions, started by the first session and replaced if it dies.

    A pool belongs to one event loop. A session whose browser dies raises `EnvDiedError`, which is retryable: its next
    `reset` uses the new browser.

    Args:
        options: Options to start the browser with (`headless`, `executable_path`, `extra_args`, `env`), and default
            options of sessions.
        max_sessions: Maximum number of concurrent sessions; further ones wait.
        lease_timeout_s: Timeout of that wait.
        num_spares: Number of contexts with the pool's own options that are prepared in advance.
    """

    def __init__(
        self,
        options: BrowserOptions | None = None,
        *,
        max_sessions: int = 32,
        lease_timeout_s: float = 60.0,
        num_spares: int = 1,
    ) -> None:
        if max_sessions < 1:
            raise ValueError(f"max_sessions needs at least 1, got {max_sessions}")
        self.options = options or BrowserOptions()
        self.max_sessions = max_sessions
        self._lease_timeout_s = lease_timeout_s
        self._slots = asyncio.Semaphore(max_sessions)
        self._starting = asyncio.Lock()
        self._launched: LaunchedBrowser | None = None
        self._leases: set[BrowserLease] = set()
        self._num_spares = num_spares
        self._spares: list[_Spare] = []
        self._preparing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> "BrowserPool":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def num_sessions(self) -> int:
        """Number of sessions in the browser."""
        return len(self._leases)

    def make_env(self, options: BrowserOptions | None = None) -> BrowserEnv:
        """Make an env that leases a slot at its first reset and returns it when it is closed.

        Raises:
            ValueError: If an option of the browser as a whole differs from the pool's.
        """
        options = options or self.options
        for name in _OF_THE_BROWSER:
            if getattr(options, name) != getattr(self.options, name):
                raise ValueError(
                    f"{name} is {getattr(options, name)!r}, the pool's browser has {getattr(self.options, name)!r}; "
                    "give it to the pool, or make a BrowserEnv of its own"
                )
        return BrowserEnv(options, open_browser=None if options.http_logins else self.lease)

    async def lease(self, options: BrowserOptions, rules: DomainRules) -> "BrowserLease":
        """Lease a slot in the browser; `close` returns it.

        Raises:
            EnvSetupError: If no slot becomes free in time, the pool is closed, or no browser starts.
        """
        try:
            await asyncio.wait_for(self._slots.acquire(), self._lease_timeout_s)
        except TimeoutError as error:
            raise EnvSetupError(
                f"all {self.max_sessions} sessions of the browser pool were taken for {self._lease_timeout_s:g} s; "
                "close some, or make a larger pool",
                retryable=True,
            ) from error
        try:
            browser = (await self._running()).browser
            spare = self._take_spare(browser, options, rules)
            filter_proxy = spare.filter_proxy if spare else await _start_filter_proxy(options, rules)
        except BaseException:
            self._slots.release()
            raise
        lease = BrowserLease(
            browser=browser, filter_proxy=filter_proxy, pool=self, _prepared=spare.context if spare else None
        )
        self._leases.add(lease)
        if self._preparing is None or self._preparing.done():
            self._preparing = asyncio.create_task(self._prepare(browser))
        return lease

    async def close(self) -> None:
        """Close the browser and every session in it. May be called twice."""
        self._is_closed = True
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])
        async with self._starting:
            launched, self._launched = self._launched, None
            if launched is not None:
                await launched.close()
        for spare in self._spares:
            await asyncio.to_thread(spare.filter_proxy.close)
        self._spares.clear()
        for lease in list(self._leases):
            await lease.close()

    async def _running(self) -> LaunchedBrowser:
        async with self._starting:
            if self._is_closed:
                raise EnvSetupError("the browser pool was closed; make a new one")
            if self._launched is not None and not self._launched.browser.is_connected():
                dead, self._launched = self._launched, None
                await dead.close()
            if self._launched is None:
                self._launched = await launch(self.options, DomainRules(), is_shared=True)
            return self._launched

    def _take_spare(self, browser: "Browser", options: BrowserOptions, rules: DomainRules) -> _Spare | None:
        """Return a prepared context, if it matches these options."""
        kind = _kind_of_context(options)
        if kind is None or kind != _kind_of_context(self.options) or rules != _rules_of(self.options):
            return None
        while self._spares:
            spare = self._spares.pop()
            if spare.browser is browser and spare.context.pages:
                return spare
            spare.filter_proxy.close()  # its browser died
        return None

    async def _prepare(self, browser: "Browser") -> None:
        """Prepare contexts in advance; errors are ignored here and raised for the session that opens the context."""
        if _kind_of_context(self.options) is None:
            return
        while len(self._spares) < self._num_spares and not self._is_closed and browser.is_connected():
            filter_proxy = await _start_filter_proxy(self.options, _rules_of(self.options))
            try:
                context = await new_context(browser, self.options, 1, filter_proxy)
            except EnvSetupError:
                await asyncio.to_thread(filter_proxy.close)
                return
            except BaseException:
                filter_proxy.close()
                raise
            self._spares.append(_Spare(browser=browser, context=context, filter_proxy=filter_proxy))

    def return_lease(self, lease: BrowserLease) -> None:
        """Remove a session from the pool; called by `BrowserLease.close`."""
        if lease in self._leases:
            self._leases.remove(lease)
            self._slots.release()


async def _start_filter_proxy(options: BrowserOptions, rules: DomainRules) -> FilterProxy:
    filter_proxy = FilterProxy(rules, read_upstream(options.proxy) if options.proxy is not None else None)
    await filter_proxy.start()
    return filter_proxy


def _rules_of(options: BrowserOptions) -> DomainRules:
    return DomainRules(allowed=options.allowed_domains, denied=options.denied_domains)


def _kind_of_context(options: BrowserOptions) -> tuple[object, ...] | None:
    """Return the settings in which a prepared context must match; None if it cannot be prepared, as it uses files."""
    if options.storage_state is not None or options.har_path is not None:
        return None
    return (context_settings(options), options.proxy, options.navigation_timeout_s)
