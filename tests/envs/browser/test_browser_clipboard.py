"""Copying and pasting by buttons of pages and by keys: each session has a clipboard of its own."""

import asyncio

import pytest

from envs.actions import Hotkey, PressKey, TypeText
from envs.browser import BrowserEnv
from tests.envs.browser.driving import OpenPage, click, do, until
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

COPY, PASTE, ALL = (Hotkey(keys=("ctrl", key)) for key in "cva")
BODY = """<button id=copy>Copy</button><button id=get>Paste</button><textarea id=to></textarea>
  <div id=rich contenteditable>
  <b>bold</b> text</div><script>
  window.pasted = []; window.read = null;
  addEventListener('paste', e => pasted.push([...e.clipboardData.types]));
  get.onclick = async () => { try { read = await (%s) } catch (error) { read = error.name } };
  copy.onclick = async () => { try { await (%s) } catch (error) { read = error.name } };
</script>"""
TEXT = "código 東京\n  second"


def page(copy: str, read: str = "navigator.clipboard.readText()") -> str:
    return BODY % (read, copy)


@pytest.mark.parametrize(
    "copy",
    [
        f"navigator.clipboard.writeText({TEXT!r})",
        f"navigator.clipboard.write([new ClipboardItem({{'text/plain': {TEXT!r}, 'text/html': '<b>x</b>'}})])",
        f"(to.value = {TEXT!r}, to.select(), document.execCommand('copy'), to.value = '')",
        f"""(document.addEventListener('copy', e => {{ e.stopImmediatePropagation(); e.preventDefault();
            e.clipboardData.setData('Text', {TEXT!r}) }}, {{once: true, capture: true}}),
            document.execCommand('copy'))""",
        f"new Promise(done => setTimeout(() => done(navigator.clipboard.writeText({TEXT!r})), 200))",
    ],
)
@pytest.mark.long
async def test_a_copy_button_fills_the_clipboard(env: BrowserEnv, pages: PageServer, copy: str) -> None:
    await env.reset(OpenPage(pages.serve(page(copy))))
    await click(env, "#copy")
    await until(lambda: env.page.evaluate("navigator.clipboard.readText()"))
    await click(env, "#to")
    await do(env, PASTE)
    await click(env, "#get")
    assert await env.page.evaluate("[to.value, read]") == [TEXT, TEXT]


@pytest.mark.long
async def test_it_goes_over_to_other_tabs_and_frames_but_not_to_the_next_episode(
    env: BrowserEnv, pages: PageServer
) -> None:
    frame = pages.serve("<textarea id=in></textarea><button id=b>x</button>").replace("127.0.0.1", "other.localhost")
    body = page(f"navigator.clipboard.writeText({TEXT!r})") + f"<iframe id=frame src='{frame}'></iframe>"
    await env.reset(OpenPage(pages.serve(body)))
    await click(env, "#copy")
    await click(env, "#frame")  # the middle of it is below its field
    inner = env.page.frames[1]
    await inner.evaluate("document.querySelector('#in').focus()")
    await do(env, PASTE)
    assert await inner.evaluate("document.querySelector('#in').value") == TEXT
    asked = "navigator.clipboard.readText().then(text => text, error => error.name)"
    assert await inner.evaluate(asked) == "NotAllowedError"  # the frame is of another site and has no permission
    await env.reset(OpenPage(pages.serve(page("0"))))
    await click(env, "#to")
    result = await env.step([PASTE])
    assert result.observation.last_action_error == "nothing was copied in this session, so there is nothing to paste"


@pytest.mark.long
async def test_a_page_of_another_site_cannot_read_it_by_script(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(page(f"navigator.clipboard.writeText({TEXT!r})"))))
    await click(env, "#copy")
    await env.goto(pages.serve(page("0"), host="other.localhost"))
    await click(env, "#get")
    await until(lambda: env.page.evaluate("read !== null"))
    assert await env.page.evaluate("read") == ""
    await click(env, "#to")
    await do(env, PASTE)
    assert await env.page.evaluate("to.value") == TEXT


