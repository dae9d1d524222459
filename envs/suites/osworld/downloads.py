"""Files that tasks bring along from the web, kept in the task's folder here; what is there already is not asked for."""

import asyncio
import os
from pathlib import Path

from envs.errors import EnvError, EnvSetupError

_MAX_BYTES = 2**30
_TIMEOUT_S = 60.0
"""Longest wait for the next part of a file."""
_FILE_TIMEOUT_S = 1800.0
"""Longest wait for a whole file."""
_PAUSES_S = (0.5, 2.0)
"""Before the second and the third try."""


async def get_file(url: str, path: Path) -> None:
    """Have a file of the web at a path; it is there whole or not at all.

    Args:
        url: Where it comes from, http or https.
        path: Where it is kept; nothing is asked for when it is there.

    Raises:
        EnvSetupError: It cannot be had; the text says where to put it by hand.
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
    """One try; why it failed, or nothing."""
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
        EnvError: The name leads out of it.
    """
    path = Path(os.path.normpath(folder / name))
    if not name or not path.is_relative_to(folder):
        raise EnvError(f"the file name {name[:200]!r} leads out of the task's folder", retryable=False)
    return path
