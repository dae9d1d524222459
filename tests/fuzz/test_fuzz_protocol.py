"""Whatever the reply: a turn or ReplyError, in bounded time; whatever the page: one request of the same shape."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cua.errors import ReplyError
from cua.gui_agent.protocol import ProtocolOptions, parse, to_messages
from cua.gui_agent.protocol.prompts import instruction_text
from cua.messages import ImagePart, Reply, TextPart
from envs import Dialog, Observation, ScreenGeometry, Tab
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.settings import bounded_time, fuzzed

PIECES = st.sampled_from(
    [
        "## Action:\n",
        "## Action: Click.\n",
        "Click.\n",
        "### Code:\n",
        "## Code:",
        "## Thought:\n",
        "```python\n",
        "```\n",
        "```",
        "~~~",
        "\n",
        "\r\n",
        " ",
        "<think>",
        "</think>",
        "◁think▷",
        "◁/think▷",
        "pyautogui.click(0.5, 0.5)\n",
        "computer.wait()",
        'computer.terminate(status="success")\n',
        '{"name": "computer.wait"}',
        '{"name": "computer.terminate", "arguments": {"status": "success"}}',
        '"""',
        "#",
        "**",
        "\ufeff",
        "\0",
    ]
)


def attempt(content, reasoning="", thinking=True):
    """The turn, or None when the reply is refused."""
    with bounded_time():
        try:
            return parse(Reply(content=content, reasoning=reasoning), thinking=thinking)
        except ReplyError as error:
            assert "## Action:" in str(error)
            return None


def check(turn):
    assert turn is None or (turn.code.strip() and turn.action_text.strip())


@fuzzed
@given(st.text(), st.text(), st.booleans())
def test_random_text(content, reasoning, thinking):
    check(attempt(content, reasoning, thinking))


@fuzzed
@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join), st.booleans())
def test_random_pieces_of_replies(content, thinking):
    check(attempt(content, "", thinking))


@fuzzed
@given(PROGRAMS, st.data())
@pytest.mark.long
def test_valid_replies_survive_and_mutated_ones_do_no_harm(code, data):
    content = f"## Action:\nClick.\n## Code:\n```python\n{code}\n```"
    turn = attempt(content)
    if "```" not in code and code.strip():
        assert turn is not None
        assert turn.action_text == "Click."
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 10)))
    check(attempt(content[:start] + data.draw(PIECES | st.text(max_size=3)) + content[end:]))


@fuzzed
@given(st.lists(PIECES, min_size=1, max_size=3).map("".join), st.integers(0, 20_000))
@example("```\n", 20_000)
@example("```python\nx```\n", 20_000)
@example("```python\n(\n```\n", 20_000)
@example("## Action:\n", 20_000)
@example("</think>", 20_000)
@pytest.mark.long
def test_one_piece_over_and_over(piece, count):
    check(attempt((piece * count)[:100_000]))


_TEXT = st.text(max_size=60)


@fuzzed
@given(
    instruction=st.text(),
    error=st.none() | _TEXT,
    dialog=st.none() | st.builds(Dialog, kind=st.sampled_from(["alert", "prompt"]), message=_TEXT, default_text=_TEXT),
    notes=st.lists(_TEXT, max_size=3).map(tuple),
    tabs=st.lists(st.builds(Tab, title=_TEXT, url=_TEXT, is_active=st.booleans()), max_size=3).map(tuple),
)
def test_page_text_never_changes_the_shape_of_a_request(instruction, error, dialog, notes, tabs):
    observation = Observation(
        screenshot=b"png",
        geometry=ScreenGeometry(native_px=(10, 10), sent_px=(10, 10)),
        last_action_error=error,
        dialog=dialog,
        notes=notes,
        tabs=tabs,
    )
    last = to_messages(instruction, [], observation, ProtocolOptions())[-1]
    image, *texts = last.parts
    assert isinstance(image, ImagePart)
    assert texts[-1] == TextPart(text=instruction_text(instruction))
    num_facts = bool(error) + bool(dialog) + len(notes) + (1 + len(tabs) if len(tabs) > 1 else 0)
    assert len(texts) == (2 if num_facts else 1)
    if num_facts:
        assert len(texts[0].text.splitlines()) == 2 + num_facts
