"""Preflight checks for OSWorld: whether a guest, its browser and its programs are ready."""

import asyncio
import importlib.util
import json
import shlex
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from envs.doctor import DoctorRow
from envs.errors import EnvError
from envs.registry import load_suite
from envs.suites.osworld.env import GuestOptions
from envs.suites.osworld.guest_answers import png_size_px
from envs.suites.osworld.guest_client import GuestClient
from envs.suites.osworld.providers import NAMES, check_options, make_provider, parse_guest

Say = Callable[[str], None]
_USUAL_PX = (1920, 1080)
_A11Y_TIMEOUT_S = 30.0  # a full desktop takes seconds
_CONNECT_TIMEOUT_S = 5.0  # a check that a person waits for
_PLACES_OF_TASKS = "282 of the 369 task files name /home/user"
_CHECK_WEB = "import socket; socket.create_connection(('example.com', 443), 5).close()"
_CHECK_PROXY = """
import base64, json, socket, subprocess, urllib.parse, urllib.request
told = {"url": "", "said": "", "mode": ""}
proxies = urllib.request.getproxies()
url = proxies.get("https") or proxies.get("all") or proxies.get("http") or ""
if url:
    parts = urllib.parse.urlsplit(url if "://" in url else "http://" + url)
    told["url"] = f"{parts.scheme}://{parts.hostname}:{parts.port or 80}"
    key = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}") if parts.username else ""
    head = "CONNECT example.com:443 HTTP/1.1\\r\\nHost: example.com:443\\r\\n"
    if key:
        head += f"Proxy-Authorization: Basic {base64.b64encode(key.encode()).decode()}\\r\\n"
    try:
        with socket.create_connection((parts.hostname, parts.port or 80), 10) as way:
            way.settimeout(10)
            way.sendall((head + "\\r\\n").encode())
            told["said"] = (way.recv(200).decode("latin-1").splitlines() or ["no answer"])[0]
    except OSError as error:
        told["said"] = str(error) or "no answer"
try:
    asked = ["gsettings", "get", "org.gnome.system.proxy", "mode"]
    told["mode"] = subprocess.run(asked, capture_output=True, text=True, timeout=10).stdout.strip()
except (OSError, subprocess.SubprocessError):
    pass
print(json.dumps(told))
"""
"""Script that reports the proxy variables of the guest, tests the proxy, and reads the desktop's proxy mode."""


class OsworldDoctor:
    """Checks of everything except the model that an OSWorld run needs.

    Args:
        suite_options: Options of the suite; its environment options select the guest.

    Raises:
        EnvError: If the options cannot be used on this machine.
        ValueError: If the options are invalid.
    """

    def __init__(self, suite_options: Mapping[str, object]) -> None:
        self._suite = load_suite("osworld", **suite_options)
        self._options = {name: value for name, value in suite_options.items() if name in NAMES}
        self._provider, self._guest = check_options(self._options), parse_guest(self._options)

    async def run(self, say: Say) -> list[DoctorRow]:
        """Run all checks, with a guest if the provider is `local`; return a row for each. `say` gets progress lines."""
        actual = f"{len(self._suite.task_ids)}, revision {self._suite.revision}"
        rows = [DoctorRow(name="tasks", level="ok", actual=actual)]
        if self._provider in ("docker", "vmware"):
            return rows + _check_official(self._provider)
        return rows + await _check_guest(say, self._options, self._guest)


def _check_official(name: str) -> list[DoctorRow]:
    """Check the dependencies of upstream's package; its VM is not started, which would take minutes."""
    rows = []
    if importlib.util.find_spec("desktop_env") is None:
        actual = "upstream's package is not installed"
        rows.append(DoctorRow(name="desktop_env", level="fail", actual=actual, fix="pip install desktop-env"))
    else:
        rows.append(DoctorRow(name="desktop_env", level="ok", actual="upstream's package is installed"))
    program = "docker" if name == "docker" else "vmrun"
    path = shutil.which(program)
    rows.append(DoctorRow(name=program, level="ok" if path else "fail", actual=path or f"{program} not found"))
    if name == "docker" and not Path("/dev/kvm").exists():
        rows.append(
            DoctorRow(name="kvm", level="warn", actual="no /dev/kvm: the VM in the container will be very slow")
        )
    return rows


