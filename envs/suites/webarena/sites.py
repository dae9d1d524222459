"""Configuration of WebArena's sites: addresses, accounts, logins.

A TOML file names the available sites; tasks that need others are left out:

    judge = "gpt-4.1"                     # a model for answers in words, at judge_url; its key is in K25_JUDGE_API_KEY
    judge_url = "https://api.example.com/v1"

    [shopping]
    url = "http://shop.example:7770"
    user = "emma.lopez@gmail.com"         # the published accounts are the defaults
    password = "Password.123"
    reset = "./reset.sh shop"             # resets the site; without it, changes by tasks stay
    reset_timeout = 900                   # seconds until it answers again

The accounts are public, the same in every copy of the sites (web-arena-x/webarena, `browser_env/env_config.py`).
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from envs.errors import EnvSetupError, did_you_mean
from envs.suites.webarena.task_config import SITES, check_sites

if TYPE_CHECKING:
    from playwright.async_api import Page

_ACCOUNTS = {
    "shopping": ("emma.lopez@gmail.com", "Password.123"),
    "shopping_admin": ("admin", "admin1234"),
    "reddit": ("MarvelsGrantMan136", "test1234"),
    "gitlab": ("byteblaze", "hello1234"),
}
_KEYS = {"url", "user", "password", "reset", "reset_timeout"}
WANTS_HTTP_LOGIN = (
    "asks for a user name and a password by HTTP authentication, and got none or wrong ones; "
    "the setting http_auth has them"
)
_LOGIN_TIMEOUT_S = 60.0  # a site may take long for its first page
_RESET_TIMEOUT_S = 900.0  # a reset may start containers again


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginForm:
    """Login form of a kind of site.

    Attributes:
        path: Path of the page with the form.
        user: Selector of the user name field.
        password: Selector of the password field.
        button: Selector of the submit button.
        home_path: Page for signed-in users only; others are redirected to the form.
    """

    path: str
    user: str
    password: str
    button: str
    home_path: str


FORMS: Mapping[str, LoginForm] = {
    "shopping": LoginForm(
        path="/customer/account/login/",
        user="#email",
        password="#pass",
        button="#send2",
        home_path="/customer/account/",
    ),
    "shopping_admin": LoginForm(
        path="",
        user="#username",
        password="#login",
        button=".action-login",
        home_path="/dashboard/",
    ),
    "reddit": LoginForm(
        path="/login",
        user="[name=_username]",
        password="[name=_password]",
        button="form button:has-text('Log in')",
        home_path="/notifications",
    ),
    "gitlab": LoginForm(
        path="/users/sign_in",
        user="#user_login",
        password="#user_password",
        button="[name=commit], button[type=submit]",
        home_path="/-/profile",
    ),
}
"""Login forms of Magento 2.4, Postmill and GitLab 15; map and encyclopedia have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One site.

    Attributes:
        name: One of `task_config.SITES`.
        url: Address, without a trailing slash.
        user: Account name; "" for no account.
        password: Password of the account; never shown.
        reset: Command that resets the site to its initial state; "" if there is none.
        reset_timeout_s: Maximum time until the site answers again.
    """

    name: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    reset: str = ""
    reset_timeout_s: float = _RESET_TIMEOUT_S

    @property
    def domain(self) -> str:
        """Domain rule of the site, `HOST:PORT`."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    async def is_signed_in(self, page: "Page") -> bool:
        """Return True if a page for signed-in users is shown. Leaves that page open.

        Raises:
            EnvSetupError: If the site requires an HTTP login that the browser does not have, or is broken.
        """
        form = FORMS[self.name]
        status = await self._open(page, form.home_path)
        return status == HTTPStatus.OK and await page.locator(form.password).count() == 0

    async def sign_in(self, page: "Page") -> None:
        """Sign in with the site's own form.

        Raises:
            EnvSetupError: If the site does not answer, has no such form, or rejects the login.
        """
        from playwright.async_api import Error

        form = FORMS[self.name]
        try:
            await self._open(page, form.path)
            await page.fill(form.user, self.user, timeout=1000 * _LOGIN_TIMEOUT_S)
            await page.fill(form.password, self.password)
            await page.click(form.button)
            await page.wait_for_load_state("load", timeout=1000 * _LOGIN_TIMEOUT_S)
            if await self.is_signed_in(page):
                return
        except Error as error:
            reason = str(error).splitlines()[0]
            raise EnvSetupError(f"the login to {self.name} at {self.url} failed: {reason}", retryable=True) from error
        raise EnvSetupError(f"{self.name} at {self.url} refuses the account {self.user!r}; check user and password")

    async def _open(self, page: "Page", path: str) -> int | None:
        """Open a page; return the HTTP status, None if the browser does not have it."""
        answer = await page.goto(f"{self.url}{path}", timeout=1000 * _LOGIN_TIMEOUT_S)
        status = answer.status if answer is not None else None
        if status == HTTPStatus.UNAUTHORIZED:
            raise EnvSetupError(f"{self.name} at {self.url} {WANTS_HTTP_LOGIN}")
        if status is not None and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise EnvSetupError(f"{self.name} at {self.url} answers {status} for {path or '/'}", retryable=True)
        return status

    def is_up(self, status: int, location: str = "") -> bool:
        """Return True for a response of the site itself: a page, a redirect within it, an HTTP login."""
        if 300 <= status < 400:
            return urlsplit(urljoin(self.url, location)).hostname == urlsplit(self.url).hostname
        return 200 <= status < 300 or status == HTTPStatus.UNAUTHORIZED


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """Content of a sites file.

    Attributes:
        sites: Sites by name.
        judge: Name of the judge model; "" if there is none.
        judge_url: Endpoint of the judge, up to `/v1`.
    """

    sites: Mapping[str, Site]
    judge: str = ""
    judge_url: str = ""

    @property
    def urls(self) -> dict[str, str]:
        """Addresses by site name."""
        return {name: site.url for name, site in self.sites.items()}


