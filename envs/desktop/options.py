"""Options of a desktop env, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopOptions:
    """Settings for a new or attached desktop.

    Attributes:
        display: X display to attach to (`":0"`); None starts a private Xvfb, which is discarded at close.
        screen_px: Width and height of the private screen.
        app: Program to start at reset, a command line (`"mousepad --disable-server"`; quotes as in a shell, no other
            shell syntax) or a sequence of arguments; a leading `~` is the env's home.
        app_window_timeout_s: Timeout for the first window of the program.
        monitor: Index (from 0) of the monitor to show; None shows the whole screen.
        home_dir: HOME of the programs. None is a temporary folder, removed at close, on a private display and the
            user's own HOME on an attached one.
        window_manager: Program name or path of the private display's window manager; None runs none.
        draw_cursor: True to draw the pointer into screenshots.
        settle_timeout_s: Timeout for the screen to settle after a step.
        settle_quiet_s: Time without changes after which the screen counts as settled.
        env: Additional environment variables for the programs.
        max_clients: Client limit of the private server: 64, 128, 256, 512, 1024 or 2048.
        answer_timeout_s: Timeout of the display, in addition to the duration of actions; then it counts as dead.
        step_timeout_s: Time after which no further action of a step starts.
        start_timeout_s: Timeout for the private server, and again for its window manager.
    """

    display: str | None = None
    screen_px: tuple[int, int] = (1920, 1080)
    app: str | Sequence[str] | None = None
    app_window_timeout_s: float = 20.0
    monitor: int | None = None
    home_dir: Path | None = None
    window_manager: str | None = "openbox"
    draw_cursor: bool = True
    settle_timeout_s: float = 2.0
    settle_quiet_s: float = 0.02
    env: Mapping[str, str] = field(default_factory=dict)
    max_clients: int = 2048
    answer_timeout_s: float = 15.0
    step_timeout_s: float = 180.0
    start_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if min(self.screen_px) < 64 or max(self.screen_px) > 32767:
            raise ValueError(f"screen_px must be between 64 and 32767 px a side, got {self.screen_px}")
        if self.max_clients not in (64, 128, 256, 512, 1024, 2048):
            raise ValueError(f"max_clients must be 64, 128, 256, 512, 1024 or 2048, got {self.max_clients}")
        times = ("app_window_timeout_s", "settle_timeout_s", "settle_quiet_s", "answer_timeout_s", "step_timeout_s")
        for name in (*times, "start_timeout_s"):
            if not 0 <= getattr(self, name) < 1e6:
                raise ValueError(f"{name} is a number of seconds, got {getattr(self, name)}")
        if self.monitor is not None and self.monitor < 0:
            raise ValueError(f"monitor counts from 0, got {self.monitor}")
