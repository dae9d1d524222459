"""Parses a model's reply to a turn: thought, action and code.

Based on real model output; each tolerated deviation has a test. Unreadable replies raise `ReplyError` with a text
that reminds the model of the format.
"""

import ast
import logging
import re
from dataclasses import dataclass
from itertools import islice

from cua.errors import CodeError, ReplyError, TruncatedReplyError
from cua.gui_agent.interpreter.run import parse_code
from cua.json_text import read_json
from cua.messages import Reply
from cua.models.reply_text import split_thinking
from cua.step import Turn

_CODE_HEADING = r"[#＃]{2,6}[ \t*_]*(?:code|代码)(?![^\W_])[ \t*_]*(?:[:：][ \t*_]*)?"
_OPEN = re.compile(rf"(?P<before>[ \t]*(?:{_CODE_HEADING})?)(?P<fence>`{{3,}}|~{{3,}})(?P<rest>[^\n]*)", re.I)
_TAG = re.compile(r"[ \t]*[A-Za-z][\w+-]*[ \t]*")
_LEADING_TAG = re.compile(r"(?:python3?|py3?|code)[ \t]+", re.I)
_MAX_CLOSINGS = 4  # candidates for the end of a block; code rarely has a fence in a text
_MAX_BLOCKS = 100  # bounds the time to parse a reply that repeats itself


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    """Fenced block: code, range of lines including the fences (`end` is exclusive), and the tag after the fence."""

    code: str
    start: int
    end: int
    tag: str = ""


def find_blocks(lines: list[str]) -> list[CodeBlock]:
    """Return all fenced blocks in order; an unclosed last block extends to the end."""
    blocks: list[CodeBlock] = []
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


def _one_line(match: re.Match[str], row: int) -> CodeBlock | None:
    """Return a block that opens and closes on one line, or None."""
    rest, fence = match["rest"].rstrip(), match["fence"]
    if not rest.endswith(fence) or len(rest) == len(fence):
        return None
    return CodeBlock(code=_LEADING_TAG.sub("", rest.removesuffix(fence).strip(), count=1), start=row, end=row + 1)


def _many_lines(match: re.Match[str], lines: list[str], row: int) -> CodeBlock:
    fence, rest = match["fence"], match["rest"]
    first = [] if not rest.strip() or _TAG.fullmatch(rest) else [_LEADING_TAG.sub("", rest.strip(), count=1)]
    candidates = _closings(lines, row + 1, fence)
    blocks = []
    for end, last in candidates:
        code = "\n".join([*first, *lines[row + 1 : end], *last])
        tag = "" if first else rest.strip().lower()
        blocks.append(CodeBlock(code=code, start=row, end=min(end + 1, len(lines)), tag=tag))
    if len(blocks) == 1:
        return blocks[0]
    return next((block for block in blocks if _is_python(block.code)), blocks[0])


def _closings(lines: list[str], start: int, fence: str) -> list[tuple[int, list[str]]]:
    """Return possible ends of a block: the row of the closing fence, and the text before the fence on that row.

    A fence on its own line closes the block. Only if there is none, a fence at the end of a code line closes it.
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
    """Return True if a candidate parses; distinguishes a closing fence from a fence inside a typed text."""
    try:
        parse_code(code)
    except CodeError:
        return False
    return bool(code.strip())


_log = logging.getLogger(__name__)

_NAMES = {"思考": "thought", "动作": "action", "操作": "action", "行动": "action", "代码": "code"}
_NAME = rf"(?P<name>thought|action|code|{'|'.join(_NAMES)})s?(?![^\W_])"
_HEADING = re.compile(rf"[ \t]{{0,3}}[#＃]{{2,6}}[ \t\u3000*_]*{_NAME}[ \t*_]*[:：]?(?P<rest>.*)", re.I)
_BOLD_HEADING = re.compile(rf"[ \t]{{0,3}}\*\*{_NAME}(?:[:：]\*\*|\*\*[ \t]*[:：]|\*\*[ \t]*$)(?P<rest>.*)", re.I)
_ANY_HEADING = re.compile(r"[ \t]{0,3}[#＃]{1,6}[ \t]*[^\s#＃]")
_CODE_TAGS = frozenset({"python", "python3", "py", "py3", "code", "pyautogui"})
_CALL_NAME = re.compile(r"(?:computer|pyautogui)\.[A-Za-z]\w*")
_MAX_CHARS = 100_000  # some 25,000 tokens: no step needs as much, and parsing is bounded

FORMAT_REMINDER = (
    "Answer in this format:\n## Action:\none sentence that says what you do\n## Code:\n```python\n"
    "pyautogui code, or computer.wait(), or computer.terminate(status='success', answer='...')\n```"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """Heading and the text below it without fenced blocks; `row` is the heading's line."""

    name: str
    row: int
    text: str


def parse(reply: Reply, thinking: bool = True) -> Turn:
    """Parse a reply.

    The last fenced block below the heading for code is used, as in the public harness; others are dropped with a log
    line. A block with calls takes precedence over a block without, such as a displayed output.

    Args:
        reply: Reply of the model.
        thinking: True if the model was asked to think; decides where the thought is looked for first.

    Returns:
        The turn; `code` is not checked here but by the interpreter.

    Raises:
        ReplyError: If the action or the code is missing.
        TruncatedReplyError: If the reply was truncated at its token limit.
    """
    if reply.finish_reason == "length":
        raise TruncatedReplyError(
            f"the model's reply was cut at its token limit after {len(reply.content or '')} characters of answer and "
            f"{len(reply.reasoning or '')} of reasoning; raise max_tokens or shorten the task"
        )
    if len(reply.content or "") > _MAX_CHARS:
        raise ReplyError(f"The reply has more than {_MAX_CHARS} characters. {FORMAT_REMINDER}")
    leaked, answer = split_thinking((reply.content or "").replace("\r\n", "\n").lstrip("\ufeff"))
    lines = answer.split("\n")
    blocks = find_blocks(lines)
    sections, preamble = _sections(lines, blocks)
    code, code_row = _code(blocks, sections, lines)
    code = _as_calls(code)
    action = _action(sections, code_row)
    if not action:
        action = _implied_action(code)
    reasoning = (reply.reasoning or "").strip() or leaked
    below_heading = "\n\n".join(section.text for section in sections if section.name == "thought" and section.text)
    candidates = [reasoning, below_heading, preamble] if thinking else [below_heading, reasoning, preamble]
    return Turn(thought=next(filter(None, candidates), ""), action_text=action, code=code)


