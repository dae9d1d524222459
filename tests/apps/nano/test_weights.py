"""The weights that are shipped: small, whole, read alike by transformers, and trained."""

import hashlib
import json
import random
from pathlib import Path

import pytest
import torch

from apps.nano.model import FOLDER_VARIABLE, WEIGHTS, find_weights
from apps.train.episodes import EpisodeStep
from apps.train.exam import ExamResult, ExamSheet, examine
from apps.train.lessons import LessonMaker
from apps.train.screens.screen import DrawnScreen, make_screen
from apps.train.skills import ScreenQuestion
from apps.train.suite import TASK_KINDS
from model_runtime.checkpoint.reader import Checkpoint, check_tensors
from model_runtime.config import load_config
from model_runtime.model import load_model
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.batch import Example, forward, make_batch
from tests.apps.cli.running import cua

MAX_SIZE_BYTES = 12_000_000
TENSORS = "model-00001-of-00001.safetensors"


def draw_sheet(name: str, count: int) -> ExamSheet:
    """Questions of the suite `screens`, from a seed of this test's own."""
    paper, rng = TASK_KINDS[name], random.Random(f"shipped {name}")
    items: list[tuple[DrawnScreen, tuple[ScreenQuestion, ...]]] = []
    while len(items) < count:
        screen = make_screen(rng, paper.options)
        asked = paper.ask(rng, screen)
        if asked:
            items.append((screen, (asked[0],)))
    return ExamSheet(name=name, items=tuple(items))


def test_they_are_small_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert find_weights() == WEIGHTS
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) <= MAX_SIZE_BYTES
    check_tensors(Checkpoint.open(WEIGHTS), load_config(WEIGHTS))
    assert hashlib.sha256((WEIGHTS / TENSORS).read_bytes()).hexdigest() in (WEIGHTS / "README.md").read_text("utf-8")


@torch.no_grad()
@pytest.mark.long
def test_transformers_reads_the_same() -> None:
    """Of an image with its question: transformers keeps experts that were unpacked in bf16, so theirs are widened."""
    pytest.importorskip("compressed_tensors")
    pytest.importorskip("transformers")
    from tests.model_runtime.model.peer import Peer

    config, maker = load_config(WEIGHTS), LessonMaker(load_tokenizer(WEIGHTS))
    ((screen, (question,)),) = draw_sheet("button", 1).items
    prompt = maker.make_prompt([EpisodeStep(screen=screen, question=question)])
    images = tuple(media.item for media in prompt.media)
    batch = make_batch([Example(trunk=tuple(prompt.token_ids), images=images)], config.media_placeholder_token_id)
    model = load_model(WEIGHTS, dtype="float32")
    ours = model.logits(forward(model, batch).hidden)[-1]
    peer = Peer(WEIGHTS)
    peer.widen_experts()
    theirs = peer(list(prompt.token_ids), images)[-1]
    assert ours.argmax() == theirs.argmax()
    assert (ours - theirs).abs().max() <= 1e-3 * theirs.abs().max()


@pytest.fixture(scope="module")
def marks() -> dict[str, ExamResult]:
    sheets = [draw_sheet(name, 40) for name in ("button", "item", "type", "absent")]
    return {each.name: each for each in examine(WEIGHTS, sheets)}


@pytest.mark.long
@pytest.mark.parametrize(("name", "least"), [("button", 0.75), ("item", 0.7), ("type", 0.6), ("absent", 0.5)])
def test_they_were_trained(marks: dict[str, ExamResult], name: str, least: float) -> None:
    """Far above what guessing comes to, below what the model card says, since 40 questions are few."""
    verdicts = [verdict for of_kind in marks[name].of_kind.values() for verdict in of_kind]
    assert len(verdicts) == 40 and verdicts.count("right") >= 40 * least, verdicts


@pytest.mark.slow
def test_the_agent_saves_on_the_hand_written_page(tmp_path: Path) -> None:
    ended = cua(tmp_path, "eval", "garden", "--model", "nano", "--tasks", "save", "--out", str(tmp_path / "out"))
    assert ended.code == 0, ended.stderr
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert found["figures"]["all"]["num_succeeded"] == 1
