"""One checkpoint in both engines, with everything that is compared."""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from model_runtime.checkpoint.int4 import pack
from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.media import MediaItem
from model_runtime.model import K25Model, load_model
from model_runtime.processor.processor import Processor
from tests.model_runtime.model.drive import Drive, make_ids
from tests.model_runtime.vllm_peer.peer import Media, Request, ask_vllm

CONFIG = tiny_config(
    text={
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    },  # vLLM has these only
    vision={"init_pos_emb_height": 6, "init_pos_emb_width": 10},
)
LIMITS = {"in_patch_limit": 120, "in_patch_limit_each_frame": 60}


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """A checkpoint in both engines: ours in fp32 with vLLM's latent norms, and what vLLM found.

    Attributes:
        found: By REQUEST/KIND, see `run_vllm.py`.
        values: Further tensors that vLLM was given.
    """

    folder: Path
    model: K25Model
    requests: dict[str, Request]
    found: dict[str, Tensor]
    values: dict[str, Tensor]

    def items(self, name: str) -> list[MediaItem]:
        """A request's media, by our processor."""
        processor = Processor.load(self.folder)
        return [
            processor.image(to_png(media.frames[0])) if media.is_image else processor.frames(list(media.frames))
            for media in self.requests[name].media
        ]

    def logprobs(self, name: str) -> Tensor:
        """(tokens - 1, vocab) of the tokens that vLLM had and chose: the prompt in one step, then one by one."""
        ids = self.found[f"{name}/token_ids"]
        rows = self.model.embed(ids)
        items = self.items(name)
        if items:
            rows[ids == self.model.config.media_placeholder_token_id] = torch.cat(self.model.encode_media(items))
        prompt_len = len(self.requests[name].token_ids) + sum(item.num_tokens - 1 for item in items)
        drive = Drive(self.model, num_blocks=128)
        chunks = rows[:-1].split([prompt_len, *[1] * (len(rows) - 1 - prompt_len)])
        return torch.cat([drive.step_rows({"one": chunk})["one"] for chunk in chunks]).log_softmax(-1)


def to_png(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def make_media(t: int, width: int, height: int) -> Media:
    """Random images whose neighbours resemble each other, so that resizing keeps something of them."""
    random = np.random.default_rng((t, width, height))
    small = random.integers(0, 256, (t or 1, height // 12, width // 12, 3), dtype=np.uint8)
    frames = [np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.BICUBIC)) for frame in small]
    return Media(is_image=not t, frames=np.stack(frames))


def make_requests(pad: int) -> dict[str, Request]:
    """Media as (frames, width, height); no frames: an image."""
    ids = make_ids(80)

    def one(*media: tuple[int, int, int]) -> Request:
        tokens = [token for number in range(len(media)) for token in (*ids[9 * number : 9 * number + 9], pad)]
        return Request(token_ids=(*tokens, *ids[40:52]), media=tuple(make_media(*each) for each in media))

    return {
        "text": Request(token_ids=tuple(ids)),
        "picture": one((0, 100, 70)),
        "the table's own size": one((0, 140, 84)),
        "larger than the limit": one((0, 300, 190)),
        "two images": one((0, 60, 130), (0, 112, 112)),
        "chunk of 4": one((4, 110, 80)),
        "larger chunk of 3, chunk of 2, image": one((3, 200, 150), (2, 56, 84), (0, 84, 56)),
    }


def ask(folder: Path, *, quantized: bool) -> Both:
    config = write_tiny(folder / "model", quantized=quantized, config=CONFIG)
    path = folder / "model" / "preprocessor_config.json"
    settings = json.loads(path.read_text("utf-8"))
    settings["media_proc_cfg"] |= LIMITS
    path.write_text(json.dumps(settings), "utf-8")
    requests = make_requests(config.media_placeholder_token_id)
    values = {"packed": make_packed()} if quantized else {}
    return Both(
        folder=folder / "model",
        model=load_model(folder / "model", dtype=torch.float32, latent_norm_eps=1e-5),
        requests=requests,
        found=ask_vllm(folder, folder / "model", config, requests, values),
        values=values,
    )


def make_packed() -> Tensor:
    q = torch.randint(-8, 8, (96, 64), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    return pack(q)
