"""The three conversations of the report's Figure 12: code run for real in the sandbox, evidence run again."""

import io
import re
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cua import ask
from cua.answer import find_claims
from cua.evidence import verify_run
from cua.models.scripted import ScriptedModel
from cua.trajectory import load_run
from examples.conversations import CONVERSATIONS, FOLDER, HERE, PICTURES, to_jsonl
from tests.fake_openai import FakeOpenAI
from visual_tools.sandbox import KernelMaker

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_recorded_file_is_what_the_source_says(name: str) -> None:
    assert (FOLDER / f"{name}.jsonl").read_text("utf-8") == to_jsonl(CONVERSATIONS[name])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in process", "streamed by a server"])
@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.asyncio(loop_scope="module")
async def test_it_ends_with_claims_that_their_results_bear_out(
    name: str, way: str, tmp_path: Path, sandbox: KernelMaker
) -> None:
    conversation = CONVERSATIONS[name]
    model = ScriptedModel.from_file(FOLDER / f"{name}.jsonl")
    with ExitStack() as stack:
        server = stack.enter_context(FakeOpenAI(model)) if way == "streamed by a server" else None
        result = await ask(
            conversation.question,
            [HERE / conversation.file],
            model=model if server is None else "fake",
            base_url=server and server.base_url,
            sandbox=sandbox,
            runs_dir=tmp_path,
        )
    assert result.run_dir is not None
    run_dir = Path(result.run_dir)
    if server is None:
        verification = await verify_run(run_dir, sandbox)
        assert verification.is_reproduced, verification.cells
    record = load_run(run_dir, images=None)
    assert [
        outcome.result.text for step in record.tool_steps for outcome in step.outcomes if outcome.result.is_error
    ] == []
    claims = find_claims(result.end.answer or "", record.tool_steps)
    assert all(claim.is_supported for claim in claims)
    results = {outcome.number: outcome.result for step in record.tool_steps for outcome in step.outcomes}
    for claim in claims:
        shown = " ".join(results[citation.number].text for citation in claim.citations)
        missing = [number for number in _numbers(claim.text) if number not in _numbers(shown)]
        assert missing == [], f"{claim.text!r} says {missing}, its results do not"
    kept = np.asarray(Image.open(HERE.parent / "docs" / PICTURES[name][1]).convert("RGB"))
    drawn = np.asarray(Image.open(io.BytesIO((run_dir / "files" / PICTURES[name][0]).read_bytes())).convert("RGB"))
    assert kept.shape == drawn.shape
    assert np.abs(kept.astype(int) - drawn.astype(int)).mean() < 2.0, f"docs/{PICTURES[name][1]} is out of date"


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]