async def _check_guest(say: Say, options: Mapping[str, object], given: GuestOptions) -> list[DoctorRow]:
    provider = make_provider(options)
    began_s = time.monotonic()
    if provider is None:
        say(f"asking the guest {given.base_url}")
        return await _ask(given, given.base_url, options)
    say("starting a local guest")
    try:
        try:
            started = await provider.fresh(given)
        except EnvError as error:
            return [DoctorRow(name="guest", level="fail", actual=str(error), fix="cua setup osworld-local")]
        return await _ask(started, f"a local one, started in {time.monotonic() - began_s:.1f} s", options)
    finally:
        await provider.close()


async def _ask(given: GuestOptions, actual: str, options: Mapping[str, object]) -> list[DoctorRow]:
    guest = GuestClient(given.base_url, token=given.token)
    try:
        try:
            platform = await guest.platform()
        except EnvError as error:
            fix = "start its server: python -m envs.suites.osworld.guest_server --display :0, or upstream's"
            return [DoctorRow(name="guest", level="fail", actual=str(error), expected="a guest server", fix=fix)]
        first = DoctorRow(name="guest", level="ok" if platform == "Linux" else "warn", actual=f"{actual}: {platform}")
        looks: tuple[tuple[str, Callable[[], Awaitable[DoctorRow]]], ...] = (
            ("screen", lambda: _check_screen(guest, "screen" in options)),
            ("home", lambda: _check_home(guest)),
            ("actions", lambda: _check_pyautogui(guest)),
            ("a11y tree", lambda: _check_a11y(guest)),
            ("browser", lambda: _check_browser(guest, given)),
            ("sudo", lambda: _check_sudo(guest, given.password)),
            ("web", lambda: _check_web(guest)),
            ("proxy", lambda: _check_proxy(guest)),
        )
        return [first, *[await _judged(name, look) for name, look in looks]]
    finally:
        await guest.close()


async def _judged(name: str, look: Callable[[], Awaitable[DoctorRow]]) -> DoctorRow:
    try:
        return await look()
    except EnvError as error:
        return DoctorRow(name=name, level="fail", actual=str(error))


async def _check_screen(guest: GuestClient, is_chosen: bool) -> DoctorRow:
    size, shown = await guest.screen_size_px(), png_size_px(await guest.screenshot())
    actual = f"{size[0]}x{size[1]} px"
    if shown != size:
        return DoctorRow(
            name="screen", level="fail", actual=f"{actual}, but its screenshots are {shown[0]}x{shown[1]} px"
        )
    if size != _USUAL_PX and not is_chosen:
        return DoctorRow(name="screen", level="warn", actual=actual, expected="1920x1080, as scores are published with")
    return DoctorRow(name="screen", level="ok", actual=actual)


async def _check_home(guest: GuestClient) -> DoctorRow:
    home = (await guest.execute("echo $HOME; whoami", shell=True)).stdout.split()
    if home[:1] == ["/home/user"]:
        return DoctorRow(name="home", level="ok", actual=f"/home/user, of {home[-1]}")
    return DoctorRow(name="home", level="warn", actual=" ".join(home), expected=f"/home/user: {_PLACES_OF_TASKS}")


async def _check_pyautogui(guest: GuestClient) -> DoctorRow:
    began_s = time.monotonic()
    ended = await guest.execute(["python3", "-c", "import pyautogui; print(pyautogui.size())"])
    if ended.returncode != 0:
        error = (ended.stderr.strip().splitlines() or ["no error output"])[-1]
        fix = "pip install pyautogui, on the guest, for its python3"
        return DoctorRow(name="actions", level="fail", actual=error, expected="python3 with pyautogui", fix=fix)
    return DoctorRow(name="actions", level="ok", actual=f"pyautogui answers in {time.monotonic() - began_s:.1f} s")


