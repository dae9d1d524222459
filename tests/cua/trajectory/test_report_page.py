import base64
import io
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from cua.messages import Reply, Usage
from cua.run.end import End
from cua.trajectory import RunHeader, TrajectoryWriter, load_run
from cua.trajectory.report import render_report, write_report
from envs import Click
from tests.cua.trajectory import samples


def test_the_page_tells_the_run(tmp_path: Path) -> None:
    page = render_report(load_run(samples.write_run(tmp_path)))
    for text in (
        "Add two items", "succeeded", "the task&#39;s own check passed", "score 1 of 1", "42", "3.5 s", "220", "$1.00",
        "thought 1", "Act 2", "pyautogui.click(1, 5)", "click at (2, 5)", "http://x/2",
    ):  # fmt: skip
        assert text in page, text
    assert page.count('<article id="step-') == 2


def test_all_that_can_stand_beside_the_steps(tmp_path: Path) -> None:
    refused = samples.make_step(1, error="not allowed: shop.example")
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        writer.note("info", "an early note")
        writer.observed(1, refused.observation)
        writer.replied(1, Reply(content="an unreadable reply"))
        writer.note("parse_error", "no code block", attempt=1)
        writer.replied(1, refused.reply)
        writer.acted(refused)
        samples.write_step(writer, samples.make_step(2), until="acting")
    page = render_report(load_run(writer.run_dir))
    for text in (
        "an early note", "an unreadable reply", "parse error", "no code block", "attempt: 1", "not carried out",
        "not allowed: shop.example", "so its outcome is unknown", "the run was interrupted before its end",
    ):  # fmt: skip
        assert text in page, text
    assert 'class="step st-refused"' in page and 'class="step st-interrupted"' in page


@pytest.mark.parametrize("until", ["nothing", "observed", "replied", "acting"])
def test_a_run_that_hardly_began_has_a_page(tmp_path: Path, until: str) -> None:
    with TrajectoryWriter.create(tmp_path, RunHeader(instruction="")) as writer:
        if until != "nothing":
            samples.write_step(writer, samples.make_step(1), until=until)
        page = render_report(load_run(writer.run_dir))
    assert "this page was made while the run was going on" in page
    assert ("no step was taken" in page) == (until == "nothing")


def test_a_lost_picture_leaves_its_place_empty(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    load_run(run_dir, images=0)
    for path in (run_dir / "images").iterdir():
        path.unlink()
    page = write_report(run_dir).read_text()
    assert page.count("no image") == 2


@pytest.mark.long
def test_small_pictures_are_kept_as_they_are_and_large_ones_shrink(tmp_path: Path) -> None:
    noise = Image.frombytes("RGB", (1000, 600), os.urandom(1000 * 600 * 3))
    out = io.BytesIO()
    noise.save(out, "PNG", compress_level=1)
    with TrajectoryWriter.create(tmp_path, samples.HEADER, is_durable=False) as writer:
        for number in range(1, 31):
            screenshot = out.getvalue() if number % 2 else samples.png("flat")
            samples.write_step(
                writer, samples.make_step(number, observation=samples.make_observation(0, screenshot=screenshot))
            )
    record = load_run(writer.run_dir)
    page = render_report(record)
    flat = base64.b64encode(samples.png("flat")).decode()
    assert page.count(f"data:image/png;base64,{flat}") == 15
    assert len(page) < 30e6 / 2 < 15 * len(out.getvalue())
    full = render_report(record, "png")
    assert full.count("data:image/png;base64,") == 30


def test_the_page_is_written_whole_beside_the_record_or_where_one_wants(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    assert write_report(run_dir) == run_dir / "report.html"
    elsewhere = write_report(run_dir, tmp_path / "here.html")
    assert elsewhere.read_text() == (run_dir / "report.html").read_text()
    assert not list(run_dir.glob(".*"))


def test_nothing_in_the_page_points_outside(tmp_path: Path) -> None:
    page = render_report(load_run(samples.write_run(tmp_path)))
    assert set(re.findall(r'(?:src|href)="([^"]{0,6})', page)) == {"data:,", "data:i", "#step-"}
    assert "url(" not in page.replace("url(#tip)", "")
    assert "default-src &#39;none&#39;; img-src data:;" in page


def test_every_way_to_end_has_its_page(tmp_path: Path) -> None:
    ends = [
        End(status="unverified", reason="nobody checked"),
        End(status="capped", cap="steps", reason="100 steps"),
        End(status="error", source="env", reason="gone", retryable=True),
        End(status="stopped", reason="by a person"),
        End(status="failed", reason="no", score=0.25),
    ]
    for end in ends:
        usage = Usage(cost_usd=None)
        page = render_report(load_run(samples.write_run(tmp_path, result=replace(samples.ENDED, end=end, usage=usage))))
        assert f'<span class="badge b-{end.status}">{end.status}</span>' in page
        assert end.reason in page and "unknown" in page


@pytest.mark.slow
def test_a_hundred_steps_are_rendered_fast_and_small(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER, is_durable=False) as writer:
        for number in range(1, 101):
            screenshot = samples.png(f"step {number}", (1280, 720))
            step = samples.make_step(
                number,
                observation=samples.make_observation(0, screenshot=screenshot),
                actions=tuple(Click(x_px=x, y_px=x) for x in range(5)),
            )
            samples.write_step(writer, step)
    started = time.process_time()
    path = write_report(writer.run_dir)
    assert time.process_time() - started < 6  # CPU time of a machine that others use too
    assert path.stat().st_size < 30e6
