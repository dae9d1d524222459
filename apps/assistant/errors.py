"""The error that the API answers with another status than the rest."""

from cua.errors import CuaError


class NotFoundError(CuaError):
    """The thing that was named does not exist: 404 in the API, where other errors are 400."""
