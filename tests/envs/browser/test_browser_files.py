"""Uploads come from one folder, downloads go to one folder."""

from pathlib import Path

import pytest

from envs.actions import Click, PressKey, Scroll, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from envs.env import InstructionTask
from tests.envs.browser.driving import OpenPage, click, do, picture, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FORM = "<input id=pick type=file style='margin:20px'>"
HOW = "Click a file, or type its name and press Enter; Esc or Cancel closes the chooser"
NAMES = "[...pick.files].map(file => file.name)"


@pytest.fixture
def uploads(env: BrowserEnv) -> Path:
    folder = Path(str(env.options.uploads_dir))
    for path in folder.iterdir():
        path.unlink()
    (folder / "receipt.txt").write_text("taxi 12.50")
    (folder / "photo ü.png").write_bytes(b"png")
    (folder.parent / "outside.txt").write_text("secret")
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    return folder


async def find(env: BrowserEnv, text: str) -> tuple[int, int]:
    for y_px in range(100, 640, 6):
        for x_px in range(400, 880, 40):
            if await env.describe_point(x_px, y_px) == text:
                return x_px, y_px + 6
    raise AssertionError(f"no {text}")


async def test_a_file_is_chosen_by_a_click(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    before = await env.reset(OpenPage(pages.serve(FORM)))
    observation = await click(env, "#pick")
    assert observation.notes == (f"a file chooser is open; files: link.txt, photo ü.png, receipt.txt. {HOW}",)
    assert picture(observation).tobytes() != picture(before).tobytes()
    x_px, y_px = await find(env, 'file to upload "receipt.txt"')
    observation = await do(env, Click(x_px=x_px, y_px=y_px))
    assert observation.notes == ()
    assert await env.page.evaluate("pick.files[0].text()") == "taxi 12.50"


async def test_a_file_is_chosen_by_its_name(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    await env.reset(OpenPage(pages.serve(FORM)))
    await click(env, "#pick")
    await do(env, TypeText(text="photo ü.png"), PressKey(key="enter"))
    assert await env.page.evaluate(NAMES) == ["photo ü.png"]


async def test_several_files(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    await env.reset(OpenPage(pages.serve("<input id=pick type=file multiple style='margin:20px'>")))
    await click(env, "#pick")
    await do(env, TypeText(text='"photo ü.png"; receipt.txt\n'))
    assert await env.page.evaluate(NAMES) == ["photo ü.png", "receipt.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["../outside.txt", "/etc/passwd", "link.txt", "..", ".", "uploads/receipt.txt", "receipt.tx"]
)
async def test_nothing_comes_from_elsewhere(env: BrowserEnv, pages: PageServer, uploads: Path, name: str) -> None:
    await env.reset(OpenPage(pages.serve(FORM)))
    await click(env, "#pick")
    result = await env.step([TypeText(text=name), PressKey(key="enter")])
    assert (result.observation.last_action_error or "").startswith(f"there is no file '{name}' to upload")
    await do(env, TypeText(text="receipt.txt\n"))  # the chooser is still open, and its field is replaced
    assert await env.page.evaluate(NAMES) == ["receipt.txt"]


@pytest.mark.parametrize("by_click", [True, False])
async def test_the_chooser_is_closed(env: BrowserEnv, pages: PageServer, uploads: Path, by_click: bool) -> None:
    await env.reset(OpenPage(pages.serve(FORM)))
    await click(env, "#pick")
    result = await env.step([Click(x_px=30, y_px=600)])
    assert result.observation.last_action_error == HOW
    if by_click:
        x_px, y_px = await find(env, 'file chooser button "Cancel"')
        observation = await do(env, Click(x_px=x_px, y_px=y_px))
    else:
        observation = await do(env, PressKey(key="esc"))
    assert observation.notes == ()
    assert await env.page.evaluate(NAMES) == []
    assert (await click(env, "#pick")).notes != ()


async def test_many_files_scroll(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    for number in range(40):
        (uploads / f"zz{number:02}.txt").write_text("")
    await env.reset(OpenPage(pages.serve(FORM)))
    await click(env, "#pick")
    await do(env, Scroll(dy=-100))
    x_px, y_px = await find(env, 'file to upload "zz39.txt"')
    await do(env, Click(x_px=x_px, y_px=y_px))
    assert await env.page.evaluate(NAMES) == ["zz39.txt"]


async def test_downloads_are_saved_under_names_of_their_own(env: BrowserEnv, pages: PageServer) -> None:
    body = f"<a id=get href='{pages.url('/file/report.csv')}'>get</a>"
    url = pages.serve(body)
    await env.reset(OpenPage(url))
    notes = [*(await click(env, "#get")).notes, *(await click(env, "#get")).notes]

    async def have_come() -> bool:
        notes.extend((await do(env)).notes)
        return len(notes) >= 2

    await until(have_come)
    folder = env.downloads_dir
    assert sorted(notes) == [
        f"'report (1).csv' was downloaded (10 bytes) to {folder / 'report (1).csv'}",
        f"'report.csv' was downloaded (10 bytes) to {folder / 'report.csv'}",
    ]
    assert (folder / "report (1).csv").read_text() == "report.csv"
    assert (await do(env)).url == url


async def test_the_temporary_downloads_folder_goes_away(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(f"<a id=get href='{pages.url('/file/a.bin')}'>get</a>")))
    try:
        await env.reset(InstructionTask(instruction="test"))
        await click(env, "#get")
        folder = env.downloads_dir

        async def is_there() -> bool:
            await do(env)
            return (folder / "a.bin").exists() and (folder / "a.bin").stat().st_size == 5

        await until(is_there)
    finally:
        await env.close()
    assert not folder.exists()


async def test_without_a_folder_there_are_no_files(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(FORM)))
    try:
        await env.reset(InstructionTask(instruction="test"))
        assert (await click(env, "#pick")).notes == (f"a file chooser is open; files: none. {HOW}",)
    finally:
        await env.close()
