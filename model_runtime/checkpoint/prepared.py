"""On-disk cache of experts in the layout of the kernels, which later starts read instead of converting again.

The conversion is one pass over weights that were just read and needs no second copy in memory; the cache saves this
pass, and reading hundreds of small tensors per layer. It is as large as the packed experts of the checkpoint.
"""

import hashlib
import importlib
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from model_runtime.checkpoint.reader import Fingerprint
from model_runtime.checkpoint.shard import read_head
from model_runtime.checkpoint.writer import TensorSpec, write_shard
from model_runtime.errors import CheckpointError, require
from model_runtime.parallel.comm import Comm

LAYOUT = 1
"""Version of the layout, incremented with each change: files of another version are not read."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFiles:
    """Cache files of one rank of one checkpoint.

    Attributes:
        folder: Folder of the files; created with the first one.
        rank: Part of the model in the files, `R-of-S`.
        device: Device of the loaded tensors.
    """

    folder: Path
    rank: str
    device: torch.device

    def get_or_make(self, name: str, make: Callable[[], Any]) -> object:
        """Return the content of the file `name`; if it is missing or broken, call `make` and save the result.

        `make` returns a dataclass of this package whose fields are tensors; `name` is that of a module, for example
        `language_model.model.layers.1.mlp.experts.`.
        """
        path = self.folder / f"{name.strip('.')}.{self.rank}.safetensors"
        try:
            return self._read(path)
        except FileNotFoundError:
            pass
        except (OSError, CheckpointError, ValueError) as error:
            log.warning("%s cannot be used and is made again: %s", path, error)
        value = make()
        try:
            _write(path, value)
        except OSError as error:
            log.warning("%s cannot be kept, the next start makes it again: %s", path, error.strerror or error)
        return value

    def _read(self, path: Path) -> Any:
        kind = _find_class(path.with_suffix(".json").read_text("utf-8"))
        head = read_head(path)
        values = {}
        with require("safetensors").safe_open(path, framework="pt") as file:
            for field in fields(kind):
                if field.name not in head:
                    raise CheckpointError(f"no {field.name} in {path.name}")
                stored = file.get_tensor(field.name)  # a view of the mapped file
                values[field.name] = torch.empty_like(stored, device=self.device).copy_(stored)
        return kind(**values)


def open_prepared(root: Path, fingerprint: Fingerprint, comm: Comm, device: torch.device) -> PreparedFiles:
    """Return the files under `root` for a checkpoint with this fingerprint and for this rank."""
    key = hashlib.sha256(json.dumps([LAYOUT, fingerprint]).encode()).hexdigest()[:16]
    return PreparedFiles(folder=root.expanduser() / key, rank=f"{comm.rank}-of-{comm.size}", device=device)


def _write(path: Path, prepared: Any) -> None:
    """Write both files under temporary names first, so that an interrupted start leaves no file that looks complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {field.name: getattr(prepared, field.name) for field in fields(prepared)}
    plan = {
        name: TensorSpec(str(value.dtype).removeprefix("torch."), tuple(value.shape)) for name, value in tensors.items()
    }
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        write_shard(part, plan, ((name, value.cpu()) for name, value in tensors.items()))
        part.replace(path)
        part.write_text(f"{type(prepared).__module__}:{type(prepared).__qualname__}", "utf-8")
        part.replace(path.with_suffix(".json"))
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _find_class(text: str) -> Any:
    """Return the class that a file was made from; only modules of this package are imported."""
    module, _, name = text.partition(":")
    if not module.startswith("model_runtime."):
        raise CheckpointError(f"made from {text!r}, which is not a class of this package")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CheckpointError(f"made from {text!r}, which does not exist any more") from error
