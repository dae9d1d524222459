"""Downloads: under safe names, never lost in silence, shown where a person's browser shows them."""

import asyncio
import base64
import io
from pathlib import Path
from urllib.parse import quote

import pytest
from PIL import Image

from envs.actions import Hotkey, PressKey, TypeText, Wait
from envs.browser import BrowserEnv
from envs.browser.context import safe_name
from envs.browser.downloads import view_file
from envs.observation import Observation
from tests.envs.browser.driving import OpenPage, click, do, picture
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
RED, GREEN = (200, 30, 30), (30, 160, 30)


def make_pdf(*colours: tuple[int, int, int]) -> bytes:
    """A PDF with a page of each colour, 5.6 x 8.3 inches."""
    first, *others = [Image.new("RGB", (400, 600), colour) for colour in colours]
    buffer = io.BytesIO()
    first.save(buffer, "PDF", save_all=True, append_images=others)
    return buffer.getvalue()


def num_pixels(observation: Observation, colour: tuple[int, int, int]) -> int:
    image = picture(observation)
    counts = image.getcolors(image.width * image.height) or []
    return sum(n for n, found in counts if max(abs(a - b) for a, b in zip(found, colour, strict=True)) < 12)  # type: ignore[arg-type]


async def type_address(env: BrowserEnv, text: str) -> Observation:
    return (await env.step([Hotkey(keys=("ctrl", "l")), TypeText(text=f"{text}\n")])).observation


@pytest.mark.parametrize("fragment", ["", "#page=2", "#zoom=50&page=2"])
@pytest.mark.parametrize("opening", ["", "target=_blank"])
@pytest.mark.long
async def test_a_linked_pdf_is_shown_under_its_address_and_saved(
    env: BrowserEnv, pages: PageServer, opening: str, fragment: str
) -> None:
    pdf = pages.serve_data("bill.pdf", make_pdf(RED, GREEN), "application/pdf") + fragment
    start = pages.serve(f"<a id=go {opening} href='{pdf}'>bill</a>", title="start")
    await env.reset(OpenPage(start))
    observation = await click(env, "#go")
    assert num_pixels(observation, GREEN if fragment else RED) > 100_000
    assert observation.url == pdf
    assert "(2 pages)" in (observation.title or "")
    assert observation.tabs[-1].is_active
    assert [note for note in observation.notes if "was downloaded" in note]
    if opening:
        assert len(observation.tabs) == 2
        assert (await do(env, Hotkey(keys=("ctrl", "w")))).url == start
    else:
        assert (await do(env, Hotkey(keys=("alt", "left")))).url == start


@pytest.mark.parametrize("fragment", ["", "#toolbar=0&view=FitH"])
@pytest.mark.long
async def test_embedded_pdfs_are_shown_in_their_places(env: BrowserEnv, pages: PageServer, fragment: str) -> None:
    red, green = (pages.serve_data("x.pdf", make_pdf(colour), "application/pdf") + fragment for colour in (RED, GREEN))
    body = (
        f"<embed src='{red}' type='application/pdf' width=300 height=300><br>"
        f"<object data='{green}' type='application/pdf' width=300 height=300>no viewer</object>"
    )
    observation = await env.reset(OpenPage(pages.serve(body)))
    assert min(num_pixels(observation, RED), num_pixels(observation, GREEN)) > 30_000
    assert observation.notes == ()  # a person's browser does not save these
    frame = f"<script>document.write(navigator.pdfViewerEnabled)</script><iframe src='{red}' width=300 height=300>"
    observation = await env.reset(OpenPage(pages.serve(frame)))
    assert num_pixels(observation, RED) > 30_000
    assert (await env.page.inner_text("body")).strip() == "true"


@pytest.mark.long
@pytest.mark.parametrize("tag", ["<iframe src='{}'", "<embed type='application/pdf' src='{}'", "<object data='{}'"])
async def test_a_pdf_that_a_page_holds_itself_is_shown(env: BrowserEnv, pages: PageServer, tag: str) -> None:
    encoded = base64.b64encode(make_pdf(RED)).decode()
    inside = tag.format(f"data:application/pdf;base64,{encoded}") + " width=300 height=300></iframe></object>"
    assert num_pixels(await env.reset(OpenPage(pages.serve(inside))), RED) > 30_000
    made = (
        f"<div id=o></div><script>fetch('data:application/pdf;base64,{encoded}').then(r => r.blob()).then(b => {{"
        f"o.innerHTML = `{tag.format('${URL.createObjectURL(b)}')} type='application/pdf' width=3"
        f"00 height=300>` }})</script>"
    )
    await env.reset(OpenPage(pages.serve(made)))
    assert num_pixels(await do(env, Wait(duration_s=1)), RED) > 30_000


