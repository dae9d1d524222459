"""Instructions are read in time linear in their length, whatever they repeat."""

import time

import pytest

from apps.literal.grammar import parse_instruction
from tests.tables import table

NUM_CHARS = {"clauses": 200_000, "words": 50_000}
GROWTH, MAX_RATIO = 4, 6.0
"""The longer text is four times the shorter one and may take six times as long."""
MAX_S = 20.0
NUM_TRIES = 3
"""A collection of garbage, or another process, may fall into one measurement."""

REPEATED: list[tuple[str, str, str]] = [
    ("enter ", 'user "a" and ', ""),
    ("", 'enter user "a" and ', ""),
    ("enter ", 'name "a", ', "x"),
    ("", "click x then ", "x"),
    ("", "click x and ", ""),
    ("", "save, ", ""),
    ("click save, ", "save, ", ""),
    ("", "type it into x; ", ""),
    ("", "press Tab; click it; ", ""),
    ("type ", "foo in the bar as ", "x"),
    ("set a to b, ", "c to d, ", ""),
    ('type "a" into b, ', '"c" into d and ', ""),
    ('type "a" into b, ', "a,", "!"),
    ("click ", "a, ", "x"),
    ("click ", '"a", ', "x"),
    ("click ", "a in the ", "row"),
    ("", "could you please ", "click x"),
    ("", "and then ", "click x"),
    ("", "find and ", "click x"),
    ("click ", "1. ", "x"),
    ("", "a. ", "x"),
    ("", "- ", "click x"),
    ("click ", " ", "x"),
    ("", "\n", "click x"),
    ("", '"', ""),
    ("", "“", ""),
    ("", "'", ""),
    ("", " 'a", "\n"),
    ("", "«  ", ""),
    ("", "„`", ""),
    ("click ", "(", ""),
    ("click ", "[(", ")"),
    ("click ", "a > ", "b"),
    ("click ", "a", ""),
    ("", "\ue0000\ue001 ", ""),
    ("请在搜索框中输入内容,", "然后点击按钮,", ""),
]
"""The start of an instruction, what is repeated, and the end."""


def seconds(start: str, pump: str, end: str, num_chars: int) -> float:
    """Return the processor time that an instruction of that length takes to be read."""
    text = start + pump * ((num_chars - len(start) - len(end)) // len(pump)) + end
    started = time.process_time()
    parse_instruction(text)
    return time.process_time() - started


@pytest.mark.long
@table(("start", "pump", "end"), REPEATED)
def test_time_is_linear_in_the_length(start: str, pump: str, end: str) -> None:
    num_chars = NUM_CHARS["clauses" if " " in pump and len(pump) > 5 else "words"]
    for attempt in range(1, NUM_TRIES + 1):
        long_s = seconds(start, pump, end, num_chars)
        short_s = max(seconds(start, pump, end, num_chars // GROWTH), 0.02)
        if long_s < MAX_RATIO * short_s or attempt == NUM_TRIES:
            break
    assert long_s < MAX_S
    assert long_s < MAX_RATIO * short_s
