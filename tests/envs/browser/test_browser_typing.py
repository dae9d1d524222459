"""What stands in a field after typing is what was typed, or the agent is told."""

from typing import Any

import pytest

from envs.actions import PressKey, TypeText
from envs.browser import BrowserEnv, BrowserOptions
from tests.envs.browser.driving import OpenPage, click, do
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

CODE = "def f(w):\n    if w:\n        return [w]\n\n    return {'a': (1)}\n"
# what code editors do: Enter repeats the indent, a bracket is closed at once, a paste is taken line by line
INSERT_TAB = 'if (event.key == "Tab") { event.preventDefault(); document.execCommand("insertText", 0, "  ") }'
INDENTING = """<div id=it contenteditable style='white-space:pre' onkeydown='
  const add = (text) => { event.preventDefault(); document.execCommand("insertText", false, text) };
  if (event.key == "Enter") add("\\n    ");
  if (event.key == "(") { add("()"); getSelection().modify("move", "backward", "character") }'></div>"""
EDITOR = """<div class=cm-content contenteditable id=it style='height:300px;white-space:pre-wrap'>
  <div class=cm-line></div></div><script>
  let lines = [''];
  const draw = () => { it.innerHTML = ''; for (const text of lines) { const line = document.createElement('div');
    line.className = 'cm-line'; line.textContent = text; it.append(line) } };
  const add = (text) => { const parts = (lines.pop() + text).split('\\n'); lines.push(...parts); draw() };
  it.onkeydown = e => { if (e.key.length > 1 && e.key !== 'Enter') return; e.preventDefault();
    const indent = lines.at(-1).match(/^ */)[0];
    const more = lines.at(-1).endsWith(':') ? '  ' : '';
    add(e.key === 'Enter' ? '\\n' + indent + more : ({'(': '()', '[': '[]'})[e.key] ?? e.key) };
  it.onpaste = e => { e.preventDefault(); PASTE };
</script>"""


async def typed(env: BrowserEnv, text: str, field: str = "#it") -> tuple[Any, tuple[str, ...]]:
    await click(env, field)
    observation = await do(env, TypeText(text=text))
    return await env.page.evaluate("it.value ?? it.innerText"), observation.notes


@pytest.mark.long
async def test_several_lines_stand_in_a_code_editor_as_typed(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve(EDITOR.replace("PASTE", "add(e.clipboardData.getData('text/plain'))"))))
    await click(env, "#it")
    observation = await do(env, TypeText(text=CODE.replace("\n", "\r\n")))
    assert (await env.page.evaluate("lines.join('\\n')"), observation.notes) == (CODE, ())


@pytest.mark.long
async def test_an_editor_that_alters_the_text_is_told(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(
        OpenPage(pages.serve(EDITOR.replace("PASTE", "add(e.clipboardData.getData('text/plain').toUpperCase())")))
    )
    await click(env, "#it")
    (note,) = (await do(env, TypeText(text=CODE))).notes
    assert note == f"the field does not hold exactly what was typed; it now holds {CODE.upper().strip()!r}"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("<input id=it>", "plain ünï 東京 👩‍👩‍👧 e\u0301"),
        ("<input id=it value='with more '>", "text"),
        ("<textarea id=it></textarea>", "one\r\n  two\n\n three"),
        ("<div id=it contenteditable>old </div>", "new\nand  more"),
        ("<div id=it contenteditable>old </div>", "new \n  and  \n\n\n   more "),
        ("<div id=it contenteditable=plaintext-only style='white-space:pre'></div>", "if x:\n    y\n\n  z\n"),
        ("<div id=it contenteditable><p>first</p><p><br></p><p>last</p></div>", "a a\n  b\n\nc"),
        ("<div id=it contenteditable><ul><li>first</li><li>last</li></ul></div>", "a\n b"),
        ("<div id=it contenteditable onfocus='getSelection().selectAllChildren(this)'>old text</div>", "ol tex"),
        ("<div id=it contenteditable>a a a a</div>", "a a"),
        (f"<textarea id=it onkeydown='{INSERT_TAB}'></textarea>", "if x:\n\treturn 1\n\tpass"),
        (f"<div id=it contenteditable onkeydown='{INSERT_TAB}'></div>", "a\tb"),
        ('<input id=it onkeydown=\'if (event.key == "Tab") { event.preventDefault(); value = "" }\'>', "a\tb"),
        ("<input id=it type=email value=a@b.c>", ".d"),
        ("<input id=it type=email>", "a@b.c"),
        ("<input id=it type=number>", "-1.5"),
        ("<input id=it type=password>", "hunter2"),
    ],
)
async def test_nothing_is_told_where_the_field_holds_what_was_typed(
    env: BrowserEnv, pages: PageServer, field: str, text: str
) -> None:
    await env.reset(OpenPage(pages.serve(field)))
    found, notes = await typed(env, text)
    assert text.split()[-1].strip() in found and notes == ()