@pytest.mark.long
async def test_a_pdf_with_a_fragment_is_opened_by_the_address_bar_and_reloaded(
    env: BrowserEnv, pages: PageServer
) -> None:
    pdf = pages.serve_data("bill.pdf", make_pdf(*[RED] * 32, GREEN), "application/pdf")
    await env.reset(OpenPage(pages.serve("start")))
    observation = await type_address(env, f"{pdf}#page=33")
    assert (observation.url, num_pixels(observation, GREEN) > 100_000) == (f"{pdf}#page=33", True)
    pages.serve_data("bill.pdf", make_pdf(GREEN, RED), "application/pdf", at=pdf)
    observation = await do(env, PressKey(key="f5"))
    assert (observation.url, "(2 pages)" in (observation.title or "")) == (f"{pdf}#page=33", True)
    observation = await type_address(env, pdf)
    assert (observation.url, num_pixels(observation, GREEN) > 100_000) == (pdf, True)
    assert (await do(env, Hotkey(keys=("alt", "left")))).url == f"{pdf}#page=33"


@pytest.mark.long
async def test_a_pdf_of_a_script_and_one_that_a_form_is_answered_with(env: BrowserEnv, pages: PageServer) -> None:
    pdf = pages.serve_data("bill.pdf", make_pdf(RED), "application/pdf")
    body = (
        f"<form method=post target=_blank action='{pdf}'><button id=post>post</button></form>"
        f"<button id=blob onclick=\"fetch('{pdf}').then(r => r.blob())"
        '.then(b => window.open(window.URL.createObjectURL(b)))">blob</button>'
    )
    start = pages.serve(body)
    for button in ("#post", "#blob"):
        await env.reset(OpenPage(start))
        await click(env, button)
        observation = await do(env, Wait(duration_s=0.3))
        assert len(observation.tabs) == 2
        assert num_pixels(observation, RED) > 100_000


@pytest.mark.long
async def test_a_pdf_that_cannot_be_shown_says_so(env: BrowserEnv, pages: PageServer, tmp_path: Path) -> None:
    broken = pages.serve_data("broken.pdf", b"%PDF-1.7\nnothing", "application/pdf")
    await env.reset(OpenPage(pages.serve(f"<a id=go href='{broken}'>bill</a>")))
    assert (await click(env, "#go")).url == broken
    assert "The PDF is damaged" in await env.page.inner_text("body")
    pypdf = pytest.importorskip("pypdf")
    locked = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf(RED)))
    locked.encrypt("secret")
    locked.write(tmp_path / "locked.pdf")
    assert "protected with a password" in await view_file(tmp_path / "locked.pdf")
    (tmp_path / "long.pdf").write_bytes(make_pdf(*[RED] * 40))
    html = await view_file(tmp_path / "long.pdf")
    assert html.count("<img") == 30
    assert f"Pages 31 to 40 are not shown. To see them, open {tmp_path / 'long.pdf'}?page=31" in html
    assert (await view_file(tmp_path / "long.pdf", first_page=31)).count("<img") == 10
    assert "From page 40." in await view_file(tmp_path / "long.pdf", first_page=999)


@pytest.mark.parametrize("way", ["link", "late"])
@pytest.mark.long
async def test_a_tab_that_only_downloads_closes(env: BrowserEnv, pages: PageServer, way: str) -> None:
    data = pages.serve_data("a.pdf", make_pdf(RED), "application/pdf", "attachment; filename=a.pdf")
    late = f"tab = window.open(''); setTimeout(() => tab.location = '{data}', 300)"
    link = f"<a id=go target=_blank href='{data}'>go</a>"
    body = link if way == "link" else f'<button id=go onclick="{late}">go</button>'
    others = f"<a id=other target=_blank href='{pages.serve('other')}'>other</a>"
    start = pages.serve(body + others, title="start")
    await env.reset(OpenPage(start))
    await click(env, "#other")
    await do(env, Hotkey(keys=("ctrl", "1")))
    notes = [*(await click(env, "#go")).notes]
    observation = await do(env, Wait(duration_s=0.6 if way == "late" else 0.0))
    assert [(tab.url == start, tab.is_active) for tab in observation.tabs] == [(True, True), (False, False)]
    assert ["'a" in note and "was downloaded" in note for note in (*notes, *observation.notes)] == [True]


async def test_a_page_that_says_that_a_download_begins_stays(env: BrowserEnv, pages: PageServer) -> None:
    data = pages.serve_data("a.zip", b"PK", "application/zip")
    wait = pages.serve(f"<h1>Soon</h1><script>setTimeout(() => location = '{data}', 100)</script>", title="soon")
    await env.reset(OpenPage(pages.serve(f"<a id=go target=_blank href='{wait}'>go</a>")))
    await click(env, "#go")
    assert (await do(env, Wait(duration_s=0.6))).title == "soon"


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("long-report-" * 25 + ".txt", ("long-report-" * 25)[:196] + ".txt"),
        ("報告" * 100 + ".tar.gz", ("報告" * 100)[:64] + ".tar.gz"),
        ("😀📊.csv", "😀📊.csv"),
        ("../../evil.sh", "evil.sh"),
        ("..", "download"),
        ("", "download"),
        ('a<b>:"c|d?*\x07e\u202etxt.exe', "a_b___c_d___e_txt.exe"),
        ("con.txt", "_con.txt"),
        ("no extension. ", "no extension"),
    ],
)
async def test_a_name_is_made_safe(name: str, saved: str) -> None:
    assert safe_name(name) == saved
    assert len(saved.encode()) <= 200