async def _check_a11y(guest: GuestClient) -> DoctorRow:
    began_s = time.monotonic()
    try:
        tree = await guest.accessibility_tree(timeout_s=_A11Y_TIMEOUT_S)
    except EnvError as error:
        return DoctorRow(name="a11y tree", level="warn", actual=str(error), expected="what some verdicts are read from")
    summary = f"{len(tree)} characters in {time.monotonic() - began_s:.1f} s"
    return DoctorRow(name="a11y tree", level="ok", actual=summary)


async def _check_browser(guest: GuestClient, given: GuestOptions) -> DoctorRow:
    name = "browser"
    if (await guest.execute(["which", "google-chrome"])).returncode != 0:
        return DoctorRow(
            name=name, level="warn", actual="no google-chrome, which 78 tasks start", expected="Chrome or a shim"
        )
    address = f"{given.host}:{given.chromium_port}"
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(given.host, given.chromium_port)
            writer.write(b"GET /json/version HTTP/1.0\r\n\r\n")
            answer = await reader.read(12)
            writer.close()
    except (ConnectionRefusedError, ConnectionResetError):
        answer = b""
    except (OSError, TimeoutError) as error:
        problem = f"{address} cannot be reached: {error or 'no answer'}"
        return DoctorRow(name=name, level="warn", actual=problem, expected="a port that is open to here, for 53 tasks")
    if answer and answer[9:12] != b"200":
        problem = f"{address} answers {answer[:40]!r}"
        return DoctorRow(name=name, level="warn", actual=problem, expected="the debugging port of a browser")
    return DoctorRow(
        name=name, level="ok", actual=f"{address} {'answers' if answer else 'is free yet: tasks start the browser'}"
    )


async def _check_sudo(guest: GuestClient, password: str) -> DoctorRow:
    asked = await guest.execute(f"printf '%s\\n' {shlex.quote(password)} | sudo -k -S -p '' true", shell=True)
    if asked.returncode == 0:
        return DoctorRow(name="sudo", level="ok", actual="the password is right")
    error = (asked.stderr.strip().splitlines() or ["refused"])[-1]
    return DoctorRow(
        name="sudo", level="warn", actual=error, expected="the password of --suite-option password=, for 10 tasks"
    )


async def _check_web(guest: GuestClient) -> DoctorRow:
    ended = await guest.execute(["python3", "-c", _CHECK_WEB])
    if ended.returncode == 0:
        return DoctorRow(name="web", level="ok", actual="the guest reaches example.com by itself")
    problem = "the guest does not reach the web by itself: 51 tasks need live sites"
    return DoctorRow(name="web", level="warn", actual=problem)


async def _check_proxy(guest: GuestClient) -> DoctorRow:
    """Check the proxy of the guest's programs, from their environment or the desktop; its password is not shown."""
    name = "proxy"
    ended = await guest.execute(["python3", "-c", _CHECK_PROXY])
    try:
        proxy = {key: str(value)[:200] for key, value in json.loads(ended.stdout).items()}
        url, announced, mode = proxy["url"], proxy["said"], proxy["mode"]
    except (ValueError, KeyError, AttributeError):
        return DoctorRow(name=name, level="warn", actual="the guest does not tell", expected="python3 on the guest")
    of_desktop = f"; its desktop's: {mode}" if mode not in ("", "'none'") else ""
    if not url:
        return DoctorRow(
            name=name, level="ok", actual=f"none is set on the guest{of_desktop}; upstream opens 52 tasks through one"
        )
    if not url.startswith("http://"):
        return DoctorRow(name=name, level="ok", actual=f"{url}, of a kind that is not tried{of_desktop}")
    if announced.startswith("HTTP/1.") and announced.split()[1:2] == ["200"]:
        return DoctorRow(name=name, level="ok", actual=f"{url} leads to example.com{of_desktop}")
    fix = "correct or unset http_proxy and https_proxy of the guest's server"
    return DoctorRow(
        name=name, level="warn", actual=f"{url}: {announced}{of_desktop}", expected="a way to example.com:443", fix=fix
    )
