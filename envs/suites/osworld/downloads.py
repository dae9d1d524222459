"""Download task files from the web into the task's local folder; existing files are not requested."""

import asyncio
import os
from pathlib import Path

from envs.errors import EnvError, EnvSetupError

_MAX_BYTES = 2**30  # bounds the disk space that a task's file takes
_TIMEOUT_S = 60.0
"""Maximum wait for the next part of a file."""
_FILE_TIMEOUT_S = 1800.0
"""Maximum wait for a whole file."""
_PAUSES_S = (0.5, 2.0)
"""Pauses before the second and the third attempt."""


async def get_file(url: str, path: Path) -> None:
    """Download a file to a path; it is written atomically.

    Args:
        url: Address of the file, http or https.
        path: Target path; an existing file is kept.

    Raises:
        EnvSetupError: If the download fails; the message says where to put the file by hand.
    """
    if await asyncio.to_thread(path.is_file):
        return
    by_hand = f"put it into {path.parent} as {path.name}, as downloaded from {url}"
    if not url.startswith(("https://", "http://")):
        raise EnvSetupError(f"a file cannot be downloaded from there; {by_hand}")
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    why = ""
    for pause_s in (*_PAUSES_S, None):
        why = await _download(url, path)
        if not why:
            return
        if pause_s is not None:
            await asyncio.sleep(pause_s)
    raise EnvSetupError(f"a file of the task cannot be downloaded: {why}; {by_hand}", retryable=True)


async def _download(url: str, path: Path) -> str:
    """Download once; return the error, or ""."""
    import httpx

    part = path.with_name(f"{path.name}.part-{os.getpid()}-{id(asyncio.current_task())}")
    size = 0
    try:
        async with (
            asyncio.timeout(_FILE_TIMEOUT_S),
            httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=True) as client,
            client.stream("GET", url) as answer,
        ):
            answer.raise_for_status()
            kind = answer.headers.get("content-type", "")
            if kind.startswith("text/html") and not path.name.lower().endswith((".html", ".htm")):
                return "a page of HTML comes in its place, such as that of a proxy or a login"
            with part.open("wb") as file:
                async for chunk in answer.aiter_bytes():
                    size += len(chunk)
                    if size > _MAX_BYTES:
                        return f"it has more than {_MAX_BYTES} bytes"
                    file.write(chunk)
        part.replace(path)
    except TimeoutError:
        return f"it takes longer than {_FILE_TIMEOUT_S:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return (str(error) or type(error).__name__).splitlines()[0]
    finally:
        part.unlink(missing_ok=True)
    return ""


def inside(folder: Path, name: str) -> Path:
    """Return a path below a folder.

    Raises:
        EnvError: If the name points outside the folder.
    """
    path = Path(os.path.normpath(folder / name))
    if not name or not path.is_relative_to(folder):
        raise EnvError(f"the file name {name[:200]!r} leads out of the task's folder", retryable=False)
    return path
