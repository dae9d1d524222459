"""What a model, a person and a notebook get to know of a cell."""

from typing import Any

from cua.messages import ImagePart, Part, TextPart, ToolResult
from visual_tools.sandbox import CellResult

NO_OUTPUT = "(no output)"


def to_tool_result(result: CellResult, *, kind: str, code: str, **facts: Any) -> ToolResult:
    """Write a cell's result as a tool result.

    Args:
        result: What became of the cell.
        kind: What the notebook makes of it: `ipython`, `shell` or `service`.
        code: The notebook's cell.
        facts: More for `ToolResult.data`.
    """
    parts: list[Part] = [TextPart(text=_text(result))]
    for image in result.images:
        parts.append(ImagePart(data=image.png))
    data = {
        "kind": kind,
        "code": code,
        "status": result.status,
        "text": result.text,
        "outputs": [dict(output) for output in result.outputs],
        "execution_count": result.execution_count,
        "files_written": list(result.files_written),
        "is_state_lost": result.is_state_lost,
        **facts,
    }
    return ToolResult(parts=tuple(parts), is_error=result.status != "ok", data=data)


def _text(result: CellResult) -> str:
    pieces = [result.text.rstrip("\n")] if result.text.strip() else []
    if result.error is not None:
        pieces.append(result.error.traceback or f"{result.error.name}: {result.error.message}")
    for number, image in enumerate(result.images, start=1):
        reduced = "" if image.size_px == image.original_px else f", reduced from {_size(image.original_px)}"
        pieces.append(f"[picture {number}: {_size(image.size_px)} px{reduced}]")
    if result.files_written:
        pieces.append(f"[files written: {', '.join(result.files_written[:20])}{_more(len(result.files_written) - 20)}]")
    pieces += [f"[{note}]" for note in result.notes]
    return "\n".join(pieces) or NO_OUTPUT


def _size(size_px: tuple[int, int]) -> str:
    return f"{size_px[0]}x{size_px[1]}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
