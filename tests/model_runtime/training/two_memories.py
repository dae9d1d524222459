"""A processor's memory that is taken for two, to find on a machine without a GPU what a GPU would refuse."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class TwoMemories(TorchDispatchMode):
    """The processor's memory as if a part of it were a GPU's: what was moved or made there, and all that is computed
    from it. An operation that torch refuses, because it takes tensors of both, is an error here, too.

    Allowed are copies, rows that are taken by indices of the host, and single numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._there: dict[int, object] = {}  # storages, kept so that none is given out again

    def add(self, *tensors: Tensor) -> None:
        """These are the GPU's from now on."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self._there[storage._cdata] = storage

    def is_there(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._there

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        name = func.overloadpacket.__name__
        results = func(*args, **(kwargs or {}))
        is_zero_gradient = not given and torch._C._current_graph_task_id() != -1  # torch makes it where the others are
        if name == "copy_" or not (is_zero_gradient or any(map(self.is_there, given))):
            return results
        by_rows = (
            bool(given) and self.is_there(given[0]) and name in ("index", "index_put", "index_put_", "_index_put_impl_")
        )
        indices = {id(one) for one in args[1] if one is not None} if by_rows else set()
        for one in given:
            if one.dim() and not self.is_there(one) and id(one) not in indices:
                raise AssertionError(f"{func} was given {tuple(one.shape)} of the host beside others of the device")
        self.add(*(one for one in tree_leaves(results) if isinstance(one, Tensor)))
        return results


class Moves(TorchFunctionMode):
    """Says to `TwoMemories` what a call puts on a device."""

    def __init__(self, memories: TwoMemories) -> None:
        super().__init__()
        self.memories = memories

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and any(isinstance(one, torch.device) for one in (*args, *kwargs.values())):
            result = result.clone()
            self.memories.add(result)
        return result


@contextmanager
def two_memories() -> Iterator[TwoMemories]:
    """What is put on a device inside the block counts as a GPU's, be it called `cpu`."""
    memories = TwoMemories()
    with memories, Moves(memories):
        yield memories
