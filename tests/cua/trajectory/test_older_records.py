"""Runs that an earlier version recorded are still read, shown, and verified."""

import shutil
from pathlib import Path

import pytest

from cua.evidence.verify import verify_run
from cua.trajectory.load import load_run
from cua.trajectory.report import write_report
from visual_tools.sandbox import KernelMaker

RECORDS = Path(__file__).with_name("records")
FINGERPRINT = "ba0924f8a593b3fbd710bdbeb2e4ee8d"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(RECORDS, tmp_path / "records")
    return tmp_path / "records"


def test_a_run_of_the_gui_agent(copied: Path) -> None:
    run = load_run(copied / "task")
    assert [type(action).__name__ for step in run.steps for action in step.actions] == ["Click", "Wait", "Terminate"]
    assert (run.end.status if run.end else None, run.usage.output_tokens) == ("unverified", 0)
    assert all(step.observation.screenshot for step in run.steps[-1:])
    assert "Click" in write_report(copied / "task").read_text("utf-8")


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_of_the_tool_agent_and_its_evidence(copied: Path, sandbox: KernelMaker) -> None:
    run = load_run(copied / "ask")
    assert [outcome.result.text.split()[-1] for step in run.tool_steps for outcome in step.outcomes][-1] == "6"
    assert "dots" in write_report(copied / "ask").read_text("utf-8")
    found = await verify_run(copied / "ask", sandbox, expect=FINGERPRINT)
    assert found.is_reproduced
