"""Scripted solutions of pages of MiniWoB++: they read the document and act by the env's actions, as an agent does.

They prove that the env and the rewards work; nothing here is for an agent to learn from.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from envs import Action, Click, Drag, Hotkey, Move, PressKey, Scroll, TypeText
from envs.suites.miniwob.env import MiniWobEnv

Oracle = Callable[["Hand", str], Awaitable[None]]
ORACLES: dict[str, Oracle] = {}
SUBMIT = "one('#subbtn, #submit, #area .secondary-action')"
_PRELUDE = """
    const all = (css) => [...document.querySelectorAll(css)];
    const one = (css) => all(css)[0];
    const says = (css, text) => all(css).find(e => e.textContent.trim() === text);
    const shows = (css, text) => all(css).find(e => e.textContent.trim() === text && e.getClientRects().length);
    const clear = (e) => { const r = e.getBoundingClientRect(); const at = document.elementFromPoint(r.x + r.width / 2,
        r.y + r.height / 2); return at !== null && (at === e || e.contains(at)); };
"""


class Hand:
    """Acts on the page of an episode; `reward` is the sum of what the steps gave."""

    def __init__(self, env: MiniWobEnv) -> None:
        self.env = env
        self.reward = 0.0
        self.num_steps = 0

    async def do(self, *actions: Action) -> None:
        result = await self.env.step(actions)
        assert result.observation.last_action_error is None, result.observation.last_action_error
        self.reward += result.reward
        self.num_steps += 1

    async def read(self, script: str) -> Any:
        return await self.env.page.evaluate(f"() => {{ {_PRELUDE} return {script} }}")

    async def box(self, script: str) -> tuple[float, float, float, float]:
        """Left, top, width, height of an element."""
        box = await self.read(
            f"(e => {{ const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height] }})({script})"
        )
        return box[0], box[1], box[2], box[3]

    async def point(self, script: str) -> tuple[int, int]:
        """The middle of what is seen of an element."""
        left, top, width, height = await self.box(script)
        right, bottom = min(left + width, 331), min(top + height, 213)
        return round((max(left, 0) + right) / 2), round((max(top, 0) + bottom) / 2)

    async def click(self, script: str, clicks: int = 1) -> None:
        x, y = await self.point(script)
        await self.do(Click(x_px=x, y_px=y, clicks=clicks))

    async def enter(self, script: str, text: str) -> None:
        x, y = await self.point(script)
        await self.do(Click(x_px=x, y_px=y), TypeText(text=text))

    async def drag(self, start: tuple[float, float], goal: tuple[float, float]) -> None:
        await self.do(Move(x_px=round(start[0]), y_px=round(start[1])), Drag(x_px=round(goal[0]), y_px=round(goal[1])))

    async def submit(self) -> None:
        await self.click(SUBMIT)

    async def until(self, script: str) -> None:
        """Look at the page until something holds (an animation has ended)."""
        for _ in range(100):
            if await self.read(script):
                return
            await self.env.page.wait_for_timeout(20)
        raise AssertionError(f"never: {script}")

    async def scroll_to(self, script: str, area: str) -> None:
        """Turn the wheel over an area until an element can be clicked."""
        for _ in range(40):
            if await self.read(f"clear({script})"):
                return
            is_below = await self.read(
                f"{script}.getBoundingClientRect().top > {area}.getBoundingClientRect().top + 20"
            )
            x, y = await self.point(area)
            await self.do(Scroll(dy=-1 if is_below else 1, x_px=x, y_px=y))
        raise AssertionError(f"never in sight: {script}")


def solves(*names: str) -> Callable[[Oracle], Oracle]:
    def register(oracle: Oracle) -> Oracle:
        ORACLES.update(dict.fromkeys(names, oracle))
        return oracle

    return register


def quoted(told: str) -> list[str]:
    return re.findall(r'"([^"]*)"', told)


@solves("click-test")
async def click_test(hand: Hand, told: str) -> None:
    await hand.submit()


@solves("click-test-2", "click-test-transfer")
async def click_named(hand: Hand, told: str) -> None:
    name = re.findall(r"button (\w+)", told)[0]
    await hand.click(f"says('#area button', '{name}')")


@solves("click-button", "unicode-test")
async def click_button(hand: Hand, told: str) -> None:
    await hand.click(f"says('#area button', {quoted(told)[0]!r})")


@solves("click-button-sequence")
async def click_sequence(hand: Hand, told: str) -> None:
    await hand.do(*[
        Click(x_px=x, y_px=y) for x, y in [await hand.point("one('#subbtn')"), await hand.point("one('#subbtn2')")]
    ])  # fmt: skip


@solves("click-link")
async def click_link(hand: Hand, told: str) -> None:
    await hand.click(f"says('#area .alink', {quoted(told)[0]!r})")


@solves("click-dialog")
async def close_dialog(hand: Hand, told: str) -> None:
    await hand.click("one('.ui-dialog-titlebar-close')")


@solves("click-dialog-2")
async def answer_dialog(hand: Hand, told: str) -> None:
    name = quoted(told)[0]
    await hand.click("one('.ui-dialog-titlebar-close')" if name == "x" else f"says('.ui-dialog button', {name!r})")


@solves("click-tab")
async def click_tab(hand: Hand, told: str) -> None:
    await hand.click(f"says('#area a', {told.removeprefix('Click on ').rstrip('.')!r})")


@solves("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def find_in_tabs(hand: Hand, told: str) -> None:
    link = quoted(told)[0]
    for number in range(await hand.read("all('#area li a').length")):
        await hand.click(f"all('#area li a')[{number}]")
        if await hand.read(f"!!shows('#area .alink', {link!r})"):
            await hand.click(f"shows('#area .alink', {link!r})")
            return


@solves("click-collapsible", "click-collapsible-nodelay")
async def expand(hand: Hand, told: str) -> None:
    await hand.click("one('#area h3')")
    await hand.until(f"!jQuery(':animated').length && clear({SUBMIT})")
    await hand.submit()


@solves("click-collapsible-2", "click-collapsible-2-nodelay")
async def expand_to_find(hand: Hand, told: str) -> None:
    link = f"says('#area .alink', {quoted(told)[0]!r})"
    section = await hand.read(
        f"all('#area h3').indexOf({link}.closest('.ui-accordion-content').previousElementSibling)"
    )
    if not await hand.read(f"{link}.getClientRects().length > 0"):
        await hand.click(f"all('#area h3')[{section}]")
    await hand.until("!jQuery(':animated').length")
    await hand.scroll_to(link, f"{link}.closest('.ui-accordion-content')")
    await hand.click(link)


@solves("click-option")
async def choose_option(hand: Hand, told: str) -> None:
    name = re.findall(r"Select (\S+) and", told)[0]
    await hand.click(f"says('#area label', {name!r}).querySelector('input')")
    await hand.submit()


@solves("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
async def choose_boxes(hand: Hand, told: str) -> None:
    names = re.findall(r"Select (.*) and click", told)[0]
    for name in [] if names == "nothing" else names.split(", "):
        await hand.click(f"says('#area label', {name!r}).querySelector('input')")
    await hand.submit()


@solves("click-widget")
async def click_widget(hand: Hand, told: str) -> None:
    await hand.click(f"one('#area .widget [data-type={quoted(told)[0]}]')")


@solves("click-color")
async def click_color(hand: Hand, told: str) -> None:
    await hand.click(f"one('#area .color[data-color={told.split()[3]}]')")


@solves("click-shades")
async def click_shades(hand: Hand, told: str) -> None:
    color = re.findall(r"shades of (\w+)", told)[0]
    for number in range(await hand.read(f"all('#area span[data-color={color}]').length")):
        await hand.click(f"all('#area span[data-color={color}]')[{number}]")
    await hand.submit()


@solves("click-menu")
async def click_menu(hand: Hand, told: str) -> None:
    names = told.removeprefix("Select ").split(">")
    for name in names[:-1]:
        x, y = await hand.point(f"says('#menu li > div', {name!r})")
        await hand.do(Move(x_px=x, y_px=y))
        opened = f"says('#menu li > div', {name!r}).parentElement.querySelector('ul')"
        await hand.until(f"{opened}.getClientRects().length > 0 && !jQuery(':animated').length")
    await hand.click(f"says('#menu li > div', {names[-1]!r})")


@solves("choose-list")
async def choose_from_list(hand: Hand, told: str) -> None:
    wanted = told.removeprefix("Select ").removesuffix(" from the list and click Submit.")
    at = await hand.read(f"[...one('#options').options].findIndex(o => o.text === {wanted!r})")
    await hand.do(PressKey(key="tab"), PressKey(key="home"), *[PressKey(key="down")] * at)
    assert await hand.read("one('#options').value") == wanted
    await hand.submit()


@solves("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def choose_date(hand: Hand, told: str) -> None:
    month, day, year = map(int, re.findall(r"\d+", told)[:3])
    await hand.click("one('#datepicker')")
    for _ in range(14):
        await hand.until("one('#ui-datepicker-div .ui-datepicker-prev') && !jQuery(':animated').length")
        shown = await hand.read(
            "one('.ui-datepicker-month').textContent + ' ' + one('.ui-datepicker-year').textContent"
        )
        name, shown_year = shown.split()
        months = "January February March April May June July August September October November December".split()
        ahead = (year - int(shown_year)) * 12 + month - 1 - months.index(name)
        if ahead == 0:
            break
        await hand.click(f"one('.ui-datepicker-{'next' if ahead > 0 else 'prev'}')")
    await hand.click(f"says('.ui-datepicker-calendar a', '{day}')")
    await hand.until("!one('#ui-datepicker-div').getClientRects().length")
    await hand.submit()


@solves("enter-text", "enter-text-dynamic")
async def enter_text(hand: Hand, told: str) -> None:
    await hand.enter("one('#tt')", quoted(told)[0])
    await hand.submit()


@solves("enter-text-2")
async def enter_case(hand: Hand, told: str) -> None:
    text = quoted(told)[0]
    await hand.enter("one('#tt')", text.upper() if "upper case" in told else text.lower())
    await hand.submit()


@solves("enter-password")
async def enter_password(hand: Hand, told: str) -> None:
    for number in range(2):
        await hand.enter(f"all('#area input')[{number}]", quoted(told)[0])
    await hand.submit()


@solves("enter-date")
async def enter_date(hand: Hand, told: str) -> None:
    month, day, year = re.findall(r"\d+", told)[:3]
    left, top, _, height = await hand.box("one('#tt')")
    await hand.do(Click(x_px=round(left + 8), y_px=round(top + height / 2)), TypeText(text=f"{month}{day}{year}"))
    await hand.submit()


@solves("enter-time")
async def enter_time(hand: Hand, told: str) -> None:
    hour, minute, half = re.findall(r"(\d+):(\d+)\s*([AP])M", told)[0]
    left, top, _, height = await hand.box("one('#tt')")
    keys = f"{int(hour):02}{minute}{half}"
    await hand.do(Click(x_px=round(left + 8), y_px=round(top + height / 2)), TypeText(text=keys))
    await hand.submit()


@solves("focus-text", "focus-text-2")
async def focus(hand: Hand, told: str) -> None:
    number = int((re.findall(r"(\d)", told) or ["1"])[0])
    await hand.click(f"all('#area input')[{number - 1}]")


@solves("login-user")
async def log_in(hand: Hand, told: str) -> None:
    user, password = quoted(told)
    await hand.enter("one('#username')", user)
    await hand.enter("one('#password')", password)
    await hand.submit()


@solves("login-user-popup")
async def log_in_past_popup(hand: Hand, told: str) -> None:
    for field, text in zip(("#username", "#password"), quoted(told), strict=True):
        await hand.click(f"one('{field}')")
        if await hand.read("!!one('#popup')"):
            await hand.click("one('#popup-cancel')")
            await hand.click(f"one('{field}')")
        await hand.do(TypeText(text=text))
    await hand.submit()
    if await hand.read("!WOB_DONE_GLOBAL && !!one('#popup')"):
        await hand.click("one('#popup-cancel')")
        await hand.submit()


@solves("use-autocomplete", "use-autocomplete-nodelay")
async def autocomplete(hand: Hand, told: str) -> None:
    start, end = (*quoted(told), "")[:2]
    await hand.enter("one('#tags')", start)
    items = "all('.ui-autocomplete li')"
    await hand.until(f"{items}.some(e => e.getClientRects().length)")
    wanted = await hand.read(
        f"{items}.map(e => e.textContent).find(t => t.startsWith({start!r}) && t.endsWith({end!r}))"
    )
    await hand.do(TypeText(text=wanted[len(start) :]), PressKey(key="tab"))
    await hand.until("!all('.ui-autocomplete').some(e => e.getClientRects().length)")
    await hand.submit()


@solves("use-spinner")
async def spin(hand: Hand, told: str) -> None:
    off = int(re.findall(r"-?\d+", told)[0]) - int(await hand.read("one('#spinner').value || 0"))
    for _ in range(abs(off)):
        await hand.click(f"one('.ui-spinner-{'up' if off > 0 else 'down'}')")
    await hand.submit()


@solves("use-slider", "use-slider-2")
async def slide(hand: Hand, told: str) -> None:
    for number, wanted in enumerate(re.findall(r"-?\d+", told)):
        slider = f"all('.ui-slider')[{number}]"
        await hand.click(f"{slider}.querySelector('.ui-slider-handle')")
        await slide_to(hand, slider, int(wanted))
    await hand.submit()


async def slide_to(hand: Hand, slider: str, wanted: int) -> None:
    off = wanted - await hand.read(f"jQuery({slider}).slider('value')")
    if off:
        await hand.do(PressKey(key="right" if off > 0 else "left", presses=abs(off)))
    assert await hand.read(f"jQuery({slider}).slider('value')") == wanted


@solves("form-sequence")
async def fill_slider_form(hand: Hand, told: str) -> None:
    wanted, box = re.findall(r"-?\d+", told)
    await hand.click("one('.ui-slider-handle')")
    await slide_to(hand, "one('.ui-slider')", int(wanted))
    await hand.click(f"one('#checkbox-{box}')")
    await hand.submit()


@solves("form-sequence-2")
async def fill_radio_form(hand: Hand, told: str) -> None:
    radio, number, box = re.findall(r"-?\d+", told)
    await hand.click(f"all('input[type=radio]')[{int(radio) - 1}]")
    await hand.enter(f"one('#input-{box}')", number)
    await hand.submit()


@solves("find-word")
async def find_word(hand: Hand, told: str) -> None:
    number = int(re.findall(r"\d+", told)[0])
    words = (await hand.read("one('#area p').textContent")).split()
    await hand.enter("one('#answer-input')", re.sub(r"\W", "", words[number - 1]))
    await hand.submit()


@solves("read-table")
async def read_table(hand: Hand, told: str) -> None:
    key = re.findall(r"value of (.*) into", told)[0]
    await hand.enter("one('#tt')", await hand.read(f"says('#tab td', {key!r}).nextElementSibling.textContent"))
    await hand.submit()


@solves("read-table-2")
async def read_two(hand: Hand, told: str) -> None:
    for number in (1, 2):
        value = await hand.read(f"says('#tab td', one('#ll{number}').dataset.key).nextElementSibling.textContent")
        await hand.enter(f"one('#tt{number}')", value)
    await hand.submit()


@solves("text-transform")
async def type_what_is_shown(hand: Hand, told: str) -> None:
    await hand.enter("one('#tt')", (await hand.read("one('#captcha').textContent")).strip())
    await hand.submit()


@solves("simple-arithmetic")
async def calculate(hand: Hand, told: str) -> None:
    one, sign, two = (await hand.read("one('#math-problem').textContent")).split()[:3]
    found = {"+": int(one) + int(two), "-": int(one) - int(two), "x": int(one) * int(two)}[sign]
    await hand.enter("one('#math-answer')", str(found))
    await hand.submit()


@solves("simple-algebra")
async def solve(hand: Hand, told: str) -> None:
    one, sign, two, _, total = (await hand.read("one('#math-problem').textContent")).split()
    by = {"+": lambda a, b: a + b, "-": lambda a, b: a - b}[sign]
    sides = [(x if one == "x" else int(one), x if two == "x" else int(two)) for x in range(-300, 301)]
    found = next(x for x, (a, b) in zip(range(-300, 301), sides, strict=True) if by(a, b) == int(total))
    await hand.enter("one('#math-answer')", str(found))
    await hand.submit()


@solves("visual-addition")
async def count_blocks(hand: Hand, told: str) -> None:
    num = await hand.read("one('#visual-1').children.length + one('#visual-2').children.length")
    await hand.enter("one('#math-answer')", str(num))
    await hand.submit()


@solves("generate-number")
async def generate(hand: Hand, told: str) -> None:
    bound = int((re.findall(r"\d+", told) or ["0"])[0])
    fits = {
        "less": lambda n: n < bound,
        "greater": lambda n: n > bound,
        "odd": lambda n: n % 2 == 1,
        "even": lambda n: n % 2 == 0,
    }[next(word for word in ("less", "greater", "odd", "even") if word in told)]
    for _ in range(80):
        await hand.click("one('#generate')")
        if fits(int(await hand.read("one('#display-number').textContent"))):
            break
    await hand.submit()


@solves("guess-number")
async def guess(hand: Hand, told: str) -> None:
    low, high = 0, 9
    while hand.reward == 0 and low <= high:
        tried = (low + high) // 2
        await hand.click("one('#tt')")
        await hand.do(Hotkey(keys=("ctrl", "a")), TypeText(text=str(tried)))
        await hand.submit()
        if await hand.read("!one('#higher').classList.contains('hide')"):
            low = tried + 1
        else:
            high = tried - 1


@solves("grid-coordinate")
async def click_coordinate(hand: Hand, told: str) -> None:
    await hand.click(f"document.getElementById({re.findall(r'[(].*?[)]', told)[0]!r})")


@solves("copy-paste", "copy-paste-2")
async def copy_and_paste(hand: Hand, told: str) -> None:
    number = int((re.findall(r"(\d)", told) or ["1"])[0])
    await hand.click(f"all('#area textarea')[{number - 1}]")
    await hand.do(Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "c")))
    await hand.click("one('#answer-input')")
    await hand.do(Hotkey(keys=("ctrl", "v")))
    await hand.submit()


@solves("scroll-text")
async def last_word(hand: Hand, told: str) -> None:
    word = re.sub(r"\W", "", (await hand.read("one('#text-area').value")).split()[-1])
    await hand.enter("one('#answer-input')", word)
    await hand.submit()


@solves("scroll-text-2")
async def scroll_textarea(hand: Hand, told: str) -> None:
    x, y = await hand.point("one('#text-area')")
    await hand.do(Scroll(dy=-20 if "bottom" in told else 20, x_px=x, y_px=y))
    await hand.submit()


@solves("sign-agreement")
async def sign(hand: Hand, told: str) -> None:
    if "enter the name" in told:
        x, y = await hand.point("one('#text-area')")
        await hand.do(Scroll(dy=-60, x_px=x, y_px=y))
        await hand.until("!one('#name').disabled")
        await hand.enter("one('#name')", quoted(told)[0])
    await hand.click("one('#agree')" if told.endswith('"Agree"') else "one('#cancel')")


@solves("odd-or-even")
async def mark_numbers(hand: Hand, told: str) -> None:
    for number in range(await hand.read("all('#area .row').length")):
        row = f"all('#area .row')[{number}]"
        value = int(await hand.read(f"{row}.querySelector('.display-number').textContent"))
        await hand.click(f"{row}.querySelector('.{'odd' if value % 2 else 'even'}')")
    await hand.submit()


@solves("find-greatest")
async def pick_greatest(hand: Hand, told: str) -> None:
    values = await hand.read("all('.card').map(e => Number(e.textContent))")
    await hand.click(f"all('.card')[{values.index(max(values))}]")
    await hand.submit()


@solves("ascending-numbers")
async def in_order(hand: Hand, told: str) -> None:
    num = await hand.read("all('svg text').length")
    for x, y in [await hand.point(f"says('svg text', '{number}')") for number in range(1, num + 1)]:
        await hand.do(Click(x_px=x, y_px=y))  # the first click hides the numbers


@solves("identify-shape")
async def identify(hand: Hand, told: str) -> None:
    kind = await hand.read("one('#area_svg > *').tagName")
    text = await hand.read("one('#area_svg').textContent.trim()")
    names = {"rect": "rectangle", "circle": "circle", "polygon": "triangle"}
    name = names[kind] if kind in names else "digit" if text.isdigit() else "letter"
    await hand.click(f"one('#area-buttons [data-type={name}]')")


@solves("multi-orderings", "multi-layouts")
async def search_movies(hand: Hand, told: str) -> None:
    genre, name, year = re.findall(r"for (.*) movies directed by (.*) from year (\d+)", told)[0]
    row = "e.closest('tr, p, .row, .field, .ui-entry')"
    fields = await hand.read(f"all('#area input').map(e => {row}.textContent)")
    for number, label in enumerate(fields):
        text = genre if "Genre" in label else name if "Director" in label else year
        await hand.enter(f"all('#area input')[{number}]", text)
    await hand.click("one('#area .final, #area button, #area .ui-submit')")


@solves("search-engine")
async def search(hand: Hand, told: str) -> None:
    number = int(re.findall(r"the (\d+)", told)[0])
    await hand.enter("one('#search-text')", quoted(told)[0])
    await hand.click("one('#search')")
    if number > 3:
        await hand.click(f"says('#pagination a', '{(number + 2) // 3}')")
    await hand.click(f"all('#page-content a')[{(number - 1) % 3}]")


@solves("drag-box")
async def drag_box(hand: Hand, told: str) -> None:
    start, goal = await hand.point("one('#draggableSmall')"), await hand.point("one('#draggableLarge')")
    await hand.drag(start, goal)
    await hand.submit()


@solves("drag-circle", "drag-single-shape")
async def drag_aside(hand: Hand, told: str) -> None:
    x, y = await hand.point("one('#area svg').firstElementChild")
    word = re.findall(r"Drag the \w+ (\w+)", told)[0]
    step_x, step_y = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}[word]
    await hand.drag((x, y), (x + 15 * step_x, y + 15 * step_y))
    await hand.submit()


@solves("email-inbox-delete", "email-inbox-important")
async def mark_email(hand: Hand, told: str) -> None:
    name = re.findall(r"by (\w+) and", told)[0]
    thread = f"says('#main .email-thread .email-sender', {name!r}).closest('.email-thread')"
    icon = f"{thread}.querySelector('.{'trash' if 'trash' in told else 'star'}')"
    await hand.scroll_to(icon, "one('#main, #area')")
    await hand.click(icon)


@solves("email-inbox-forward")
async def forward_email(hand: Hand, told: str) -> None:
    name, to = re.findall(r"by (\w+) and forward that email to (\w+)", told)[0]
    await open_email(hand, name)
    await hand.click("one('#email .email-forward')")
    await hand.enter("one('.forward-sender')", to)
    await hand.click("one('#send-forward')")


@solves("email-inbox-reply")
async def reply_to_email(hand: Hand, told: str) -> None:
    await open_email(hand, re.findall(r"by (\w+) and", told)[0])
    await hand.click("one('#email .email-reply')")
    await hand.enter("one('#reply-text')", quoted(told)[0])
    await hand.click("one('#send-reply')")


async def open_email(hand: Hand, name: str) -> None:
    sender = f"says('#main .email-thread .email-sender', {name!r})"
    await hand.scroll_to(sender, "one('#main, #area')")
    await hand.click(sender)
