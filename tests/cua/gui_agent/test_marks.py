"""Set-of-marks: numbered boxes on the screenshot, their list, and `mark(n)` in the code; off by default."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from cua import Agent, AgentOptions, Guard, ImagePart, Message, Reply, Sampling, TextPart
from cua.errors import CodeError, ConfigError
from cua.gui_agent.interpreter import run
from cua.gui_agent.protocol import ProtocolOptions, mark_points, system_prompt, to_messages
from cua.gui_agent.protocol.history import draw_marks
from cua.gui_agent.protocol.prompts import MARKS_PROMPT
from cua.model import Tool
from envs import Click, InstructionTask, Observation, ScreenElement, ScreenGeometry
from tests.cua.gui_agent.test_agent import DONE, say
from tests.envs.browser.pages import PageServer

GEOMETRY = ScreenGeometry(native_px=(400, 200), sent_px=(400, 200))
SAVE = ScreenElement(number=1, role="button", name='Sa"ve', box=(0.5, 0.5, 0.75, 0.75))
NAME = ScreenElement(number=2, role="textbox", name="Name", value="ann", states=("focused",), box=(0.0, 0.0, 0.25, 0.1))


def observe(*elements: ScreenElement) -> Observation:
    png = io.BytesIO()
    Image.new("RGB", GEOMETRY.sent_px, (255, 255, 255)).save(png, "PNG")
    return Observation(screenshot=png.getvalue(), geometry=GEOMETRY, elements=elements, a11y_tree='page "Form"')


def test_boxes_are_drawn_around_the_elements_and_nothing_else_changes() -> None:
    marked = Image.open(io.BytesIO(draw_marks(observe(SAVE, NAME)))).convert("RGB")
    assert marked.size == GEOMETRY.sent_px
    white = (255, 255, 255)
    assert marked.getpixel((220, 149)) != white and marked.getpixel((200, 120)) != white  # its lower and left side
    assert marked.getpixel((250, 125)) == white  # its middle stays as it was
    assert marked.getpixel((350, 50)) == white
    assert marked.getpixel((96, 3)) != white  # no room above: the number stands inside
    assert marked.getpixel((297, 90)) != white  # above the right end of its box


def test_a_screenshot_without_elements_stays_byte_for_byte() -> None:
    seen = observe()
    assert draw_marks(seen) is seen.screenshot


def test_the_list_is_data_and_old_steps_are_marked_too() -> None:
    options = ProtocolOptions(observation="marks")
    messages = to_messages("Save it", [], observe(SAVE, NAME), options)
    said = [part.text for part in messages[-1].parts if isinstance(part, TextPart)]
    assert said[0].splitlines()[2:] == ['[1] button "Sa\\"ve"', '[2] textbox "Name" value="ann" focused']
    assert messages[-1].parts[0] == ImagePart(data=draw_marks(observe(SAVE, NAME)))
    assert messages[0].text.endswith(MARKS_PROMPT)
    assert "(there are none)" in to_messages("x", [], observe(), options)[-1].text


def test_the_tree_is_told_when_it_is_asked_for() -> None:
    told = to_messages("x", [], observe(SAVE), ProtocolOptions(observation="a11y_tree"))[-1]
    assert 'page "Form"' in told.text and told.parts[0] == ImagePart(data=observe(SAVE).screenshot)


def test_the_published_protocol_knows_nothing_of_it() -> None:
    plain = replace(observe(SAVE, NAME), elements=(), a11y_tree=None)
    for options in (ProtocolOptions(), ProtocolOptions(thinking=False)):
        assert to_messages("x", [], observe(SAVE, NAME), options) == to_messages("x", [], plain, options)
        assert "mark(" not in system_prompt(options)


def test_a_mark_is_the_middle_of_its_box() -> None:
    marks = mark_points(observe(SAVE, NAME))
    assert marks == {1: (250, 125), 2: (50, 10)}
    code = "pyautogui.click(mark(1))\nx, y = mark(2)\npyautogui.click(x + 5, y)\npyautogui.click(*mark(number=1))"
    assert run(code, GEOMETRY, marks=marks) == [
        Click(x_px=250, y_px=125),
        Click(x_px=55, y_px=10),
        Click(x_px=250, y_px=125),
    ]
    scaled = ScreenGeometry(native_px=(400, 200), sent_px=(800, 400), offset_px=(1000, 0))
    assert run("pyautogui.click(mark(1))", scaled, marks={1: (1250, 125)}) == [Click(x_px=1250, y_px=125)]


@pytest.mark.parametrize(
    ("code", "marks", "text"),
    [
        ("pyautogui.click(mark(9))", {1: (5, 5)}, "there is no box 9; there are 1 to 1"),
        ("pyautogui.click(mark('1'))", {1: (5, 5)}, "there is no box 1;"),
        ("pyautogui.click(mark(True))", {1: (5, 5)}, "there is no box True"),
        ("pyautogui.click(mark())", {1: (5, 5)}, r"mark\(\) needs the argument 'number'"),
        ("pyautogui.click(mark)", {1: (5, 5)}, "line 1"),
        ("pyautogui.click(mark(1))", {}, "the screenshot has no numbered boxes"),
    ],
)
def test_a_number_that_is_not_there_is_told_to_the_model(code: str, marks: dict[int, Any], text: str) -> None:
    with pytest.raises(CodeError, match=text):
        run(code, GEOMETRY, marks=marks)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected screenshot, a11y_tree, marks"):
        ProtocolOptions(observation="dom")  # type: ignore[arg-type]


class MarkReader:
    """Follows a plan of (role and name, code), by the numbers that it reads in the list; it never sees a position."""

    name = "mark-reader"

    def __init__(self, *plan: tuple[str, str]) -> None:
        self.plan = list(plan)
        self.pictures: list[bytes] = []

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        self.pictures += [part.data for part in messages[-1].parts if isinstance(part, ImagePart)]
        if not self.plan:
            return Reply(content=DONE)
        wanted, code = self.plan.pop(0)
        found = re.search(rf"^\[(\d+)\] {re.escape(wanted)}", messages[-1].text, re.M)
        assert found is not None, messages[-1].text
        return Reply(content=say(code.replace("N", found[1])))

    async def close(self) -> None:
        pass


@pytest.mark.long
@pytest.mark.browser
async def test_a_form_is_filled_by_numbers_alone() -> None:
    from envs.browser import BrowserEnv, BrowserOptions, find_browser

    if find_browser() is None:
        pytest.skip("no Chromium found; get one with `cua setup`")
    pages = PageServer()
    body = """<style>* { font-size: 24px; margin: 8px }</style><h1>Expense</h1>
      <input aria-label=Amount><br><select aria-label=Category><option>Taxi<option>Food</select><br>
      <label><input type=checkbox aria-label=Paid>Paid</label><br>
      <button onclick='said.textContent = [...document.querySelectorAll("input, select")].map(
        field => field.type == "checkbox" ? field.checked : field.value).join(" ")'>Add</button><p id=said></p>"""
    model = MarkReader(
        ('textbox "Amount"', "pyautogui.click(mark(N))\npyautogui.write('48.50')"),
        ('checkbox "Paid"', "pyautogui.click(mark(N))"),
        ('button "Add"', "pyautogui.click(mark(N))"),
    )
    env = BrowserEnv(BrowserOptions(start_url=pages.serve(body), viewport_px=(800, 500), a11y_tree=True))
    try:
        agent = Agent(
            model=model,
            env=env,
            options=AgentOptions(protocol=ProtocolOptions(observation="marks")),
            guard=Guard(mode="yolo"),
        )
        result = await agent.run(InstructionTask(instruction="Add the expense"))
        assert (result.end.status, result.num_steps) == ("unverified", 4)
        assert await env.page.inner_text("#said") == "48.50 Taxi true"
        assert env.page is not None and len(model.pictures) == 4
    finally:
        await env.close()
        pages.close()


@pytest.mark.browser
@pytest.mark.slow
def test_the_command_line_can_ask_for_it_in_a_browser_only(tmp_path: Any) -> None:
    from cua.trajectory import load_run
    from tests.apps.cli.running import PAGE, cua, script

    code = script(tmp_path, say("pyautogui.click(mark(1))"), DONE)
    flags = ("--model", code, "--set", "observation=marks", "--output-format", "json")
    ended = cua(tmp_path, "task", "x", "--url", PAGE, *flags)
    assert (ended.code, ended.result["status"]) == (0, "unverified")
    record = load_run(ended.result["run_dir"])
    assert record.header.protocol["observation"] == "marks"
    assert record.steps[0].observation.elements[0].name == "Save"
    assert '[1] button "Save"' in (record.steps[0].observation.a11y_tree or "")
    refused = cua(tmp_path, "task", "x", "--env", "desktop", *flags)
    assert refused.code == 2
    assert "'desktop' has no accessibility tree; it is available in the browser" in " ".join(refused.stderr.split())
