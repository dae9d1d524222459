"""torch.compile goes through every operator without a break, and torch's own check of each twin holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.kernels.mla_schedule import make_plan
from model_runtime.kernels.operators import TWINS
from model_runtime.model import K25Model, load_model
from model_runtime.model.batch import StepAttention
from model_runtime.ops import CuSeqlens, DenseExperts, RouteOptions, find_ops

BOUNDS = [0, 2, 5]
ROTATIONS = torch.polar(torch.ones(5, 4), torch.rand(5, 4))
WEIGHTS = torch.tensor([[0.5, 1.5]] * 3)
IDS = torch.tensor([[0, 2], [1, 0], [2, 1]])
EXPERTS = [torch.randn(3, 32, 32) / 6, torch.randn(3, 32, 16) / 4]
TABLES = torch.tensor([[1, 0], [2, 3], [0, 0]], dtype=torch.int32)
PLAN = make_plan(TABLES, [3, 7, 1], num_programs=2)
LISTS = [PLAN.items, PLAN.joins, PLAN.block_tables]
NUMBERS = [PLAN.queries_per_item, PLAN.num_places, PLAN.num_programs]

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "rms_norm": (torch.randn(3, 32), torch.randn(32), 1e-5),
    "add_rms_norm": (torch.randn(3, 32), torch.randn(3, 32), torch.randn(32), 1e-5),
    "route": (torch.randn(3, 32), torch.randn(6, 32), torch.randn(6), [2, 1, 1, 1], 2.5),
    "experts": (torch.randn(3, 32), WEIGHTS, IDS, EXPERTS),
    "write_latent": (
        torch.zeros(4, 4, 40),
        torch.tensor([3, 0, 9, 7, 1]),
        torch.randn(5, 32),
        torch.randn(5, 8),
        torch.randn(32),
        1e-5,
        ROTATIONS,
    ),
    "mla_decode": (torch.randn(3, 4, 40), torch.randn(4, 4, 40), LISTS, NUMBERS, 32, 0.2),
    "mla_prefill": (torch.randn(5, 2, 24), torch.randn(5, 2, 24), torch.randn(5, 2, 16), BOUNDS, BOUNDS, 0.2),
    "vision_attention": (torch.randn(5, 6, 8), ROTATIONS, BOUNDS),
    "merge_patches": (torch.randn(16, 8), [1, 2, 4, 2, 2, 2], [2, 2], torch.randn(8), torch.randn(8), 1e-5),
}
"""Of each twin."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_library_agrees(name: str) -> None:
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(TWINS[name], ARGUMENTS[name], test_utils=tests)


def on_copies(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, list[Tensor]]:
    """The result, and what has become of the tensors given."""
    copies = [value.clone() if isinstance(value, Tensor) else value for value in arguments]
    return function(*copies), [value for value in copies if isinstance(value, Tensor)]


def whole(name: str) -> tuple[Any, ...]:
    """Arguments of the operator itself."""
    given = ARGUMENTS[name]
    match name:
        case "route":
            return (*given[:3], RouteOptions(top_k=2, scale=2.5))
        case "experts":
            return (*given[:3], DenseExperts(gate_up=EXPERTS[0], down=EXPERTS[1]))
        case "mla_decode":
            return (*given[:2], PLAN, *given[4:])
        case "mla_prefill":
            return (*given[:3], CuSeqlens(BOUNDS), CuSeqlens(BOUNDS), given[5])
        case "vision_attention":
            return (*given[:2], CuSeqlens(BOUNDS))
        case "merge_patches":
            return (given[0], [(1, 2, 4), (2, 2, 2)], (2, 2), *given[3:])
    return given


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_compiled_and_direct_are_the_same(name: str) -> None:
    operator, arguments = getattr(find_ops("cpu", "triton"), name), whole(name)
    compiled = torch.compile(operator, fullgraph=True, backend="aot_eager")
    found, expected = on_copies(compiled, arguments), on_copies(operator, arguments)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.slow
def test_a_decode_step_is_one_graph(tmp_path: Path) -> None:
    write_tiny(tmp_path, config=tiny_config(text={"num_hidden_layers": 2}))
    model: K25Model = load_model(tmp_path, dtype=torch.float32, kernels="triton")
    decode = make_plan(TABLES, [3, 7, 1])
    embeds, slots = torch.randn(3, 64), torch.tensor([6, 14, 0])

    def step(embeds: Tensor, cache: Tensor) -> Tensor:
        rotations = model.rope(torch.tensor([2, 6, 0]))
        plan = StepAttention(rotations=rotations, slot_mapping=slots, num_decodes=3, decode=decode, prefills=())
        return model.logits(model.run_layers(embeds, plan, cache))

    cache = torch.randn(model.make_cache(4, 4).shape)
    expected = step(embeds, cache.clone())
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(embeds, cache.clone())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
