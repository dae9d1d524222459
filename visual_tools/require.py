"""Import an optional package, or say how to install it."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from visual_tools.errors import VisualError


class MissingPackageError(VisualError):
    """An optional package is not installed; the text is the line to type."""


def require(module: str, extra: str) -> ModuleType:
    """Import `module` inside the function that needs it.

    Args:
        module: Dotted module name, for example `"cv2"`.
        extra: The extra of the distribution that brings it, for example `"literal"`.

    Raises:
        MissingPackageError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise MissingPackageError(_install_line(module, extra)) from error


def find_package_dir(package: str, extra: str) -> Path:
    """Folder of an installed package, found without importing it.

    Raises:
        MissingPackageError: The package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPackageError(_install_line(package, extra))
    return Path(spec.origin).parent


def _install_line(module: str, extra: str) -> str:
    name = module.split(".")[0]
    return f"the package {name!r} is not installed, and this needs it. Install it with: pip install 'cua-k25[{extra}]'"
