"""Optional packages that are imported at first use, so that importing a module does not load them."""

from typing import Any

from visual_tools.errors import require


class LazyPackage:
    """Proxy of an optional package, which is imported on the first attribute access; `extra` is its extra.

    Raises:
        MissingPackageError: On attribute access, if the package is not installed.
    """

    def __init__(self, module: str, extra: str) -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        value = getattr(require(self._module, self._extra), name)
        setattr(self, name, value)
        return value


cv2 = LazyPackage("cv2", "visual")
