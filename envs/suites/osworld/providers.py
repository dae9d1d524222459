"""Providers of guests: an existing one, a local one without a VM, or upstream's own VMs and containers.

Also the options of the env `osworld` by name.
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
    """VM or container that upstream's `desktop_env` starts and resets; its `DesktopEnv` is used for nothing else.

    Args:
        name: `docker` or `vmware`.
        vm: Path of the VM; "" lets upstream download one.
        snapshot: Snapshot to reset to.
        screen_px: Size of the screen.
        password: Password of its user.

    Raises:
        EnvSetupError: If `desktop-env` is not installed, or its version is not supported.
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
        """Reset the VM to its snapshot, starting it if required.

        Raises:
            EnvSetupError: If `desktop_env` cannot start or reset the VM.
        """
        return await asyncio.to_thread(self._fresh, given)

    async def why_gone(self) -> str | None:
        """Return None: the reason is unknown."""
        return None

    async def close(self) -> None:
        """Stop the VM. May be called twice."""
        desktop, self._desktop = self._desktop, None
        if desktop is not None:
            await asyncio.to_thread(desktop.close)

    def _fresh(self, given: GuestOptions) -> GuestOptions:
        try:
            if self._desktop is None:
                self._desktop = self._make(**self._given)
            else:
                self._desktop.is_environment_used = True  # upstream resets only after its own setup has been used
            self._desktop.reset()
        except Exception as error:  # upstream raises plain exceptions and its VM clients' ones
            raise EnvSetupError(f"upstream's desktop_env did not give a guest: {error}", retryable=True) from error
        return replace(
            given,
            host=str(self._desktop.vm_ip),
            server_port=int(self._desktop.server_port),
            chromium_port=int(self._desktop.chromium_port),
            vlc_port=int(getattr(self._desktop, "vlc_port", 0)),  # unknown in older versions
        )


def make_guest_env(given: Mapping[str, object]) -> GuestEnv:
    """Make a guest environment from options; nothing is started.

    Raises:
        ValueError: If a value is invalid, or the provider does not have an option.
        EnvSetupError: If a dependency of the provider is not installed.
    """
    provider = make_provider(given)
    wanted = _screen_px(given) if provider is None and "screen" in given else None
    return GuestEnv(replace(parse_guest(given), screen_px=wanted), provider)


def make_provider(given: Mapping[str, object]) -> GuestProvider | None:
    """Make the provider from options; return None for an existing guest.

    Raises:
        ValueError: See `make_guest_env`.
        EnvSetupError: See `make_guest_env`.
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
    """Check the options; return the name of the provider.

    Raises:
        ValueError: If the provider or an option is unknown, or the option belongs to another provider.
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
    """Parse the address of an existing guest, and the settings for all guests.

    Raises:
        ValueError: If a value is invalid.
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
            raise ValueError(f"home is {given['home']!r}, which is not a folder")
    if "memory_mb" in given:
        chosen["memory_bytes"] = _number("memory_mb", given["memory_mb"], int) * 2**20
    chosen["allow_net"] = has_network(given)
    return LocalOptions(**chosen)


def has_network(given: Mapping[str, object]) -> bool:
    """Return True if options give local guests access to the web.

    Raises:
        ValueError: If `allow_net` is not yes or no.
    """
    return _yes_or_no("allow_net", given.get("allow_net", False))


def _yes_or_no(name: str, value: object) -> bool:
    answer = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(str(value).lower())
    if answer is None:
        raise ValueError(f"{name} is {value!r}, expected yes or no")
    return answer


def _number(name: str, value: object, kind: type[Any]) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {value!r}, expected a {kind.__name__}") from error
    if kind is not str and number < 0:
        raise ValueError(f"{name} is {value!r}, expected at least 0")
    return number


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
"""Names of the environment's options."""


def _make(request: EnvRequest) -> Env:
    """Make the environment described by a task's spec."""
    return make_guest_env(request.options)


def _no_retry_reason(options: Mapping[str, object]) -> str:
    is_address = options.get("provider", "address") == "address"
    return "a guest at an address is not put back (provider=docker, vmware and local are)" if is_address else ""


KIND = EnvKind(make=_make, options=frozenset(NAMES), masks_secrets=False, no_retry_reason=_no_retry_reason)
"""Registration of the guest in `envs.registry`."""
