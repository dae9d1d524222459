"""Where guests come from: one that runs already, one made here without a VM, or upstream's own VMs and containers.

The options of the env `osworld` by name, and what they make.
"""

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.env import Env
from envs.errors import EnvSetupError, did_you_mean
from envs.geometry import parse_size
from envs.registry import EnvKind, EnvRequest
from envs.suites.osworld.env import GuestEnv, GuestOptions, GuestProvider
from envs.suites.osworld.local import LocalGuest, LocalOptions

PROVIDERS = ("address", "local", "docker", "vmware")
_INIT_STATE = "init_state"


class OfficialGuest:
    """A VM or container that upstream's `desktop_env` starts and puts back; its `DesktopEnv` does nothing else here.

    Args:
        name: `docker` or `vmware`.
        vm: Path of the VM; "": upstream downloads one.
        snapshot: What it is put back to.
        screen_px: Size of its screen.
        password: Of its user.

    Raises:
        EnvSetupError: `desktop-env` is not installed, or another version than we know.
    """

    def __init__(self, name: str, *, vm: str, snapshot: str, screen_px: tuple[int, int], password: str) -> None:
        try:
            from desktop_env.desktop_env import DesktopEnv  # type: ignore[import-not-found]
        except ImportError as error:
            raise EnvSetupError(
                f"the provider {name!r} needs upstream's package: pip install desktop-env ({error}). Without it: start "
                "the guest yourself and name it with --provider address --guest HOST:PORT"
            ) from error
        self._make = DesktopEnv
        given = {
            "provider_name": name,
            "path_to_vm": vm or None,
            "snapshot_name": snapshot,
            "screen_size": screen_px,
            "action_space": "pyautogui",
            "headless": True,
            "require_a11y_tree": False,
            "os_type": "Ubuntu",
            "client_password": password,
        }
        taken = inspect.signature(DesktopEnv).parameters
        self._given = {key: value for key, value in given.items() if key in taken}
        self._desktop: Any = None

    async def fresh(self, given: GuestOptions) -> GuestOptions:
        """The VM at its snapshot, started if need be.

        Raises:
            EnvSetupError: Upstream cannot do it.
        """
        return await asyncio.to_thread(self._fresh, given)

    async def why_gone(self) -> str | None:
        """Not known."""
        return None

    async def close(self) -> None:
        """End the VM. May be called twice."""
        desktop, self._desktop = self._desktop, None
        if desktop is not None:
            await asyncio.to_thread(desktop.close)

    def _fresh(self, given: GuestOptions) -> GuestOptions:
        try:
            if self._desktop is None:
                self._desktop = self._make(**self._given)
            else:
                self._desktop.is_environment_used = True  # upstream puts back only what its own setup has touched
            self._desktop.reset()
        except Exception as error:  # upstream raises plain ones, and those of its clients of VMs
            raise EnvSetupError(f"upstream's desktop_env did not give a guest: {error}", retryable=True) from error
        return replace(
            given,
            host=str(self._desktop.vm_ip),
            server_port=int(self._desktop.server_port),
            chromium_port=int(self._desktop.chromium_port),
            vlc_port=int(getattr(self._desktop, "vlc_port", 0)),  # of older versions it is not known
        )


def make_guest_env(given: Mapping[str, object]) -> GuestEnv:
    """A guest as options name it; nothing is started.

    Raises:
        ValueError: A value that is not taken, or an option that this provider does not have.
        EnvSetupError: What the provider needs is not installed.
    """
    provider = make_provider(given)
    wanted = _screen_px(given) if provider is None and "screen" in given else None
    return GuestEnv(replace(parse_guest(given), screen_px=wanted), provider)


def make_provider(given: Mapping[str, object]) -> GuestProvider | None:
    """What starts guests as options name it; None: it runs already.

    Raises:
        ValueError: As for `make_guest_env`.
        EnvSetupError: As for `make_guest_env`.
    """
    name = check_options(given)
    if name == "address":
        return None
    screen_px = _screen_px(given)
    if name == "local":
        return LocalGuest(_local_options(given, screen_px))
    vm, snapshot = str(given.get("vm", "")), str(given.get("snapshot", _INIT_STATE))
    password = parse_guest(given).password
    return OfficialGuest(name, vm=vm, snapshot=snapshot, screen_px=screen_px, password=password)


