import asyncio
from pathlib import Path

import numpy as np
import pytest

from apps.video2web.render import MAX_PAGE_PX, Renderer, SiteFiles, SitePages
from visual_tools.pages.text_blocks import match_blocks, read_blocks

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGE = """<!doctype html><title>Plants</title><style>body{margin:0;font-family:sans-serif}
header{background:#223344;color:#fff;padding:16px} .gone{display:none}</style>
<header><b>Fern</b> and Co</header><h1>Plants for your flat</h1><p>We grow two hundred kinds.</p>
<p class=gone>nobody sees this</p><script>var text = 'nor this'</script><input value="typed">"""


@pytest.mark.long
async def test_blocks_are_the_ink_of_each_element(renderer: Renderer) -> None:
    page = await renderer.render(SitePages({"index.html": PAGE}), (800, 600))
    assert page.image.shape == (600, 800, 3)
    assert [block.text for block in page.blocks] == [
        "fern",
        "and co",
        "plants for your flat",
        "we grow two hundred kinds.",
    ]
    first = page.blocks[0]
    assert first.left * 800 == pytest.approx(17, abs=2)
    assert min(first.rgb) > 230
    assert match_blocks(page.blocks, read_blocks(page.image)).text > 0.95
    kinds = {box.kind for box in page.boxes}
    assert kinds == {"box", "field"}


@pytest.mark.long
async def test_nothing_but_the_site_is_reached(renderer: Renderer, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("outside")
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(
        """<p id=out>waiting</p><img src="http://127.0.0.1:1/x.png"><img src="/../secret.txt"><script>
        const tries = ['/%2e%2e/secret.txt', '..%2fsecret.txt', 'http://127.0.0.1:1/',
          'file:///etc/hostname', '/own.txt'];
        Promise.allSettled(tries.map((url) => fetch(url).then((r) => r.text()))).then((all) => {
          document.getElementById('out').textContent = all.map((one) => one.value || 'refused').join(' '); });
        </script>"""
    )
    (site / "own.txt").write_text("own")
    (site / "link.txt").symlink_to(secret)
    page = await renderer.render(SiteFiles(site), (400, 300))
    assert page.blocks[0].text == "refused refused refused refused own"
    assert any("127.0.0.1" in problem for problem in page.problems)
    assert SiteFiles(site).read("/link.txt") is None
    assert SiteFiles(site).read("/own.txt") == (b"own", "text/plain")


@pytest.mark.long
async def test_a_page_that_never_ends_is_cut(renderer: Renderer) -> None:
    page = await renderer.render(SitePages({"index.html": "<div style='height:50000px'>x</div>"}), (320, 200))
    assert page.image.shape == (MAX_PAGE_PX, 320, 3)


@pytest.mark.long
async def test_what_moves_is_still_and_dialogs_do_not_hold(renderer: Renderer) -> None:
    html = """<style>@keyframes a{from{left:0}to{left:300px}} p{position:absolute;animation:a 1s infinite}</style>
    <p>moving</p><script>alert('hello'); setTimeout(() => { throw new Error('late') }, 0)</script>"""
    first, second = [await renderer.render(SitePages({"index.html": html}), (400, 200)) for _ in range(2)]
    assert np.array_equal(first.image, second.image)
    assert any("late" in problem for problem in first.problems)


@pytest.mark.long
async def test_sites_are_rendered_side_by_side(renderer: Renderer) -> None:
    sites = [SitePages({"index.html": f"<p>page {number}</p>"}) for number in range(4)]
    pages = await asyncio.gather(*(renderer.render(site, (200, 100)) for site in sites))
    assert [page.blocks[0].text for page in pages] == [f"page {number}" for number in range(4)]
