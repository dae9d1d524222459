import pytest
import torch
from torch import Tensor

from model_runtime.training import precision
from model_runtime.training.precision import is_bf16_faster

linear = torch.nn.functional.linear


@pytest.mark.long
@pytest.mark.parametrize("slow", [torch.bfloat16, torch.float32])
def test_what_takes_longer_is_left(monkeypatch: pytest.MonkeyPatch, slow: torch.dtype) -> None:
    def wait(rows: Tensor, weight: Tensor) -> Tensor:
        if rows.dtype == slow:
            for _ in range(20):
                linear(rows, weight)
        return linear(rows, weight)

    monkeypatch.setattr(torch.nn.functional, "linear", wait)
    assert is_bf16_faster(torch.device("cpu")) is (slow == torch.float32)


@pytest.mark.parametrize("fast", [torch.bfloat16, torch.float32])
def test_one_delay_does_not_decide(monkeypatch: pytest.MonkeyPatch, fast: torch.dtype) -> None:
    rounds: list[torch.dtype] = []

    def time_products(dtype: torch.dtype) -> float:
        rounds.append(dtype)
        return 10.0 if rounds.count(dtype) == 1 and dtype == fast else 1.0 if dtype == fast else 2.0

    monkeypatch.setattr(precision, "_time_products", time_products)
    assert is_bf16_faster(torch.device("cpu")) is (fast == torch.bfloat16)


def test_a_gpu_is_not_timed() -> None:
    assert is_bf16_faster(torch.device("cuda"))
