"""Servers that answer with an error or want a password: what the agent is told, and what nobody gets to see."""

import json
from pathlib import Path

import pytest

from envs.actions import Hotkey, PressKey, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from envs.secret_texts import HttpLogin, split_login
from tests.envs.browser.driving import OpenPage, click, do
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
PASSWORD = "tr0ub4dor-3"
ASKS = (
    "it wants a user name and a password by HTTP authentication, for which there is no window; a person can give them "
    "in the setting http_auth"
)

REFUSES = "it refuses the user name and the password given for it; a person can change them in the setting http_auth"


def with_login(url: str, login: str) -> str:
    return url.replace("//", f"//{login}@")


@pytest.mark.parametrize(
    ("path", "note"),
    [
        ("/nothing", "the server answered 404 Not Found for {url}"),
        ("/status?code=503", "the server answered 503 Service Unavailable for {url}"),
        ("/closed", "the server answered 401 Unauthorized for {url}: " + ASKS),
    ],
)
@pytest.mark.long
async def test_a_page_that_is_an_error_is_told_once(env: BrowserEnv, pages: PageServer, path: str, note: str) -> None:
    pages.logins["/closed"] = "a:b"
    url = pages.url(path)
    assert (await env.reset(OpenPage(url))).notes == (note.format(url=url),)
    assert (await do(env)).notes == ()


@pytest.mark.long
async def test_errors_behind_links_redirects_and_in_new_tabs_are_told(env: BrowserEnv, pages: PageServer) -> None:
    url, redirect = pages.url("/nothing"), f"/redirect?to={pages.url('/nothing')}"
    body = (
        f"<img src='/no-picture'><a id=link href='{redirect}'>go</a> <a id=tab target=_blank href='{redirect}'>go</a>"
    )
    assert (await env.reset(OpenPage(pages.serve(body)))).notes == ()
    note = f"the server answered 404 Not Found for {url}"
    assert (await click(env, "#tab")).notes == (note,)
    await do(env, Hotkey(keys=("ctrl", "1")))
    assert (await click(env, "#link")).notes == (note,)


@pytest.mark.long
async def test_logins_go_to_their_own_origins_in_all_tabs_and_frames(pages: PageServer) -> None:
    other = PageServer()
    pages.logins |= {"/ann": f"ann:{PASSWORD}", "/changed": "ann:another"}
    other.logins["/bob"] = "bob:p2"
    logins = (
        HttpLogin(origin=pages.url(""), username="ann", password=PASSWORD),
        HttpLogin(origin=other.url(""), username="bob", password="p2"),
    )
    bob, elsewhere = other.url("/bob"), pages.url("/ann", "localhost")
    body = (
        f"<a id=tab target=_blank href='{bob}'>go</a><iframe src='{bob}'></iframe><a id=not href='{elsewhere}'>no</a>"
    )
    env = BrowserEnv(BrowserOptions(http_logins=logins))
    try:
        observation = await env.reset(OpenPage(pages.url("/ann")))
        assert (observation.title, observation.notes) == ("inside", ())
        await env.goto(pages.serve(body))
        assert await env.page.frames[1].title() == "inside"
        assert (await click(env, "#tab")).title == "inside"
        await do(env, Hotkey(keys=("ctrl", "1")))
        assert (await click(env, "#not")).notes[0].endswith(ASKS)
        await env.goto(pages.url("/changed"))
        assert (await do(env)).notes[0].endswith(REFUSES)
    finally:
        await env.close()
        other.close()


@pytest.mark.long
async def test_a_password_in_an_address_logs_in_and_is_seen_nowhere(pages: PageServer, tmp_path: Path) -> None:
    pages.logins |= {"/ann": f"ann:{PASSWORD}", "/bob": "bob:hunter22", "/eve": "eve:sesame-7"}
    start, typed, link = (with_login(pages.url(path), pages.logins[path]) for path in ("/ann", "/bob", "/eve"))
    env = BrowserEnv(BrowserOptions(start_url=start, har_path=tmp_path / "traffic.har"))
    try:
        seen = [await env.reset(InstructionTask(instruction="test"))]
        seen.append(await do(env, Hotkey(keys=("ctrl", "l")), TypeText(text=typed)))
        seen.append(await do(env, PressKey(key="enter")))
        await env.goto(pages.serve(f"<a id=go href='{link}'>go</a>"))
        seen.append(await click(env, "#go"))
        seen.append(await do(env, Hotkey(keys=("ctrl", "l"))))
    finally:
        await env.close()
    places = [pages.url(path) for path in ("/ann", "/ann", "/bob", "/eve", "/eve")]
    assert [(one.url, one.tabs[0].url, one.title) for one in seen] == [(place, place, "inside") for place in places]
    traffic = (tmp_path / "traffic.har").read_text()
    assert json.loads(traffic)["log"]["entries"]
    for text in (*(repr((one.notes, one.tabs)) for one in seen), traffic):
        assert "hunter22" not in text and PASSWORD not in text and "eve:" not in text


@pytest.mark.parametrize(
    ("address", "plain", "login"),
    [
        ("https://u:p%40w@h.com/x?y#z", "https://h.com/x?y#z", ("https://h.com", "u", "p@w")),
        ("HTTP:u:a@b@H:80", "http://H:80", ("http://h", "u", "a@b")),
        ("https:\\\\token@h:8443\\x", "https://h:8443\\x", ("https://h:8443", "token", "")),
        ("https://h.com/@user", "https://h.com/@user", None),
        ("data:text/html,a@b", "data:text/html,a@b", None),
    ],
)
async def test_what_an_address_holds(address: str, plain: str, login: tuple[str, str, str] | None) -> None:
    found = split_login(address)
    assert found[0] == plain
    assert (found[1] and (found[1].origin, found[1].username, found[1].password)) == login
