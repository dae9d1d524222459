from collections.abc import Sequence

import pytest

from apps.setup.click_test import (
    BROWSER_CASES,
    DESKTOP_SIZES,
    Point,
    _measure,
    click_all,
    click_in_browser,
    click_on_desktop,
    make_targets,
    reset_and_close,
)
from apps.setup.report import DoctorRow
from envs import EnvError
from envs.browser import BrowserEnv, BrowserOptions
from envs.desktop.private_display import find_window_manager, find_xvfb
from tests.apps.setup.machine import real_browser

needs_browser = pytest.mark.skipif(real_browser() is None, reason="no Chromium on PATH or in $K25_BROWSER")
needs_display = pytest.mark.skipif(
    find_xvfb() is None or find_window_manager() is None, reason="no Xvfb or no window manager"
)


@pytest.mark.slow
@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize(("size_px", "scale"), [*BROWSER_CASES, ((333, 501), 3.0)])
async def test_browser_clicks_arrive_on_the_pixel(size_px: tuple[int, int], scale: float) -> None:
    assert await click_in_browser(size_px, scale) == [0.0] * len(make_targets(size_px))


@pytest.mark.slow
@needs_display
@pytest.mark.desktop
@pytest.mark.parametrize("size_px", [*DESKTOP_SIZES, (641, 479)])
async def test_desktop_clicks_arrive_on_the_pixel(size_px: tuple[int, int]) -> None:
    assert await click_on_desktop(size_px) == [0.0] * len(make_targets(size_px))


def test_targets_are_inside_and_apart() -> None:
    for size_px in ((333, 501), (3840, 2160)):
        targets = make_targets(size_px)
        assert len({target.middle_px for target in targets}) == len({target.rgb for target in targets}) == len(targets)
        assert all(
            4 <= target.middle_px[0] < size_px[0] - 4 and 4 <= target.middle_px[1] < size_px[1] - 4
            for target in targets
        )


@needs_browser
@pytest.mark.browser
async def test_a_click_that_lands_elsewhere_or_nowhere_is_seen() -> None:
    """The page reports clicks 7 px off, and the last one not at all."""
    env = BrowserEnv(BrowserOptions(viewport_px=(400, 300)))
    targets = make_targets((400, 300))[:2]
    hits: list[Point] = []

    async def read_hits(at_least: int) -> Sequence[Point]:
        if at_least == 1:
            hits.append((targets[0].middle_px[0] + 7, targets[0].middle_px[1] - 2))
        return tuple(hits)

    async def work() -> list[float | None]:
        squares = "".join(
            f"<b style='position:absolute;width:9px;height:9px;left:{t.middle_px[0] - 4}px;top:{t.middle_px[1] - 4}px;"
            f"background:rgb{t.rgb}'></b>"
            for t in targets
        )
        await env.page.set_content(squares)
        return await click_all(env, targets, read_hits)

    assert await reset_and_close(env, work) == [7.0, None]


async def test_rows() -> None:
    said: list[str] = []

    async def good() -> list[float | None]:
        return [0.0, 1.0]

    async def bad() -> list[float | None]:
        return [0.0, None, 3.0]

    async def dead() -> list[float | None]:
        raise EnvError("no browser")

    assert await _measure(said.append, "a", good) == DoctorRow(
        name="a", level="ok", actual="2 of 2 arrived, at most 1.0 px off"
    )
    assert await _measure(said.append, "b", bad) == DoctorRow(
        name="b", level="fail", actual="2 of 3 arrived, at most 3.0 px off", expected="all, at most 1 px off"
    )
    assert (await _measure(said.append, "c", dead)).actual == "no browser"
    assert said == [
        "a",
        "  target 1: 0.0 px off",
        "  target 2: 1.0 px off",
        "b",
        "  target 1: 0.0 px off",
        "  target 2: no click arrived",
        "  target 3: 3.0 px off",
        "c",
    ]
