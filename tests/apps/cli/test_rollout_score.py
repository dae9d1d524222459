"""`cua rollout score`: what the engine recorded of texts and images is what the training code computes."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("prometheus_client")  # of the server

from apps.nano.model import WEIGHTS
from cua.json_text import Json
from cua.rollouts.samples import MediaRange, PolicySpan, RolloutSample, SampledRollout, SampleWriter
from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.processor.processor import Processor
from model_runtime.tokenizer import load_tokenizer
from tests.apps.cli.running import Ended, cua
from tests.cua.rollouts.test_gateway import gateway_to, official
from tests.model_runtime.engine.real import start
from tests.model_runtime.server.serving import Serving

SAMPLING: dict[str, Json] = {
    "temperature 1": {"temperature": 1.0},
    "temperature 0.7": {"temperature": 0.7},
    "temperature 0.7, top-p 0.9": {"temperature": 0.7, "top_p": 0.9},
}
MAX_DIFFERENCE = 1e-5


def draw(seed: int) -> bytes:
    """Return a PNG of noise, whose tokens all differ."""
    pixels = np.random.default_rng(seed).integers(0, 255, (112, 140, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


async def record(weights: Path, folder: Path, **sampling: Any) -> list[RolloutSample]:
    """Hold conversations through the gateway, one of text and one with an image in each turn."""
    samples: list[RolloutSample] = []
    writer = SampleWriter(folder, media_token_id=load_tokenizer(weights).special.media_pad)
    engine = start(weights, served_name="k", num_blocks=512)
    with Serving(engine, processor=Processor.load(weights)) as serving:  # type: ignore[arg-type]
        async with gateway_to(serving) as (gateway, http):
            for name in ("text", "images"):
                session = gateway.open_session(name)
                client = official(http, f"http://gateway/sessions/{name}/v1")
                messages: list[Any] = []
                for turn in range(2):
                    url = f"data:image/png;base64,{base64.b64encode(draw(turn)).decode()}"
                    image = {"type": "image_url", "image_url": {"url": url}}
                    text = {"type": "text", "text": f"Click the button {turn}."}
                    messages.append({"role": "user", "content": [text] if name == "text" else [image, text]})
                    answer = await client.chat.completions.create(
                        model="k", messages=messages, max_tokens=24, seed=turn, **sampling
                    )
                    messages.append({"role": "assistant", "content": answer.choices[0].message.content})
                for data in session.read_media():
                    writer.put_media(data)
                (sample,) = gateway.close_session(name).log.branches()
                writer.append(SampledRollout(rollout=f"{name}/0", group=name, reward=1.0, branches=(sample,)))
                samples.append(sample)
    writer.close()
    return samples


def score(folder: Path, weights: Path) -> Ended:
    return cua(folder.parent, "rollout", "score", str(folder), "--weights", str(weights), "--json")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("tiny")
    write_tiny(folder)
    return folder


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("is_nano", [False, True], ids=["tiny", "nano"])
async def test_log_probabilities_are_those_of_the_training_code(
    tiny: Path, tmp_path: Path, is_nano: bool, sampling: str
) -> None:
    weights, folder = WEIGHTS if is_nano else tiny, tmp_path / "run"
    text, images = await record(weights, folder, **SAMPLING[sampling])
    assert (len(text.media), len(images.media)) == (0, 2)
    assert (text.kept is not None) is ("top_p" in SAMPLING[sampling])
    ended = score(folder, weights)
    assert ended.code == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["num_samples"], found["num_tokens"]) == (2, text.mask.sum() + images.mask.sum())
    assert found["abs_max"] <= MAX_DIFFERENCE
    print(f"{sampling}: {found['num_tokens']} tokens, at most {found['abs_max']:.2g}")


async def test_other_temperatures_kept_sets_and_images_are_noticed(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    _, sample = await record(tiny, folder, temperature=0.7, top_p=0.9)
    black = io.BytesIO()
    Image.new("RGB", (140, 112)).save(black, "png")
    assert sample.kept is not None
    everything = tuple(replace(span, top_p=1.0) for span in sample.spans)
    changed = {
        "at another temperature": replace(sample, spans=tuple(replace(span, temperature=1.0) for span in sample.spans)),
        "without kept sets": replace(sample, kept=None, spans=everything),
        "with black images": sample,
    }
    for name, other in changed.items():
        place = tmp_path / name.replace(" ", "-")
        writer = SampleWriter(place, media_token_id=load_tokenizer(tiny).special.media_pad)
        sha256 = {item.sha256: writer.put_media(black.getvalue()) for item in sample.media}
        if name != "with black images":
            sha256 = {item.sha256: writer.put_media(draw(turn)) for turn, item in enumerate(sample.media)}
        media = tuple(replace(item, sha256=sha256[item.sha256]) for item in sample.media)
        branches = (replace(other, media=media, weight=1.0),)
        writer.append(SampledRollout(rollout="g/0", group="g", reward=1.0, branches=branches))
        writer.close()
        assert json.loads(score(place, tiny).stdout)["abs_max"] > 100 * MAX_DIFFERENCE, name


async def test_images_of_another_conversion_are_refused(tiny: Path, tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path / "run", media_token_id=5)
    item = MediaRange(0, 1, writer.put_media(draw(0)), "moonvit-0")
    sample = RolloutSample(
        ids=np.array([5, 6], np.uint32),
        mask=np.array([False, True]),
        logprobs=np.array([0, -1], np.float32),
        spans=(PolicySpan(1, 2, 0),),
        media=(item,),
        prompt_length=1,
    )
    writer.append(SampledRollout(rollout="g/0", group="g", reward=1.0, branches=(sample,)))
    writer.close()
    ended = score(tmp_path / "run", tiny)
    assert (ended.code, "converted by moonvit-0" in ended.stderr) == (2, True)
