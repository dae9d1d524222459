"""Errors with a status of their own in the API, and the limit of uploads."""

from cua.errors import CuaError

MAX_FILE_BYTES = 100 * 2**20
"""Limit of an uploaded file; with that of all uploads it bounds the disk that a page can fill."""
FILE_TOO_LARGE = f"the file is larger than {MAX_FILE_BYTES >> 20} MB"


class NotFoundError(CuaError):
    """Requested item does not exist: 404 in the API, where other errors are 400."""


class FileTooLargeError(CuaError):
    """File over the limit: 413 in the API."""
