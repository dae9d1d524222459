"""The click test in a browser: targets on a page that notes where it was clicked."""

from collections.abc import Sequence

from apps.setup.click_test import TARGET_SIDE_PX, Point, Target, click_all, make_targets, reset_and_close

BROWSER_CASES: tuple[tuple[tuple[int, int], float], ...] = (
    ((1280, 720), 1.0),
    ((1023, 767), 1.0),
    ((801, 601), 2.0),
    ((1366, 768), 1.5),
)
"""Viewport in CSS px, and device px for each of them."""

_NOTE_CLICKS = "() => { window.hits = []; onmousedown = event => hits.push([event.clientX, event.clientY]); }"


async def click_in_browser(size_px: tuple[int, int], scale: float) -> list[float | None]:
    """Errors in px for all targets on a page of this size."""
    from envs.browser import BrowserEnv, BrowserOptions

    env = BrowserEnv(BrowserOptions(viewport_px=size_px, device_scale=scale))
    targets = make_targets(size_px)

    async def read_hits(at_least: int) -> Sequence[Point]:
        return [(float(x), float(y)) for x, y in await env.page.evaluate("hits")]

    async def work() -> list[float | None]:
        await env.page.set_content(_render_page(targets))
        await env.page.evaluate(_NOTE_CLICKS)
        return await click_all(env, targets, read_hits)

    return await reset_and_close(env, work)


def _render_page(targets: Sequence[Target]) -> str:
    half = TARGET_SIDE_PX // 2
    squares = "".join(
        f'<div style="left:{x - half:g}px;top:{y - half:g}px;background:rgb{rgb}"></div>'
        for (x, y), rgb in ((target.middle_px, target.rgb) for target in targets)
    )
    side = f"width:{TARGET_SIDE_PX}px;height:{TARGET_SIDE_PX}px"
    return f"<style>html{{overflow:hidden;background:#fff}}div{{position:absolute;{side}}}</style>{squares}"
