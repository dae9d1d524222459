"""Folders of a browser: where downloads go and what may be uploaded."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from envs.browser.options import BrowserOptions
from envs.browser.redact import STARS, Redactor
from envs.errors import EnvSetupError

if TYPE_CHECKING:
    from playwright.async_api import Download


class Folders:
    """The folders that the options name, or temporary ones.

    Attributes:
        downloads: Where downloads are saved.
        uploads: Where files to upload are taken from; None when there are none.
    """

    def __init__(self, options: BrowserOptions) -> None:
        self._temporary: Path | None = None
        self._redact = Redactor(options.masked_texts)
        self.uploads = Path(options.uploads_dir) if options.uploads_dir is not None else None
        if self.uploads is not None and not self.uploads.is_dir():
            raise EnvSetupError(f"uploads_dir {self.uploads} is not a folder")
        if options.downloads_dir is not None:
            self.downloads = Path(options.downloads_dir)
            self.downloads.mkdir(parents=True, exist_ok=True)
        else:
            self.downloads = self._temporary = Path(tempfile.mkdtemp(prefix="k25-downloads-"))

    async def save(self, download: "Download") -> str:
        """Save a download under a name of its own; returns what to tell the agent."""
        from playwright.async_api import Error

        name = self._redact(Path(download.suggested_filename).name or "download").replace(STARS, "secret")
        path = self._free_path(name)
        path.touch()  # the name is taken from here on, also for a second download at the same time
        try:
            await download.save_as(path)
        except Error as error:
            path.unlink(missing_ok=True)
            return f"the download of {name!r} failed: {error.message.splitlines()[0]}"
        return f"{path.name!r} was downloaded ({path.stat().st_size} bytes) to {path}"

    def remove_temporary(self) -> None:
        """Remove what was made here and nobody asked for."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _free_path(self, name: str) -> Path:
        path = self.downloads / name
        number = 1
        while path.exists():
            path = self.downloads / f"{Path(name).stem} ({number}){Path(name).suffix}"
            number += 1
        return path
