"""Uploads come from one folder, downloads go to one folder."""

import shutil
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


@pytest.mark.long
async def test_a_file_is_chosen_by_a_click(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    before = await env.reset(OpenPage(pages.serve(FORM)))
    observation = await click(env, "#pick")
    assert observation.notes == (f"a file chooser is open; files: link.txt, photo ü.png, receipt.txt. {HOW}",)
    assert picture(observation).tobytes() != picture(before).tobytes()
    x_px, y_px = await find(env, 'file to upload "receipt.txt"')
    observation = await do(env, Click(x_px=x_px, y_px=y_px))
    assert observation.notes == ()
    assert await env.page.evaluate("pick.files[0].text()") == "taxi 12.50"


@pytest.mark.long
async def test_a_file_is_chosen_by_its_name(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    await env.reset(OpenPage(pages.serve(FORM)))
    await click(env, "#pick")
    await do(env, TypeText(text="photo ü.png"), PressKey(key="enter"))
    assert await env.page.evaluate(NAMES) == ["photo ü.png"]


@pytest.mark.long
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


PICKERS = """<button id=go style='margin:20px'>go</button><script>
  window.log = [];
  go.onclick = async () => { try { log.push(await (%s)()) } catch (error) { log.push(error.name) } };
</script>"""
READ = """async () => {
  const handles = await showOpenFilePicker({multiple: true, types: [{accept: {'text/plain': ['.txt']}}]}), texts = [];
  for (const handle of handles) texts.push(handle.name, await (await handle.getFile()).text());
  return texts }"""
LIST = """async () => {
  const found = [], walk = async (folder, path) => { for await (const [name, handle] of folder)
  handle.kind === 'file' ? found.push(path + name) : await walk(handle, path + name + '/') };
  await walk(await showDirectoryPicker(), ''); return found.sort() }"""
SAVE = """async () => {
  const handle = await showSaveFilePicker({suggestedName: 'report.txt'}), stream = await handle.createWritable();
  await stream.write('Hello'); await stream.seek(0); await stream.write('J'); await stream.close();
  const again = await handle.createWritable({keepExistingData: false});
  await new Blob(['piped']).stream().pipeTo(again); return handle.name }"""


async def answered(env: BrowserEnv) -> list[object]:
    return list(await until(lambda: env.page.evaluate("log.length && log")))


async def test_files_of_the_file_system_access_api(env: BrowserEnv, pages: PageServer, uploads: Path) -> None:
    await env.reset(OpenPage(pages.serve(PICKERS % READ)))
    assert (await click(env, "#go")).notes[0].startswith("a file chooser is open; files: link.txt, photo")
    await do(env, TypeText(text="receipt.txt; photo ü.png\n"))
    assert await answered(env) == [["receipt.txt", "taxi 12.50", "photo ü.png", "png"]]
    await click(env, "#go")
    await do(env, PressKey(key="esc"))
    assert (await answered(env))[1:] == ["AbortError"]


@pytest.mark.parametrize("name", ["sub", "sub/", "uploads"])
async def test_a_folder_is_chosen(env: BrowserEnv, pages: PageServer, uploads: Path, name: str) -> None:
    (uploads / "link.txt").unlink()
    (uploads / "sub" / "deep").mkdir(parents=True)
    (uploads / "sub" / "a.txt").write_text("a")
    (uploads / "sub" / "deep" / "b.txt").write_text("b")
    body = PICKERS % LIST + "<input id=pick type=file webkitdirectory>"
    await env.reset(OpenPage(pages.serve(body)))
    try:
        assert (
            (await click(env, "#go")).notes[0].startswith("a folder chooser is open; folders: uploads/, sub/. Click a")
        )
        await do(env, TypeText(text=f"{name}\n"))
        expected = ["a.txt", "deep/b.txt"]
        if name == "uploads":
            expected = ["photo ü.png", "receipt.txt", *(f"sub/{path}" for path in expected)]
        assert await answered(env) == [expected]
        await click(env, "#pick")
        (uploads / "sub" / "out").symlink_to(uploads.parent)
        result = await env.step([TypeText(text=f"{name}\n")])
        assert "leads out" in (result.observation.last_action_error or "")
        (uploads / "sub" / "out").unlink()
        await do(env, TypeText(text=f"{name}\n"))
        names = await env.page.evaluate("[...pick.files].map(file => file.webkitRelativePath).sort()")
        assert names == [f"{name.rstrip('/')}/{path}" for path in expected]
    finally:
        shutil.rmtree(uploads / "sub")


async def test_a_file_is_saved_under_a_name_that_is_typed(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(PICKERS % SAVE)))
    opened = await click(env, "#go")
    assert opened.dialog is not None and (opened.dialog.kind, opened.dialog.default_text) == ("prompt", "report.txt")
    await do(env, TypeText(text="../my letter.txt"), PressKey(key="enter"))
    assert await answered(env) == ["my letter.txt"]

    async def are_there() -> bool:
        await do(env)
        found = [env.downloads_dir / name for name in ("my letter.txt", "my letter (1).txt")]
        return all(path.exists() and path.stat().st_size == 5 for path in found)

    await until(are_there)
    assert (env.downloads_dir / "my letter.txt").read_text() == "Jello"
    assert (env.downloads_dir / "my letter (1).txt").read_text() == "piped"


async def test_pickers_need_a_click_and_a_page_of_the_same_site(env: BrowserEnv, pages: PageServer) -> None:
    frame = pages.serve(
        "<button id=go style='width:90px;height:90px'>go</button><script>go.onclick = () => "
        "showSaveFilePicker().catch(error => { document.title = error.name })</script>"
    )
    frame = f"<iframe src='{frame.replace('127.0.0.1', 'other.localhost')}'></iframe>"
    body = f"<script>window.log = []; showOpenFilePicker().catch(error => log.push(error.name))</script>{frame}"
    await env.reset(OpenPage(pages.serve(body)))
    assert await answered(env) == ["SecurityError"]
    await do(env, Click(x_px=40, y_px=40))
    assert await env.page.frames[1].title() == "SecurityError"


@pytest.mark.long
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
        f"{name!r} was downloaded (10 bytes) to {folder / name}; type this path into the address bar to see it"
        for name in ("report (1).csv", "report.csv")
    ]
    assert (folder / "report (1).csv").read_text() == "report.csv"
    assert (await do(env)).url == url


@pytest.mark.long
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


@pytest.mark.long
async def test_without_a_folder_there_are_no_files(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(FORM)))
    try:
        await env.reset(InstructionTask(instruction="test"))
        assert (await click(env, "#pick")).notes == (f"a file chooser is open; files: none. {HOW}",)
    finally:
        await env.close()
