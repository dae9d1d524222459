"""Registers of a matrix instruction that is still under way, overwritten: results that are wrong now and then.

wgmma may take its left operand from registers and runs on behind the program, which has to wait for it before those
registers get other values. Triton 3.6.0 moves that wait behind the next turn of a loop, and its assembler then hands
the registers out too early (github.com/triton-lang/triton/issues/9433). Nothing warns, and the interpreter has no
registers. So the machine code of each kernel's longest loop is followed for a few turns.

Source: PTX ISA, "wgmma.wait_group"; the instructions' form as cuobjdump prints them for sm_90.
"""

import re
from collections.abc import Iterator

from model_runtime.kernels.aot.loops import Loop

A_REGISTERS = 4
"""Of one thread for a left operand of 64 x 16 values of 16 bits."""

_MATMUL = re.compile(r"\bHGMMA\S*\s+R\d+,\s+R(?P<first>\d+),\s+gdesc")
_WAIT = re.compile(r"\bWARPGROUP\.DEPBAR\.LE\s+gsb0,\s+0x(?P<left>[0-9a-f]+)")
_WRITE = re.compile(r"^(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)\s+(?:P\w+,\s+)?R(?P<first>\d+)\b")
_NO_TARGET = {
    "BAR",
    "BRA",
    "FENCE",
    "HGMMA",
    "LDGSTS",
    "R2UR",
    "RED",
    "STG",
    "STL",
    "STS",
    "SYNCS",
    "UTMALDG",
    "WARPSYNC",
}


def find_hazards(loop: Loop) -> Iterator[str]:
    """The instructions that write too early, over some turns of a loop."""
    open_group: set[int] = set()
    under_way: list[set[int]] = []
    for text in loop.code * loop.turns:
        if (match := _MATMUL.search(text)) is not None:
            open_group |= set(range(int(match["first"]), int(match["first"]) + A_REGISTERS))
        elif (match := _WAIT.search(text)) is not None:
            left = int(match["left"], 16)
            under_way = under_way[len(under_way) - left :] if left < len(under_way) else under_way
        elif written_by(text) & open_group.union(*under_way):
            yield text
        if "HGMMA" in text and "gsb0" in text:  # the last of a group
            under_way.append(open_group)
            open_group = set()


def written_by(text: str) -> set[int]:
    """Numbers of the registers that an instruction writes."""
    match = _WRITE.match(text)
    if match is None:
        return set()
    opcode, *kinds = match["opcode"].split(".")
    if opcode in _NO_TARGET:
        return set()
    width = 4 if "128" in kinds or (opcode == "LDSM" and "4" in kinds) else 1
    if "64" in kinds or "WIDE" in kinds or (opcode == "LDSM" and "2" in kinds):
        width = 2
    return set(range(int(match["first"]), int(match["first"]) + width))
