"""Preflight checks for WebArena: whether the sites, their logins and the judge are ready."""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envs.doctor import DoctorRow
from envs.env import EnvSpec
from envs.errors import EnvError
from envs.judge import Judge
from envs.registry import load_suite, make_env
from envs.secret_texts import HttpLogin, origin_of
from envs.suite import Suite
from envs.suites.webarena.env import WebArenaEnv
from envs.suites.webarena.site_state import describe_changes, load_changes
from envs.suites.webarena.sites import (
    WANTS_HTTP_LOGIN,
    Site,
    SiteFile,
    find_shared_hosts,
    read_sites,
    with_resets,
)
from envs.suites.webarena.verdict import is_alike

Say = Callable[[str], None]
_TIMEOUT_S = 30.0  # a site that has just started answers late
_MAX_PAGE_BYTES = 8 * 2**20  # bounds memory
_LINK = re.compile(r"""(?:href|src|action)\s*=\s*["']?(https?://[^"'\s>]+)""", re.IGNORECASE)
_QUESTION = "What colour is a clear sky at noon?"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProgram:
    """Program that a site runs.

    Attributes:
        name: Display name.
        sign: Text in the source of its start page.
        version_path: Path of a page that shows the version; "" if it is not shown.
        version: Prefix of the version in upstream's images.
    """

    name: str
    sign: str
    version_path: str = ""
    version: str = ""


PROGRAMS: Mapping[str, SiteProgram] = {
    "shopping": SiteProgram(name="Magento", sign="magento", version_path="/magento_version", version="Magento/2.4"),
    "shopping_admin": SiteProgram(name="Magento's admin", sign="magento"),
    "reddit": SiteProgram(name="Postmill", sign="postmill"),
    "gitlab": SiteProgram(name="GitLab", sign="gitlab", version_path="/api/v4/version", version="15."),
    "map": SiteProgram(name="OpenStreetMap", sign="openstreetmap"),
    "wikipedia": SiteProgram(name="Wikipedia by Kiwix", sign="wiki"),
}
"""Programs of upstream's images by site."""


class WebArenaDoctor:
    """Checks of everything except the model that a WebArena run needs; the sites are not changed, except for a login.

    Args:
        suite_options: Options of the suite.
        suite_name: `webarena`, or `webarena-verified`, which needs no judge.

    Raises:
        EnvError: If the options cannot be used on this machine.
        ValueError: If the options are invalid.
    """

    def __init__(self, suite_options: Mapping[str, Any], suite_name: str = "webarena") -> None:
        self._suite = load_suite(suite_name, **suite_options)
        self._path = str(suite_options["sites"])
        self._file = with_resets(read_sites(Path(self._path)), str(suite_options.get("reset_command", "")))

    async def run(self, say: Say, logins: tuple[HttpLogin, ...] = ()) -> list[DoctorRow]:
        """Run all checks; return a row for each.

        Args:
            say: Called with each line of progress.
            logins: HTTP logins of the sites that require one.
        """
        suite, file = self._suite, self._file
        actual = f"{suite.about}, revision {suite.revision}{_left_out(suite)}"
        rows = [DoctorRow(name="tasks", level="ok", actual=actual), _check_hosts(file)]
        env = make_env(EnvSpec(name="webarena", options={"sites": self._path}), http_logins=logins)
        assert isinstance(env, WebArenaEnv)
        try:
            for site in file.sites.values():
                say(f"looking at {site.name}, {site.url}")
                rows += await _check_site(site, env)
            if suite.name == "webarena":
                say("asking the judge")
                rows.append(await _check_judge(env.grader.judge, file))
        finally:
            await env.close()
        return rows


def _left_out(suite: Suite) -> str:
    return f"; left out are {suite.left_out}" if suite.left_out else ""


def _check_hosts(file: SiteFile) -> DoctorRow:
    pairs = find_shared_hosts(file.sites.values())
    if not pairs:
        return DoctorRow(name="hosts", level="ok", actual="sites with accounts have a host name each")
    shared_hosts = "; ".join(f"{first} and {second}" for first, second in pairs)
    actual = (
        f"{shared_hosts}: on one host, where cookies are kept by host and not by port, so that they sign each other out"
    )
    return DoctorRow(name="hosts", level="warn", actual=actual, expected="a host name for each site")


async def _check_site(site: Site, env: WebArenaEnv) -> list[DoctorRow]:
    first = await _check_page(site, env.options.http_logins)
    if first.level == "fail":
        return [first]
    rows = [first, _check_reset(site)]
    if site.user:
        rows.append(await _check_login(site, env))
    if PROGRAMS[site.name].version_path and rows[-1].level == "ok":
        rows.append(await _check_version(site, env))
    return rows


