"""From options to a fresh browser context."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.browser.options import BrowserOptions
from envs.errors import EnvSetupError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext


async def new_context(browser: "Browser", options: BrowserOptions, episode: int) -> "BrowserContext":
    """Open a context with a blank page for the `episode`-th episode, counted from 1.

    Raises:
        EnvSetupError: A setting is not taken (no such time zone, unreadable storage state, ...).
    """
    from playwright.async_api import Error

    try:
        context = await browser.new_context(**_settings(options, episode))
        await context.new_page()  # some settings are only looked at here
    except Error as error:
        lines = error.message.splitlines()
        raise EnvSetupError(f"the browser does not take these options: {lines[0]}") from error
    context.set_default_timeout(options.navigation_timeout_s * 1000)
    return context


def _settings(options: BrowserOptions, episode: int) -> dict[str, Any]:
    width, height = options.viewport_px
    settings: dict[str, Any] = {
        "viewport": {"width": width, "height": height},
        "screen": {"width": width, "height": height},
        "device_scale_factor": options.device_scale,
        "accept_downloads": True,
        "ignore_https_errors": options.ignore_https_errors,
        "locale": options.locale,
        "timezone_id": options.timezone,
        "user_agent": options.user_agent,
        "service_workers": "block" if options.allowed_domains or options.denied_domains else "allow",
        "permissions": [],
    }
    if options.geolocation is not None:
        latitude, longitude = options.geolocation
        settings["geolocation"] = {"latitude": latitude, "longitude": longitude}
        settings["permissions"] = ["geolocation"]
    if options.storage_state is not None:
        settings["storage_state"] = _read_storage_state(Path(options.storage_state))
    if options.har_path is not None:
        settings["record_har_path"] = har_path_of(Path(options.har_path), episode)
    return {name: value for name, value in settings.items() if value is not None}


def _read_storage_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EnvSetupError(f"storage_state {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise EnvSetupError(f"storage_state {path} is not JSON: {error}") from error
    if not isinstance(state, dict) or not {"cookies", "origins"} & state.keys():
        raise EnvSetupError(f"storage_state {path} is not a storage state: expected an object with cookies and origins")
    return state


def har_path_of(path: Path, episode: int) -> Path:
    """The HAR file of the `episode`-th episode."""
    return path if episode == 1 else path.with_name(f"{path.stem}-{episode}{path.suffix}")
