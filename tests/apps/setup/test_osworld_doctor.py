"""`cua eval osworld --doctor`: what a run would find; a real guest server, a local guest, and nobody."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from apps.setup.doctor import run_osworld_doctor
from tests.envs.suites.osworld.conftest import SCREEN_PX, TOKEN, Served, serve, served  # noqa: F401
from tests.envs.suites.osworld.test_osworld_local import why_skip


async def levels(**options: Any) -> dict[str, tuple[str, str]]:
    """Level and finding of each row."""
    report = await run_osworld_doctor(print, options, {"model": "literal"})
    return {row.name: (row.level, row.actual) for row in report.rows}


@pytest.mark.long
async def test_nobody_is_there() -> None:
    rows = await levels(guest="127.0.0.1:9")
    assert rows["tasks"] == ("ok", f"361, {rows['tasks'][1].partition(', ')[2]}")
    assert rows["guest"][0] == "fail" and "does not answer" in rows["guest"][1]
    assert rows["model"][0] == "ok" and set(rows) == {"tasks", "guest", "model"}


@pytest.mark.parametrize("options", [{"provider": "dokker"}, {"list": "al"}, {"provider": "local", "token": "x"}])
async def test_options_that_are_not_taken(options: dict[str, Any]) -> None:
    assert (await levels(**options))["options"][0] == "fail"


async def test_upstreams_package_is_not_installed() -> None:
    rows = await levels(provider="docker")
    assert rows["desktop_env"] == ("fail", "upstream's package is not installed")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.desktop
@pytest.mark.long
async def test_a_guest_that_runs(served: Served) -> None:  # noqa: F811
    rows = await levels(guest=f"127.0.0.1:{served.options.server_port}", token=TOKEN, chromium_port=9)
    assert rows["screen"] == ("warn", f"{SCREEN_PX[0]}x{SCREEN_PX[1]} px")
    assert rows["actions"][0] == "ok" and rows["home"][0] == "warn"
    assert rows["proxy"] == ("ok", "none is set on the guest; upstream opens 52 tasks through one")
    wrong = await levels(guest=f"127.0.0.1:{served.options.server_port}", token="other")
    assert wrong["guest"][0] == "fail" and "bearer token" in wrong["guest"][1]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.desktop
@pytest.mark.parametrize(
    ("answer", "level", "told"),
    [
        (b"HTTP/1.1 200 Connection established\r\n\r\n", "ok", " leads to example.com"),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "warn", ": HTTP/1.1 407 Proxy Authentication Required"),
        (b"", "warn", ": no answer"),
    ],
)
@pytest.mark.long
async def test_the_proxy_of_a_guest(served: Served, answer: bytes, level: str, told: str) -> None:  # noqa: F811
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with serve(served.desktop, https_proxy=f"http://me:secret@127.0.0.1:{port}") as guest:
        rows = await levels(guest=f"127.0.0.1:{guest.options.server_port}", token=TOKEN, chromium_port=9)
    server.close()
    assert rows["proxy"] == (level, f"http://127.0.0.1:{port}{told}")
    assert b"CONNECT example.com:443" in asked[0] and b"Basic bWU6c2VjcmV0" in asked[0]


@pytest.mark.slow
@pytest.mark.skipif(bool(why_skip()), reason=why_skip())
def test_the_command() -> None:
    argv = [sys.executable, "-m", "apps.cli.main", "eval", "osworld", "--doctor", "--provider", "local"]
    done = subprocess.run([*argv, "--model", "literal", "--output-format", "json"], capture_output=True, text=True)
    rows = {row["name"]: row["level"] for row in json.loads(done.stdout)["rows"]}
    assert done.returncode == 0
    assert {name: rows[name] for name in ("guest", "screen", "home", "actions")} == dict.fromkeys(
        ("guest", "screen", "home", "actions"), "ok"
    )
    assert rows["sudo"] == rows["web"] == "warn" and rows["proxy"] == "ok"
