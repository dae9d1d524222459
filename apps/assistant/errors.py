"""Error with a status of its own in the API."""

from cua.errors import CuaError


class NotFoundError(CuaError):
    """Requested item does not exist: 404 in the API, where other errors are 400."""


class FileTooLargeError(CuaError):
    """File over the limit: 413 in the API."""
