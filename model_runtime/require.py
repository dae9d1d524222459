"""Import an optional package, or say how to install it."""

import importlib
from types import ModuleType

from model_runtime.errors import RuntimeFault


class MissingPackageError(RuntimeFault):
    """An optional package is not installed; the text is the line to type."""


def require(module: str, extra: str = "runtime") -> ModuleType:
    """Import `module` inside the function that needs it.

    Args:
        module: Dotted module name, for example `"torch"`.
        extra: The extra of the distribution that brings it.

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
