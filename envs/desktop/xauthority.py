"""The cookie file that lets only an env's own programs connect to its private X server."""

import os
import secrets
import socket
import struct
from pathlib import Path

_FAMILY_LOCAL = 256  # Source: X11/Xauth.h
_FAMILY_WILD = 65535  # Source: X11/Xauth.h


def save_xauthority(path: Path) -> None:
    """Write a new random cookie that holds for any display number.

    Two entries carry the same cookie: one for this host's name (python-xlib looks for that one only)
    and one for any host (a name that changes must not lock programs out).
    """
    cookie = secrets.token_bytes(16)
    entries = ((_FAMILY_LOCAL, socket.gethostname().encode()), (_FAMILY_WILD, b""))
    data = b"".join(
        struct.pack(">H", family) + b"".join(map(_counted, (address, b"", b"MIT-MAGIC-COOKIE-1", cookie)))
        for family, address in entries
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _counted(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data
