"""The browser env keeps the contract of every env."""

import sys

import pytest

import envs
from envs.browser import BrowserEnv, BrowserOptions
from envs.check_env import check_env
from envs.env import Env
from envs.errors import MissingDependencyError
from tests.envs.browser.pages import PageServer

pytestmark = pytest.mark.browser


@pytest.mark.long
async def test_the_contract_is_kept() -> None:
    await check_env(BrowserEnv)


@pytest.mark.slow
async def test_the_contract_is_kept_on_a_scaled_page(pages: PageServer) -> None:
    options = BrowserOptions(start_url=pages.serve("<textarea>x</textarea>"), device_scale=1.5, viewport_px=(641, 359))
    await check_env(lambda: BrowserEnv(options))


def test_the_type_fits_the_protocol() -> None:
    env: Env = BrowserEnv()
    assert env.terminate is None
    assert envs.Env is Env


async def test_without_playwright_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cua-k25\[browser\]'"):
        await BrowserEnv().reset(envs.InstructionTask(instruction="test"))


def test_options_are_checked() -> None:
    for wrong in ({"viewport_px": (0, 9)}, {"device_scale": 0.0}, {"masked_texts": ("",)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            BrowserOptions(**wrong)  # type: ignore[arg-type]
