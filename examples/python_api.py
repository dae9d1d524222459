"""The agent from Python, in five lines. Runs offline: a page of this folder, the embedded model."""

import asyncio
from pathlib import Path

from cua import run_task

PAGE = (Path(__file__).parent / "pages" / "note.html").as_uri()

result = asyncio.run(run_task("Tell me the heading.", url=PAGE))
print(result.end.status, result.end.answer)
