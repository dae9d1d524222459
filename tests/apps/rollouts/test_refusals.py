"""`cua rollout run` with settings, folders and endpoints that cannot work: refused at once, and nothing is left."""

from pathlib import Path

import pytest

from cua.models.scripted import ScriptedModel
from cua.rollouts.journal import read_journal
from tests.apps.cli.running import cua
from tests.fake_openai import FakeOpenAI, status

pytestmark = pytest.mark.long
DONE = "## Action:\nStop\n## Code:\n```python\ncomputer.terminate(status='success')\n```"
CHOSEN = ("rollout", "run", "screens", "--tasks", "button", "--seeds", "1", "--group", "2", "-o", "run")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--temperature", "0"), "the temperature is 0"),
        (("--model", "literal"), "'literal' returns no token ids"),
        (("--model", "nano", "--base-url", "http://127.0.0.1:9/v1"), "the bundled model in this process"),
        (("--model", "foo", "--base-url", "http://127.0.0.1:9/v1"), "the engine cannot be reached"),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_no_folder(tmp_path: Path, flags: tuple[str, ...], text: str) -> None:
    pytest.importorskip("torch")
    result = cua(tmp_path, *CHOSEN, *flags, timeout_s=100)
    assert (result.code, text in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "index.html").write_text("mine")
    result = cua(tmp_path, *CHOSEN)
    assert (result.code, "run is not an empty folder; use a new one" in result.stderr) == (2, True), result.stderr
    assert (tmp_path / "run" / "index.html").read_text() == "mine"


def test_a_refused_key_is_named(tmp_path: Path) -> None:
    with FakeOpenAI(ScriptedModel([DONE])) as server:
        server.on_models = status(401)
        result = cua(tmp_path, *CHOSEN, "--model", "fake", "--base-url", server.base_url)
    assert (result.code, "answered 401" in result.stderr) == (2, True), result.stderr


def test_an_endpoint_without_token_ids_ends_the_run_with_the_reason_and_is_asked_again_on_resume(
    tmp_path: Path,
) -> None:
    with FakeOpenAI(ScriptedModel([DONE] * 100)) as server:
        chosen = (*CHOSEN, "--model", "fake", "--base-url", server.base_url)
        result = cua(tmp_path, *chosen, timeout_s=100)
        assert result.code == 1, result.stderr
        assert "2 error of 2 rollouts" in result.stderr
        assert "the engine's answer has no token ids with log-probabilities; use `cua serve`" in result.stderr
        assert "there is nothing to train on" in result.stderr
        attempts = read_journal(tmp_path / "run").attempts
        again = cua(tmp_path, *chosen, "--resume", timeout_s=100)
        assert again.code == 1
    assert read_journal(tmp_path / "run").attempts == {id: number + 1 for id, number in attempts.items()}
    assert len(attempts) == 2
