"""Writer of a complete folder in the release's layout with random weights: for tests, benchmarks and trials.

    config = write_tiny(folder)                                     # about 0.5 M parameters, bf16
    config = write_tiny(folder, quantized=True)                     # the same weights, routed experts packed to INT4
    config = write_tiny(folder, config=tiny_config(text={"num_hidden_layers": 6}, dtype="float32"))

The folder also loads in transformers: config.json has both spellings. Its small byte-pair vocabulary, in tiktoken's
file format, is trained on the text below (Sennrich et al. 2016, arXiv 1508.07909, section 3.2, on bytes instead of
characters).
"""

import base64
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model_runtime.checkpoint.folder import IGNORE, dtype_of, pack_named, write_folder
from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.config.types import DType, K25Config, QuantizationConfig, TextConfig, VisionConfig
from model_runtime.tokenizer.special import NUM_SLOTS, SpecialTokens

WORDS = re.compile(r" ?[^\W\d]+| ?\d{1,3}| ?[^\s\w]+|\s+")
Pair = tuple[bytes, bytes]

TEXT = """
The agent looks at the screen, thinks about the instruction, and acts: it clicks, drags, scrolls, types and waits.
A screenshot is 1920x1080 pixels wide; coordinates are fractions between 0.0 and 1.0,
counted from the upper left corner.
Open the browser, search for the weather in London, and tell me whether it will rain tomorrow afternoon.
Which file was changed yesterday? Please rename every picture in the folder, then close the window without saving.
There are twelve apples, seven oranges and a bowl of strawberries on the kitchen table beside the yellow lamp.
import pyautogui
pyautogui.click(x=0.5, y=0.25)
pyautogui.typewrite("hello world", interval=0.01)
def find_largest(values: list[float]) -> float:
    best = values[0]
    for value in values[1:]:
        if value > best:
            best = value
    return best
{"name": "get_weather", "description": "Weather of a city", "parameters": {"type": "object", "properties": {"city":
{"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer"}}, "required": ["city"]}}
# Tools
## functions
namespace functions {
type read_file = (_: { path: string, offset?: number, limit?: number }) => any;
}
I should first check whether the dialog is open. The button "Save as..." is grey, so nothing was edited yet.
Let me wait.
Because the video shows four frames a chunk, the answer depends on their order: before, during, after, and at the end.
Numbers: 1, 2, 3, 10, 64, 100, 128, 256, 1000, 2025, 3.14159, 42%, $19.99; signs: + - * / = < > & | ^ ~ @ # !
I'm sure you've seen it; they're here, we'll go, he'd stay, she doesn't know, it's fine,
that isn't what I'd have chosen.
Schöne Grüße aus München: Öl, Ärger, süß. Déjà vu à l'été, ça va? El niño comió piñas. Привет, мир! Как дела?
今天天气很好，我们去公园散步吧。请打开浏览器，搜索最新的新闻，然后告诉我结果。屏幕上有一个蓝色的按钮。
今日はとても良い天気ですね。ありがとうございます。안녕하세요, 오늘 날씨가 좋네요. 🙂 🚀 ✅
"""


@lru_cache(maxsize=4)
def tiny_ranks(num_ranks: int = 1024) -> bytes:
    """Return the content of a `tiktoken.model` of that many ranks: 256 bytes, then merges, most frequent pairs first.

    If the text has no more pairs to merge, the remaining sequences of two and three bytes follow.

    Raises:
        ValueError: If there are fewer than 256 ranks.
    """
    if num_ranks < 256:
        raise ValueError(f"{num_ranks} ranks, expected 256 (one for each byte) or more")
    tokens = dict.fromkeys(bytes([value]) for value in range(256))
    tokens.update(dict.fromkeys(_train(num_ranks - len(tokens))))
    for filler in chain(product(range(256), repeat=2), product(range(256), repeat=3)):
        if len(tokens) >= num_ranks:
            break
        tokens.setdefault(bytes(filler))
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def _train(num_merges: int) -> list[bytes]:
    """Return tokens from repeatedly merging the most frequent pair; of equally frequent ones the first in byte
    order.
    """
    words = {tuple(word[i : i + 1] for i in range(len(word))): count for word, count in _count_words().items()}
    merged: list[bytes] = []
    while len(merged) < num_merges:
        pairs: Counter[Pair] = Counter()
        for parts, count in words.items():
            for pair in pairwise(parts):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merged.append(best[0] + best[1])
        words = {_merge(parts, best): count for parts, count in words.items()}
    return merged


