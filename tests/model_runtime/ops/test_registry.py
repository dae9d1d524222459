from dataclasses import fields

import pytest
import torch

from model_runtime.errors import ConfigError
from model_runtime.ops import Ops, find_ops, register
from model_runtime.ops.reference.moe import run_experts
from model_runtime.ops.registry import find_backends, get_op


def test_every_operator_has_a_reference() -> None:
    ops = find_ops("cpu", "torch")
    assert all(getattr(ops, field.name) is get_op(field.name, ["torch"]) for field in fields(Ops))
    assert ops.experts is run_experts


def test_a_cpu_takes_the_reference() -> None:
    assert find_backends(torch.device("cpu"), "auto") == ("torch",)
    assert find_backends(torch.device("cpu"), "triton") == ("triton", "torch")


def test_backends_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"'cutlass' .* Use one of: auto, torch, triton"):
        find_ops("cpu", "cutlass")


def test_operators_that_do_not_exist() -> None:
    with pytest.raises(KeyError, match="no operator 'softmax'"):
        register("softmax", "torch")
    with pytest.raises(KeyError, match="none of the backends x, y has the operator 'route'"):
        get_op("route", ["x", "y"])
