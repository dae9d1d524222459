"""What is timed: our kernels as a run finds them, and peers from files of a folder.

Ours run on a GPU, or on a CPU in Triton's interpreter, or not at all. The package's docstring says what a peer's file
has.
"""

import importlib.util
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.kernels.case import Peer
from model_runtime.errors import ConfigError
from model_runtime.ops.registry import Ops, find_ops, get_op

NOT_HERE = "ours run on a GPU, or with --interpreter"


class Candidates:
    """Finds operators; a missing one raises its reason when it is asked for, so that its row can show it."""

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


def find_candidates(device: torch.device, *, with_interpreter: bool) -> Candidates:
    """What can be had on a device. The interpreter is chosen while kernels are imported, so before anything else."""
    if with_interpreter:
        os.environ["TRITON_INTERPRET"] = "1"
    if device.type != "cuda" and not with_interpreter:
        return Candidates(None)
    try:
        return Candidates(find_ops(device, "triton"))
    except ConfigError as error:
        return Candidates(None, str(error))


Prepare = Callable[[Any], Any]


def find_files(folder: Path | None) -> tuple[Path, ...]:
    """The adapters of a folder, by name.

    Raises:
        ConfigError: There is no such folder.
    """
    if folder is None:
        return ()
    if not folder.is_dir():
        raise ConfigError(f"--peers {folder}: there is no such folder; it holds files with make(name, shapes)")
    return tuple(sorted(path for path in folder.glob("*.py") if not path.name.startswith("_")))


def file_peers(files: tuple[Path, ...], name: str, shapes: Mapping[str, int], **more: Any) -> list[Peer]:
    """One for each file; whether it has something for the case shows when it is asked."""
    return [Peer(name=path.stem, make=partial(load, path, name, shapes), **more) for path in files]


def load(path: Path, name: str, shapes: Mapping[str, int]) -> Callable[..., Any]:
    """A file's function for one case.

    Raises:
        NothingHereError: The file has none.
    """
    spec = importlib.util.spec_from_file_location(f"kernel_peer_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] | None = module.make(name, dict(shapes))
    if function is None:
        raise NothingHereError(name)
    return function


class NothingHereError(Exception):
    """A file has nothing for a case; its row is left out."""


def with_prepared(function: Callable[..., Any], experts: Any) -> Callable[..., Any]:
    """A function of (hidden, weights, ids, experts) with its experts put into its own form once."""
    prepare: Prepare | None = getattr(function, "prepare", None)
    if prepare is None:
        return function
    own = prepare(experts)

    def run(hidden: Any, weights: Any, ids: Any, _: Any) -> Any:
        return function(hidden, weights, ids, own)

    run.graph = getattr(function, "graph", True)  # type: ignore[attr-defined]
    return run
