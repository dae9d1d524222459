"""The env of a guest and the guest server, together on a real display."""

import asyncio
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from envs import (
    Click,
    EnvDiedError,
    EnvError,
    EnvSetupError,
    Hotkey,
    InstructionTask,
    KeyDown,
    TaskSpec,
    TypeText,
    Wait,
)
from envs.check_env import check_env
from envs.suites.osworld.atspi import NAMESPACES
from envs.suites.osworld.env import GuestEnv
from tests.envs.desktop.conftest import needs_display, needs_program
from tests.envs.suites.osworld.conftest import SCREEN_PX, Served, serve
from tests.envs.suites.osworld.test_osworld_guest_client import PNG
from tests.envs.suites.osworld.test_osworld_local import has_atspi

pytestmark = [*needs_display, pytest.mark.asyncio(loop_scope="module")]


TASK = InstructionTask(instruction="Act on the guest.")


@pytest.mark.slow
async def test_the_contract_is_kept(served: Served) -> None:
    await check_env(lambda: GuestEnv(served.options))


TEXT = """plain a < b "quotes" 'single' \\n {x} $HOME `id`
\tä ö € 漢字 < 1"""
MANY = "".join(map(chr, range(0x3B1, 0x3C9))) + " < ä \N{GRINNING FACE}"
"""More characters without a key than there are unused keys."""


@pytest.mark.long
@needs_program("mousepad")
async def test_text_arrives_as_it_is(served: Served) -> None:
    env = GuestEnv(served.options)
    try:
        await env.reset(TASK)
        await env.guest.launch(["mousepad"])
        while not await env.guest.window_size_px("mousepad"):
            await asyncio.sleep(0.1)
        result = await env.step([Click(x_px=400, y_px=300), TypeText(text=f"{TEXT}\n{MANY}")])
        assert result.observation.last_action_error is None
        await served.desktop.set_clipboard("")
        await env.step([Hotkey(keys=("ctrl", "a")), Hotkey(keys=("ctrl", "c")), Wait(duration_s=0.3)])
        assert await served.desktop.get_clipboard() == f"{TEXT}\n{MANY}"
        await env.guest.execute(["pkill", "mousepad"])
    finally:
        await env.close()


async def test_another_screen_size_is_told(served: Served) -> None:
    env = GuestEnv(replace(served.options, screen_px=(1920, 1080)))
    with pytest.raises(EnvSetupError, match="screen is 800x600 px, expected 1920x1080"):
        await env.reset(TASK)


@pytest.mark.long
async def test_a_screen_that_changes_its_size_within_a_task_ends_it(served: Served) -> None:
    is_small = False

    def shrinking(app: Any) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if not (is_small and scope.get("path") == "/screenshot"):
                return await app(scope, receive, send)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"image/png")]})
            return await send({"type": "http.response.body", "body": PNG})

        return answer

    async with serve(served.desktop, shrinking) as shrunk:
        env = GuestEnv(shrunk.options)
        try:
            await env.reset(TASK)
            is_small = True
            with pytest.raises(
                EnvDiedError, match="screenshot is 1x1 px, its screen 800x600 px: its screen has changed"
            ):
                await env.step([])
        finally:
            await env.close()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b'{"status": "error", "message": "busy"}', "status 'error': busy"),
        (200, b"", "with empty"),
        (502, b"<html>Bad Gateway</html>", "with 502"),
        (302, b"", None),
        (200, b"<html>Sign in</html>", None),
    ],
)
async def test_an_input_that_the_guest_does_not_confirm_is_never_silent(
    served: Served, status: int, body: bytes, told: str | None
) -> None:
    is_broken = False

    def breaking(app: Any) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if not (is_broken and scope.get("path") == "/execute"):
                return await app(scope, receive, send)
            await send({"type": "http.response.start", "status": status, "headers": [(b"location", b"/login")]})
            return await send({"type": "http.response.body", "body": body})

        return answer

    async with serve(served.desktop, breaking) as broken:
        env = GuestEnv(broken.options)
        try:
            await env.reset(TASK)
            is_broken = True
            if told is None:
                with pytest.raises(EnvError, match="a proxy or login page answers in place of the guest server"):
                    await env.step([Click(x_px=1, y_px=1)])
            else:
                result = await env.step([Click(x_px=1, y_px=1)])
                assert told in str(result.observation.last_action_error)
                await env.step([KeyDown(key="shift")])
                with pytest.raises(EnvError, match="was not released"):
                    await env.release()
        finally:
            await env.close()


async def test_a_wrong_token_is_told(served: Served) -> None:
    with pytest.raises(EnvSetupError, match="a bearer token is wanted"):
        await GuestEnv(replace(served.options, token="other")).reset(TASK)


@pytest.mark.long
async def test_nobody_there_is_told(served: Served) -> None:
    with pytest.raises(EnvSetupError, match="does not answer"):
        await GuestEnv(replace(served.options, server_port=9)).reset(TASK)


async def test_held_keys_are_let_go_at_the_end(served: Served) -> None:
    env = GuestEnv(served.options)
    await env.reset(TASK)
    await env.step([KeyDown(key="shift")])
    assert env.held == {"shift"}
    await env.close()
    keymap = served.guest._backend._display.query_keymap()
    assert not any(keymap)


