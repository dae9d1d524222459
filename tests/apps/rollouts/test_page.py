"""Page of a run: what it shows of a real run, and its bounds for a large one from an untrusted source."""

import re
from pathlib import Path

import numpy as np
import pytest

from apps.rollouts import page
from apps.rollouts.page import page_view, write_page
from cua.rollouts.journal import RolloutJournal
from cua.rollouts.mismatch import measure_mismatch
from cua.rollouts.rollout import RolloutEnd
from cua.rollouts.samples import PolicySpan, SampleWriter
from tests.cua.rollouts.test_samples import MEDIA, make_rollout, make_sample


@pytest.mark.slow
def test_a_real_run_links_to_the_report_of_each_rollout(run: Path) -> None:
    view = page_view(run)
    assert [(row.name, len(row.cells)) for row in view.groups] == [("button@0.0", 2), ("absent@0.0", 2)]
    facts = {name: value for name, value, _ in view.facts}
    assert (facts["Groups"], facts["Rollouts"], facts["Staleness"]) == ("2", "4", "0.00")
    assert float(facts["Mismatch"]) < 1e-9
    html = write_page(run).read_text()
    links = re.findall(r'href="(runs/[^"]+)"', html)
    assert len(set(links)) == 4
    assert all((run / link).is_file() for link in links)
    assert "images reach the trainer" in html


async def make_run(folder: Path, num_groups: int, run_dir: str = "") -> None:
    """Groups of two; from the third on, the policy is at version 4 when they are handed out."""
    writer = SampleWriter(folder, media_token_id=MEDIA)
    journal = RolloutJournal(folder, writer)
    for number in range(num_groups):
        name = f"<i>{number}"
        journal.submitted(name, size=2, draws={})
        for member in range(2):
            sample = make_sample(spans=(PolicySpan(4, 6, 3), PolicySpan(7, 8, 4)))
            rollout = make_rollout(writer, sample, rollout=f"{name}/{member}", group=name, reward=float(member))
            await journal.sampled(rollout)
            journal.ended(
                rollout.rollout, RolloutEnd(kind="scored", score=float(member), version=3, run_dir=run_dir or None)
            )
        journal.note("version", number=3 if number < 2 else 4)
        await journal.take(name)
    logprobs = np.array([-1.1, -0.7, -1.5]), np.array([-1.0, -0.7, -2.0])
    journal.measured(4, measure_mismatch(*logprobs, np.ones(3, bool)))
    journal.ended("alone/0", RolloutEnd(kind="error", reason="the browser ended"))
    await journal.close()
    writer.close()


async def test_staleness_is_that_of_the_oldest_token_at_the_hand_out(tmp_path: Path) -> None:
    await make_run(tmp_path, 4)
    view = page_view(tmp_path)
    assert [row.staleness for row in view.groups] == ["0", "0", "1", "1"]
    assert [(row.score, row.spread, row.tokens, row.outcomes) for row in view.groups] == [
        ("0.500", "0.500", "3.0", "mixed")
    ] * 4
    facts = {name: value for name, value, _ in view.facts}
    assert (facts["Staleness"], facts["Mismatch"]) == ("0.50", "3.7e-02")
    assert [(row.version, row.num_rollouts, row.k3) for row in view.versions] == [(3, 8, ""), (4, 0, "3.7e-02")]
    assert view.reasons == (("error: the browser ended", 1),)
    assert "<i>0" not in write_page(tmp_path).read_text()


async def test_scored_rollouts_without_samples_are_named(tmp_path: Path) -> None:
    await make_run(tmp_path, 2)
    assert "Without samples" not in {name for name, _, _ in page_view(tmp_path).facts}
    samples = tmp_path / "samples.jsonl"
    samples.write_bytes(samples.read_bytes()[:-1])
    assert ("Without samples", "1", "rollouts that ended as scored") in page_view(tmp_path).facts
    samples.unlink()
    assert ("Without samples", "4", "rollouts that ended as scored") in page_view(tmp_path).facts


@pytest.mark.parametrize("run_dir", ["a" * 5000, "a\0b", "\ud800"])
async def test_a_run_dir_that_cannot_exist_gives_no_link(tmp_path: Path, run_dir: str) -> None:
    await make_run(tmp_path, 1, run_dir)
    assert [cell.href for cell in page_view(tmp_path).groups[0].cells] == ["", ""]
    write_page(tmp_path)


async def test_a_large_run_lists_its_last_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_GROUPS", 3)
    monkeypatch.setattr(page, "MAX_MEMBERS", 1)
    await make_run(tmp_path, 5)
    view = page_view(tmp_path)
    assert [row.name for row in view.groups] == ["<i>2", "<i>3", "<i>4"]
    assert (view.num_more_groups, view.groups[0].num_more, view.groups[0].score) == (2, 1, "0.500")
    assert [len(chart.bars) > 0 for chart in view.charts] == [True] * 3


@pytest.mark.parametrize("run_dir", ["/etc", "../other"])
async def test_a_journal_leads_to_no_file_outside_of_its_folder(tmp_path: Path, run_dir: str) -> None:
    folder = tmp_path / "run"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "report.html").write_text("")
    await make_run(folder, 1, run_dir)
    assert [cell.href for cell in page_view(folder).groups[0].cells] == ["", ""]
