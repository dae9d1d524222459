"""Native lists, new tabs, dialogs, downloads and HTTP logins of the stand-ins, used by an agent's ordinary actions."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from envs.actions import Click, PressKey, Scroll, TypeText
from envs.env import EnvSpec, Task
from envs.observation import Observation
from envs.registry import EnvSecrets
from envs.secret_texts import HttpLogin
from envs.suites.apps import AppsEnv
from envs.suites.apps.app import PASSWORD
from tests.envs.browser.driving import do, middle, until
from tests.envs.suites.apps.proving import apps_env, skip_unless_installed

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
TRAC, WIKI, CMS = (f"http://{name}.localhost" for name in ("trac", "dokuwiki", "wagtail"))


@dataclass(frozen=True, slots=True)
class Visit(Task):
    """A task that opens a page of an app, signed in."""

    sites: tuple[str, ...]
    url: str
    instruction: str = "test"

    async def setup(self, env: AppsEnv) -> None:
        await env.sign_in()
        await env.goto(self.url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[AppsEnv]:
    skip_unless_installed("trac", "dokuwiki", "wagtail")
    async with apps_env() as made:
        yield made


async def place(env: AppsEnv, selector: str) -> tuple[int, int]:
    """The middle of an element; scrolled to, as an agent does, where it is not on the screen."""
    box = None
    for _ in range(40):
        box = await env.page.locator(selector).last.bounding_box()
        if box is not None and 40 < box["y"] + box["height"] / 2 < 680:
            return round(box["x"] + box["width"] / 2), round(box["y"] + box["height"] / 2)
        await do(env, Scroll(dy=3 if box is not None and box["y"] < 40 else -3, x_px=640, y_px=360))
    raise AssertionError(f"{selector} never came into view: {box}")


async def click(env: AppsEnv, selector: str) -> Observation:
    x_px, y_px = await place(env, selector)
    return await do(env, Click(x_px=x_px, y_px=y_px))


async def choose(env: AppsEnv, selector: str, text: str) -> None:
    """Open a native list by a click, and click a row of it."""
    await click(env, selector)
    row = f"document.querySelector({selector!r}).options"
    x_px, y_px = await middle(env, f"Array.from({row}).find(one => one.text.trim() === {text!r})")
    assert await env.describe_point(x_px, y_px) == f'option "{text}"'
    await do(env, Click(x_px=x_px, y_px=y_px))


async def test_a_native_list_in_a_form_of_trac(env: AppsEnv) -> None:
    await env.reset(Visit(("trac",), f"{TRAC}/newticket"))
    await click(env, "#field-summary")
    await do(env, TypeText(text="Buoy 7 drifts"))
    await choose(env, "#field-priority", "critical")
    await click(env, "#propertyform input[name=submit]")
    await do(env)
    facts = await env.facts()
    (path,) = [path for path, value in facts.items() if value == "Buoy 7 drifts" and path.endswith("/summary")]
    assert facts[path.replace("/summary", "/priority")] == "critical"


async def test_a_file_of_trac_is_downloaded(env: AppsEnv) -> None:
    await env.reset(Visit(("trac",), f"{TRAC}/report/1"))
    observation = await click(env, "a:has-text('Comma-delimited')")
    notes = list(observation.notes)

    async def has_come() -> bool:
        notes.extend((await do(env)).notes)
        return any("was downloaded" in note for note in notes)

    await until(has_come)
    (file,) = [path for path in env.downloads_dir.iterdir() if path.suffix == ".csv"]
    assert "Small ferry takes in water" in file.read_text("utf-8")


async def test_a_link_of_the_cms_opens_a_tab_of_its_own(env: AppsEnv) -> None:
    await env.reset(Visit(("wagtail",), f"{CMS}/admin/pages/3/"))
    await click(env, f"a[target=_blank][href='{CMS}/boats/'], a[target=_blank][href='/boats/']")

    async def has_come() -> bool:
        tabs = (await do(env)).tabs
        return [(tab.url, tab.is_active) for tab in tabs][1:] == [(f"{CMS}/boats/", True)]

    await until(has_come)


async def test_a_dialog_of_the_wiki_is_answered(env: AppsEnv) -> None:
    await env.reset(Visit(("dokuwiki",), f"{WIKI}/doku.php?id=prices&do=admin&page=usermanager"))
    before = await env.facts()
    await click(env, "[name='delete[celia]']")
    observation = await click(env, "[name='fn[delete]']")
    assert observation.dialog is not None and observation.dialog.kind == "confirm"
    await do(env, PressKey(key="esc"))
    assert await env.facts() == before
    await click(env, "[name='fn[delete]']")
    await do(env, PressKey(key="enter"))
    await do(env)
    gone = before.keys() - (await env.facts()).keys()
    assert gone and all("celia" in path for path in gone), gone


@pytest.mark.parametrize(
    ("password", "is_let_in", "told"),
    [
        (PASSWORD, True, ""),
        ("wrong-12", False, "it refuses the user name and the password"),
        ("", False, "it wants a user"),
    ],
)
async def test_the_login_of_trac_by_http(password: str, is_let_in: bool, told: str) -> None:
    skip_unless_installed("trac")
    login = HttpLogin(origin=TRAC, username="mara", password=password)
    env = EnvSecrets(http_logins=(login,) if password else ()).make_env(EnvSpec(name="apps"))
    assert isinstance(env, AppsEnv)
    try:
        await env.reset(Visit(("trac",), f"{TRAC}/ticket/1"))
        await click(env, "#metanav button:has-text('Logout'), #metanav a:has-text('Logout')")
        await do(env)
        assert await env.page.locator("#metanav a:has-text('Login')").count() == 1
        seen = await click(env, "#metanav a:has-text('Login')")
        notes = [*seen.notes, *(await do(env)).notes]
        assert any(told in note for note in notes) if told else not notes
        assert not any(password in note for note in notes if password)
        await env.goto(f"{TRAC}/ticket/1")
        who = await env.page.inner_text("#metanav")
        assert ("logged in as Mara Lind" in who) is is_let_in, who
    finally:
        await env.close()
