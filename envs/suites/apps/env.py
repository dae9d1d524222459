"""`AppsEnv`: an isolated browser with the web apps of a task."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from envs.actions import Action
from envs.browser.env import BrowserEnv, OpenBrowser, parse_options
from envs.browser.filter_proxy import FilterProxy
from envs.browser.launch import RunningBrowser, launch
from envs.browser.options import BrowserOptions
from envs.desktop.programs import Programs
from envs.domain_rules import DomainRules
from envs.env import Env, Task
from envs.errors import EnvDiedError, EnvSetupError, nearest
from envs.observation import Observation, StepResult
from envs.registry import EnvKind, EnvRequest
from envs.suites.apps.app import Facts, RunningApp, WebApp
from envs.target import ActionCheck

if TYPE_CHECKING:
    from playwright.async_api import Page

_STORE_TIMEOUT_S = 6.0
"""Maximum wait for pages to save their data: TiddlyWiki waits a second before it sends a change."""
_POLL_S = 0.05
_PAGE_TIMEOUT_S = 1.0  # a page that does not answer is not waited for


class AppsEnv(BrowserEnv):
    """`BrowserEnv` for real web apps.

    Only the `sites` of a task can be reached, at `http://NAME.localhost`, each in its initial state. An app is started
    when a task first needs it, and reused by later tasks. Ports, data and cookies belong to this environment alone: the
    addresses are the same in every environment, and lead to its own apps.

    Args:
        apps: All apps that tasks can name.
        options: Settings of the browser; its domain rules are replaced.
        open_browser: See `BrowserEnv`.
    """

    def __init__(
        self, apps: Sequence[WebApp], options: BrowserOptions | None = None, *, open_browser: OpenBrowser | None = None
    ) -> None:
        self._apps = {app.name: app for app in apps}
        hosts = tuple(f"{name}.localhost:80" for name in self._apps)
        self._open_inner = open_browser or launch
        super().__init__(
            replace(options or BrowserOptions(), allowed_domains=hosts, proxy=None), open_browser=self._open_noted
        )
        self._filter_proxy: FilterProxy | None = None
        self._programs: Programs | None = None
        self._running: dict[str, RunningApp] = {}
        self._sites: tuple[str, ...] = ()

    async def reset(self, task: Task) -> Observation:
        """Reset the apps of the task, open a fresh browser context, run the setup, and return the first observation.

        Raises:
            EnvSetupError: If no browser is found, or an app is unknown, not installed, or does not start.
            EnvError: If the environment was closed.
        """
        sites = tuple(dict.fromkeys(getattr(task, "sites", ())))
        for site in sites:
            if site not in self._apps:
                raise EnvSetupError(f"there is no app {site!r}; the nearest is {nearest(site, self._apps) or 'none'}")
        self._sites = sites
        return await super().reset(task)

    async def open(self) -> None:
        """Open a context, see `BrowserEnv`; the apps of the last reset task are returned to their initial state."""
        await super().open()
        ready = [await asyncio.to_thread(self._make_running, site) for site in self._sites]
        done = await asyncio.gather(*(asyncio.to_thread(app.prepare) for app in ready), return_exceptions=True)
        for failure in done:
            if isinstance(failure, BaseException):
                raise failure
        assert self._filter_proxy is not None
        self._filter_proxy.route({f"{app.app.name}.localhost:80": app.port for app in ready})

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions, see `BrowserEnv`.

        Raises:
            EnvDiedError: If the browser or an app is gone.
            EnvError: If the environment was not reset, or is closed.
        """
        result = await super().step(actions, check)
        self._check_alive()
        return result

    def app(self, site: str) -> RunningApp:
        """Return a running app of the task.

        Raises:
            EnvSetupError: If the task does not use the site.
        """
        if site not in self._sites or site not in self._running:
            raise EnvSetupError(f"the task has no site {site!r}; it has {', '.join(self._sites) or 'none'}")
        return self._running[site]

    async def sign_in(self) -> None:
        """Set the cookies that sign the user of the tasks in, for each app of the task."""
        for site in self._sites:
            app = self.app(site)
            cookies = await asyncio.to_thread(app.app.cookies, app)
            given = [{"name": name, "value": value, "url": app.app.url} for name, value in cookies.items()]
            await self.page.context.add_cookies(cast(Any, given))

    async def facts(self) -> Facts:
        """Return the compared values of the task's apps by `SITE/...`, after their pages have saved their data.

        Raises:
            EnvDiedError: If an app is gone.
        """
        await self._let_store()
        self._check_alive()
        all_facts: dict[str, object] = {}
        for site in self._sites:
            app = self.app(site)
            facts: Mapping[str, object] = await asyncio.to_thread(app.app.facts, app)
            all_facts |= {f"{site}/{path}": value for path, value in facts.items()}
        return all_facts

    async def close(self) -> None:
        """Close the browser and the apps, and delete their data."""
        await super().close()
        programs, self._programs = self._programs, None
        self._running.clear()
        if programs is not None:
            await asyncio.to_thread(programs.close)

    async def _open_noted(self, options: BrowserOptions, rules: DomainRules) -> RunningBrowser:
        opened = await self._open_inner(options, rules)
        self._filter_proxy = opened.filter_proxy
        return opened

    def _make_running(self, site: str) -> RunningApp:
        if self._programs is None:
            self._programs = Programs(Path(tempfile.mkdtemp(prefix="k25-apps-")))
        if site not in self._running:
            self._running[site] = RunningApp(self._apps[site], self._programs)
        return self._running[site]

    def _check_alive(self) -> None:
        for site in self._sites:
            if not self._running[site].is_alive:
                raise EnvDiedError(f"the app {site} is gone")

    async def _let_store(self) -> None:
        """Wait until no page has unsaved data and no request is open, for a few seconds at most."""
        assert self._filter_proxy is not None
        until_s = time.monotonic() + _STORE_TIMEOUT_S
        while time.monotonic() < until_s:
            if self._filter_proxy.num_open == 0 and not await self._is_pending():
                return
            await asyncio.sleep(_POLL_S)

    async def _is_pending(self) -> bool:
        questions = [self._apps[site].is_pending for site in self._sites if self._apps[site].is_pending]
        asked = [_ask(page, question) for page in self.page.context.pages for question in questions]
        return any(await asyncio.gather(*asked))


async def _ask(page: "Page", question: str) -> bool:
    """Evaluate JavaScript in a page; return False if that fails (a dialog is open, the page is closing)."""
    with contextlib.suppress(Exception):  # Playwright's errors have no common class
        return bool(await asyncio.wait_for(page.evaluate(question), _PAGE_TIMEOUT_S))
    return False


def _make(request: EnvRequest) -> Env:
    """Make the apps as settings and task files name them.

    Raises:
        ValueError: If a value is invalid.
    """
    from envs.suites.apps.suite import APPS

    return AppsEnv(APPS, parse_options(request))


_SHOWN = ("viewport", "device_scale", "headed")
KIND = EnvKind(make=_make, options=frozenset(_SHOWN) | {"a11y_tree"}, shown=_SHOWN, masks_secrets=True)
"""Registration of the web apps in `envs.registry`."""