@pytest.mark.long
async def test_a_download_with_a_long_name_is_saved_and_one_that_fails_is_reported(
    env: BrowserEnv, pages: PageServer
) -> None:
    name = "報告" * 50 + "-" * 150 + ".txt"
    data = pages.serve_data("x", b"data", "application/octet-stream", f'attachment; filename="{"l" * 300}.txt"')
    body = f"<a id=go href='{data}'>go</a><a id=blob download='{name}' href='data:,data'>blob</a>"
    await env.reset(OpenPage(pages.serve(body)))
    notes = [
        *(await click(env, "#go")).notes,
        *(await click(env, "#blob")).notes,
        *(await do(env, Wait(duration_s=0.3))).notes,
    ]
    assert len(notes) == 2
    assert all("was downloaded (4 bytes)" in note and ".txt; type" in note for note in notes)
    folder = env.downloads_dir
    moved = folder.rename(folder.with_name("moved"))
    try:
        notes = [*(await click(env, "#blob")).notes, *(await do(env, Wait(duration_s=0.5))).notes]
    finally:
        moved.rename(folder)
    assert len(notes) == 1
    assert "failed: No such file or directory" in notes[0]


@pytest.mark.long
async def test_a_download_is_opened_by_its_path_and_nothing_else_of_the_host_is(
    env: BrowserEnv, pages: PageServer
) -> None:
    script = b"<script>document.title = 'ran'</script><h1>text</h1>"
    red = io.BytesIO()
    Image.new("RGB", (300, 300), RED).save(red, "PNG")
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' width='300' height='300' onload=\"document.title='ran'\">"
    svg += b"<rect width='300' height='300' fill='rgb(200,30,30)'/></svg>"
    files = {"page.html": script, "ü 1.png": red.getvalue(), "p.svg": svg, "p.pdf": make_pdf(RED), "t.csv": b"a,b"}
    links = [
        (pages.serve_data("x", data, "application/octet-stream", f"attachment; filename*=UTF-8''{quote(name)}"), name)
        for name, data in files.items()
    ]
    start = pages.serve("".join(f"<a id=go{n} href='{url}'>go</a> " for n, (url, _) in enumerate(links)))
    await env.reset(OpenPage(start))
    for number in range(len(links)):
        await click(env, f"#go{number}")
    await do(env, Wait(duration_s=0.3))
    saved = {path.name: path for path in env.downloads_dir.iterdir()}
    observation = await type_address(env, str(saved["page.html"]))
    assert (observation.last_action_error, observation.title) == (None, "page.html")
    assert await env.page.inner_text("pre") == script.decode()
    for name in ("ü 1.png", "p.svg", "p.pdf"):
        observation = await type_address(env, saved[name].as_uri())
        assert (name, observation.last_action_error) == (name, None)
        assert num_pixels(observation, RED) > 80_000
        assert observation.title != "ran"
    assert (await do(env, Hotkey(keys=("alt", "left")), Hotkey(keys=("alt", "left")))).title == "ü 1.png"
    observation = await do(env, Hotkey(keys=("ctrl", "j")))
    assert (observation.title, len(observation.tabs)) == ("Downloads", 2)
    await click(env, "document.querySelector('a[href$=\"t.csv\"]')")
    assert await env.page.inner_text("pre") == "a,b"

    other = env.downloads_dir / "other.txt"
    other.write_text("of an earlier episode")
    for address in (str(other), other.as_uri(), "file:///etc/passwd", f"{env.downloads_dir.as_uri()}/../../etc/passwd"):
        before = env.page.url
        assert (await type_address(env, address)).last_action_error
        assert env.page.url == before
    failed = await asyncio.gather(env.page.goto("file:///etc/passwd"), return_exceptions=True)
    assert "ERR_ACCESS_DENIED" in str(failed[0])


@pytest.mark.long
async def test_what_a_view_shows(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    for data, shown in (
        (b"a &lt; <b>", "<pre>a &amp;lt; &lt;b&gt;</pre>"),
        ("ü€".encode("utf-16"), "<pre>ü€</pre>"),
        (b"caf\xe9", "<pre>café</pre>"),
        (b"\x00\x01\x02", "It is not a PDF, a picture or a text; it has 3 bytes."),
        ("ü".encode() * 300_000, "The rest of its 600000 bytes is not shown."),
    ):
        path.write_bytes(data)
        assert shown in await view_file(path)
    with path.open("wb") as file:
        file.write(b"%PDF-")
        file.truncate(65 * 2**20)
    assert "It has 68157440 bytes; up to 67108864 bytes can be shown." in await view_file(path)
    assert "It cannot be read: No such file" in await view_file(tmp_path / "none")
