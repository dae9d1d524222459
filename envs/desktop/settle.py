"""Wait until a screen has stopped changing, adaptively and bounded."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from envs.desktop.backend import Clock, Frame

_TILE_PX = 40
_EFFECT_S = 0.08  # for programs that draw what a click does only when they are idle
_PATIENCE_S = 0.15  # after it, what only blinks or spins no longer counts
_SMALL_SHARE = 0.004  # of the screen's tiles: a caret, a spinner, a clock
_RESTLESS_SHARE = 0.5  # of the grabs: what changes that often never comes to rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The last grab, and whether the screen had come to rest by then."""

    frame: Frame
    is_quiet: bool


class Settler:
    """Grabs until nothing that matters changes for a while.

    A change counts as nothing once `_PATIENCE_S` have passed and it covers few tiles, or only tiles
    that were restless all through an earlier wait (a film): that wait takes its full time once.

    Args:
        grab: Takes a grab.
        clock: Tells time and pauses.
        quiet_s: How long the screen must stay the same.
        timeout_s: Longest wait.
    """

    def __init__(self, grab: Callable[[], Frame], clock: Clock, quiet_s: float, timeout_s: float) -> None:
        self._grab = grab
        self._clock = clock
        self._quiet_s = quiet_s
        self._timeout_s = timeout_s
        self._restless: frozenset[tuple[int, int]] = frozenset()

    def wait(self, before: Frame | None = None) -> Settled:
        """Wait for rest; an idle screen takes `quiet_s` and three grabs.

        Args:
            before: A grab from before some input, which is given a little longer to show an effect.
        """
        begin = still_since = self._clock.now_s()
        last = self._grab()
        has_effect = before is None or bool(changed_tiles(before, last))
        changes: Counter[tuple[int, int]] = Counter()
        num_grabs = 0
        while True:
            now = self._clock.now_s()
            quiet_s = self._quiet_s if has_effect else max(self._quiet_s, _EFFECT_S)
            if now - still_since >= quiet_s and num_grabs >= 2:
                return Settled(frame=last, is_quiet=True)
            if now - begin >= self._timeout_s:
                self._restless = frozenset(
                    tile for tile, count in changes.items() if count > _RESTLESS_SHARE * num_grabs
                )
                return Settled(frame=last, is_quiet=False)
            self._clock.pause(min(self._quiet_s / 2, max(0.001, still_since + quiet_s - now)))
            frame = self._grab()
            num_grabs += 1
            tiles = changed_tiles(last, frame)
            changes.update(tiles)
            has_effect = has_effect or bool(tiles)
            last = frame
            if tiles and not (self._clock.now_s() - begin > _PATIENCE_S and self._is_noise(tiles, frame)):
                still_since = self._clock.now_s()

    def _is_noise(self, tiles: frozenset[tuple[int, int]], frame: Frame) -> bool:
        width, height = frame.size_px
        num_tiles = -(-width // _TILE_PX) * -(-height // _TILE_PX)
        return len(tiles - self._restless) <= max(2, _SMALL_SHARE * num_tiles)


def changed_tiles(before: Frame, after: Frame) -> frozenset[tuple[int, int]]:
    """Which tiles (column, row) of 40x40 px differ between two grabs; every tile when the size differs."""
    if before.size_px == after.size_px and before.bgrx == after.bgrx:
        return frozenset()
    import numpy as np

    width, height = after.size_px
    if before.size_px != after.size_px:
        return frozenset((x, y) for x in range(-(-width // _TILE_PX)) for y in range(-(-height // _TILE_PX)))
    old, new = (np.frombuffer(frame.bgrx, np.uint32).reshape(height, width) for frame in (before, after))
    differs = old != new
    by_row = np.logical_or.reduceat(differs, np.arange(0, height, _TILE_PX), axis=0)
    by_tile = np.logical_or.reduceat(by_row, np.arange(0, width, _TILE_PX), axis=1)
    rows, columns = np.nonzero(by_tile)
    return frozenset(zip(columns.tolist(), rows.tolist(), strict=True))
