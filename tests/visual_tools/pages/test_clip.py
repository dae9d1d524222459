from pathlib import Path

import numpy as np
import pytest

from visual_tools.errors import ImageError
from visual_tools.pages.similarity import clip_similarity, without_text
from visual_tools.pages.text_blocks import TextBlock

WHITE = np.full((60, 100, 3), 255, np.uint8)
BLOCK = TextBlock(text="x", left=0.3, top=0.2, width=0.3, height=0.3, rgb=(0, 0, 0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny CLIP of random weights."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    config = transformers.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
        projection_dim=16,
    )  # fmt: skip
    made: Path = tmp_path_factory.mktemp("clip")
    transformers.CLIPVisionModelWithProjection(config).save_pretrained(made)
    return made


def test_text_is_painted_over() -> None:
    image = WHITE.copy()
    image[14:28, 32:58] = 0
    assert without_text(image, [BLOCK]).min() > 200
    assert np.array_equal(without_text(image, []), image)


def test_the_same_image_is_alike_and_another_less(folder: Path) -> None:
    other = WHITE.copy()
    other[:, :50] = (200, 20, 20)
    assert clip_similarity(WHITE, WHITE, folder) == pytest.approx(1.0, abs=1e-5)
    assert clip_similarity(WHITE, other, folder) < 0.9999
    with_text = WHITE.copy()
    with_text[14:28, 32:58] = 0
    alike = clip_similarity(WHITE, with_text, folder, page_blocks=[BLOCK])
    assert alike > clip_similarity(WHITE, with_text, folder)


def test_a_folder_without_a_model_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"holds no model; expected a folder with config\.json"):
        clip_similarity(WHITE, WHITE, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ImageError, match="holds no CLIP model"):
        clip_similarity(WHITE, WHITE, tmp_path)