async def _check_page(site: Site, logins: Sequence[HttpLogin]) -> DoctorRow:
    """Check that a site answers, runs the expected program, and links to itself."""
    import httpx

    began_s = time.monotonic()
    login = next((login for login in logins if login.origin.rstrip("/") == origin_of(site.url)), None)
    auth = httpx.BasicAuth(login.username, login.password) if login is not None else None
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=True, auth=auth) as client:
            answer = await client.get(site.url)
    except httpx.HTTPError as error:
        actual = f"{site.url} does not answer: {str(error) or type(error).__name__}"
        return DoctorRow(
            name=site.name, level="fail", actual=actual, expected="a site that runs, or no entry in the file"
        )
    if answer.status_code == 401:
        actual = f"{site.url} {WANTS_HTTP_LOGIN}"
        return DoctorRow(name=site.name, level="fail", actual=actual, expected="--set http_auth=FILE")
    if answer.status_code >= 400:
        return DoctorRow(
            name=site.name, level="fail", actual=f"{site.url} answers {answer.status_code}", expected="200"
        )
    page, program = answer.text[:_MAX_PAGE_BYTES], PROGRAMS[site.name]
    actual = f"{site.url} answers in {time.monotonic() - began_s:.1f} s"
    if program.sign not in page.lower():
        return DoctorRow(name=site.name, level="warn", actual=f"{actual}, without a sign of it", expected=program.name)
    hosts = Counter(urlsplit(link).netloc for link in _LINK.findall(page))
    host, count = hosts.most_common(1)[0] if hosts else ("", 0)
    if host and host != urlsplit(site.url).netloc and count > sum(hosts.values()) / 2:
        problem = f"{actual}, but {count} of its {sum(hosts.values())} links lead to {host}"
        return DoctorRow(name=site.name, level="warn", actual=problem, expected=f"its base URL set to {site.url}")
    return DoctorRow(name=site.name, level="ok", actual=f"{actual}: {program.name}")


def _check_reset(site: Site) -> DoctorRow:
    changes = load_changes(site)
    name, summary = f"{site.name} state", describe_changes(changes)
    if site.reset:
        return DoctorRow(name=name, level="ok", actual=f"{summary}; put back by {site.reset}")
    return DoctorRow(name=name, level="warn" if changes else "ok", actual=f"{summary}; no command puts it back")


async def _check_login(site: Site, env: WebArenaEnv) -> DoctorRow:
    name, began_s = f"{site.name} login", time.monotonic()
    try:
        await env.open()
        await env.sign_in([site.name])
    except EnvError as error:
        return DoctorRow(name=name, level="fail", actual=str(error), expected=f"the account {site.user!r}")
    return DoctorRow(name=name, level="ok", actual=f"as {site.user}, in {time.monotonic() - began_s:.1f} s")


async def _check_version(site: Site, env: WebArenaEnv) -> DoctorRow:
    """Check the version that a site shows to a signed-in user."""
    from playwright.async_api import Error

    name, program = f"{site.name} version", PROGRAMS[site.name]
    try:
        answer = await env.page.context.request.get(f"{site.url}{program.version_path}", timeout=1000 * _TIMEOUT_S)
        body = await answer.json() if "json" in answer.headers.get("content-type", "") else await answer.text()
    except (Error, ValueError) as error:
        return DoctorRow(name=name, level="warn", actual=f"not shown: {str(error).splitlines()[0]}")
    version = str(body.get("version", "") if isinstance(body, dict) else body).strip()[:80]
    expected = f"{program.version}*, as in upstream's images"
    if not version.startswith(program.version):
        return DoctorRow(name=name, level="warn", actual=version or "not shown", expected=expected)
    return DoctorRow(name=name, level="ok", actual=version)


async def _check_judge(judge: Judge | None, file: SiteFile) -> DoctorRow:
    """Check that the judge answers, and distinguishes a right answer from a wrong one."""
    if judge is None:
        actual = "none is named: tasks whose answers need one have no verdict"
        return DoctorRow(name="judge", level="warn", actual=actual, expected="judge and judge_url in the file of sites")
    began_s = time.monotonic()
    try:
        verdicts = [await is_alike(judge, _QUESTION, "blue", answer) for answer in ("It is blue.", "It is green.")]
    except EnvError as error:
        return DoctorRow(name="judge", level="fail", actual=str(error), expected="an OpenAI-compatible endpoint")
    if verdicts != [True, False]:
        actual = f"{file.judge} takes blue for {'right' if verdicts[0] else 'wrong'} and green for the same"
        return DoctorRow(name="judge", level="fail", actual=actual, expected="a model that tells right from wrong")
    return DoctorRow(
        name="judge", level="ok", actual=f"{file.judge} tells right from wrong in {time.monotonic() - began_s:.1f} s"
    )
