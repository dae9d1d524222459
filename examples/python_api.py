"""The agent from Python, in five lines. Runs offline: a page of this folder, the embedded model."""

import asyncio
from pathlib import Path

from cua import run_task

PAGE = (Path(__file__).parent / "pages" / "orders.html").as_uri()
INSTRUCTION = 'Click Next. Tell me the Amount in the row of "Order 1012".'

result = asyncio.run(run_task(INSTRUCTION, url=PAGE))
print(result.end.status, result.end.answer)
