"""Export of a run of `ask` for other programs: one conversation in OpenAI's format, and its notebook."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cua.errors import TrajectoryError
from cua.evidence.notebook import make_notebook
from cua.models.wire import ImageEncoder, ImageFormat, to_wire
from cua.tool_agent.conversation import Compaction, to_messages
from cua.tool_agent.resume import load_snapshot
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import check_name
from cua.trajectory.run_record import RunRecord

CONVERSATION, NOTEBOOK = "conversation.jsonl", "notebook.ipynb"
SHOWN_TOOLS = "tools"
"""Kind of the note with the model's initial context: `system_prompt`, and `tools` in the request format."""


async def export_conversation(record: RunRecord, result_dir: Path | str, name: str) -> Path:
    """Write `conversation.jsonl` and `notebook.ipynb`.

    The conversation is one line with `messages` and `tools`, as in OpenAI's chat completions and fine-tuning: all
    steps, with their reasoning as `reasoning_content`, images as `data:` URLs. Nothing is compacted, even if the model
    was shown a shorter conversation.

    Raises:
        TrajectoryError: If the name is not a valid folder name, writing fails, or the run has no conversation.
    """
    if not record.is_tool_run:
        raise TrajectoryError(f"{record.run_dir.name} is a run of `cua task`: it has no conversation with tools")
    if len(check_name(name)) != 1:
        raise TrajectoryError(f"{name!r} cannot name a folder of results; use letters, digits, '-' and '_'")
    system_prompt, tools = _shown_at_start(record)
    messages = to_messages(system_prompt, replace(load_snapshot(record).conversation, compaction=Compaction()))
    wire = await to_wire(messages, ImageEncoder(ImageFormat()), keep_reasoning=True)
    line = {
        "messages": wire if system_prompt else wire[1:],
        "tools": tools,
        "metadata": {
            "run": record.run_id,
            "model": record.header.model,
            "status": record.end.status if record.end else None,
            "answer": record.end.answer if record.end else None,
            "num_steps": record.num_steps,
        },
    }
    folder = Path(result_dir) / name
    with translate_os_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / CONVERSATION, json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        notebook = json.dumps(make_notebook(record), ensure_ascii=False, indent=1, default=str)
        write_atomically(folder / NOTEBOOK, notebook.encode("utf-8", "replace"))
    return folder


def _shown_at_start(record: RunRecord) -> tuple[str, list[Any]]:
    """Return the system prompt and tools of the first request; empty for records of earlier versions."""
    data = next((note.data for note in reversed(record.notes) if note.kind == SHOWN_TOOLS), {})
    prompt, tools = data.get("system_prompt"), data.get("tools")
    return prompt if isinstance(prompt, str) else "", list(tools) if isinstance(tools, list | tuple) else []
