"""A real desktop with a guest server in front of it."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from envs import InstructionTask
from envs.desktop import DesktopEnv, DesktopOptions
from envs.desktop.private_display import find_window_manager, find_xvfb
from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.guest import Guest
from envs.suites.osworld.guest_server import make_app

SCREEN_PX = (800, 600)
TOKEN = "a-token"


GUEST_PROGRAMS = Path(sys.prefix) / "guest"
"""pyautogui, for the programs that a guest runs; `scripts/bootstrap.sh dev` puts it there."""


@dataclass(frozen=True)
class Served:
    """A guest that is up."""

    options: GuestOptions
    desktop: DesktopEnv
    guest: Guest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    if not (GUEST_PROGRAMS / "pyautogui").is_dir():
        pytest.skip("pyautogui is not in .venv/guest: scripts/bootstrap.sh dev puts it there")
    if find_xvfb() is None or find_window_manager("openbox") is None:
        pytest.skip("Xvfb and openbox are not installed")
    desktop = DesktopEnv(DesktopOptions(screen_px=SCREEN_PX, env={"NO_AT_BRIDGE": "0"}))
    await desktop.reset(InstructionTask(instruction="Be a guest."))
    try:
        async with serve(desktop) as made:
            yield made
    finally:
        await desktop.close()


@asynccontextmanager
async def serve(
    desktop: DesktopEnv, wrap: Callable[[Any], Any] = lambda app: app, **environment: str
) -> AsyncIterator[Served]:
    """A guest server in front of a desktop, whose programs have these variables as well; `wrap` gets its ASGI app."""
    places = {"PATH": f"{sys.prefix}/bin:{desktop.environment['PATH']}", "PYTHONPATH": str(GUEST_PROGRAMS)}
    guest = Guest(desktop.display, environment={**desktop.environment, **places, **environment})
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # clients may come before the server does
    server = uvicorn.Server(uvicorn.Config(wrap(make_app(guest, token=TOKEN)), log_level="warning"))
    serving = asyncio.ensure_future(server.serve([listening]))
    options = GuestOptions(server_port=listening.getsockname()[1], token=TOKEN, pause_s=0.05, settle_timeout_s=1.0)
    try:
        yield Served(options, desktop, guest)
    finally:
        server.should_exit = True
        await serving
