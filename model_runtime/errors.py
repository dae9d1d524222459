"""Exceptions by the person who can fix the cause, and import of optional packages.

RuntimeFault              the operator: found, expected, and remedy; printed in one line
├── ConfigError           config.json contradicts itself or names something this runtime does not have
├── CheckpointError       tensors are missing, extra, misshapen, truncated or corrupt
├── CapacityError         memory, context or ranks are not sufficient
├── EngineDead            the engine or one of its ranks has exited; requests in flight are lost
└── MissingPackageError   an optional package is not installed (`require`)
RequestError              the client: one request is invalid; the server answers it in OpenAI's shape
├── MediaError            an image or video cannot be read, or exceeds a limit
└── BusyError             the queue is full; try again after `retry_after_s`
"""

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class RuntimeFault(Exception):
    """Error that the operator can fix; the text has the found and expected values and the remedy."""


class ConfigError(RuntimeFault):
    """Error for a config.json that contradicts itself, or needs a feature that this runtime does not have."""


class CheckpointError(RuntimeFault):
    """Error for missing, extra or misshapen tensors, or a truncated or corrupt file."""


class CapacityError(RuntimeFault):
    """Error for a model, cache or batch that does not fit."""


class EngineDead(RuntimeFault):
    """Error for an engine, or a rank of it, that has exited."""


class InvalidRequestError(Exception):
    """Error of one request.

    Args:
        message: Found and expected values, and the remedy.
        param: Invalid field of the request, for example `"messages.2.content"`.
        code: Short machine-readable name, for example `"context_length_exceeded"`.
        status: HTTP status that shows whether the client or the server is at fault.
    """

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = "invalid_value", status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


class MediaError(InvalidRequestError):
    """Error for an image or video of a request that cannot be read, or exceeds a limit."""


class BusyError(InvalidRequestError):
    """Error for a server at capacity; the client should retry after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message, code="server_busy", status=429)
        self.retry_after_s = retry_after_s


class MissingPackageError(RuntimeFault):
    """Error for a missing optional package; the text has the install command."""


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to `name`, ignoring case; often there is none."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name[:60].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return a clause for an error text, "; did you mean 'x'?"; empty if there is no similar choice."""
    near = nearest(name, choices)
    return f"; did you mean {near!r}?" if near else ""


def require(module: str, extra: str = "runtime") -> ModuleType:
    """Import a module, such as `"torch"`, inside the function that needs it; `extra` is the distribution's extra to
    install.

    Raises:
        MissingPackageError: If the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        name = module.split(".")[0]
        text = f"the package {name!r} is not installed, and this needs it. Install it with: "
        raise MissingPackageError(f"{text}pip install 'cua-k25[{extra}]'") from error