async def test_html_and_a_picture_come_to_who_reads_them(env: BrowserEnv, pages: PageServer) -> None:
    picture = "new Promise(done => Object.assign(document.createElement('canvas'), {width: 3, height: 2}).toBlob(done))"
    copy = f"navigator.clipboard.write([new ClipboardItem({{'text/html': '<b>x</b>', 'image/png': {picture}}})])"
    read = """(async () => {
      const [item] = await navigator.clipboard.read(), blob = await item.getType('image/png');
      return [item.types, (await createImageBitmap(blob)).width, await (await item.getType('text/html')).text()] })()"""
    await env.reset(OpenPage(pages.serve(page(copy, read))))
    await click(env, "#copy")
    await click(env, "#get")
    assert await env.page.evaluate("read") == [["text/html", "image/png"], 3, "<b>x</b>"]
    await click(env, "#rich")
    await do(env, PASTE)
    assert await env.page.evaluate("pasted") == [["text/html", "Files"]]


@pytest.mark.long
async def test_keys_copy_what_is_selected_also_as_html_and_nothing_of_a_password(
    env: BrowserEnv, pages: PageServer
) -> None:
    await env.reset(OpenPage(pages.serve(page("0") + "<input id=secret type=password value=hunter2>")))
    await click(env, "#rich")
    await do(env, ALL, Hotkey(keys=("ctrl", "x")))
    assert (await env.page.evaluate("rich.innerText")).strip() == ""
    await click(env, "#secret")
    await do(env, ALL, COPY)
    await click(env, "#to")
    await do(env, PASTE, PASTE)
    assert await env.page.evaluate("to.value.replaceAll('\\n', '')") == "bold textbold text"
    assert (await env.page.evaluate("pasted"))[0] == ["text/plain", "text/html"]


@pytest.mark.long
async def test_a_page_that_takes_the_paste_itself_gets_it_once(env: BrowserEnv, pages: PageServer) -> None:
    own = """<script>to.addEventListener('paste', e => {
      e.preventDefault(); to.value += '<' + e.clipboardData.getData('text') + '>' })</script>"""
    await env.reset(OpenPage(pages.serve(page("navigator.clipboard.writeText('abc')") + own)))
    await click(env, "#copy")
    await click(env, "#to")
    await do(env, TypeText(text="x"), PASTE, PressKey(key="y"))
    assert await env.page.evaluate("to.value") == "x<abc>y"


@pytest.mark.long
async def test_only_a_recent_input_lets_a_page_read_write_and_pick(env: BrowserEnv, pages: PageServer) -> None:
    forged = """<script>
      performance.now = () => 0; Object.defineProperty(navigator, 'userActivation', {value: {isActive: true}});
      for (const type of ['mousedown', 'pointerdown', 'pointerup', 'keydown', 'touchend'])
        dispatchEvent(new Event(type, {bubbles: true}));
      window.attempt = async () => {
        const found = [];
        const calls = [() => navigator.clipboard.readText(), () => navigator.clipboard.read(),
          () => navigator.clipboard.writeText('x'), () => navigator.clipboard.write([]), () => showOpenFilePicker()];
        for (const call of calls) await call().then(() => found.push('ok'), error => found.push(error.name));
        to.value = 'stolen'; to.select(); document.execCommand('copy');
        to.dispatchEvent(new ClipboardEvent('copy', {bubbles: true, clipboardData: new DataTransfer()}));
        found.push((await navigator.permissions.query({name: 'clipboard-read'})).state);
        return found;
      };
      addEventListener('load', async () => { early = await attempt() });
    </script>"""
    refused = [*["NotAllowedError"] * 4, "SecurityError", "granted"]
    await env.reset(OpenPage(pages.serve(page(f"navigator.clipboard.writeText({TEXT!r})") + forged)))
    assert await env.page.evaluate("early") == refused
    assert await env.page.evaluate("attempt()") == refused  # although evaluate activates the page
    assert not (await env.page.evaluate("Object.keys(window).filter(name => name.startsWith('k25'))"))
    await click(env, "#to")
    assert (await env.step([PASTE])).observation.last_action_error is not None  # nothing was copied
    await click(env, "#copy")
    await click(env, "#get")
    assert await env.page.evaluate("read") == TEXT
    await asyncio.sleep(5.1)
    assert await env.page.evaluate("attempt()") == refused
    await env.page.evaluate("to.value = ''")
    await click(env, "#to")
    await do(env, PASTE)
    assert await env.page.evaluate("to.value") == TEXT
