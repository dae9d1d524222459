"""Our kernels as a run finds them: on a GPU, or on a CPU in Triton's interpreter, or not at all."""

import os
from collections.abc import Callable
from typing import Any

import torch

from model_runtime.errors import ConfigError
from model_runtime.ops.registry import Ops, find_ops, get_op

NOT_HERE = "ours run on a GPU, or with --interpreter"


class Ours:
    """Finds operators; why there are none is told when one is asked for, so that a row can say it."""

    def __init__(self, ops: Ops | None, reason: str = NOT_HERE) -> None:
        self.ops, self.reason = ops, reason

    def __call__(self, name: str) -> Callable[..., Any]:
        """Our kernel of an operator.

        Raises:
            ConfigError: There is none, or it cannot run here.
        """
        self.all()
        try:
            return get_op(name, ("triton",))
        except KeyError:
            raise ConfigError("no kernel of this operator; the reference is used") from None

    def all(self) -> Ops:
        """The set that a model would hold: what has no kernel comes from the reference.

        Raises:
            ConfigError: It cannot run here.
        """
        if self.ops is None:
            raise ConfigError(self.reason)
        return self.ops


def find_ours(device: torch.device, *, with_interpreter: bool) -> Ours:
    """What can be had on a device. The interpreter is chosen while kernels are imported, so before anything else."""
    if with_interpreter:
        os.environ["TRITON_INTERPRET"] = "1"
    if device.type != "cuda" and not with_interpreter:
        return Ours(None)
    try:
        return Ours(find_ops(device, "triton"))
    except ConfigError as error:
        return Ours(None, str(error))