def check_options(given: Mapping[str, object]) -> str:
    """The provider that options name.

    Raises:
        ValueError: No such provider or option, or one that another provider has.
    """
    provider = str(given.get("provider", "address"))
    if provider not in PROVIDERS:
        near = did_you_mean(provider, PROVIDERS)
        raise ValueError(f"provider is {provider!r}, expected one of {', '.join(PROVIDERS)}{near}")
    for name in given:
        if name not in NAMES:
            raise ValueError(f"the environment 'osworld' has no option {name!r}; it has {', '.join(NAMES)}")
        of = _ONLY.get(name)
        if of is not None and provider not in of:
            raise ValueError(f"{name} is for the provider {' and '.join(of)}, not for {provider}")
    parse_guest(given)
    return provider


def _screen_px(given: Mapping[str, object]) -> tuple[int, int]:
    return parse_size("screen", str(given.get("screen", "1920x1080")))


def parse_guest(given: Mapping[str, object]) -> GuestOptions:
    """Which guest, for one that runs already; how it is used, for all.

    Raises:
        ValueError: A value that is not taken.
    """
    host, _, port = str(given.get("guest", "127.0.0.1")).partition(":")
    values: dict[str, Any] = {"host": host, "server_port": _number("guest", port or "5000", int)}
    for name, kind in _OPTIONS.items():
        if name in given:
            values[name] = _number(name, given[name], kind)
    if given.get("recordings"):
        values["recordings_dir"] = Path(str(given["recordings"])).expanduser().absolute()
    return GuestOptions(**values)


def _local_options(given: Mapping[str, object], screen_px: tuple[int, int]) -> LocalOptions:
    chosen: dict[str, Any] = {"screen_px": screen_px}
    if "home" in given:
        chosen["template"] = Path(str(given["home"])).expanduser()
        if not chosen["template"].is_dir():
            raise ValueError(f"home is {given['home']!r}, which is no folder")
    if "memory_mb" in given:
        chosen["memory_bytes"] = _number("memory_mb", given["memory_mb"], int) * 2**20
    chosen["allow_net"] = has_network(given)
    return LocalOptions(**chosen)


def has_network(given: Mapping[str, object]) -> bool:
    """True if options let local guests reach the web.

    Raises:
        ValueError: `allow_net` is neither yes nor no.
    """
    return _yes_or_no("allow_net", given.get("allow_net", False))


def _yes_or_no(name: str, value: object) -> bool:
    found = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(str(value).lower())
    if found is None:
        raise ValueError(f"{name} is {value!r}, expected yes or no")
    return found


def _number(name: str, value: object, kind: type[Any]) -> Any:
    try:
        made = kind(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {value!r}, expected a {kind.__name__}") from error
    if kind is not str and made < 0:
        raise ValueError(f"{name} is {value!r}, expected at least 0")
    return made


_OPTIONS: dict[str, type[Any]] = {
    "chromium_port": int,
    "vlc_port": int,
    "token": str,
    "password": str,
    "pause_s": float,
    "settle_timeout_s": float,
}
_ONLY: Mapping[str, tuple[str, ...]] = {
    "guest": ("address",),
    "chromium_port": ("address",),
    "vlc_port": ("address",),
    "token": ("address",),
    "home": ("local",),
    "memory_mb": ("local",),
    "allow_net": ("local",),
    "vm": ("docker", "vmware"),
    "snapshot": ("docker", "vmware"),
}
NAMES = ("provider", "guest", "screen", "recordings", *_OPTIONS, "home", "memory_mb", "allow_net", "vm", "snapshot")
"""Options of the env by name."""


def _make(request: EnvRequest) -> Env:
    """The guest as a task's spec names it."""
    return make_guest_env(request.options)


def _why_once(options: Mapping[str, object]) -> str:
    is_address = options.get("provider", "address") == "address"
    return "a guest at an address is not put back (provider=docker, vmware and local are)" if is_address else ""


KIND = EnvKind(make=_make, options=frozenset(NAMES), masks_secrets=False, why_once=_why_once)
"""The guest in `envs.registry`."""
