"""Errors of environments, grouped by who has to act on them, and the import of optional packages."""

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class EnvError(Exception):
    """Failure or wrong setup of the environment itself: the run ends as `error(env)`, never as `failed`.

    It is printed to the operator without a traceback, so the text says what was found, what was expected and how to fix
    it. A single action that failed is not an `EnvError`: its text becomes `Observation.last_action_error`.

    Attributes:
        retryable: True if the same run may work later (a process died or did not answer); False if something has to be
            changed first (a wrong URL, a missing program).
    """

    retryable: bool = True

    def __init__(self, message: str = "", *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable


class EnvSetupError(EnvError):
    """Failure to start the environment (no browser, no X server, unreachable start page, ...)."""

    retryable = False


class EnvDiedError(EnvError):
    """Unexpected end of a running environment (browser killed, X server killed, page process crashed for good)."""


class EvaluationError(Exception):
    """Failure to evaluate a task that is not the fault of the agent or the env; the episode has no score."""


class ActionError(Exception):
    """Failure of a single action; the env turns it into `last_action_error`."""


class OutdatedError(ActionError):
    """Refusal of input because the screen has changed since it was decided on; nothing was done."""


class AddressError(ActionError):
    """Address that cannot be opened here, or that the domain rules block."""


class MissingDependencyError(EnvError):
    """Missing optional package; the text holds the exact install command."""

    retryable = False


def describe_late(num_done: int, num_actions: int, limit_s: float) -> str:
    """Return the error for the agent when a step exceeded its time limit before all actions were executed."""
    return (
        f"this step took longer than {limit_s:g} s: {num_done} of its {num_actions} actions were carried out, "
        "the others were not. Do less in one step"
    )


def nearest(name: str, choices: Iterable[str], count: int = 1) -> list[str]:
    """Return up to `count` choices that are spelt most like `name`, ignoring case, best first; often none."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name[:60].lower(), by_lower, n=count, cutoff=0.6)
    return [by_lower[choice] for choice in close]


def did_you_mean(name: str, choices: Iterable[str], count: int = 1) -> str:
    """Return a clause for an error text, "; did you mean 'x'?"; empty if no choice is similar."""
    near = nearest(name, choices, count)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module inside the function that needs it.

    Args:
        module: Dotted module name, for example `"playwright.async_api"`.
        extra: Extra of the distribution that installs it, for example `"browser"`.

    Returns:
        The imported module.

    Raises:
        MissingDependencyError: If the package is not installed; the text holds the install command.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise MissingDependencyError(
            f"the package {module.split('.')[0]!r} is not installed, and this needs it. "
            f"Install it with: pip install 'cua-k25[{extra}]'"
        ) from error
