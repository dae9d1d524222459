"""Cost of a step: messages to the browser, and the time of a step relative to the usual way in the same run."""

import collections
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import step_overhead
from cua.trajectory import RunHeader, TrajectoryWriter

MAX_MESSAGES = 15
"""Playwright's messages of one click: 14 (31 before what is inside an element came with the element itself). Each takes
about a millisecond of an idle machine, in three processes.

The pointer's move, press and release; the guard's look at the target before the step, the press and the release (2
each); the text of the page; suggestions before and after the click; one look whether the page has settled; the
screenshot.
"""


@pytest.mark.slow
async def test_a_click_takes_few_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playwright._impl.connection import Connection

    sent: collections.Counter[str] = collections.Counter()
    send = Connection.send_message_to_server

    def counted(self: Any, owner: Any, method: str, params: Any, *rest: Any) -> Any:
        sent[f"{method} {(params or {}).get('method', '')}".strip()] += 1
        return send(self, owner, method, params, *rest)

    monkeypatch.setattr(Connection, "send_message_to_server", counted)
    env = step_overhead.make_env("browser", ":0")
    counts = []
    try:
        for steps in (10, 30):
            sent.clear()
            with TrajectoryWriter.create(tmp_path / str(steps), RunHeader(instruction="measure")) as writer:
                await step_overhead.measure(env, steps, writer)
            counts.append(collections.Counter(sent))
    finally:
        await env.close()
    more = counts[1] - counts[0]
    for repeated in ("evaluateExpression", "send Page.captureScreenshot"):  # a busy machine looks more than once
        more[repeated] = min(more[repeated], 20)
    assert more.total() <= 20 * MAX_MESSAGES, more


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "least"), [("browser", 5), ("desktop", 10)])
async def test_a_step_takes_a_part_of_the_usual_way(kind: str, least: float) -> None:
    """The goals, 8 in a browser, need a step of 40 ms on an idle machine; a busy one slows the usual way more."""
    if not (Path(sys.prefix) / "guest" / "pyautogui").is_dir():
        pytest.skip("needs pyautogui in .venv/guest, see scripts/bootstrap.sh")
    found = await step_overhead.compare(kind, rounds=4, steps=15)
    assert found.ratio is not None
    assert found.ratio >= least, {name: step_overhead.median_ms(times) for name, times in found.usual.items()}
