"""Images of a run, by content: `images/<sha256>.png`, each written once and atomically."""

import hashlib
import os
import secrets
from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.run_files import MAX_IMAGE_BYTES, check_no_link, read_inside

FOLDER = "images"


class ImageFolder:
    """Images of one run."""

    def __init__(self, run_dir: Path) -> None:
        """Set the folder; nothing is read or made."""
        self._run_dir = run_dir
        self._folder = run_dir / FOLDER
        self._known: set[str] = set()

    def path(self, sha256: str) -> Path:
        """Return the path of the image with the given hash."""
        return self._folder / f"{sha256}.png"

    def put(self, png: bytes, *, is_durable: bool) -> tuple[str, bool]:
        """Write an image and return its hash; an existing image is not written again, an empty one not at all.

        Returns:
            SHA-256 in hex, or "" for an empty image; and True if a file was written.

        Raises:
            OSError: If the image cannot be written; no partial file is left under its name.
            TrajectoryError: If the folder of images is a link.
        """
        if not png:
            return "", False
        check_no_link(self._folder)
        sha256 = sha256_of(png)
        is_new = sha256 not in self._known and not self._is_whole(sha256, len(png))
        if is_new:
            write_atomically(self.path(sha256), png, is_durable=is_durable)
        self._known.add(sha256)
        return sha256, is_new

    def get(self, sha256: str) -> bytes:
        """Return the image with the given hash; b"" for the hash "".

        Raises:
            TrajectoryError: If it is missing or its content has changed.
        """
        if not sha256:
            return b""
        path = self.path(sha256)
        try:
            png = read_inside(self._run_dir, f"{FOLDER}/{sha256}.png", max_bytes=MAX_IMAGE_BYTES)
        except OSError as error:
            raise TrajectoryError(f"the record needs the image {path}: {error.strerror}") from error
        if sha256_of(png) != sha256:
            raise TrajectoryError(f"the image {path} is damaged: its content does not match its name")
        return png

    def _is_whole(self, sha256: str, size_bytes: int) -> bool:
        try:
            return self.path(sha256).lstat().st_size == size_bytes
        except FileNotFoundError:
            return False


def sha256_of(png: bytes) -> str:
    """Return the hash that names an image."""
    return hashlib.sha256(png).hexdigest()


def write_atomically(path: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file atomically: its name has the old content or the new, never a part.

    Raises:
        OSError: If it cannot be written; the temporary file is removed.
    """
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.part")  # a link cannot be planted there
    try:
        with draft.open("xb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            if is_durable:
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
