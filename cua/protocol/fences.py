"""Finding fenced code blocks in a reply, the way a careful reader would."""

import re
from dataclasses import dataclass
from itertools import islice

from cua.errors import CodeError
from cua.interpreter.syntax import parse_code

_HEADING = r"[#＃]{2,6}[ \t*_]*(?:code|代码)(?![^\W_])[ \t*_]*[:：]?[ \t*_]*"
_OPEN = re.compile(rf"(?P<before>[ \t]*(?:{_HEADING})?)(?P<fence>`{{3,}}|~{{3,}})(?P<rest>[^\n]*)", re.I)
_TAG = re.compile(r"[ \t]*[A-Za-z][\w+-]*[ \t]*")
_LEADING_TAG = re.compile(r"(?:python3?|py3?|code)[ \t]+", re.I)
_MAX_CLOSINGS = 4
_MAX_BLOCKS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its code, the lines it takes up with its fences (end not included), the word behind the fence."""

    code: str
    start: int
    end: int
    tag: str = ""


def find_blocks(lines: list[str]) -> list[Block]:
    """All fenced blocks in order; a last one that is never closed reaches to the end."""
    blocks: list[Block] = []
    row = 0
    while row < len(lines) and len(blocks) < _MAX_BLOCKS:
        match = _OPEN.match(lines[row])
        if match is None:
            row += 1
            continue
        block = _one_line(match, row) or _many_lines(match, lines, row)
        blocks.append(block)
        row = block.end
    return blocks


def _one_line(match: re.Match[str], row: int) -> Block | None:
    """A block that opens and closes on one line."""
    rest, fence = match["rest"].rstrip(), match["fence"]
    if not rest.endswith(fence) or len(rest) == len(fence):
        return None
    return Block(code=_LEADING_TAG.sub("", rest.removesuffix(fence).strip(), count=1), start=row, end=row + 1)


def _many_lines(match: re.Match[str], lines: list[str], row: int) -> Block:
    fence, rest = match["fence"], match["rest"]
    first = [] if not rest.strip() or _TAG.fullmatch(rest) else [_LEADING_TAG.sub("", rest.strip(), count=1)]
    candidates = _closings(lines, row + 1, fence)
    blocks = []
    for end, last in candidates:
        code = "\n".join([*first, *lines[row + 1 : end], *last])
        tag = "" if first else rest.strip().lower()
        blocks.append(Block(code=code, start=row, end=min(end + 1, len(lines)), tag=tag))
    if len(blocks) == 1:
        return blocks[0]
    return next((block for block in blocks if _is_python(block.code)), blocks[0])


def _closings(lines: list[str], start: int, fence: str) -> list[tuple[int, list[str]]]:
    """Where the block may end: the row of the closing fence, and what stands before it on that row.

    A fence on its own line closes the block. Only when there is none may one at the end of a line of code do so.
    """
    rows = range(start, len(lines))
    own_line = list(islice((row for row in rows if _is_fence(lines[row].strip(), fence)), _MAX_CLOSINGS))
    if own_line:
        return [(row, []) for row in own_line]
    line_end = islice((row for row in rows if lines[row].rstrip().endswith(fence)), _MAX_CLOSINGS)
    return [*((row, [lines[row].rstrip().removesuffix(fence)]) for row in line_end), (len(lines), [])]


def _is_fence(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(fence[0])


def _is_python(code: str) -> bool:
    """Whether a candidate can be read; tells a fence that closes from one inside a typed text."""
    try:
        parse_code(code)
    except CodeError:
        return False
    return bool(code.strip())
