"""Answers as models really write them. The first part has one test for each awkward kind that is known."""

import json
import logging

import pytest

from cua.errors import ReplyError, TruncatedReplyError
from cua.gui_agent.interpreter import run
from cua.gui_agent.protocol import parse
from cua.messages import Reply
from cua.step import Turn
from envs import Click, ScreenGeometry, Terminate, TypeText, Wait

CLICK = "pyautogui.click(0.5, 0.5)"
GEOMETRY = ScreenGeometry(native_px=(100, 100), sent_px=(100, 100))


def read(content, reasoning="Because.", thinking=True, **fields):
    return parse(Reply(content=content, reasoning=reasoning, **fields), thinking=thinking)


def answer(code, tag="python", action="Click."):
    return f"## Action:\n{action}\n## Code:\n```{tag}\n{code}\n```"


def actions(content):
    return run(read(content).code, GEOMETRY)


def test_the_plain_case():
    assert read(answer(CLICK)) == Turn(thought="Because.", action_text="Click.", code=CLICK)


def test_no_fence_at_all_but_a_code_section():
    assert read(f"## Action:\nClick.\n## Code:\n{CLICK}\n") == Turn(
        thought="Because.", action_text="Click.", code=CLICK
    )


def test_no_code_at_all():
    with pytest.raises(ReplyError, match=r"The reply has no code block. Answer in this format:\n## Action:"):
        read("## Action:\nClick the button.")


def test_two_fenced_blocks_run_the_last_and_say_so(caplog):
    with caplog.at_level(logging.WARNING):
        turn = read(f"## Action:\nClick.\n## Code:\n```python\nfirst()\n```\nor\n```python\n{CLICK}\n```")
    assert turn.code == CLICK
    assert "holds 2 code blocks, the last one is run" in caplog.text


@pytest.mark.parametrize("tag", ["py", "python3", "", "code", "Python", " python ", "pyautogui"])
def test_fence_tags(tag):
    assert read(answer(CLICK, tag)).code == CLICK


def test_backticks_inside_typed_text():
    for code in (
        "pyautogui.write('```')",
        "pyautogui.write('a ```python b``` c')",
        'pyautogui.write("""\n```python\nprint(1)\n```\n""")',
    ):
        assert read(answer(code)).code == code


def test_action_on_the_headings_line():
    assert read(f"## Action: Click it.\n## Code:\n```python\n{CLICK}\n```").action_text == "Click it."


@pytest.mark.parametrize(
    "heading",
    [
        "### Action:",
        "## Action",
        "##Action:",
        " ## action :",
        "## Actions:",
        "## Action：",
        "##Action ：",
        "＃＃ Action:",
        "## **Action:**",
        "## **Action**:",
        "**Action:**",
        "**Action**：",
        "**Action**",
        "## 动作：",
        "## 操作:",
        "##行动",
        "## __Action__:",
    ],
)
def test_spellings_of_the_heading(heading):
    assert read(f"{heading}\nClick.\n### Code:\n```\n{CLICK}\n```") == Turn(
        thought="Because.", action_text="Click.", code=CLICK
    )


def test_crlf():
    assert read(answer("x = 0.5\npyautogui.click(x, x)").replace("\n", "\r\n")).code == "x = 0.5\npyautogui.click(x, x)"


def test_wait_without_an_action():
    turn = read("## Code:\n```python\ncomputer.wait()\n```")
    assert turn == Turn(thought="Because.", action_text="Wait.", code="computer.wait()")


def test_typing_the_name_of_a_function():
    assert actions(answer("pyautogui.write('computer.wait')")) == [TypeText(text="computer.wait")]


def test_an_answer_that_speaks_of_failure_is_no_failure():
    code = "computer.terminate(status='success', answer='3 tests failed')"
    assert actions(answer(code)) == [Terminate(status="success", answer="3 tests failed")]


@pytest.mark.parametrize(
    "code",
    [
        '{"name": "computer.terminate", "arguments": {"status": "success", "answer": "4\\n\\"2\\" 你"}}',
        '{"name": "computer.terminate", "parameters": {"status": "success", "answer": "4\\n\\"2\\" 你"}}',
        '{\n  "name": "terminate",\n  "arguments": {"status": "success", "answer": "4\\n\\"2\\" 你"}\n}',
        json.dumps(
            {"name": "computer.terminate", "arguments": json.dumps({"status": "success", "answer": '4\n"2" 你'})}
        ),
    ],
)
def test_terminate_as_a_json_object(code):
    assert actions(answer(code, "json")) == [Terminate(status="success", answer='4\n"2" 你')]


