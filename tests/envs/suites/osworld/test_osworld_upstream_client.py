"""Upstream's own client drives our guest server through its whole surface; its files are as PyPI has them."""

import asyncio
import functools
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.guest_client import GuestClient
from envs.suites.osworld.local import LocalGuest, LocalOptions
from tests.envs.suites.osworld.test_osworld_local import why_skip

VARIABLE = "K25_DESKTOP_ENV"
CLIENT = Path(__file__).with_name("upstream_client.py")
DIGESTS = {
    "python.py": "522c8e3965f9b5c275778e50b7bd9df90d3a66886b391eb6a88d32f98f4c183e",
    "setup.py": "8be54f45b0ef41ebf3f75faaafa4c104a0ecbd1fb2f31e23e460feb96da824e8",
}
"""SHA-256 of the two files in desktop-env 1.0.2."""
NEEDED = ("mousepad", "xterm", "gsettings", "xdg-open", "ffmpeg", "wmctrl")


@functools.cache
def why_not_here() -> str:
    """What is missing; "" when nothing is."""
    if why_skip():
        return why_skip()
    if not os.environ.get(VARIABLE):
        return (
            f"{VARIABLE} names no virtual environment: python3 -m venv DIR; DIR/bin/pip install requests "
            "requests-toolbelt python-dotenv playwright; DIR/bin/pip install --no-deps desktop-env==1.0.2"
        )
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed: cua setup osworld-local" if missing else ""


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())]


def test_its_files_are_unmodified() -> None:
    python = Path(os.environ[VARIABLE]) / "bin" / "python"
    code = "import importlib.util as u; print(u.find_spec('desktop_env').submodule_search_locations[0])"
    folder = Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    for name, digest in DIGESTS.items():
        assert hashlib.sha256((folder / "controllers" / name).read_bytes()).hexdigest() == digest, name


async def test_the_whole_surface() -> None:
    async with LocalGuest(LocalOptions(screen_px=(1280, 720))) as guest:
        options = await guest.fresh(GuestOptions())
        found = await drive(options)
        client = GuestClient(options.base_url)
        windows = (await client.execute(["wmctrl", "-l"])).stdout
        await client.close()
    assert (found["setup"], found["width"], found["end"]) == (True, "1920\n", True)
    assert (found["screenshot"], found["video"], found["none"]) == ("89504e47", "ftyp", None)
    assert found["a11y"].startswith("<desktop-frame") and "Upstream says hello" in found["a11y"]
    assert found["terminal"] is None
    assert found["python"]["returncode"] == 0 and found["python"]["output"].startswith("Point(")
    assert found["failing"]["returncode"] == 3 and found["failing"]["status"] == "success"
    assert (found["script"]["status"], found["script"]["output"]) == ("success", "42\n")
    bash = {"status": "error", "output": "/tmp\n", "error": "to-stderr\n", "returncode": 4}
    assert found["bash"] == bash
    assert (found["platform"], found["screen"]) == ("Linux", {"width": 1280, "height": 720})
    assert set(found["window"]) == {"width", "height"}
    assert found["wallpaper"].startswith("iVBORw0KGgo")
    assert found["desktop"] == "/home/user/Desktop"
    file = {"type": "file", "name": "uploaded.txt"}
    folder = {"type": "directory", "name": "a", "children": [file]}
    assert found["tree"] == {"type": "directory", "name": "Documents", "children": [folder]}
    assert "Upstream says hello" in found["file"]
    assert "upstream" in windows and "uploaded.txt" not in windows
    assert found.get("tabs", True) is True


async def drive(options: GuestOptions) -> dict[str, Any]:
    """What upstream's client says."""
    ports = (str(options.server_port), str(options.chromium_port))
    process = await asyncio.create_subprocess_exec(
        str(Path(os.environ[VARIABLE]) / "bin" / "python"),
        *(str(CLIENT), "127.0.0.1", *ports),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_PROXY": "*", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    said, complained = await asyncio.wait_for(process.communicate(), 240.0)
    assert process.returncode == 0, complained.decode()[-3000:]
    return {name: value for line in said.splitlines() for name, value in json.loads(line).items()}