def _sections(lines: list[str], blocks: list[CodeBlock]) -> tuple[list[_Section], str]:
    """Return the sections outside of code, and the text before the first heading."""
    fenced = {row for block in blocks for row in range(block.start, block.end)}
    headings = [(row, match) for row, line in enumerate(lines) if (match := _heading(line))]
    starts = {block.start for block in blocks}
    headings = [(row, match) for row, match in headings if row not in fenced or row in starts]
    sections = []
    for number, (row, match) in enumerate(headings):
        end = headings[number + 1][0] if number + 1 < len(headings) else len(lines)
        end = min([end, *(block.start for block in blocks if block.start > row)])
        first = [] if row in fenced else [match["rest"]]
        text = "\n".join([*first, *(lines[below] for below in range(row + 1, end) if below not in fenced)])
        name = match["name"].lower()
        sections.append(_Section(name=_NAMES.get(name, name), row=row, text=text.strip().strip("*").strip()))
    start = headings[0][0] if headings else min([block.start for block in blocks], default=len(lines))
    preamble = "\n".join(line for row, line in enumerate(lines[:start]) if row not in fenced)
    return sections, preamble.strip()


def _heading(line: str) -> re.Match[str] | None:
    return _HEADING.match(line) or _BOLD_HEADING.match(line)


def _code(blocks: list[CodeBlock], sections: list[_Section], lines: list[str]) -> tuple[str, int]:
    """Return the code to run and the line where it starts."""
    filled = [block for block in blocks if block.code.strip()]
    if filled:
        chosen = _chosen(_below_code(filled, sections, lines) or filled)
        if len(filled) > 1:
            which = "the last one" if chosen is filled[-1] else f"number {filled.index(chosen) + 1}"
            _log.warning("the reply holds %d code blocks, %s is run", len(filled), which)
        return chosen.code.strip("\n").rstrip(), chosen.start
    unfenced = [section for section in sections if section.name == "code" and section.text]
    if unfenced:
        return unfenced[-1].text, unfenced[-1].row
    raise ReplyError(f"The reply has no code block. {FORMAT_REMINDER}")


def _below_code(blocks: list[CodeBlock], sections: list[_Section], lines: list[str]) -> list[CodeBlock]:
    """Return the blocks below the last code heading that has any, up to the next heading of any kind."""
    fenced = {row for block in blocks for row in range(block.start, block.end)}
    others = [
        row for row, line in enumerate(lines) if row not in fenced and (_ANY_HEADING.match(line) or _heading(line))
    ]
    for section in reversed([section for section in sections if section.name == "code"]):
        end = next((row for row in others if row > section.row), len(lines))
        below = [block for block in blocks if section.row <= block.start < end]
        if below:
            return below
    return []


def _chosen(blocks: list[CodeBlock]) -> CodeBlock:
    """Return the last block with calls, preferably one tagged as code; else the last block."""
    acting = [block for block in blocks if _acts(block.code)]
    marked = [block for block in acting if block.tag in _CODE_TAGS]
    return (marked or acting or blocks)[-1]


def _acts(code: str) -> bool:
    """Return True if a block contains a call of the protocol's functions."""
    return _CALL_NAME.search(code) is not None or _as_calls(code) != code


def _action(sections: list[_Section], code_row: int) -> str:
    """Return the text of the last action before the code, or else of the first action in the reply."""
    actions = [section for section in sections if section.name == "action" and section.text]
    before = [section for section in actions if section.row <= code_row]
    return before[-1].text if before else actions[0].text if actions else ""


def _implied_action(code: str) -> str:
    """Return an action text for code without one; allowed only for waiting and terminating."""
    try:
        body = parse_code(code).body
    except CodeError:
        body = []
    match body:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="computer"), attr="wait")))]:
            return "Wait."
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="computer"), attr="terminate")))]:
            return "End the task."
    raise ReplyError(f"The reply has no text under '## Action:'. {FORMAT_REMINDER}")


def _as_calls(code: str) -> str:
    """Return the code; a function call written as a JSON object is converted to a call."""
    stripped = code.strip()
    if stripped == "computer.wait":
        return "computer.wait()"
    if not stripped.startswith("{"):
        return code
    try:
        call = read_json(stripped)
    except ValueError:
        return code
    name = call.get("name")
    arguments = call.get("arguments", call.get("parameters"))
    if not isinstance(name, str):
        return code
    name = name if "." in name else f"computer.{name}"
    if isinstance(arguments, str):
        arguments = _json_object(arguments)
    if not _CALL_NAME.fullmatch(name) or not (arguments is None or isinstance(arguments, dict)):
        return code
    named = {key: value for key, value in (arguments or {}).items() if key.isidentifier()}
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in named.items())})"


def _json_object(text: str) -> object:
    try:
        return read_json(text) if text.strip() else None
    except ValueError:
        return text
