"""Locks, change records and resets of sites, across the processes of one machine.

A task that changes a site has exclusive access, and is recorded before it starts, so that the change is known even if
the process was killed. If a reset command is configured, the next task on the site runs it first.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from envs.errors import EnvSetupError
from envs.suites.webarena.sites import Site

_POLL_S = 0.1
_ASK_S, _ASK_TIMEOUT_S = 1.0, 10.0
_MAX_CHANGES = 2_000
_MAX_OUTPUT_BYTES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReservation:
    """Sites reserved for a task.

    Attributes:
        warnings: One line for each site that was changed before and not reset, with the tasks that changed it.
        changes_before: Number of tasks that changed a site since its last reset, by site name.
    """

    warnings: tuple[str, ...]
    changes_before: Mapping[str, int]


@asynccontextmanager
async def reserve_sites(
    sites: Iterable[Site], *, task_id: str, alone: bool, timeout_s: float
) -> AsyncIterator[SiteReservation]:
    """Reserve sites for a task, and reset changed sites if a reset command is configured.

    Args:
        sites: Sites to reserve.
        task_id: Id of the task; recorded at each site if `alone`.
        alone: True if the task changes the sites.
        timeout_s: Maximum wait for all of them.

    Yields:
        State of the sites.

    Raises:
        EnvSetupError: If a site is not released in time, or cannot be reset.
    """
    sites = list(sites)
    async with AsyncExitStack() as held:
        await held.enter_async_context(hold_sites(sites, alone=alone, timeout_s=timeout_s))
        if not alone and _stale(sites):
            await held.aclose()
            await held.enter_async_context(hold_sites(sites, alone=True, timeout_s=timeout_s))
        for site in _stale(sites):
            await reset_site(site)
        warnings, before = [], {}
        for site in sites:
            changes = load_changes(site)
            before[site.name] = len(changes)
            if changes:
                warnings.append(f"{site.name} was not put back since {describe_changes(changes)}")
            if alone:
                _save_changes(site, [*changes, task_id])
        yield SiteReservation(warnings=tuple(warnings), changes_before=before)


def _stale(sites: Iterable[Site]) -> list[Site]:
    return [site for site in sites if site.reset and load_changes(site)]


async def reset_site(site: Site) -> None:
    """Run the reset command of a site, and wait until the site answers. Its processes are killed after a failure.

    Raises:
        EnvSetupError: If the command fails, or the command or the site takes too long.
    """
    try:
        async with asyncio.timeout(site.reset_timeout_s):
            await _run_command(site)
            await _wait_until_it_answers(site)
    except TimeoutError as error:
        raise EnvSetupError(
            f"{site.name} was not put back within {site.reset_timeout_s:g} s by {site.reset!r}", retryable=True
        ) from error
    _save_changes(site, [])


async def _run_command(site: Site) -> None:
    process = await asyncio.create_subprocess_shell(
        site.reset,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "K25_SITE": site.name, "K25_SITE_URL": site.url},
    )
    tail = bytearray()
    reading = asyncio.create_task(_read_tail(process, tail))
    code = None
    try:
        code = await process.wait()
        await asyncio.wait({reading}, timeout=1.0)  # a process that is still running may keep the output open
    finally:
        reading.cancel()
        if code != 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        last = (tail.decode("utf-8", "replace").strip().splitlines() or ["no error output"])[-1]
        raise EnvSetupError(f"the reset command of {site.name} ended with {code}: {last[:300]}", retryable=True)


async def _read_tail(process: asyncio.subprocess.Process, tail: bytearray) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(_MAX_OUTPUT_BYTES):
        tail += chunk
        del tail[:-_MAX_OUTPUT_BYTES]


async def _wait_until_it_answers(site: Site) -> None:
    import httpx

    async with httpx.AsyncClient(timeout=_ASK_TIMEOUT_S) as client:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async with client.stream("GET", site.url) as answer:
                    if site.is_up(answer.status_code, answer.headers.get("location", "")):
                        return
            await asyncio.sleep(_ASK_S)


def load_changes(site: Site) -> tuple[str, ...]:
    """Return the tasks that changed a site since its last reset, in order."""
    try:
        content = json.loads(_file_of(site, "changes").read_text("utf-8"))
        return tuple(str(id) for id in content)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError):
        return ("something unknown",)


def describe_changes(task_ids: Sequence[str]) -> str:
    """Return a summary: `2 tasks changed it, last webarena/600` or `nothing changed it`."""
    if not task_ids:
        return "nothing changed it"
    count = f"{len(task_ids)} tasks" if len(task_ids) > 1 else "1 task"
    return f"{count} changed it, last {task_ids[-1]}"


def _save_changes(site: Site, task_ids: Sequence[str]) -> None:
    path = _file_of(site, "changes")
    if not task_ids:
        path.unlink(missing_ok=True)
        return
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(list(task_ids[-_MAX_CHANGES:])), "utf-8")
    new.replace(path)


@asynccontextmanager
async def hold_sites(sites: Iterable[Site], *, alone: bool, timeout_s: float) -> AsyncIterator[None]:
    """Lock sites, exclusively or shared, across the processes of this machine.

    Args:
        sites: Sites to lock; every caller locks them in the same order, which avoids deadlocks.
        alone: True for an exclusive lock, for a task that changes a site.
        timeout_s: Maximum wait for all of them.

    Raises:
        EnvSetupError: If a site is not released in time.
    """
    until_s = asyncio.get_running_loop().time() + timeout_s
    files: list[int] = []
    try:
        for site in sorted(sites, key=lambda site: site.url):
            files.append(_open_lock(site))
            while not _try_lock(files[-1], alone=alone):
                if asyncio.get_running_loop().time() > until_s:
                    raise EnvSetupError(f"another task kept {site.name} for {timeout_s:g} s", retryable=True)
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        for file in files:
            os.close(file)


def _file_of(site: Site, kind: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"k25-webarena-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise EnvSetupError(f"{folder} belongs to another user; remove it")
    name = hashlib.sha256(site.url.encode()).hexdigest()[:16]
    return folder / f"{name}.{kind}"


def _open_lock(site: Site) -> int:
    return os.open(_file_of(site, "lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(file: int, *, alone: bool) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
