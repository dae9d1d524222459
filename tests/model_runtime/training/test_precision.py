import pytest
import torch
from torch import Tensor

from model_runtime.training.precision import is_bf16_faster

linear = torch.nn.functional.linear


@pytest.mark.parametrize("slow", [torch.bfloat16, torch.float32])
def test_what_takes_longer_is_left(monkeypatch: pytest.MonkeyPatch, slow: torch.dtype) -> None:
    def wait(rows: Tensor, weight: Tensor) -> Tensor:
        if rows.dtype == slow:
            for _ in range(20):
                linear(rows, weight)
        return linear(rows, weight)

    monkeypatch.setattr(torch.nn.functional, "linear", wait)
    assert is_bf16_faster(torch.device("cpu")) is (slow == torch.float32)


def test_a_gpu_is_not_timed() -> None:
    assert is_bf16_faster(torch.device("cuda"))
