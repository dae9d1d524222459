"""Import an optional package, or say how to install it."""

import importlib
from types import ModuleType

from envs.errors import MissingDependencyError


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
