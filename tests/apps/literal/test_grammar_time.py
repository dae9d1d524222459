"""Instructions are read in time linear in their length, whatever they repeat."""

import time

from apps.literal.grammar import parse_instruction
from tests.tables import table

SHORT, LONG = 100_000, 200_000
MAX_RATIO = 3.0
MAX_S = 20.0

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
    """Processor time of the faster one of two readings: a collection of garbage may fall into one."""
    text = start + pump * ((num_chars - len(start) - len(end)) // len(pump)) + end
    taken = []
    for _ in range(2):
        started = time.process_time()
        parse_instruction(text)
        taken.append(time.process_time() - started)
    return min(taken)


@table(("start", "pump", "end"), REPEATED, ids=[f"{start}{pump!r}" for start, pump, _ in REPEATED])
def test_time_is_linear_in_the_length(start: str, pump: str, end: str) -> None:
    long_s = seconds(start, pump, end, LONG)

    assert long_s < MAX_S
    assert long_s < MAX_RATIO * max(seconds(start, pump, end, SHORT), 0.05)
