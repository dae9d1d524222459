"""Interactions of a real page, replayed on copies of it in a real browser."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.build import SiteEvaluator, build
from apps.video2web.interactions import Interaction, PageAction, interactions_of, pages_of
from apps.video2web.recording import PageState, Storyboard, Transition
from apps.video2web.render import Renderer, SitePages, open_page
from apps.video2web.replay import compare_curves, compare_durations, replay
from apps.video2web.rounds import BuildFolder, BuildRequest
from apps.video2web.rules_author import LiteralAuthor
from apps.video2web.score import read_reference
from visual_tools.box import Box
from visual_tools.images.files import load_image

pytestmark = pytest.mark.asyncio(loop_scope="session")
SIZE = (480, 320)
STYLE = """<style>body{margin:0;font:18px sans-serif;color:#222}header{background:#234;color:#fff;padding:14px}
button{position:absolute;left:40px;top:120px;width:150px;height:44px;border:0;background:#2563eb;
color:#fff;font:18px sans-serif}
button:hover{background:#b91c1c} a{position:absolute;left:260px;top:130px;color:#222;text-decoration:none}
.box{display:none;position:absolute;left:40px;top:190px;width:400px;height:90px;background:#fde68a;padding:12px}
.open .box{display:block}</style>"""
FIRST = f"""<!doctype html>{STYLE}<header>Fern and Company</header><button>Open box</button>
<a href=page-2.html>Next page</a>
<div class=box>Here is the box.</div>
<script>document.querySelector('button').onclick = () => document.body.classList.add('open')</script>"""
SECOND = f"<!doctype html>{STYLE}<header>Second page</header><h1 style='margin:100px 40px'>All plants</h1>"
SITE = {"index.html": FIRST, "page-2.html": SECOND}
BUTTON, LINK = (115, 142), (300, 142)


async def _record(renderer: Renderer, kind: str, at: tuple[int, int], box: Box, **more: object) -> Interaction:
    async with renderer.context(SitePages(SITE), SIZE) as context:
        page = (await open_page(context)).page
        if kind != "hover":
            await page.mouse.move(*at)
        before = load_image(await page.screenshot())
        await (page.mouse.move(*at) if kind == "hover" else page.mouse.click(*at))
        await page.wait_for_timeout(300)
        after = load_image(await page.screenshot())
    act = PageAction(trigger="hover" if kind == "hover" else "click", x_px=at[0], y_px=at[1])
    crops = [image[box.top : box.bottom, box.left : box.right] for image in (before, after)]
    end = after if kind != "hover" else None
    made = Interaction(
        kind=kind, page=0, acts=(act,), box_px=box, before=crops[0], after=crops[1], end_page=end, end_state=1
    )
    return Interaction(**{**{name: getattr(made, name) for name in made.__slots__}, **more})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def recorded(renderer: Renderer) -> list[Interaction]:
    return [
        await _record(renderer, "hover", BUTTON, Box(40, 120, 190, 164)),
        await _record(renderer, "modal", BUTTON, Box(40, 190, 464, 304)),
        await _record(renderer, "navigation", LINK, Box(0, 0, *SIZE), leads_to=1),
    ]


@pytest.mark.long
async def test_the_original_does_it_all_and_a_still_copy_nothing(
    renderer: Renderer, recorded: list[Interaction]
) -> None:
    names = ("index.html", "page-2.html")
    same = await replay(renderer, SitePages(SITE), recorded, names, SIZE)
    assert [each.is_present for each in same] == [True, True, True], same
    still = FIRST.replace("button:hover", "b").replace("classList.add('open')", "id").replace("href=page-2.html", "")
    found = await replay(renderer, SitePages({**SITE, "index.html": still}), recorded, names, SIZE)
    assert [each.why for each in found] == ["nothing happens"] * 3
    wrong = FIRST.replace("onclick", "onmouseenter").replace("page-2.html", "page-3.html")
    found = await replay(renderer, SitePages({**SITE, "index.html": wrong}), recorded, names, SIZE)
    assert [each.is_present for each in found] == [True, False, False]
    assert found[1].why == "nothing happens"  # it is open before the click: by a hover, so by another act


@pytest.mark.long
async def test_rules_make_pages_and_colours_of_what_was_recorded(
    renderer: Renderer, recorded: list[Interaction], tmp_path: Path
) -> None:
    shown = [await renderer.render(SitePages(SITE), SIZE, path=f"/{name}") for name in SITE]
    pages = tuple(read_reference(page.image, f"state {number}") for number, page in enumerate(shown))
    build_request = BuildRequest(pages=pages, viewport_px=SIZE, goal=1, max_rounds=0, interactions=tuple(recorded))
    folder = BuildFolder(tmp_path / "build")
    folder.begin(build_request, {})
    again = folder.request()
    assert [one.name for one in again.interactions] == [one.name for one in recorded]
    assert np.array_equal(again.interactions[1].after, recorded[1].after)
    async with SiteEvaluator() as evaluator:
        made = await build(folder, again, LiteralAuthor(), evaluator, lambda line: None)
    score = made.rounds[0]["score"]
    assert score["interactions"] > 0.95, score["replays"]
    assert all(one["is_there"] for one in score["replays"])
    static = np.mean([page["score"] for page in score["pages"]])
    assert score["score"] == pytest.approx(0.8 * static + 0.2 * score["interactions"], abs=1e-3)
    assert {"index.html", "page-2.html", "state-1.css", "interactions.js", "interactions.css"} <= set(folder.site(0))


@pytest.mark.long
async def test_a_menu_that_goes_again_is_laid_over_the_page(renderer: Renderer, recorded: list[Interaction]) -> None:
    menu = await _record(renderer, "menu", BUTTON, Box(40, 190, 464, 304), end_page=None, end_state=None)
    shown = await renderer.render(SitePages(SITE), SIZE)
    build_request = BuildRequest(pages=(read_reference(shown.image, "page"),), viewport_px=SIZE, interactions=(menu,))
    files = (await LiteralAuthor().draft(build_request)).files
    (done,) = await replay(renderer, SitePages(files), [menu], build_request.names, SIZE)
    assert done.is_present, done
    async with renderer.context(SitePages(files), SIZE) as context:
        page = (await open_page(context)).page
        before = await page.screenshot()
        await page.mouse.click(*BUTTON)
        await page.wait_for_timeout(200)
        assert await page.screenshot() != before
        await page.mouse.click(400, 60)
        await page.wait_for_timeout(300)
        assert await page.evaluate("getComputedStyle(document.querySelector('.state')).display") == "none"


@pytest.mark.long
async def test_the_header_of_an_accordion_is_clicked_along_its_row(renderer: Renderer) -> None:
    folded = await _record(renderer, "accordion", BUTTON, Box(40, 190, 464, 304))
    shown = await renderer.render(SitePages(SITE), SIZE)
    build_request = BuildRequest(pages=(read_reference(shown.image, "page"),), viewport_px=SIZE, interactions=(folded,))
    files = (await LiteralAuthor().draft(build_request)).files
    for place, does_open in (((430, 142), True), ((430, 100), False), ((470, 142), False)):
        async with renderer.context(SitePages(files), SIZE) as context:
            page = (await open_page(context)).page
            await page.mouse.move(*place)
            before = await page.screenshot()
            await page.mouse.click(*place)
            await page.wait_for_timeout(200)
            assert (await page.screenshot() != before) == does_open, place


@pytest.mark.long
async def test_of_two_acts_that_a_click_fits_the_nearer_one_counts(
    renderer: Renderer, recorded: list[Interaction]
) -> None:
    modal = recorded[1]
    ground = replace(modal.act, x_px=225, y_px=142)  # its element is the row that has the button in it
    red = np.full_like(modal.after, (200, 30, 30))
    menu = replace(modal, kind="menu", acts=(ground,), after=red, end_page=None, end_state=None)
    shown = await renderer.render(SitePages(SITE), SIZE)
    request = BuildRequest(pages=(read_reference(shown.image, "page"),), viewport_px=SIZE, interactions=(menu, modal))
    files = (await LiteralAuthor().draft(request)).files
    done = await replay(renderer, SitePages(files), [menu, modal], request.names, SIZE)
    assert [each.why for each in done] == ["", ""]


@pytest.mark.long
async def test_what_is_missing_is_told(renderer: Renderer, recorded: list[Interaction]) -> None:
    shown = await renderer.render(SitePages(SITE), SIZE)
    build_request = BuildRequest(
        pages=(read_reference(shown.image, "page"),), viewport_px=SIZE, interactions=(recorded[0],)
    )
    async with SiteEvaluator() as evaluator:
        still = FIRST.replace("button:hover", "b").encode()
        score, _, _ = await evaluator.score_site(build_request, {"index.html": still})
    assert score.missing() == ["interaction: hover at (115, 142): hover: nothing happens"]
    assert score.interactions == 0
    assert score.score == pytest.approx(0.8, abs=0.02)


@pytest.mark.long
async def test_what_cannot_be_replayed_counts_and_is_told(renderer: Renderer, recorded: list[Interaction]) -> None:
    lost = replace(recorded[1], lost="the acts that lead to its state are not known")
    shown = await renderer.render(SitePages(SITE), SIZE)
    pages = (read_reference(shown.image, "page"),)
    build_request = BuildRequest(pages=pages, viewport_px=SIZE, goal=1, max_rounds=0, interactions=(recorded[0], lost))
    async with SiteEvaluator() as evaluator:
        score, _, _ = await evaluator.score_site(build_request, {"index.html": FIRST.encode()})
    assert score.interactions is not None
    assert 0.4 <= score.interactions <= 0.5
    assert score.missing() == ["interaction: click at (115, 142): modal: the acts that lead to its state are not known"]


@pytest.mark.long
async def test_a_header_stays_over_the_page_and_its_states(renderer: Renderer) -> None:
    scrolled = PageAction(trigger="scroll", x_px=9, y_px=9, scroll_px=170)
    scroll = await _film(renderer, "scroll", scrolled, Box(0, 0, 480, 320))
    shown = await renderer.render(SitePages({"index.html": MOVING}), SIZE)
    request = BuildRequest(pages=(read_reference(shown.image, "page"),), viewport_px=SIZE, interactions=(scroll,))
    files = (await LiteralAuthor().draft(request)).files
    (done,) = await replay(renderer, SitePages(files), [scroll], request.names, SIZE)
    assert done.is_present, done
    async with renderer.context(SitePages(files), SIZE) as context:
        page = (await open_page(context)).page
        visible = "getComputedStyle(document.querySelector('.bar')).display"
        assert await page.evaluate(visible) == "none"
        await page.evaluate("scrollTo(0, 200)")
        await page.wait_for_timeout(100)
        assert await page.evaluate(visible) == "block"
        assert await page.get_by_text("Fern and Company").last.is_visible()


MOVING = f"""<!doctype html>{STYLE}<style>body{{height:900px}}header{{position:sticky;top:0}}input{{position:absolute;
left:40px;top:220px;width:200px;height:36px;font:18px sans-serif}}.late{{position:absolute;
left:40px;top:560px;width:400px;height:90px;background:#166534;opacity:0;
transition:opacity .5s linear}}.late.on{{opacity:1}}.clock{{position:absolute;
left:260px;top:220px;width:120px;height:40px;background:#fde68a;transition:background .4s linear}}</style>
<header>Fern and Company</header><button>Open box</button><input aria-label=name><div class=clock></div>
<div class=late></div>
<script>const late = document.querySelector('.late');
new IntersectionObserver(([one]) => one.isIntersecting && late.classList.add('on')).observe(late);
setTimeout(() => {{ document.querySelector('.clock').style.background = '#7c2d12' }}, 900);</script>"""


async def _film(renderer: Renderer, kind: str, act: PageAction, box: Box, **more: float) -> Interaction:
    """What the page MOVING does, as it would have been recorded."""
    async with renderer.context(SitePages({"index.html": MOVING}), SIZE) as context:
        page = (await open_page(context)).page
        before = load_image(await page.screenshot())
        if act.trigger == "type":
            await page.mouse.click(act.x_px, act.y_px)
            await page.keyboard.type(act.text)
        await page.evaluate(f"scrollTo(0, {act.scroll_px})")
        if kind == "reveal":
            before = load_image(await page.screenshot())
        await page.wait_for_timeout(1600 if act.trigger == "wait" else 800)
        after = load_image(await page.screenshot())
    crops = [image[box.top : box.bottom, box.left : box.right] for image in (before, after)]
    made = Interaction(kind=kind, page=0, acts=(act,), box_px=box, before=crops[0], after=crops[1])
    return Interaction(**{**{name: getattr(made, name) for name in made.__slots__}, **more})


@pytest.mark.long
async def test_typing_scrolling_reveals_and_clocks_are_done_again(renderer: Renderer) -> None:
    typed = PageAction(trigger="type", x_px=60, y_px=236, text="Ada Lovelace")
    moved, shown = (PageAction(trigger="scroll", x_px=9, y_px=9, scroll_px=row) for row in (160, 380))
    clock = PageAction(trigger="wait", x_px=9, y_px=9)
    recorded = [
        await _film(renderer, "typing", typed, Box(40, 220, 240, 256)),
        await _film(renderer, "scroll", moved, Box(0, 0, 480, 320)),
        await _film(renderer, "reveal", shown, Box(40, 180, 440, 270), duration_s=0.5),
        await _film(renderer, "carousel", clock, Box(260, 220, 380, 260), wait_s=0.9, duration_s=0.4),
    ]
    same = await replay(renderer, SitePages({"index.html": MOVING}), recorded, ("index.html",), SIZE)
    assert [each.is_present for each in same] == [True] * 4, same
    still = MOVING.replace("opacity:0", "opacity:1").replace("sticky", "static").replace("setTimeout", "void")
    still = still.replace("<input aria-label=name>", "")
    found = await replay(renderer, SitePages({"index.html": still}), recorded, ("index.html",), SIZE)
    assert [each.why for each in found] == [
        "nothing happens",
        "it ends differently",
        "it is there from the start",
        "it does not come",
    ]


ICON = "<svg width=22 height=22><path d='M11 1l3 7 7 1-5 5 1 7-6-3-6 3 1-7-5-5 7-1z' fill='#a3c'/></svg>"
OFFER = FIRST.replace(
    "Here is the box.",
    f"<b>Weekly letter</b><p>{ICON} Subscribe <b style='padding-left:60px;font-size:40px'>&minus;</b></p>",
)
CHECKBOX = "<input type=checkbox checked style='width:22px;height:22px;margin:0'>"
COVER = "<i style='position:absolute;left:0;top:0;width:180px;height:36px;background:#fde68a'></i>"
LOST = {
    "nothing": (OFFER, "", ""),
    "a word": (OFFER.replace("Subscribe", "<span style='opacity:0'>Subscribe</span>"), "words", "subscribe"),
    "a covered word": (OFFER.replace("Weekly", f"{COVER}Weekly"), "words", "weekly, letter"),
    "an icon as a checkbox": (OFFER.replace(ICON, CHECKBOX), "controls", "at (5"),
    "minus signs": (OFFER.replace("&minus;", "&nbsp;"), "marks", "at (2"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", LOST)
async def test_what_a_reader_would_miss_in_a_state_costs_and_is_told(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(SITE, "index.html", OFFER)
    box = Box(40, 190, 464, 304)
    opened = await _record(renderer, "modal", BUTTON, box)
    folded = await _record(renderer, "menu", BUTTON, box, end_page=None, end_state=None)
    html, kind, told = LOST[name]
    shown = await renderer.render(SitePages(SITE), SIZE)
    request = BuildRequest(
        pages=(read_reference(shown.image, "page"),), viewport_px=SIZE, goal=0.5, interactions=(opened, folded)
    )
    async with SiteEvaluator() as evaluator:
        score, _, _ = await evaluator.score_site(request, {"index.html": html.encode()})
    assert all(each.is_present for each in score.replays)
    if not kind:
        assert [each.score for each in score.replays] == [1, 1], score.replays
        assert (score.missing(), score.losses) == ([], "")
        return
    for each, line in zip(score.replays, score.missing(), strict=True):
        assert getattr(each.losses, kind), each.losses
        assert each.score == pytest.approx(each.losses.kept) and each.score < 0.95
        assert line.startswith(f"interaction: after {each.interaction.name}: ")
        assert f"{kind} {'invented' if kind == 'controls' else 'lost'}: {told}" in line
        assert f"after {each.interaction.name}: {each.losses.summary()}" in score.losses


@pytest.mark.long
@pytest.mark.parametrize("kind", ["accordion", "menu", "toggle", "modal", "carousel"])
async def test_an_act_at_a_guessed_place_does_not_count_as_built(
    renderer: Renderer, recorded: list[Interaction], kind: str
) -> None:
    page, opened, hovered = _windows(3)
    board = _board(
        (page, opened, hovered), (_change(kind, "click", 0, 1, None), _change("hover", "hover", 1, 1, (120, 80)))
    )
    guessed = interactions_of(board)
    assert [one.is_guess for one in guessed] == [True, True]  # the second one begins in a state that is guessed, too
    seen = recorded[1]
    guess = replace(seen, kind=kind, acts=(replace(seen.act, is_guess=True),))
    done = await replay(renderer, SitePages(SITE), [seen, guess], ("index.html",), SIZE)
    assert [each.score for each in done] == [1, 0]
    assert "no pointer is seen" in done[1].why


async def test_durations_and_curves_are_compared() -> None:
    assert compare_durations(0.4, 0.4) == 1
    assert compare_durations(0.4, 0.6) == pytest.approx(0.5)
    assert compare_durations(0.4, 0.9) == 0
    assert compare_durations(0.4, None) == 1
    assert compare_curves("ease-in", "ease-in") == compare_curves("", "ease") == 1
    assert compare_curves("ease-in", "ease-out") < compare_curves("ease-in", "linear") < 1


BOX = Box(100, 50, 200, 150)


def _windows(count: int, *, heights: tuple[int, ...] = ()) -> list[np.ndarray]:
    """Pages of noise, as high as the window unless given otherwise."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, 255, ((*heights, *[320] * count)[at], 480, 3), np.uint8) for at in range(count)]


def _change(kind: str, trigger: str, before: int, after: int, pointer: tuple[int, int] | None) -> Transition:
    return Transition(
        kind=kind, trigger=trigger, box_px=BOX, before=before, after=after, pointer_px=pointer, duration_s=0.2,
        easing="ease", start_s=1.0, confidence=0.9,
    )  # fmt: skip


def _board(pages: Sequence[np.ndarray], changes: Sequence[Transition], header_px: int = 0, row: int = 0) -> Storyboard:
    """A storyboard of pages whose changes happen while the first one is scrolled to a row."""
    states = [
        PageState(
            index=index, image=page[:320], full_page=page, top_px=0, first_s=0.0, last_s=9.0,
            fixed={"top": header_px} if header_px else {},
        )
        for index, page in enumerate(pages)
    ]  # fmt: skip

    def crop(state: int) -> np.ndarray:
        top = BOX.top + (0 if state else row)
        return states[state].full_page[top : top + BOX.height, BOX.left : BOX.right]

    changes = [
        replace(each, before_image=crop(each.before), after_image=crop(each.after) if each.after != each.before
                else 255 - crop(each.before))
        for each in changes
    ]  # fmt: skip
    return Storyboard(
        path=Path("demo.webm"), states=tuple(states), transitions=tuple(changes), size_px=SIZE, scale=1.0,
        crop_px=Box(0, 0, *SIZE), duration_s=9.0,
    )  # fmt: skip


async def test_a_state_entered_on_a_scrolled_page_has_its_place_there_and_no_header() -> None:
    pages = _windows(3, heights=(900,))
    for page in pages:
        page[:40] = (20, 40, 60)  # a header that stays in place
    changes = (_change("accordion", "click", 0, 1, (120, 80)), _change("accordion", "click", 1, 2, (130, 80)))
    first, second = interactions_of(_board(pages, changes, header_px=40, row=300))
    assert (first.act.scroll_px, second.act.scroll_px) == (300, 300)
    assert [act.scroll_px for act in second.acts] == [300, 300]
    for each, page in ((first, pages[1]), (second, pages[2])):
        assert each.end_row_px == 340
        assert np.array_equal(each.end_page, page[40:])
    unscrolled, _ = interactions_of(_board(pages, changes, header_px=40))
    assert (unscrolled.end_row_px, unscrolled.end_page.shape[0]) == (0, 320)


async def test_a_carousel_turned_without_a_pointer_is_clicked_at_the_button_of_its_direction() -> None:
    pages = []
    for name, color in (("Tuesday flowers", (242, 226, 184)), ("Thursday cheese", (207, 227, 212))):
        page = Image.new("RGB", SIZE, "white")
        paint, font = ImageDraw.Draw(page), ImageFont.truetype("DejaVuSans.ttf", 16)
        paint.rectangle((40, 30, 439, 199), color)
        paint.text((70, 60), name, (30, 30, 30), font)
        for left, right, label in ((40, 110, "Back"), (130, 230, "Forward")):
            paint.rectangle((left, 220, right, 260), "white", (30, 30, 30))
            paint.text((left + 12, 230), label, (30, 30, 30), font)
        pages.append(np.asarray(page))
    turns = [
        replace(_change("carousel", "click", before, after, None), box_px=Box(40, 30, 440, 200))
        for before, after in ((0, 1), (1, 0))
    ]
    for buttons in (True, False):
        if not buttons:
            pages = [np.concatenate([page[:210], page[280:], page[280:], page[280:]])[:320] for page in pages]
        forth, back = interactions_of(replace(_board(pages, []), transitions=tuple(turns)))
        assert forth.is_guess and back.is_guess
        places = [(each.act.x_px, each.act.y_px) for each in (forth, back)]
        assert np.allclose(places, [(180, 240), (75, 240)] if buttons else [(240, 115)] * 2, atol=1)


def _draw_cards(*names: str) -> np.ndarray:
    page = Image.new("RGB", (SIZE[0], 240 * len(names)), (251, 253, 248))
    paint, font = ImageDraw.Draw(page), ImageFont.truetype("DejaVuSans.ttf", 20)
    for number, name in enumerate(names):
        paint.rectangle((20, 240 * number + 15, 440, 240 * number + 225), (232, 241, 225))
        paint.text((40, 240 * number + 40), name, (32, 48, 32), font)
        paint.text((40, 240 * number + 180), f"All about {name}", (32, 48, 32), font)
    return np.asarray(page)


async def test_a_scroll_whose_windows_are_not_on_the_stitched_page_is_lost() -> None:
    page = _draw_cards("March snow", "April showers", "May flowers", "June picnics")
    windows = page[:320], page[500:820]
    scroll = Transition(
        kind="scroll", trigger="scroll", box_px=Box(0, 0, *SIZE), before=0, after=0, pointer_px=None, duration_s=0.5,
        easing="", start_s=1.0, confidence=0.9, before_image=windows[0], after_image=windows[1],
    )  # fmt: skip
    later = page.copy()
    later[560:600, 200:400] = page[40:80, 40:240]  # contents that appear once the page is scrolled
    for stitched in (page, later):
        (good,) = interactions_of(replace(_board([stitched], []), transitions=(scroll,)))
        assert (good.lost, good.act.scroll_px) == ("", 500)
    twice = _board([_draw_cards("March snow", "April showers", "April showers", "May flowers")], [])
    (bad,) = interactions_of(replace(twice, transitions=(scroll,)))
    assert bad.lost == "the rows that it shows are not found on the page"
    reveal = replace(scroll, kind="reveal", start_s=1.3)  # moves while the page scrolls: its windows say nothing
    assert interactions_of(replace(twice, transitions=(scroll, reveal)))[0].lost == ""


async def test_a_storyboard_becomes_pages_and_interactions() -> None:
    rng = np.random.default_rng(1)
    full = [rng.integers(0, 255, (900, 480, 3), np.uint8) for _ in range(4)]
    states = [
        PageState(index=index, image=image[:320], full_page=image, top_px=0, first_s=0.0, last_s=9.0)
        for index, image in enumerate(full)
    ]
    box = Box(100, 50, 200, 150)

    def transition(kind: str, trigger: str, before: int, after: int, top: int = 0) -> Transition:
        crop = full[before][top + box.top : top + box.bottom, box.left : box.right]
        return Transition(
            kind=kind, trigger=trigger, box_px=box, before=before, after=after, pointer_px=(120, 80), duration_s=0.2,
            easing="ease", start_s=1.0, confidence=0.9, before_image=None if kind == "scroll" else crop,
            after_image=255 - crop,
        )  # fmt: skip

    board = Storyboard(
        path=Path("demo.webm"),
        states=tuple(states),
        transitions=(
            transition("hover", "hover", 0, 0, top=300),
            transition("modal", "click", 0, 1),
            transition("hover", "hover", 1, 1),
            transition("navigation", "click", 1, 2),
            transition("scroll", "scroll", 2, 2),
            transition("toast", "time", 3, 3),
        ),
        size_px=SIZE,
        scale=1.0,
        crop_px=Box(0, 0, *SIZE),
        duration_s=9.0,
    )
    assert pages_of(board) == [0, 2]
    interactions = interactions_of(board)
    assert [(each.page, len(each.acts), each.leads_to) for each in interactions] == [
        (0, 1, None), (0, 1, None), (0, 2, None), (0, 2, 1), (0, 1, None), (0, 1, None),
    ]  # fmt: skip
    assert [each.lost for each in interactions] == [""] * 4 + [
        "the window before and after it is not kept",
        "the acts that lead to its state are not known",
    ]
    assert np.array_equal(interactions[1].after, full[1][box.slices])  # of the state at rest, not of the transition
    assert interactions[0].act.scroll_px == 300
    assert interactions[1].act.scroll_px == 0
    assert interactions[2].acts[0].trigger == "click"
