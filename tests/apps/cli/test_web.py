"""`cua web` from the outside: what it prints, and one line for what it cannot use."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from apps.cli.main import app
from apps.cli.running import exit_code_of
from apps.video2web.render import Renderer
from benchmarks.web_recordings.scripts import record as record_page

PAGE = "<!doctype html><body style='margin:0;font:20px sans-serif'><h1>Plants</h1><p>We grow two hundred kinds."


def _run(*words: str) -> tuple[int | None, str]:
    """Exit code and all that was said."""
    result = CliRunner().invoke(app, ["web", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return exit_code_of(result.exception), str(result.exception)  # type: ignore[arg-type]
    return result.exit_code, result.output


def _image(path: Path, size: tuple[int, int]) -> str:
    Image.fromarray(np.full((size[1], size[0], 3), 255, np.uint8)).save(path)
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing is given to build from"),
        (["none.png"], "none.png is not a file"),
        (["empty.png"], "empty.png is empty"),
        (["notes.txt"], "notes.txt is not an image"),
        (["small.png"], "at least 64 px a side"),
        (["wide.png"], "5000 px wide; say how wide its window is"),
        (["high.png"], "at most 12000 px"),
        (["page.png", "other.png"], "give images of one width"),
        (["page.png", "--viewport", "big"], "expected WIDTHxHEIGHT"),
        (["page.png", "--viewport", "9x9"], "expected sides of 64 to 4096"),
        (["page.png"] * 13, "at most 12 pages"),
        (["page.png", "--resume"], "has no build to resume"),
        (["page.png", "-o", "full"], "already exists"),
    ],
)
def test_bad_inputs_get_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.png").touch()
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    sizes = {"small": (30, 30), "wide": (5000, 80), "high": (100, 13000), "page": (640, 400), "other": (700, 400)}
    for name, size in sizes.items():
        if f"{name}.png" in words:
            _image(tmp_path / f"{name}.png", size)
    code, told = _run("build", *words, "--model", "literal")
    assert code == 2
    assert said in told
    assert "\n" not in told.strip()
    assert not (tmp_path / "site").exists()


def test_an_edit_needs_a_model_and_a_wish(tmp_path: Path) -> None:
    assert "needs a language model" in _run("edit", str(tmp_path), "make it blue", "--model", "literal")[1]
    assert "the change is empty" in _run("edit", str(tmp_path), " ")[1]


@pytest.mark.long
def test_a_site_is_built_and_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.html").write_text(PAGE)
    code, told = _run("score", "page.html", "page.html", "--viewport", "320x200", "--output-format", "json")
    assert code == 0
    score = json.loads(told)
    assert (score["score"], score["layout"]) == (1.0, 1.0)
    assert score["differences"][0] == "page.html: no difference is found"
    assert "accessibility: html-has-lang: 1 elements" in score["differences"]
    assert score["accessibility"] >= 1
    assert score["code_bytes"] == len(PAGE)
    image = Image.open(_image(tmp_path / "words.png", (640, 200)))
    ImageDraw.Draw(image).text((20, 60), "Harbour prices", fill="black", font_size=40)
    image.save(tmp_path / "words.png")
    code, told = _run("build", "words.png", "--model", "literal", "--output-format", "json", "--rounds", "1")
    assert code == 0, told
    made = json.loads(told.splitlines()[-1])
    assert made["score"] > 0.98
    report = (tmp_path / made["report"]).read_text("utf-8")
    assert "default-src &#39;none&#39;" in report
    assert not re.search(r"""(?:src|href)=["']https?:""", report)


STOPPED = """
import asyncio, gc, os, signal
from apps.cli.running import run_cancelled_by_signals
async def work():
    loop = asyncio.get_running_loop()
    left = loop.create_future()  # as a call to a browser that is closed
    loop.call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
    try:
        await asyncio.sleep(60)
    finally:
        left.set_exception(OSError("the browser is closed"))
        del left
        gc.collect()
run_cancelled_by_signals(work())
"""


def test_work_stopped_by_a_signal_leaves_no_errors_behind() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "cancelled\n")


@pytest.mark.slow
def test_a_reader_would_miss_nothing_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, told = _run("demo", "-o", "demo")
    assert code == 0, told
    assert "a reader would miss" not in told
    rounds = sorted((tmp_path / "demo" / "site-build" / "rounds").glob("*/round.json"))
    score = json.loads(rounds[0].read_text())["score"]
    assert score["replays"] and not any(each["lost"] for each in score["replays"]), score["replays"]


@pytest.mark.slow
def test_a_recording_becomes_a_site_that_does_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def make() -> None:
        async with Renderer() as renderer:
            await record_page(renderer, "dialog", tmp_path)

    asyncio.run(make())
    words = ["build", "dialog.webm", "--model", "literal", "--goal", "1", "--rounds", "0", "--output-format", "json"]
    code, told = _run(*words)
    assert code == 0, told
    score = json.loads((tmp_path / "site-build" / "rounds" / "00" / "round.json").read_text())["score"]
    assert score["replays"]
    assert score["interactions"] > 0.4, score["replays"]
    assert not any(each["lost"] for each in score["replays"]), score["replays"]
    assert (tmp_path / "site" / "interactions.js").is_file()
    assert _run(*words, "--viewport", "640x480", "-o", "other")[1].startswith("a recording has the size")
