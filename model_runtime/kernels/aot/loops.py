"""Loops of a kernel's machine code: from the target of a jump back to the jump."""

import re
from dataclasses import dataclass

TURNS = 3
"""As many as a group of matrix instructions can stay under way in the kernels here, and one more."""

_LINE = re.compile(r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]+);", re.MULTILINE)
_BACK = re.compile(r"\bBRA\b.*?0x(?P<target>[0-9a-f]+)")
_PRODUCTS = tuple(re.compile(rf"\b{name}\b") for name in ("HGMMA", "HMMA", "FFMA"))
"""Instructions that multiply, the mightiest first: where one is used, the following only do what is left."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions that are repeated.

    Attributes:
        code: Of one turn.
        turns: How many of them are worth following; 1 where the compiler has unrolled them all.
    """

    code: list[str]
    turns: int


def find_loops(dump: str) -> list[Loop]:
    """All loops, the longest first; where nothing jumps back, all of the code is one.

    Args:
        dump: What `cuobjdump --dump-sass` prints of one kernel.
    """
    code = [(int(match["address"], 16), match["text"].strip()) for match in _LINE.finditer(dump)]
    jumps = [(int(match["target"], 16), address) for address, text in code if (match := _BACK.search(text))]
    spans = sorted({(last - first, first, last) for first, last in jumps if first < last}, reverse=True)
    loops = [
        Loop(code=[text for address, text in code if first <= address <= last], turns=TURNS) for _, first, last in spans
    ]
    return loops or [Loop(code=[text for _, text in code], turns=1)]


def find_product_loop(loops: list[Loop]) -> Loop:
    """The one along the sum of a matmul: the innermost that holds most of the multiplications.

    Programs that stay have a loop around it, whose copies fill the pipeline and say nothing of what follows.
    """
    for product in _PRODUCTS:
        counts = [sum(bool(product.search(text)) for text in loop.code) for loop in loops]
        if most := max(counts):
            return [loop for loop, count in zip(loops, counts, strict=True) if 2 * count > most][-1]
    return loops[0]