@pytest.mark.parametrize(
    ("field", "text", "held"),
    [
        ("<input id=it maxlength=4>", "123456", "1234"),
        ("<textarea id=it maxlength=4></textarea>", "ab\ncdef", "ab\nc"),
        ("<input id=it oninput='value=value.toUpperCase()'>", "abc", "ABC"),
        ("<input id=it oninput='value=value.replace(/\\D/g, \"\")'>", "12x3", "123"),
        ('<input id=it oninput=\'value=Number(value.replaceAll(",", "")).toLocaleString("en")\'>', "12345", "12,345"),
        ("<input id=it oninput='setTimeout(() => { value = \"later\" }, 30)'>", "now", "later"),
        ("<div id=it contenteditable oninput='this.innerText = \"mine\"'>x</div>", "yours", "mine"),
        (INDENTING, "def f(x):\n    return g(x)\n", "def f(x):\n        return g(x)\n    ))"),
        (INDENTING.replace("></div>", ">old</div>"), "a\n  b", "olda\n      b"),
        (INDENTING, "f(x)", "f(x))"),
        ('<input id=it type=email oninput=\'if (value == "a@") value = "a@b.c"\'>', "a@", "a@b.c"),
    ],
)
async def test_what_a_field_made_of_it_is_told(
    env: BrowserEnv, pages: PageServer, field: str, text: str, held: str
) -> None:
    await env.reset(OpenPage(pages.serve(field)))
    _, notes = await typed(env, text)
    assert notes == (f"the field does not hold exactly what was typed; it now holds {held!r}",)


@pytest.mark.parametrize(
    "field", ["<input id=it type=number>", "<input id=it readonly>", "<input id=it onkeydown='return false'>"]
)
async def test_a_field_that_takes_nothing_is_told(env: BrowserEnv, pages: PageServer, field: str) -> None:
    await env.reset(OpenPage(pages.serve(field)))
    assert (await typed(env, "abc"))[1] == ("the field is empty after typing: it did not take the text",)


@pytest.mark.parametrize(
    "field",
    ["<input id=it type=password maxlength=5>", "<input id=it maxlength=5 autocomplete=cc-number>",
     "<input id=it maxlength=5 style='-webkit-text-security:disc'>"],
)  # fmt: skip
async def test_of_a_private_field_nothing_is_read_out(env: BrowserEnv, pages: PageServer, field: str) -> None:
    await env.reset(OpenPage(pages.serve(field)))
    found, (note,) = await typed(env, "hunter2")
    assert found == "hunte" and "hun" not in note and "not shown" in note


@pytest.mark.long
async def test_of_a_secret_nothing_is_read_out_also_later(pages: PageServer) -> None:
    env = BrowserEnv(BrowserOptions(masked_texts=("hunter2",)))
    try:
        await env.reset(OpenPage(pages.serve("<input id=it maxlength=6>")))
        first = (await typed(env, "hunter2"))[1]
        second = (await do(env, PressKey(key="end"), TypeText(text="more"))).notes
        assert [len(first), len(second)] == [1, 1] and "hunt" not in str((first, second))
    finally:
        await env.close()


@pytest.mark.long
async def test_a_chat_that_sends_and_a_code_of_many_boxes_are_no_cause_for_notes(
    env: BrowserEnv, pages: PageServer
) -> None:
    chat = '<textarea id=it onkeydown=\'if (event.key === "Enter") { event.preventDefault(); value = "" }\'></textarea>'
    boxes = "".join("<input maxlength=1 oninput='this.nextElementSibling?.focus()'>" for _ in range(6))
    await env.reset(
        OpenPage(
            pages.serve(f"{chat}<form onsubmit='event.preventDefault(); q.value = \"\"'><input id=q></form>{boxes}")
        )
    )
    assert (await typed(env, "hello\n"))[1] == ()
    await click(env, "#q")
    assert (await do(env, TypeText(text="search\n"))).notes == ()
    await click(env, "document.querySelectorAll('input')[1]")
    assert (await do(env, TypeText(text="123456"))).notes == ()


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("if x:\n\treturn 1", ("Tab moved the focus out of the field: the text after it was typed elsewhere",)),
        ("word\t", ()),
    ],
)
@pytest.mark.long
async def test_a_tab_that_leaves_the_field_is_noted(
    env: BrowserEnv, pages: PageServer, text: str, notes: tuple[str, ...]
) -> None:
    await env.reset(OpenPage(pages.serve("<textarea id=it></textarea><input id=next type=password>")))
    assert (await typed(env, text))[1] == notes
    assert await env.page.evaluate("document.activeElement.id") == "next"
