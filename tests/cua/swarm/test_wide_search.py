"""A swarm of the embedded model on a generated corpus: no key, no network, the published tools."""

from pathlib import Path

import pytest

from apps.literal import LiteralModel
from cua.swarm.session import run_swarm
from envs.registry import load_suite
from envs.suites.widesearch.tasks import WideSearchTask

pytest.importorskip("trafilatura")


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_twelve_sub_agents_collect_a_table(tmp_path: Path) -> None:
    task = load_suite("widesearch", num_seeds=1).make_task("widesearch/bridges-velmark", 0)
    assert isinstance(task, WideSearchTask)
    result = await run_swarm(task.instruction, model=LiteralModel(), search="local:world", runs_dir=tmp_path)
    assert task.score(result.run.end.answer).success == 1.0
    assert (len(result.children), {child.state for child in result.children}) == (12, {"finished"})
    assert result.metrics.total_steps > 4.5 * result.metrics.critical_steps
    kept = {path.parent for path in files_below(tmp_path) if path.parent.name == "pages"}
    assert len(kept) == 13  # each agent keeps what it has read
