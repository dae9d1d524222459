"""The texts of the protocol, letter for letter."""

import json

import pytest

from cua.errors import ConfigError
from cua.gui_agent.protocol import ProtocolOptions, system_prompt
from cua.gui_agent.protocol.prompts import UNTRUSTED_PROMPT, instruction_text, step_text

OPENING = (
    "You are a GUI agent. You are given an instruction, a screenshot of the screen and your previous interactions with "
    "the computer. You need to perform a series of actions to complete the task."
)
THINKING_LAYOUT = [
    "For each step, provide your response in this format:",
    "{thought}",
    "## Action:",
    "{action}",
    "## Code:",
    "{code}",
]


def paragraphs(**options):
    return [part.split("\n") for part in system_prompt(ProtocolOptions(**options)).split("\n\n")]


def test_thinking_prompt():
    opening, layout, functions = paragraphs(password="secret {word}")
    assert opening == [f"{OPENING} The password of the computer is secret {{word}}."]
    assert layout == THINKING_LAYOUT
    assert functions[0] == (
        "In the code section, the code should be either pyautogui code or one of the following functions "
        "wrapped in the code block:"
    )
    assert [line[:2] for line in functions[1:]] == ["- ", "- "]
    assert [json.loads(line[2:]) for line in functions[1:]] == [
        {
            "name": "computer.wait",
            "description": "Make the computer wait for 20 seconds for installation, running code, etc.",
            "parameters": {"type": "object", "properties": {}, "required": []},
        },
        {
            "name": "computer.terminate",
            "description": "Terminate the current task and report its completion status",
            "parameters": {
                "type": "object",
                "properties": {
                    "status": {
                        "type": "string",
                        "enum": ["success", "failure"],
                        "description": "The status of the task",
                    },
                    "answer": {"type": "string", "description": "The answer of the task"},
                },
                "required": ["status"],
            },
        },
    ]
    assert functions[1].startswith('- {"name": "computer.wait", "description": "Make')


def test_without_a_password_nothing_is_said_about_one():
    assert paragraphs()[0] == [OPENING]


def test_plain_prompt_differs_by_one_line():
    plain, thinking = paragraphs(thinking=False), paragraphs()
    assert plain[1] == [THINKING_LAYOUT[0], "## Thought", *THINKING_LAYOUT[1:]]
    assert [plain[0], plain[2]] == [thinking[0], thinking[2]]


def test_extra_prompt_comes_last():
    assert (
        system_prompt(ProtocolOptions(extra_prompt="Be quick.")) == system_prompt(ProtocolOptions()) + "\n\nBe quick."
    )


@pytest.mark.parametrize("instruction", ["Click {x} and {}", "点击“保存”", "🙂 {0!r}", "", "x" * 20_000, "a\n\nb"])
def test_instructions_are_taken_as_they_are(instruction):
    assert instruction_text(instruction) == (
        "# Task Instruction:\n" + instruction + "\n\nPlease generate the next move according to the screenshot, task "
        "instruction and previous steps (if provided).\n"
    )


def test_step_texts():
    assert step_text(3, "Why", "Do {it}", thinking=True) == "# Step 3:\n◁think▷Why◁/think▷## Action:\nDo {it}\n"
    assert step_text(3, "Why", "Do {it}", thinking=False) == "# Step 3:\n## Thought:\nWhy\n\n## Action:\nDo {it}\n"


@pytest.mark.parametrize(("options", "text"), [({"max_images": 0}, "at least 1"), ({"coordinates": "x"}, "relative")])
def test_bad_options(options, text):
    with pytest.raises(ConfigError, match=text):
        ProtocolOptions(**options)


def test_the_note_on_untrusted_texts_is_the_end_and_all_that_differs():
    for options in ({}, {"thinking": False}, {"extra_prompt": "Be quick.", "observation": "marks"}):
        published = system_prompt(ProtocolOptions(**options))
        assert system_prompt(ProtocolOptions(**options, mark_untrusted=True)) == f"{published}\n\n{UNTRUSTED_PROMPT}"
    assert ProtocolOptions().mark_untrusted is False
