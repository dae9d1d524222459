"""What one rank of the test does, in a process of its own: compute, write what it found, end."""

from pathlib import Path

import torch
import torch.distributed as dist

from model_runtime.model import K25Model, load_model
from model_runtime.parallel.comm import TorchComm, close_group, open_group
from tests.model_runtime.model.drive import Drive, make_ids
from tests.model_runtime.vision.weights import make_item

NUM_RANKS = 4
CASES = {"dense_4": ("dense", 4), "int4_4": ("int4", 4), "dense_2": ("dense", 2), "int4_2": ("int4", 2)}
"""Name -> folder and number of ranks; of pairs there are two at a time."""


def run_rank(rank: int, work_dir: Path) -> None:
    torch.set_num_threads(1)
    whole = open_group(rank, NUM_RANKS, f"file://{work_dir}/meeting")
    try:
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        comms = {4: whole, 2: TorchComm(pairs[rank // 2])}
        for name, (folder, size) in CASES.items():
            model = load_model(work_dir / folder, dtype=torch.float32, comm=comms[size])
            torch.save(compute(model), work_dir / f"{name}.{rank}")
    finally:
        close_group()


def compute(model: K25Model) -> dict[str, torch.Tensor]:
    """Logits of a prompt, of a decode beside a chunk, and an encoded image."""
    drive = Drive(model)
    ids = make_ids(40, vocab_size=1280)
    prompt = drive.step({"one": ids[:20], "two": ids[:30]})["two"]
    second = drive.step({"one": ids[20:21], "two": ids[30:]})
    [image] = model.encode_media([make_item(1, 4, 6)])
    return {"prompt": prompt, "decode": second["one"], "chunk": second["two"], "image": image}