def _count_words() -> Counter[bytes]:
    return Counter(word.encode() for word in WORDS.findall(TEXT))


def _merge(parts: tuple[bytes, ...], pair: Pair) -> tuple[bytes, ...]:
    out: list[bytes] = []
    i = 0
    while i < len(parts):
        if parts[i : i + 2] == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return tuple(out)


NUM_RANKS = 1024


def tiny_config(
    *, text: Mapping[str, Any] | None = None, vision: Mapping[str, Any] | None = None, dtype: DType = "bfloat16"
) -> K25Config:
    """Return a config of about 0.5 M parameters: three layers, two of eight experts per token, two vision blocks.

    Args:
        text: Fields of `TextConfig` to override; `text_hidden_size` of the vision part follows `hidden_size`.
        vision: Fields of `VisionConfig` to override; `mm_hidden_size` follows `hidden_size`.
        dtype: Dtype of the tensors that are not packed.
    """
    special = SpecialTokens(NUM_RANKS)
    small_text = TextConfig(
        vocab_size=NUM_RANKS + NUM_SLOTS,
        hidden_size=64,
        intermediate_size=128,
        moe_intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        q_lora_rank=32,
        kv_lora_rank=32,
        qk_nope_head_dim=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        n_routed_experts=8,
        num_experts_per_tok=2,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        pad_token_id=special.id_of("[PAD]"),
    )
    small_text = replace(small_text, **(text or {}))
    sizes = {"hidden_size": 48, **(vision or {})}
    small_vision = VisionConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=80,
        init_pos_emb_height=8,
        init_pos_emb_width=8,
        mm_hidden_size=sizes["hidden_size"],
        text_hidden_size=small_text.hidden_size,
    )
    return K25Config(
        text=small_text,
        vision=replace(small_vision, **sizes),
        media_placeholder_token_id=special.media_pad,
        dtype=dtype,
    )


def write_tiny(
    model_dir: Path, *, quantized: bool = False, seed: int = 0, config: K25Config | None = None, num_shards: int = 2
) -> K25Config:
    """Write config, tokenizer, processor settings and shards; tensors are created and written one by one.

    Args:
        model_dir: Folder to create; files in it are overwritten.
        quantized: True to pack routed experts to INT4; alternatively, use a config with `quantization`.
        seed: Seed of the weights. Each tensor depends only on its name and the seed.
        config: Sizes, from `tiny_config` or elsewhere; the vocabulary needs at least 1,024 ranks and 256 slots.
        num_shards: Number of files for the tensors.

    Returns:
        The config as written.

    Raises:
        ConfigError: If the sizes contradict each other.
    """
    config = config or tiny_config()
    if quantized and config.quantization is None:
        config = replace(config, quantization=QuantizationConfig(ignore=IGNORE))
    tensors = _tensors(expected_tensors(config), config, seed)
    write_folder(
        model_dir, config, tensors, ranks=tiny_ranks(config.text.vocab_size - NUM_SLOTS), num_shards=num_shards
    )
    return config


def _tensors(expected: Mapping[str, TensorInfo], config: K25Config, seed: int) -> Iterator[tuple[str, Tensor]]:
    dtype: torch.dtype = getattr(torch, config.dtype)
    for name, info in expected.items():
        if name.endswith("_packed"):
            assert config.quantization is not None
            group_size = config.quantization.group_size
            stem = name.removesuffix("_packed")
            num_out, num_groups = expected[stem + "_scale"].shape
            weight = _random(stem, (num_out, num_groups * group_size), seed).to(dtype)
            yield from pack_named(stem, weight, group_size)
        elif not name.endswith(("weight_scale", "weight_shape")):
            yield name, _random(name, info.shape, seed).to(getattr(torch, dtype_of(info, config.dtype)))


def _random(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """Return float32 values at a scale that keeps activations near 1: linear layers 1 / sqrt(in), norms near 1, biases
    small.
    """
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    values = torch.randn(shape, generator=generator)
    if len(shape) == 1:
        is_norm = name.endswith("weight")
        return values.mul_(0.1).add_(1.0 if is_norm else 0.0)
    if name.endswith(("embed_tokens.weight", "pos_emb.weight")):
        return values.mul_(0.5)
    num_in = values[0].numel()
    return values.mul_(num_in**-0.5)
