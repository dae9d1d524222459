"""What can go wrong in an environment, told apart by who has to act on it; packages that are optional."""

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class EnvError(Exception):
    """The environment itself broke or was set up wrongly: the run ends as `error(env)`, never as `failed`.

    Printed to the operator without a traceback, so the text says what was found, what was expected
    and how to mend it. A single action that did not work is not an `EnvError`: its text becomes
    `Observation.last_action_error`.

    Attributes:
        retryable: True if the same run may work later (something died, or did not answer); False if something has to be
            changed first (a wrong address, a missing program).
    """

    retryable: bool = True

    def __init__(self, message: str = "", *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable


class EnvSetupError(EnvError):
    """The environment could not be started (no browser, no X server, unreachable start page, ...)."""

    retryable = False


class EnvDiedError(EnvError):
    """The environment was running and is gone (browser killed, X server killed, page process crashed for good)."""


class EvaluationError(Exception):
    """A task's verdict could not be reached, through no fault of the agent or of the env: it counts as no score."""


class ActionError(Exception):
    """One action could not be carried out; the env turns it into `last_action_error`."""


class OutdatedError(ActionError):
    """Input was refused because the screen is not the one that it was decided on any more; nothing was done."""


class AddressError(ActionError):
    """Something is no address that can be opened here, or one that the domain rules block."""


class MissingDependencyError(EnvError):
    """An optional package is not installed; the text holds the exact install line."""

    retryable = False


def describe_late(num_done: int, num_actions: int, limit_s: float) -> str:
    """What an agent is told when a step took too long to be carried out whole."""
    return (
        f"this step took longer than {limit_s:g} s: {num_done} of its {num_actions} actions were carried out, "
        "the others were not. Do less in one step"
    )


def nearest(name: str, choices: Iterable[str], count: int = 1) -> list[str]:
    """The choices that are spelt most like `name`, case-blind, the best first; at most `count`, often none."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name[:60].lower(), by_lower, n=count, cutoff=0.6)
    return [by_lower[choice] for choice in close]


def did_you_mean(name: str, choices: Iterable[str], count: int = 1) -> str:
    """A clause for an error text, "; did you mean 'x'?"; empty where nothing is near."""
    near = nearest(name, choices, count)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def require(module: str, extra: str) -> ModuleType:
    """Import `module` inside the function that needs it.

    Args:
        module: Dotted module name, for example `"playwright.async_api"`.
        extra: The extra of the distribution that brings it, for example `"browser"`.

    Returns:
        The imported module.

    Raises:
        MissingDependencyError: The package is not installed; the text is the line to type.
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
