"""`WebArenaEnv`: a browser that can reach only WebArena's sites."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from envs.browser.env import BrowserEnv, OpenBrowser, parse_options
from envs.browser.options import BrowserOptions
from envs.env import Env
from envs.errors import EnvSetupError
from envs.judge import KEY, EndpointJudge
from envs.registry import EnvKind, EnvRequest
from envs.suites.webarena.page_checks import MagentoClient
from envs.suites.webarena.scoring import ALL_FIXES, AS_PUBLISHED
from envs.suites.webarena.sites import Site, SiteFile, read_sites, with_resets
from envs.suites.webarena.verdict import Grader


class WebArenaEnv(BrowserEnv):
    """`BrowserEnv` that can reach only WebArena's sites and signs in to them.

    Logins are created once, stored, and renewed when a site does not accept them any more.

    Args:
        file: Sites and judge.
        options: Settings of the browser; its domain rules are replaced.
        parity: True to judge as published.
        open_browser: See `BrowserEnv`.
    """

    def __init__(
        self,
        file: SiteFile,
        options: BrowserOptions | None = None,
        *,
        parity: bool = False,
        open_browser: OpenBrowser | None = None,
    ) -> None:
        self.sites = dict(file.sites)
        judge = EndpointJudge(url=file.judge_url, model=file.judge, key=os.environ.get(KEY, ""))
        self.grader = Grader(
            judge=judge if file.judge and file.judge_url else None,
            shop=_shop_of(self.sites),
            fixes=AS_PUBLISHED if parity else ALL_FIXES,
        )
        domains = tuple(site.domain for site in self.sites.values())
        super().__init__(replace(options or BrowserOptions(), allowed_domains=domains), open_browser=open_browser)
        self._logins: dict[str, list[Mapping[str, Any]]] = {}

    async def sign_in(self, names: Sequence[str]) -> None:
        """Sign in to sites, in this order; sites without an account are skipped.

        Raises:
            EnvSetupError: If a site is not configured, does not answer, or rejects the account.
        """
        for name in names:
            site = self.site(name)
            if not site.user:
                continue
            context = self.page.context
            if name in self._logins:
                await context.add_cookies(cast(Any, self._logins[name]))
                if await site.is_signed_in(self.page):
                    continue
                self._logins.pop(name)
                await context.clear_cookies()
                for other in names[: names.index(name)]:
                    await context.add_cookies(cast(Any, self._logins.get(other, [])))
            await site.sign_in(self.page)
            self._logins[name] = [cast(Any, cookie) for cookie in await context.cookies(site.url)]

    async def open_tabs(self, urls: Sequence[str]) -> None:
        """Open addresses, one tab each; the first one is active.

        Raises:
            EnvSetupError: If an address cannot be opened.
        """
        first = self.page
        await self.goto(urls[0])
        for url in urls[1:]:
            await self.page.context.new_page()
            await self.goto(url)
        if len(urls) > 1:
            await self.show(first)

    def site(self, name: str) -> Site:
        """Return a site by name.

        Raises:
            EnvSetupError: If it is not configured.
        """
        if name not in self.sites:
            raise EnvSetupError(f"the site {name} is not configured; there are {', '.join(self.sites)}")
        return self.sites[name]


def _shop_of(sites: Mapping[str, Site]) -> MagentoClient | None:
    if "shopping" not in sites:
        return None
    admin = sites.get("shopping_admin")
    url = sites["shopping"].url
    return (
        MagentoClient(url=url, user=admin.user, password=admin.password)
        if admin is not None
        else MagentoClient(url=url)
    )


def _make(request: EnvRequest) -> Env:
    """Make the environment from sites as settings and task files name them.

    Raises:
        ValueError: If a value is invalid.
    """
    options = dict(request.options)
    if "sites" not in options:
        raise ValueError("the option sites is needed: a TOML file that names WebArena's sites")
    file = with_resets(read_sites(Path(str(options["sites"]))), str(options.get("reset_command", "")))
    browser = parse_options(request)
    masked = (*browser.masked_texts, *(site.password for site in file.sites.values() if site.password))
    return WebArenaEnv(file, replace(browser, masked_texts=masked), parity=options.get("parity") is True)


_SHOWN = ("viewport", "device_scale", "headed")
KIND = EnvKind(
    make=_make,
    options=frozenset(_SHOWN) | {"sites", "har", "parity", "reset_command"},
    shown=_SHOWN,
    masks_secrets=True,
)
"""Registration of WebArena's sites in `envs.registry`."""
