"""Who can mend what, and packages that are only needed for some things.

RuntimeFault              the operator: what was found, what was expected, what to do; printed in one line
├── ConfigError           config.json contradicts itself or names something this runtime does not have
├── CheckpointError       tensors are missing, extra, misshapen, truncated or corrupt
├── CapacityError         it does not fit: memory, context, ranks
├── EngineDead            the engine or one of its ranks has ended; requests in flight are lost
└── MissingPackageError   an optional package is not installed (`require`)
RequestError              the client: one request is wrong; the server answers it in OpenAI's shape
├── MediaError            an image or video cannot be read, or breaks a limit
└── BusyError             the queue is full; try again after `retry_after_s`
"""

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class RuntimeFault(Exception):
    """Something the operator can mend; the text says what was found, what was expected, what to do."""


class ConfigError(RuntimeFault):
    """config.json contradicts itself, or names something this runtime does not have."""


class CheckpointError(RuntimeFault):
    """Tensors are missing, extra or misshapen, or a file is truncated or corrupt."""


class CapacityError(RuntimeFault):
    """The model, its cache or a batch does not fit."""


class EngineDead(RuntimeFault):
    """The engine, or one of its ranks, has ended."""


class RequestError(Exception):
    """One request is wrong.

    Args:
        message: What was found, what was expected, what to do.
        param: The field of the request that is wrong, for example `"messages.2.content"`.
        code: A short machine-readable name, for example `"context_length_exceeded"`.
        status: HTTP status that says who is at fault.
    """

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = "invalid_value", status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


class MediaError(RequestError):
    """An image or video of a request cannot be read, or breaks a limit."""


class BusyError(RequestError):
    """The server has as much to do as it takes; `retry_after_s` says when to try again."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message, code="server_busy", status=429)
        self.retry_after_s = retry_after_s


class MissingPackageError(RuntimeFault):
    """An optional package is not installed; the text is the line to type."""


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that is spelt most like `name`, case-blind; often none."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name[:60].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A clause for an error text, "; did you mean 'x'?"; empty where nothing is near."""
    near = nearest(name, choices)
    return f"; did you mean {near!r}?" if near else ""


def require(module: str, extra: str = "runtime") -> ModuleType:
    """Import a module, such as `"torch"`, inside the function that needs it; `extra` of the distribution brings it.

    Raises:
        MissingPackageError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        name = module.split(".")[0]
        text = f"the package {name!r} is not installed, and this needs it. Install it with: "
        raise MissingPackageError(f"{text}pip install 'cua-k25[{extra}]'") from error
