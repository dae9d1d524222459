"""Where the pages of MiniWoB++ lie."""

import importlib.metadata
import importlib.util
from pathlib import Path

from envs.errors import EnvSetupError

VERSION = "1.1.0"
"""Of PyPI's `miniwob`; the pages of another one may draw or reward differently."""


def installed_dir() -> Path:
    """Where `cua setup miniwob` puts the pages: this folder has `html/` in it."""
    import platformdirs

    return platformdirs.user_data_path("k25") / f"miniwob-{VERSION}"


def find_pages() -> Path | None:
    """The folder with `miniwob/`, `core/` and `common/`: what `cua setup` unpacked, else the installed package's."""
    for html in (installed_dir() / "html", _package_dir()):
        if html is not None and has_pages(html):
            return html
    return None


def get_pages() -> Path:
    """The same folder.

    Raises:
        EnvSetupError: The pages are not on this machine.
    """
    html = find_pages()
    if html is None:
        raise EnvSetupError(
            f"the pages of MiniWoB++ are not installed: they are not in {installed_dir()}, and there is no package "
            f"miniwob {VERSION}. Get them with: cua setup miniwob"
        )
    return html


def has_pages(html: Path) -> bool:
    """Whether a folder holds the pages, as far as a look tells."""
    return all((html / name).is_file() for name in ("core/core.js", "miniwob/click-test.html", "common/ui_utils.js"))


def _package_dir() -> Path | None:
    """The pages in the package `miniwob`, without importing it, which would load selenium."""
    found = importlib.util.find_spec("miniwob")
    if found is None or not found.submodule_search_locations:
        return None
    try:
        version = importlib.metadata.version("miniwob")
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(found.submodule_search_locations[0]) / "html" if version == VERSION else None
