"""Images of a run, by content: `images/<sha256>.png`, each written once and whole."""

import hashlib
import os
import secrets
from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.run_files import MAX_IMAGE_BYTES, check_no_link, read_inside

FOLDER = "images"


class ImageFolder:
    """The images of one run."""

    def __init__(self, run_dir: Path) -> None:
        """Name the folder; nothing is read or made."""
        self._run_dir = run_dir
        self._folder = run_dir / FOLDER
        self._known: set[str] = set()

    def path(self, sha256: str) -> Path:
        """Where the image of that hash is."""
        return self._folder / f"{sha256}.png"

    def put(self, png: bytes, *, is_durable: bool) -> tuple[str, bool]:
        """Write an image and return its hash; an equal one is not written again, an empty one not at all.

        Returns:
            SHA-256 in hex, or "" for no image; and whether a file was written.

        Raises:
            OSError: The image cannot be written; no half file is left under its name.
            TrajectoryError: The folder of images is a link.
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
        """The image of that hash; b"" for the hash "".

        Raises:
            TrajectoryError: It is not there or not what was written.
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
    """The hash by which an image is named."""
    return hashlib.sha256(png).hexdigest()


def write_atomically(path: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file so that its name shows the old content or the new, never a part.

    Raises:
        OSError: It cannot be written; the temporary file is gone again.
    """
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.part")  # nobody can plant a link there
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
