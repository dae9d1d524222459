"""Options of a browser env: a frozen record, validated when it is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envs.secret_texts import HttpLogin


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """Settings of a `BrowserEnv`.

    Attributes:
        start_url: Page opened by every reset; None is a blank page. A missing scheme is added.
        viewport_px: Width and height of the page area, CSS pixels.
        device_scale: Device pixels per CSS pixel; the screenshot is in device pixels.
        headless: True to run without a window; False needs a display.
        locale: Language tag such as `"de-DE"`.
        timezone: IANA name such as `"Europe/Berlin"`.
        geolocation: Latitude and longitude in degrees; also grants the permission.
        proxy: Proxy address, `"http://user:password@host:port"` or `"socks5://host:port"`.
        storage_state: File with cookies, local storage and IndexedDB to start from (stay logged in).
        save_storage_state: File to which these are written when an episode ends and on close.
        downloads_dir: Folder for downloads; None is a temporary one that is removed when the env is closed.
        uploads_dir: The only folder from which files can be uploaded; None means no files.
        allowed_domains: Domains that may be reached; empty: all. See `envs.domain_rules.DomainRules`.
        denied_domains: Domains that are always blocked.
        har_path: HAR record of all traffic; the second episode writes `name-2.har`, and so on.
        masked_texts: Secrets blacked out of every screenshot and shown as `***` in texts.
        http_logins: Logins for HTTP authentication, each sent to its own origin only.
        user_agent: User agent string of the browser.
        ignore_https_errors: True to accept invalid certificates.
        executable_path: Browser program; None is the result of `find_browser`.
        settle_timeout_s: Timeout for a page to settle after actions.
        navigation_timeout_s: Timeout for a new page to load.
        action_timeout_s: Timeout for a page to process an input.
        step_timeout_s: Time after which no further action of a step starts.
        quiet_s: Time without changes after which a page counts as settled.
        max_tabs: Maximum number of tabs; further tabs opened by a page are closed at once.
        draw_pointer: True to draw a mouse pointer into the screenshot.
        a11y_tree: True to read the accessibility tree for each observation.
        extra_args: Further command line arguments for the browser.
        env: Environment variables of the browser process; None: inherited from this process.
    """

    start_url: str | None = None
    viewport_px: tuple[int, int] = (1280, 720)
    device_scale: float = 1.0
    headless: bool = True
    locale: str | None = None
    timezone: str | None = None
    geolocation: tuple[float, float] | None = None
    proxy: str | None = None
    storage_state: Path | str | None = None
    save_storage_state: Path | str | None = None
    downloads_dir: Path | str | None = None
    uploads_dir: Path | str | None = None
    allowed_domains: tuple[str, ...] = ()
    denied_domains: tuple[str, ...] = ()
    har_path: Path | str | None = None
    masked_texts: tuple[str, ...] = ()
    http_logins: tuple[HttpLogin, ...] = ()
    user_agent: str | None = None
    ignore_https_errors: bool = False
    executable_path: Path | str | None = None
    settle_timeout_s: float = 3.0
    navigation_timeout_s: float = 15.0
    action_timeout_s: float = 10.0
    step_timeout_s: float = 180.0
    quiet_s: float = 0.05
    max_tabs: int = 20
    draw_pointer: bool = False
    a11y_tree: bool = False
    extra_args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if min(self.viewport_px) < 1:
            raise ValueError(f"viewport_px needs at least 1x1 px, got {self.viewport_px}")
        if not 0 < self.device_scale <= 10:
            raise ValueError(f"device_scale is a number above 0, 10 at most, got {self.device_scale}")
        for name in ("settle_timeout_s", "navigation_timeout_s", "action_timeout_s", "step_timeout_s", "quiet_s"):
            if not 0 <= getattr(self, name) < 1e6:
                raise ValueError(f"{name} is a number of seconds, got {getattr(self, name)}")
        if self.max_tabs < 1:
            raise ValueError(f"max_tabs needs at least 1, got {self.max_tabs}")
        if "" in self.masked_texts:
            raise ValueError("masked_texts holds an empty text, which would mask everything")
