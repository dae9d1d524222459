"""A finished run of the bundled model."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("torch")

from apps.evals.plan import Selection
from apps.evals.request import EvalRequest
from apps.rollouts.run import RunOptions, plan_rollouts, run_rollouts


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of two rollouts, with the checks of their samples."""
    folder = tmp_path_factory.mktemp("run")
    selection = Selection(patterns=("button", "absent"), num_seeds=1, repeats=2)
    planned = plan_rollouts(EvalRequest(suite="screens", selection=selection), folder, resume=False)
    summary = asyncio.run(run_rollouts(planned, folder, RunOptions(), listener=lambda group, counts: None))
    assert summary.counts.ends == {"scored": 4}
    return folder