@pytest.mark.parametrize(
    "code", ['{"name": "computer.wait"}', '{"name": "wait", "arguments": {}}', "computer.wait", "computer.wait()"]
)
def test_wait_in_all_spellings(code):
    assert actions(answer(code)) == [Wait(duration_s=20.0)]


def test_other_calls_as_json():
    assert actions(answer('{"name": "pyautogui.click", "arguments": {"x": 0.5, "y": 0.25}}')) == [
        Click(x_px=50, y_px=25)
    ]


def test_a_click_and_an_ending_in_one_block():
    code = CLICK + "\ncomputer.terminate(status='success')"
    assert actions(answer(code)) == [Click(x_px=50, y_px=50), Terminate(status="success")]


@pytest.mark.parametrize("content", [None, "", "   \n", "I do not know."])
def test_nothing_in_the_content(content):
    with pytest.raises(ReplyError, match="no code block"):
        read(content)


def test_no_reasoning():
    assert read(answer(CLICK), reasoning=None).thought == ""


@pytest.mark.parametrize(
    "leak",
    [
        "<think>I see\na button.</think>",
        "◁think▷I see\na button.◁/think▷",
        "I see\na button.</think>\n",
        "I see\na button.◁/think▷",
        "I see\na button.\n\n",
    ],
)
def test_leaked_thinking(leak):
    assert read(leak + answer(CLICK), reasoning="") == Turn(
        thought="I see\na button.", action_text="Click.", code=CLICK
    )


def test_drafts_in_leaked_thinking_are_not_run():
    draft = answer("draft()", action="Draft.")
    for leak in (f"<think>{draft}</think>\n", f"{draft}\nno, better:\n</think>\n"):
        turn = read(leak + answer(CLICK), reasoning="")
        assert (turn.action_text, turn.code) == ("Click.", CLICK)
    for leak in ("<think>", "I see.\n<THINK>", f"{draft}\n<think >no, maybe:\n"):
        with pytest.raises(ReplyError, match="no code block"):
            read(leak + answer(CLICK), reasoning="")


@pytest.mark.parametrize("text", ["<think>x</think> ◁/think▷", "</think>", "a <think> b"])
def test_typing_a_think_marker(text):
    code = f"pyautogui.write('{text}')"
    expected = Turn(thought="Because.", action_text=f"Type {text}.", code=code)
    assert read(answer(code, action=f"Type {text}.")) == expected
    assert read(f"## Action:\nType {text}.\n## Code:\n{code}") == expected


def test_truncation_is_not_a_mistake_of_the_model():
    with pytest.raises(TruncatedReplyError, match="cut at its token limit after 10 characters"):
        read("## Action:", finish_reason="length")


# The rest.


def test_thinking_keeps_servers_reasoning_over_text_before_the_action():
    assert read("Some words.\n" + answer(CLICK)).thought == "Because."


def test_plain_mode_takes_the_thought_from_its_heading():
    content = "## Thought:\nI see it.\n\nTwo paragraphs.\n" + answer(CLICK)
    assert read(content, thinking=False) == Turn(
        thought="I see it.\n\nTwo paragraphs.", action_text="Click.", code=CLICK
    )
    assert read("## Thought\nI see it.\n" + answer(CLICK), reasoning="").thought == "I see it."
    assert read("Free words.\n" + answer(CLICK), reasoning="", thinking=False).thought == "Free words."


def test_comments_in_code_are_no_headings():
    code = "## Action: not one\n# Action: nor this\n" + CLICK
    assert read(answer(code)) == Turn(thought="Because.", action_text="Click.", code=code)


def test_unfenced_code_keeps_its_comments_and_ends_at_the_next_heading():
    content = f"## Action:\nClick.\n## Code:\n# first\n{CLICK}\n## Thought:\nDone."
    assert read(content).code == f"# first\n{CLICK}"


def test_action_directly_followed_by_a_fence():
    assert read(f"## Action:\nClick.\n```python\n{CLICK}\n```").action_text == "Click."


def test_action_of_several_lines():
    assert read(answer(CLICK, action="Click.\n\nThen look.")).action_text == "Click.\n\nThen look."


def test_code_without_an_action_is_refused():
    with pytest.raises(ReplyError, match="no text under '## Action:'"):
        read(f"```python\n{CLICK}\n```")
    with pytest.raises(ReplyError, match="no text under '## Action:'"):
        read(f"## Action:\n\n## Code:\n```python\n{CLICK}\n```")


