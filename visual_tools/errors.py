"""Errors that the caller of a function can fix, and the import of optional packages.

VisualError            what was found, what was expected, what to do
├── ImageError         an image or document cannot be read or does not fit the request
├── VideoError         a video cannot be read or does not fit the request
├── SandboxError       code cannot be run in isolation here
└── MissingPackageError  an optional package is not installed (`visual_tools.errors`)
"""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType


class VisualError(Exception):
    """Error that the caller can fix; the text says what was found, what was expected, what to do."""


class ImageError(VisualError):
    """Image or document that cannot be read, or an argument that does not fit it."""


class VideoError(VisualError):
    """Video that cannot be read, or an argument that does not fit it."""


class SandboxError(VisualError):
    """Failure to isolate code on this machine, or to start a kernel."""


class MissingPackageError(VisualError):
    """Missing optional package; the text is the install command."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module such as `"cv2"`, which `extra` installs; call it inside the function that needs it.

    Raises:
        MissingPackageError: If the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise MissingPackageError(_install_line(module, extra)) from error


def find_package_dir(package: str, extra: str) -> Path:
    """Return the folder of an installed package without importing it.

    Raises:
        MissingPackageError: If the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPackageError(_install_line(package, extra))
    return Path(spec.origin).parent


def _install_line(module: str, extra: str) -> str:
    name = module.split(".")[0]
    return f"the package {name!r} is not installed, and this needs it. Install it with: pip install 'cua-k25[{extra}]'"
