"""The page: foreign words stay words, clips play, the folder stays within its size."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from apps.video_showcase.clips import choose_clips, clip_span, write_clip
from apps.video_showcase.events import VideoEvent
from apps.video_showcase.frame_store import FrameStore
from apps.video_showcase.showcase import Showcase, check_target, render_page, write_showcase
from apps.video_showcase.sources import VideoSource
from cua.errors import ConfigError
from visual_tools.video.info import probe

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7 * 7 }}"


def make_show(source: VideoSource, events: list[VideoEvent], **more: object) -> Showcase:
    answer = f"See {source.name}@00:00:05 and {source.name}@01:10:00. {HOSTILE}\nMore [^3^]"
    show = Showcase(question=HOSTILE, answer=answer, events=tuple(events), sources=(source,), remarks=(HOSTILE,))
    return replace(show, **more)


@pytest.mark.long
def test_foreign_words_stay_words(source: VideoSource) -> None:
    name = f"{HOSTILE}.mp4"
    odd = replace(source, name=name)
    events = [VideoEvent(file=name, start_s=5, end_s=6, kind=HOSTILE[:40], text=HOSTILE)]
    page = render_page(make_show(odd, events), {}, {})
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img src=x" not in page
    assert "49" not in page.replace("#", "").split("<body>")[1].split("<script>")[0]
    assert '<a class="cite" href="#event-1">' in page
    assert 'title="no event is noted there"' in page
    assert "[^3^]" not in page
    assert "default-src 'none'" in page.replace("&#39;", "'")


def test_each_kind_gets_clips_in_turn() -> None:
    kinds = ["beep"] * 5 + ["goal"] * 2 + ["flash"]
    events = [
        VideoEvent(file="a", start_s=at, end_s=at, kind=kind, confidence=1 - at / 100) for at, kind in enumerate(kinds)
    ]
    assert choose_clips(events, 5) == [0, 5, 7, 1, 6]
    assert sorted(choose_clips(events, 100)) == list(range(8))


def test_a_clip_shows_what_it_says(source: VideoSource, match: tuple[Path, list[VideoEvent]], tmp_path: Path) -> None:
    event = next(event for event in match[1] if event.kind == "motion")
    span = clip_span(event, source)
    assert span.start_s == pytest.approx(event.start_s - 1)
    size_bytes = write_clip(source, span, tmp_path / "clip.webm")
    info = probe(tmp_path / "clip.webm")
    assert size_bytes == (tmp_path / "clip.webm").stat().st_size
    assert info.duration_s == pytest.approx(span.end_s - span.start_s, abs=0.3)
    assert (info.codec, info.has_audio, info.width_px, info.height_px) == ("vp8", True, 320, 180)


@pytest.mark.long
async def test_the_folder_stays_within_its_size(
    source: VideoSource, match: tuple[Path, list[VideoEvent]], tmp_path: Path
) -> None:
    said: list[str] = []
    show = make_show(source, match[1], max_bytes=4 * 2**20 + 120_000)
    page = await write_showcase(show, tmp_path / "show", FrameStore(tmp_path / "frames"), said.append)
    clips = sorted((tmp_path / "show" / "clips").iterdir())
    assert 0 < len(clips) < len(match[1])
    assert sum(each.stat().st_size for each in clips) <= 120_000
    assert "clips were left out" in page.read_text()
    assert len(json.loads((tmp_path / "show" / "events.json").read_text())) == len(match[1])
    check_target(tmp_path / "show")  # one of ours may be replaced
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not a showcase"):
        check_target(tmp_path / "mine")


@pytest.mark.long
@pytest.mark.browser
async def test_it_opens_from_disk_plays_its_clips_and_asks_for_nothing(
    source: VideoSource, match: tuple[Path, list[VideoEvent]], tmp_path: Path
) -> None:
    from axe_playwright_python.async_playwright import Axe
    from playwright.async_api import async_playwright

    from envs.browser.launch import find_browser

    show = make_show(source, match[1][:3])
    path = await write_showcase(show, tmp_path / "show", FrameStore(tmp_path / "frames"), lambda _: None)
    asked: list[str] = []
    wrong: list[str] = []
    async with async_playwright() as playwright:
        binary = find_browser()
        assert binary is not None
        browser = await playwright.chromium.launch(executable_path=binary.path, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 390, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        await page.goto(path.as_uri())
        await page.locator(".play").first.click()
        deadline = time.monotonic() + 20  # the page's own policy forbids wait_for_function
        while await page.evaluate("document.querySelector('video').currentTime") < 0.2:
            assert time.monotonic() < deadline, "the clip does not play"
            await asyncio.sleep(0.05)
        played = await page.evaluate("[...document.querySelectorAll('video')].map(video => video.readyState > 1)")
        assert played[0]
        await page.locator(".kind").first.click()
        assert await page.locator(".event.off").count() == 1
        await page.locator("a.cite").first.click()
        assert await page.evaluate("document.activeElement.id") == "event-1"
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found = await Axe().run(page)
        await browser.close()
    assert [each["id"] for each in found.response["violations"] if each["impact"] in ("serious", "critical")] == []
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
