"""A real desktop with a guest server in front of it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import uvicorn

from envs import InstructionTask
from envs.desktop import DesktopEnv, DesktopOptions
from envs.osworld.env import GuestOptions
from envs.osworld.guest import Guest, make_app

SCREEN_PX = (800, 600)
TOKEN = "a-token"


def find_gui_python() -> Path | None:
    """A Python that has pyautogui, whose folder goes before the others on the guest's PATH."""
    found = (Path(place) / "bin" / "python3" for place in os.environ.get("K25_TEST_GUI_VENV", "").split(":") if place)
    return next((path for path in found if path.exists()), None)


@dataclass(frozen=True)
class Served:
    """A guest that is up."""

    options: GuestOptions
    desktop: DesktopEnv
    guest: Guest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    python = find_gui_python()
    if python is None:
        pytest.skip("no Python with pyautogui: K25_TEST_GUI_VENV names none")
    desktop = DesktopEnv(DesktopOptions(screen_px=SCREEN_PX))
    await desktop.reset(InstructionTask(instruction="Be a guest."))
    environment = {**desktop.environment, "PATH": f"{python.parent}:{desktop.environment['PATH']}"}
    guest = Guest(desktop.display, environment=environment)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(guest, token=TOKEN), log_level="warning"))
    serving = asyncio.ensure_future(server.serve([listening]))
    options = GuestOptions(server_port=listening.getsockname()[1], token=TOKEN, pause_s=0.05, settle_timeout_s=1.0)
    try:
        yield Served(options, desktop, guest)
    finally:
        server.should_exit = True
        await serving
        await desktop.close()
