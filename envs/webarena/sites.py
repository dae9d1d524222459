"""The sites of WebArena as somebody hosts them: addresses, accounts, logins, and who may change them when.

A file in TOML names those that there are; tasks that need another one are left out:

    judge = "gpt-4.1"                     # a model for answers in words, at judge_url; its key is in K25_JUDGE_API_KEY
    judge_url = "https://api.example.com/v1"

    [shopping]
    url = "http://shop.example:7770"
    user = "emma.lopez@gmail.com"         # the published accounts are the defaults
    password = "Password.123"

The accounts are public, the same in every copy of the sites (web-arena-x/webarena, `browser_env/env_config.py`).
"""

import asyncio
import fcntl
import hashlib
import os
import tempfile
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envs.errors import EnvSetupError, did_you_mean
from envs.webarena.task_config import SITES, check_sites

if TYPE_CHECKING:
    from playwright.async_api import Page

_ACCOUNTS = {
    "shopping": ("emma.lopez@gmail.com", "Password.123"),
    "shopping_admin": ("admin", "admin1234"),
    "reddit": ("MarvelsGrantMan136", "test1234"),
    "gitlab": ("byteblaze", "hello1234"),
}
_LOGIN_TIMEOUT_S = 60.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginForm:
    """How one signs in to a kind of site.

    Attributes:
        path: Of the page with the form.
        user: Selector of the field for the name.
        password: Likewise.
        button: Of what sends it.
        home_path: A page that only somebody who is signed in sees; others land on the form.
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
"""As Magento 2.4, Postmill and GitLab 15 have them; map and encyclopedia have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One site.

    Attributes:
        name: One of `task_config.SITES`.
        url: Its address, without a slash at the end.
        user: Who signs in; "": nobody.
        password: Of that account; never shown.
    """

    name: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def domain(self) -> str:
        """`HOST:PORT`, as a rule of domains."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    async def is_signed_in(self, page: "Page") -> bool:
        """Whether a page that only a signed-in person sees is shown. Leaves the page there."""
        form = FORMS[self.name]
        await page.goto(f"{self.url}{form.home_path}", timeout=1000 * _LOGIN_TIMEOUT_S)
        return await page.locator(form.password).count() == 0

    async def sign_in(self, page: "Page") -> None:
        """Sign in by the site's own form.

        Raises:
            EnvSetupError: The site does not answer, has no such form, or refuses.
        """
        from playwright.async_api import Error

        form = FORMS[self.name]
        try:
            await page.goto(f"{self.url}{form.path}", timeout=1000 * _LOGIN_TIMEOUT_S)
            await page.fill(form.user, self.user, timeout=1000 * _LOGIN_TIMEOUT_S)
            await page.fill(form.password, self.password)
            await page.click(form.button)
            await page.wait_for_load_state("load", timeout=1000 * _LOGIN_TIMEOUT_S)
            if await self.is_signed_in(page):
                return
        except Error as error:
            told = str(error).splitlines()[0]
            raise EnvSetupError(f"nobody can sign in to {self.name} at {self.url}: {told}", retryable=True) from error
        raise EnvSetupError(f"{self.name} at {self.url} refuses the account {self.user!r}; check user and password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """What a file of sites says.

    Attributes:
        sites: By name.
        judge: A model's name; "": none.
        judge_url: Its endpoint, up to `/v1`.
    """

    sites: Mapping[str, Site]
    judge: str = ""
    judge_url: str = ""

    @property
    def urls(self) -> dict[str, str]:
        """Addresses by name of the site."""
        return {name: site.url for name, site in self.sites.items()}

    def shared_hosts(self) -> tuple[tuple[str, str], ...]:
        """Pairs of sites on one host: their cookies are kept by host, not by port, so that they sign each other out."""
        hosts = [(name, urlsplit(site.url).hostname) for name, site in self.sites.items() if site.user]
        return tuple(
            (name, other)
            for number, (name, host) in enumerate(hosts)
            for other, its_host in hosts[number + 1 :]
            if host == its_host
        )


def make_sites(urls: Mapping[str, str], accounts: Mapping[str, tuple[str, str]] | None = None) -> dict[str, Site]:
    """Sites at addresses, with the published accounts where no other is named.

    Raises:
        EnvSetupError: An unknown site, or an address that is none.
    """
    known = {**_ACCOUNTS, **(accounts or {})}
    found = {}
    for name, url in check_sites(urls).items():
        user, password = known.get(name, ("", ""))
        found[name] = Site(name=name, url=url, user=user, password=password)
    return found


def read_sites(path: Path) -> SiteFile:
    """Read a file of sites.

    Raises:
        EnvSetupError: It cannot be read, or says something else than sites.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise EnvSetupError(f"the sites cannot be read from {path}: {error}") from error
    texts = {name: content.pop(name, "") for name in ("judge", "judge_url")}
    urls, accounts = {}, {}
    for name, table in content.items():
        if not isinstance(table, dict) or name not in SITES:
            raise EnvSetupError(f"{path}: {name!r} is no site{did_you_mean(name, SITES)}; expected a table [shopping]")
        if unknown := set(table) - {"url", "user", "password"}:
            raise EnvSetupError(f"{path}: [{name}] has {min(unknown)!r}; expected url, user, password")
        urls[name] = table.get("url", "")
        default = _ACCOUNTS.get(name, ("", ""))
        accounts[name] = (table.get("user", default[0]), table.get("password", default[1]))
    if any(not isinstance(text, str) for pair in (*accounts.values(), texts.values()) for text in pair):
        raise EnvSetupError(f"{path}: judge, judge_url, user and password are texts")
    if not urls:
        raise EnvSetupError(f"{path} names no site; expected a table such as [shopping] with its url")
    return SiteFile(sites=make_sites(urls, accounts), **texts)


@asynccontextmanager
async def hold_sites(sites: Iterable[Site], *, alone: bool, timeout_s: float) -> AsyncIterator[None]:
    """Keep sites for a while: for oneself, or together with others who keep them so, in this and other processes.

    Args:
        sites: Which; they are taken in one order by all, so that nobody waits for somebody who waits.
        alone: A task that changes a site needs it so.
        timeout_s: Longest wait for all of them.

    Raises:
        EnvSetupError: Somebody kept one for longer.
    """
    until_s = asyncio.get_running_loop().time() + timeout_s
    files: list[int] = []
    try:
        for site in sorted(sites, key=lambda site: site.url):
            files.append(_open_lock(site))
            while not _try_lock(files[-1], alone=alone):
                if asyncio.get_running_loop().time() > until_s:
                    raise EnvSetupError(f"another task kept {site.name} for {timeout_s:g} s", retryable=True)
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        for file in files:
            os.close(file)


def _open_lock(site: Site) -> int:
    folder = Path(tempfile.gettempdir()) / f"k25-webarena-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise EnvSetupError(f"{folder} belongs to somebody else; remove it")
    name = hashlib.sha256(site.url.encode()).hexdigest()[:16]
    return os.open(folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(file: int, *, alone: bool) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