@pytest.mark.long
async def test_the_surface(served: Served) -> None:
    env = GuestEnv(served.options)
    await env.reset(TASK)
    guest = env.guest
    try:
        assert (await guest.execute("echo $HOME $(id -u)", shell=True)).returncode == 0
        assert (await guest.execute("exit 3", shell=True)).returncode == 3
        assert (await guest.execute(["ls", "~/"])).returncode == 0
        left = await guest.execute("echo said; sleep 1000 & echo $!", shell=True)  # it holds the pipes
        assert left.stdout.startswith("said\n")
        await guest.execute(["kill", left.stdout.split()[1]])
        await guest.upload("~/new/file.bin", b"\0\1")
        assert await guest.read_file("$HOME/new/file.bin") == b"\0\1"
        assert await guest.read_file("~/none") is None
        assert (await guest.list_directory("~/new"))["children"] == [{"type": "file", "name": "file.bin"}]
        assert await guest.screen_size_px() == SCREEN_PX
        assert await guest.platform() == "Linux"
        assert (await guest.run_script("echo a; exit 4")).returncode == 4
        assert await guest.window_size_px("none") is None
        await guest.activate_window("none")
    finally:
        await env.close()


@needs_program("ffmpeg")
async def test_each_episode_is_recorded(served: Served, tmp_path: Path) -> None:
    env = GuestEnv(replace(served.options, recordings_dir=tmp_path / "made"))
    task = InstructionTask(instruction="Be seen.", spec=TaskSpec(id="osworld/os/a"))
    await env.reset(task)
    await env.step([Wait(duration_s=0.5)])
    await env.reset(task)
    await env.close()
    await env.close()
    found = {path.name: path.read_bytes()[4:8] for path in (tmp_path / "made").iterdir()}
    assert found == {"osworld_os_a-1.mp4": b"ftyp", "osworld_os_a-2.mp4": b"ftyp"}


@pytest.mark.long
async def test_a_guest_downloads_by_itself(served: Served, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"content")
    root = f"--directory={tmp_path}"
    web = await asyncio.create_subprocess_exec(
        *(sys.executable, "-um", "http.server", "0", "--bind=127.0.0.1", root),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert web.stdout is not None
    port = (await web.stdout.readline()).split()[5].decode()
    token = {"Authorization": f"Bearer {served.options.token}"}
    try:
        async with httpx.AsyncClient(base_url=served.options.base_url, headers=token, trust_env=False) as client:

            async def download(url: str) -> int:
                body = {"url": url, "path": "~/downloads/got.bin"}
                return (await client.post("/setup/download_file", json=body, timeout=30)).status_code

            got = Path(served.desktop.environment["HOME"]) / "downloads" / "got.bin"
            assert await download(f"http://127.0.0.1:{port}/none") == 500
            assert not await asyncio.to_thread(got.exists)
            assert await download("file:///etc/passwd") == 400
            assert await download(f"http://127.0.0.1:{port}/file.bin") == 200
            assert await asyncio.to_thread(got.read_bytes) == b"content"
    finally:
        web.kill()
        await web.wait()


async def test_the_wallpaper_of_a_guest(served: Served, tmp_path: Path) -> None:
    settings = tmp_path / "bin" / "gsettings"  # in place of GNOME's, which a machine may have or not
    settings.parent.mkdir()
    settings.write_text('#!/bin/sh\n[ "$1" = set ] && { echo "\'$4\'" >"$0.kept"; exit; }\ncat "$0.kept"\n')
    settings.chmod(0o755)
    (tmp_path / "sea.png").write_bytes(b"picture")
    path = f"{settings.parent}:{served.desktop.environment['PATH']}"
    async with serve(served.desktop, PATH=path) as made:
        token = {"Authorization": f"Bearer {made.options.token}"}
        async with httpx.AsyncClient(base_url=made.options.base_url, headers=token, trust_env=False) as client:

            async def change(name: str) -> int:
                return (await client.post("/setup/change_wallpaper", json={"path": str(tmp_path / name)})).status_code

            assert (await client.post("/wallpaper")).status_code == 404
            assert (await change("none.png"), await change("sea.png")) == (404, 200)
            assert (await client.post("/wallpaper")).content == b"picture"


@needs_program("mousepad")
@pytest.mark.skipif(not has_atspi(), reason="gir1.2-atspi-2.0 is not installed")
async def test_the_accessibility_tree(served: Served) -> None:
    env = GuestEnv(served.options)
    await env.reset(TASK)
    try:
        await env.guest.launch(["mousepad"])
        while not await env.guest.window_size_px("mousepad"):
            await asyncio.sleep(0.1)
        tree = ElementTree.fromstring(await env.guest.accessibility_tree())
        assert tree.tag == "desktop-frame"
        texts = [node for node in tree.iter("text") if node.get(f"{{{NAMESPACES['st']}}}editable") == "true"]
        assert texts and re.fullmatch(r"\(\d+, \d+\)", texts[0].get(f"{{{NAMESPACES['cp']}}}screencoord", ""))
        assert await env.guest.terminal_output() is None
        await env.guest.execute(["pkill", "mousepad"])
    finally:
        await env.close()
