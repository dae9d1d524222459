"""Optional packages that are imported at their first use, so that importing a module here costs nothing."""

from typing import Any

from visual_tools.errors import require


class Package:
    """A package that `extra` of the distribution brings; its first attribute imports it.

    Raises:
        MissingPackageError: From the first attribute on, where it is not installed.
    """

    def __init__(self, module: str, extra: str) -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        value = getattr(require(self._module, self._extra), name)
        setattr(self, name, value)
        return value


cv2: Any = Package("cv2", "visual")
