"""Every rank computes on its own GPU: whatever a library takes from the current device is that of the tensors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from model_runtime.engine.contract import EngineOptions
from model_runtime.engine.ranks import RankSpec, load_rank
from model_runtime.engine.runner import Runner, StepInput
from model_runtime.model import load_model
from model_runtime.placement import find_rank_device, use_device


class Recorder:
    """Notes which devices were made the current one, and whether one is."""

    def __init__(self) -> None:
        self.entered: list[torch.device] = []
        self.is_inside = False

    @contextmanager
    def __call__(self, device: torch.device) -> Iterator[None]:
        self.entered.append(device)
        self.is_inside = True
        try:
            yield
        finally:
            self.is_inside = False


class Watched:
    """A model whose methods must be called inside."""

    def __init__(self, model: Any, recorder: Recorder) -> None:
        self._model, self._recorder = model, recorder
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._model, name)
        if callable(value):
            assert self._recorder.is_inside, f"{name} is called outside of its device"
            self.called.append(name)
        return value


@pytest.mark.parametrize(
    ("device", "rank", "found"),
    [
        ("cuda", 0, "cuda:0"),
        ("cuda", 3, "cuda:3"),
        ("cuda:2", 0, "cuda:2"),
        ("cuda:2", 1, "cuda:3"),
        ("cpu", 3, "cpu"),
    ],
)
def test_ranks_take_neighbouring_gpus(device: str, rank: int, found: str) -> None:
    assert str(find_rank_device(device, rank)) == found


def test_a_step_is_computed_inside_its_device(tiny_dir: Path) -> None:
    recorder = Recorder()
    model = Watched(load_model(tiny_dir, kernels="torch"), recorder)
    runner = Runner(model, EngineOptions(num_blocks=4, block_size=8), enter=recorder)  # type: ignore[arg-type]
    assert model.called == ["make_cache"]
    step = StepInput(
        token_ids=[1, 2, 3],
        positions=[0, 1, 2],
        slot_mapping=[0, 1, 2],
        block_tables=[[0]],
        cu_seqlens_q=(0, 3),
        seq_lens=(3,),
        num_decodes=0,
        drop=(),
        encode=(),
        placements=(),
        logit_rows=[2],
    )
    assert runner.run(step).shape == (1, model.config.text.vocab_size)
    assert model.called[1:] == ["embed", "forward", "logits"]
    assert recorder.entered == [torch.device("cpu")] * 2
    assert not recorder.is_inside


def make_spec(model_dir: Path, device: str) -> RankSpec:
    return RankSpec(
        model_dir=model_dir,
        size=1,
        device=device,
        dtype=None,
        latent_norm_eps=None,
        kernels="torch",
        options=EngineOptions(),
        num_blocks=4,
    )


def test_a_rank_loads_inside_its_device(tiny_dir: Path) -> None:
    recorder = Recorder()
    model, room = load_rank(make_spec(tiny_dir, "cpu"), 0, enter=recorder)
    assert (recorder.entered, model.device, room) == ([torch.device("cpu")], torch.device("cpu"), 4)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs are needed")
@pytest.mark.skipif(os.environ["TRITON_INTERPRET"] == "1", reason="kernels are interpreted: set TRITON_INTERPRET=0")
def test_the_second_gpu_computes_what_the_first_does(tiny_dir: Path) -> None:
    results = []
    for index in (0, 1):
        with use_device(torch.device("cuda", index)):
            assert torch.cuda.current_device() == index
        spec = make_spec(tiny_dir, f"cuda:{index}")
        model, _ = load_rank(spec, 0)
        runner = Runner(model, EngineOptions(num_blocks=4, block_size=8))
        cache = runner.cache
        assert cache.device == torch.device("cuda", index)
        embeds = model.embed(torch.tensor([1, 2, 3], device=model.device))
        results.append(embeds.cpu())
        assert torch.cuda.current_device() == 0
    assert torch.equal(*results)
