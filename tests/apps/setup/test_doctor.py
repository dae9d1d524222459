from pathlib import Path

import pytest

from apps.setup.doctor import run_doctor
from apps.setup.report import DoctorRow, SetupReport
from cua.messages import Reply, Usage
from tests.apps.setup.machine import BareMachine
from tests.fake_openai import FakeOpenAI


@pytest.fixture(autouse=True)
def own_folders(machine: BareMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No browser, no display, no settings of whoever runs the tests."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "K25_MODEL", "K25_BASE_URL", "K25_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def row_of(report: SetupReport, name: str) -> DoctorRow:
    return next(row for row in report.rows if row.name == name)


async def test_rows_and_worst_on_a_bare_machine() -> None:
    report = await run_doctor(lambda line: None)
    assert [row.name for row in report.rows] == [
        "python",
        "cua on PATH",
        "cua package",
        "browser",
        "display",
        "ocr",
        "sandbox",
        "model",
        "runs folder",
        "terminal",
        "clock",
    ]
    assert row_of(report, "browser").level == "fail"
    assert row_of(report, "display").level == "warn"
    assert row_of(report, "model").actual == "literal, inside this program: no endpoint to try"
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("answer", "level", "told"),
    [
        (Reply(content="Red.", usage=Usage(input_tokens=9, output_tokens=2)), "ok", "fake answered in"),
        (Reply(content="Blue", usage=Usage(input_tokens=9, output_tokens=2)), "warn", "did not name the colour"),
    ],
)
async def test_a_model_that_answers(monkeypatch: pytest.MonkeyPatch, answer: Reply, level: str, told: str) -> None:
    with FakeOpenAI(lambda messages: answer, model_id="fake") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        row = row_of(await run_doctor(lambda line: None, model="fake"), "model")
        assert len(server.chats) == 1
    assert row.level == level
    assert told in row.actual


async def test_a_model_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("K25_MAX_RETRIES", "0")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    row = row_of(await run_doctor(lambda line: None, model="fake"), "model")
    assert row.level == "fail"
    assert "fake at" in row.actual
    assert row.fix == "start the server and type cua doctor again"


async def test_a_model_without_an_endpoint() -> None:
    row = row_of(await run_doctor(lambda line: None, model="some-model"), "model")
    assert row.level == "fail"


async def test_a_broken_config_is_a_row_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "k25"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('modell = "x"\n')
    report = await run_doctor(lambda line: None)
    assert row_of(report, "config").level == "fail"
    assert "modell" in row_of(report, "config").actual
    assert row_of(report, "clock").level == "ok"