def test_ending_without_an_action():
    assert read("```\ncomputer.terminate('success')\n```").action_text == "End the task."


@pytest.mark.parametrize(
    "fenced",
    [
        f"```python\n{CLICK}",
        f"```python\n{CLICK}```",
        f"```python\n{CLICK}```\nDone.",
        f"```python {CLICK}```",
        f"```{CLICK}```",
        f"~~~python\n{CLICK}\n~~~",
        f"````python\n{CLICK}\n````",
        f"  ```python\n  {CLICK}\n  ```",
        f"```python\n\n{CLICK}\n\n```\n",
        f"```python\n{CLICK}\n```\nThen I will look.",
    ],
)
def test_careless_fences(fenced):
    assert read("## Action:\nClick.\n## Code:\n" + fenced).code.strip() == CLICK


def test_code_heading_and_fence_on_one_line():
    assert read(f"## Action:\nClick.\n## Code: ```python\n{CLICK}\n```").code == CLICK


def test_indented_block_keeps_its_shape():
    code = "    for i in range(2):\n        pyautogui.press('a')"
    turn = read(f"## Action:\nPress.\n## Code:\n    ```python\n{code}\n    ```")
    assert len(run(turn.code, GEOMETRY)) == 2


def test_an_empty_last_block_is_overlooked():
    assert read(answer(CLICK) + "\n```\n\n```").code == CLICK


def test_two_steps_in_one_reply_give_the_last_one():
    turn = read(answer("first()", action="First.") + "\n\n" + answer(CLICK, action="Second."))
    assert (turn.action_text, turn.code) == ("Second.", CLICK)


def test_bold_action():
    assert read(f"## Action:\n**Click.**\n## Code:\n```\n{CLICK}\n```").action_text == "Click."


@pytest.mark.parametrize(
    "code", ['{"name": "os.system", "arguments": {}}', '{"name": 5}', '{"a": 1}', "{", '{"name": "x y"}']
)
def test_json_that_is_no_call_is_left_to_the_interpreter(code):
    assert read(answer(code)).code == code


def test_a_long_text_to_type_is_fine_and_an_endless_reply_is_not():
    text = "Line with `code` and ```.\n" * 800
    assert actions(answer(f"pyautogui.write({text!r})")) == [TypeText(text=text)]
    with pytest.raises(ReplyError, match="more than 100000 characters"):
        read(answer(CLICK) + "\nand so on" * 10_000)


@pytest.mark.parametrize(
    "heading", ["## Code：", "##Code:", "**Code:**", "## **Code**", "## 代码：", "＃＃ Code", "## Code： ```python"]
)
def test_spellings_of_the_heading_for_code(heading):
    fence = "" if heading.endswith("python") else "```python\n"
    turn = read(f"## Action：点击。\n{heading}\n{fence}{CLICK}\n```\n")
    assert (turn.action_text, turn.code) == ("点击。", CLICK)
    unfenced = heading.removesuffix(" ```python")
    assert read(f"## Action:\nClick.\n{unfenced}\n{CLICK}\n").code == CLICK


@pytest.mark.parametrize(
    "line", ["**Action** is needed here", "# Actions", "## Actionable items", "the **code**", "## 代码说明"]
)
def test_what_is_no_heading(line):
    assert read(f"{line}\n## Action:\nClick.\n## Code:\n```python\n{CLICK}\n```").action_text == "Click."


@pytest.mark.parametrize(
    "after",
    [
        "Expected output:\n```\nClicked\n```",
        "```text\nThe page opens.\n```",
        "## Output:\n```\npyautogui.click(0.1, 0.1)\n```",
        'This gives:\n```json\n{"clicked": true}\n```',
        "It runs as:\n```console\n>>> pyautogui.click(0.1, 0.1)\n```",
        "### Expected result\n```python\npyautogui.click(0.1, 0.1)\n```",
        "```\n```",
    ],
)
def test_an_example_after_the_code_is_not_run(after):
    assert read(f"{answer(CLICK)}\n{after}").code == CLICK


def test_an_example_before_the_heading_for_code_is_not_run():
    before = "I could write\n```python\npyautogui.click(0.1, 0.1)\n```\n"
    assert read(before + answer(CLICK)).code == CLICK
    assert read(f"## Action:\nClick.\n## Code:\n{CLICK}").code == CLICK
