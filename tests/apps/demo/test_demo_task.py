"""The demo's task: the embedded model files the orders in a real browser, and the saved state proves it."""

from pathlib import Path

import pytest

from apps.demo import ExpenseTask
from cua.api import run_task
from cua.models.scripted import ScriptedModel
from envs.browser.launch import find_browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium found: cua setup"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"viewport": "1024x700"}, {"device_scale": 2.0}], ids=["plain", "small", "sharp"]
)
async def test_literal_keeps_the_books(tmp_path: Path, settings: dict[str, object]) -> None:
    result = await run_task(
        ExpenseTask(), model="literal", env="browser", approve="yolo", runs_dir=str(tmp_path), max_time=240, **settings
    )
    assert (result.end.status, result.end.score) == ("succeeded", 1.0), result.end.reason
    assert result.end.answer is not None
    assert "373.40" in result.end.answer


@pytest.mark.long
async def test_claiming_success_without_doing_anything_is_a_failure(tmp_path: Path) -> None:
    claim = "## Action:\nDone.\n## Code:\n```python\ncomputer.terminate(status='success', answer='373.40')\n```"
    result = await run_task(
        ExpenseTask(), model=ScriptedModel([claim]), env="browser", approve="yolo", runs_dir=str(tmp_path)
    )
    assert (result.end.status, result.end.score) == ("failed", pytest.approx(1 / 3))