def find_shared_hosts(sites: Iterable[Site]) -> tuple[tuple[str, str], ...]:
    """Return pairs of sites on one host: cookies are stored by host, not by port, so they sign each other out."""
    hosts = [(site.name, urlsplit(site.url).hostname) for site in sites if site.user]
    return tuple(
        (name, other)
        for number, (name, host) in enumerate(hosts)
        for other, its_host in hosts[number + 1 :]
        if host == its_host
    )


def make_sites(urls: Mapping[str, str], accounts: Mapping[str, tuple[str, str]] | None = None) -> dict[str, Site]:
    """Make sites from addresses, with the published accounts as defaults.

    Raises:
        EnvSetupError: If a site is unknown, or an address is invalid.
    """
    known = {**_ACCOUNTS, **(accounts or {})}
    configured = {}
    for name, url in check_sites(urls).items():
        user, password = known.get(name, ("", ""))
        configured[name] = Site(name=name, url=url, user=user, password=password)
    return configured


def read_sites(path: Path) -> SiteFile:
    """Read a file of sites.

    Raises:
        EnvSetupError: If the file cannot be read, or is not a sites file.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise EnvSetupError(f"the sites cannot be read from {path}: {error}") from error
    texts = {name: content.pop(name, "") for name in ("judge", "judge_url")}
    urls, accounts, resets = {}, {}, {}
    for name, table in content.items():
        if not isinstance(table, dict) or name not in SITES:
            raise EnvSetupError(f"{path}: {name!r} is not a site{did_you_mean(name, SITES)}; expected e.g. [shopping]")
        if unknown := set(table) - _KEYS:
            raise EnvSetupError(f"{path}: [{name}] has {min(unknown)!r}; expected {', '.join(sorted(_KEYS))}")
        resets[name] = (table.get("reset", ""), table.get("reset_timeout", _RESET_TIMEOUT_S))
        urls[name] = table.get("url", "")
        default = _ACCOUNTS.get(name, ("", ""))
        accounts[name] = (table.get("user", default[0]), table.get("password", default[1]))
    if any(not isinstance(text, str) for pair in (*accounts.values(), texts.values()) for text in pair):
        raise EnvSetupError(f"{path}: judge, judge_url, user and password are texts")
    for name, (command, timeout_s) in resets.items():
        is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool) and 0 < timeout_s < 1e6
        if not isinstance(command, str) or not is_number:
            raise EnvSetupError(f"{path}: [{name}]: reset is a command, reset_timeout a number of seconds")
    if not urls:
        raise EnvSetupError(f"{path} names no site; expected a table such as [shopping] with its url")
    sites = make_sites(urls, accounts)
    named = {
        name: replace(site, reset=resets[name][0], reset_timeout_s=float(resets[name][1]))
        for name, site in sites.items()
    }
    return SiteFile(sites=named, **texts)


def with_resets(file: SiteFile, commands: str) -> SiteFile:
    """Return a sites file with other reset commands.

    Args:
        file: The sites file.
        commands: `SITE=COMMAND`, one per line; a line without a site applies to all sites without a command.
    """
    sites = dict(file.sites)
    for line in filter(None, map(str.strip, commands.splitlines())):
        name, _, command = line.partition("=")
        if name in sites and command.strip():
            sites[name] = replace(sites[name], reset=command.strip())
        elif name in SITES:
            raise EnvSetupError(f"the reset command of {name}: the sites are {', '.join(sites)}, each with a command")
        else:
            sites = {id: site if site.reset else replace(site, reset=line) for id, site in sites.items()}
    return replace(file, sites=sites)
