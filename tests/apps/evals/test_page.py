"""The page of an evaluation: self-contained, all foreign text stays text, and it sorts and filters."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from apps.evals.compare import compare, comparison_view, write_comparison
from apps.evals.page import page_view, render_page
from apps.evals.results import Evaluation
from apps.evals.text import describe_evaluation as describe
from envs.browser.launch import find_browser
from tests.apps.evals.test_results import line, make_evaluation

EVIL = "</td><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"


def test_foreign_text_stays_text_and_nothing_is_fetched(tmp_path: Path) -> None:
    page = render_page(make_evaluation(tmp_path / "e", line(reason=EVIL), line("buy", 2, None, reason=EVIL)))
    assert EVIL not in page
    assert page.count("<script>") == 1
    assert "&lt;script&gt;document.title" in page
    assert not re.findall(r'(?:src|href)="(?!data:,|runs/)', page)
    assert 'style="' not in page
    assert "default-src 'none'" in page.replace("&#39;", "'")


def test_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "e" / "runs" / "one").mkdir(parents=True)
    (tmp_path / "e" / "runs" / "one" / "report.html").touch()
    lines = [line(run_dir="runs/one"), line("buy", 2, None, reason="gone"), line("sell", 1, 0.25, ending="gave_up")]
    lines += [line("sell", 2, None, reason="died") | {"event": "tried"}]
    lines += [line("sell", 2, None, kind="stopped", reason="Ctrl-C") | {"event": "tried"}]
    lines += [line("sell", 2, 0.0, ending="steps_limit")]
    page = page_view(make_evaluation(tmp_path / "e", *lines))
    assert (page.status, page.score, page.num_errors, page.mean_scored) == ("finished", "31.2 %", 1, "41.7 %")
    assert [(row.name, row.score, row.outcomes) for row in page.tasks] == [
        ("buy", "50.0 %", "mixed err succeeded env_error reason-0"),
        ("sell", "12.5 %", "bad gave_up steps_limit"),
    ]
    assert [(cell.kind, cell.text, cell.href) for row in page.tasks for cell in row.cells] == [
        ("good", "1", "runs/one/report.html"),
        ("err", "env", ""),
        ("part", ".25", ""),
        ("bad", "0", ""),
    ]
    assert [(group.kind, group.reason, group.count) for group in page.errors] == [("environment", "gone", 1)]
    assert [(group.kind, group.reason, group.count) for group in page.failed_tries] == [
        ("environment", "died", 1),
        ("stopped", "Ctrl-C", 1),
    ]
    assert [row.endings for row in page.tasks] == ["succeeded 1, environment error 1", "gave up 1, step limit 1"]
    assert [name for name, _, _ in page.endings] == ["succeeded", "gave_up", "steps_limit", "env_error"]
    assert [(row.name, row.is_all) for row in page.families] == [("-", False), ("trade", False), ("all", True)]
    assert [(known.score, known.about) for known in page.baselines] == [("25.0 %", "does nothing")]
    steps, time = page.charts
    assert (steps.summary, time.summary) == ("median 2, at most 2", "median 1.5 s, at most 1.5 s")
    assert sum(piece.height for bar in steps.bars for piece in bar.pieces) == pytest.approx(100)


def test_a_comparison_as_a_page(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "runs" / "one").mkdir(parents=True)
        (tmp_path / name / "runs" / "one" / "report.html").touch()
    before = make_evaluation(tmp_path / "a", line(score=0.0, run_dir="runs/one"), line("sell", 1, None, reason=EVIL))
    after = make_evaluation(tmp_path / "b", line(run_dir="runs/one"), line("sell", 1, 0.5), line("sell", 2))
    comparison = compare(before.results, after.results)
    path = write_comparison(comparison, before, after, tmp_path / "pages" / "difference.html")
    text = path.read_text("utf-8")
    assert "+75.0 points" in text and text.count("<script>") == 1 and 'style="' not in text
    assert 'href="../a/runs/one/report.html"' in text and 'href="../b/runs/one/report.html"' in text
    view = comparison_view(comparison, before, after, tmp_path)
    assert [(row.name, row.outcomes, [cell.text for cell in row.cells]) for row in view.tasks] == [
        ("buy", "good", ["0 → 1"]),
        ("sell", "err", ["error → 0.5"]),
    ]
    evil = replace(before, plan=replace(before.plan, model=EVIL, task_ids=["buy", "sell"], families={"buy": EVIL}))
    write_comparison(comparison, evil, evil, path)
    assert EVIL not in path.read_text("utf-8")


def test_nothing_is_over_yet(tmp_path: Path) -> None:
    page = page_view(make_evaluation(tmp_path / "e"))
    assert (page.score, page.interval, page.charts, page.why_stopped) == (
        "-",
        None,
        (),
        "4 of 4 episodes are not over: stopped by the user",
    )
    assert {cell.kind for row in page.tasks for cell in row.cells} == {"open"}
    assert "not over" in render_page(make_evaluation(tmp_path / "e"))


@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
@pytest.mark.long
async def test_it_sorts_and_filters_in_a_browser(tmp_path: Path) -> None:
    from playwright.async_api import async_playwright

    evaluation: Evaluation = make_evaluation(
        tmp_path / "e", line(reason=EVIL), line("sell", 1, 0.0), line("sell", 2, None)
    )
    found = find_browser()
    assert found is not None
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found.path, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 390, "height": 800})
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto((evaluation.folder / "index.html").as_uri())
        names = (
            "() => [...document.querySelectorAll('.tasks tbody tr:not([hidden]) .name')].map((th) => th.textContent)"
        )
        assert await page.evaluate(names) == ["buy", "sell"]
        await page.click(".tasks button[data-key=score]")
        assert await page.evaluate(names) == ["sell", "buy"]
        await page.select_option("#error", "reason-0")
        assert await page.evaluate(names) == ["sell"]
        await page.select_option("#error", "")
        await page.select_option("#ending", "env_error")
        assert await page.evaluate(names) == ["sell"]
        await page.select_option("#outcome", "err")
        assert await page.evaluate(names) == ["sell"]
        assert await page.text_content("#shown") == "1 of 2"
        await page.fill("#words", "buy")
        assert await page.is_visible("#nothing")
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert (await page.title(), complaints) == ("33.3 %: shop with literal", [])
        await browser.close()


def test_baselines_that_are_not_recorded_are_those_that_can_play(tmp_path: Path) -> None:
    bare = replace(make_evaluation(tmp_path / "e", line()), baselines={})
    sites = replace(bare, plan=replace(bare.plan, agent="web"))
    for evaluation, names in ((bare, ("null", "fail", "random")), (sites, ("null", "image", "text"))):
        assert f"--baseline {'|'.join(names)} measures them" in "\n".join(describe(evaluation))
        first, second, third = names
        shown = f"<code>--baseline {first}</code>, <code>{second}</code> or <code>{third}</code> measures it."
        assert shown in render_page(evaluation)
