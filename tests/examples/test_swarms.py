"""The swarms of examples/ do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs.browser.launch import find_browser
from examples.price_lists import GONE, write_lists
from examples.swarms import APP_TASKS
from tests.envs.suites.apps.proving import skip_unless_installed


def run(name: str, folder: Path) -> list[str]:
    environment = {**os.environ, "K25_RUNS_DIR": str(folder), "K25_CONFIG": str(folder / "none.toml")}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "examples.swarms", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_table_is_collected(tmp_path: Path) -> None:
    pytest.importorskip("trafilatura")
    lines = run("table", tmp_path)
    assert sum(" finished " in line for line in lines) == 6


@pytest.mark.slow
def test_twenty_files_are_downloaded_and_compared_and_the_one_that_is_a_page_is_told(tmp_path: Path) -> None:
    pytest.importorskip("trafilatura")
    pytest.importorskip("ipykernel")
    (tmp_path / "lists").mkdir()
    known = write_lists(tmp_path / "lists")
    lines = run("files", tmp_path)
    told = dict(line.split(": ", 1) for line in lines if line.startswith("shop-"))
    assert told.keys() == known.keys() and len(known) == 20
    for shop, changes in known.items():
        assert told[shop].startswith(changes), shop
    assert "a page of HTML" in told[GONE]
    assert sum(" finished " in line for line in lines) == 20
    assert len(list(tmp_path.glob("*/children/*/files/downloads/*.csv"))) == 39


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
def test_children_read_orders_in_browsers_of_their_own(tmp_path: Path) -> None:
    lines = run("browsers", tmp_path)
    assert "t002 finished 427.00" in lines
    assert sum(" finished " in line for line in lines) == 3


@pytest.mark.slow
@pytest.mark.browser
def test_children_solve_tasks_of_the_suite_apps_side_by_side(tmp_path: Path) -> None:
    skip_unless_installed("tiddlywiki")
    lines = run("apps", tmp_path)
    assert [line for line in lines if ": score " in line] == [f"{id}: score 1" for id in APP_TASKS]
    assert sum(" finished " in line for line in lines) == 3
