"""Check before an input: the targets in the page, or in an overlay over the page."""

import asyncio
from collections.abc import Collection, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any

from envs.actions import Action, Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, PressKey, TypeText
from envs.browser.inspector import Stroke
from envs.browser.keyboard import canonical, chord_of, shortcut_of
from envs.browser.overlays.dialog_box import DialogBox
from envs.browser.redact import Redactor
from envs.browser.session import BrowserSession
from envs.browser.settle import Interrupted
from envs.errors import ActionError
from envs.target import UNKNOWN_TARGET, ActionCheck, Target

_TIMEOUT_S = 2.0  # an input waits for it; a page that does not answer gets no input that activates something
_RETRIES_S = (0.02, 0.1, 0.3)  # a page that is being replaced answers again soon
_FOCUS_AND_MODIFIER_KEYS = frozenset({"tab", "shift", "ctrl", "alt", "win", "capslock"})


class TargetFinder:
    """Finder of the targets of inputs on the current screen."""

    def __init__(self, session: BrowserSession, viewport_px: tuple[int, int], redact: Redactor) -> None:
        self._session = session
        self._viewport_px = viewport_px
        self._redact = redact

    async def at_point(self, x_px: int, y_px: int, action: Action) -> tuple[Target, ...]:
        """Return what a mouse action activates at a point; `UNKNOWN_TARGET` if it cannot be determined.

        Raises:
            TimeoutError: If the page does not answer.
            Interrupted: If a dialog opened, or the page or the browser died.
        """
        overlay = self._session.overlay
        if overlay is not None and (target := overlay.target_at(x_px, y_px)):
            return (self._redacted(target),)
        width, height = self._viewport_px
        if isinstance(overlay, DialogBox) or not (0 <= x_px < width and 0 <= y_px < height):
            return (UNKNOWN_TARGET,)
        inspector, tabs = self._session.inspector, self._session.tabs
        is_drop = isinstance(action, Drag | MouseUp)
        targets = await self._ask(lambda: inspector.at_point(tabs.active, x_px, y_px, is_drop=is_drop))
        return targets or (UNKNOWN_TARGET,)

    async def on_key(self, stroke: Stroke) -> tuple[Target, ...]:
        """Return what a key activates; empty: nothing.

        Raises:
            TimeoutError: If the page does not answer.
            Interrupted: If a dialog opened, or the page or the browser died.
        """
        overlay = self._session.overlay
        if overlay is not None and (taken := overlay.targets_of_key(stroke.key)) is not None:
            return tuple(map(self._redacted, taken))
        inspector, tabs = self._session.inspector, self._session.tabs
        return await self._ask(lambda: inspector.on_key(tabs.active, stroke))

    async def of_action(self, action: Action, pointer_px: tuple[int, int], held: Collection[str]) -> tuple[Target, ...]:
        """Return what an action would activate if it were executed now; `UNKNOWN_TARGET` if the page does not answer.

        Raises:
            ActionError: If the key does not exist.
        """
        targets: dict[Target, None] = {}
        try:
            if isinstance(action, Click | MouseDown | MouseUp | Drag):
                x_px = pointer_px[0] if action.x_px is None else action.x_px
                y_px = pointer_px[1] if action.y_px is None else action.y_px
                return await self.at_point(x_px, y_px, action)
            if self._session.overlay is None and shortcut_of(action, held) is not None:
                return ()
            for stroke in _strokes_of(action, held):
                targets |= dict.fromkeys(await self.on_key(stroke))
        except (Interrupted, TimeoutError):
            targets[UNKNOWN_TARGET] = None
        return tuple(targets)

    async def _ask(self, ask: "Any") -> tuple[Target, ...]:
        from playwright.async_api import Error

        for pause_s in _RETRIES_S:
            try:
                work: Coroutine[object, object, tuple[Target, ...]] = ask()
                targets = await self._session.interrupts.race(work, _TIMEOUT_S)
                return tuple(map(self._redacted, targets))
            except Error:  # the document was replaced during the call
                await asyncio.sleep(pause_s)
        return (UNKNOWN_TARGET,)

    def _redacted(self, target: Target) -> Target:
        redact = self._redact
        return replace(
            target,
            names=tuple(map(redact, target.names)),
            context=tuple(map(redact, target.context)),
            item=redact(target.item),
            hints=tuple(map(redact, target.hints)),
            handlers=tuple(map(redact, target.handlers)),
            url=redact(target.url) if target.url else None,
        )


@dataclass(slots=True, kw_only=True)
class InputCheck:
    """Check of the inputs of one action: finds the targets of each input right before it and passes them to the
    `ActionCheck` of the step.

    Attributes:
        targets: Finds the targets of the inputs.
        check: Check to call.
        number: Index of the action in the step, from 0.
        action: The action.
    """

    targets: TargetFinder
    check: ActionCheck
    number: int
    action: Action
    _is_asking: bool = False

    def is_asking(self) -> bool:
        """Return True while an answer is pending; a person may be giving it."""
        return self._is_asking

    async def check_point(self, x_px: int, y_px: int) -> None:
        """Check a button press or release at a point.

        Raises:
            ActionError: If it was rejected.
        """
        await self._check_targets(self.targets.at_point(x_px, y_px, self.action))

    async def check_key(self, key: str, down: Collection[str], typed: str) -> None:
        """Check a key press.

        Raises:
            ActionError: If it was rejected.
        """
        stroke = _stroke(key, down, typed)
        if stroke is not None:
            await self._check_targets(self.targets.on_key(stroke))

    async def check_action(self, action: Action, point_px: tuple[int, int], held: Collection[str]) -> None:
        """Check a whole action at once, for an overlay over the page.

        Raises:
            ActionError: If it was rejected.
        """
        await self._check_targets(self.targets.of_action(action, point_px, held))

    async def _check_targets(self, asked: Coroutine[object, object, tuple[Target, ...]]) -> None:
        try:
            targets = await asked
        except TimeoutError as error:
            raise ActionError(
                "the page does not answer, so what this would activate cannot be determined; wait, then try again"
            ) from error
        if not targets:
            return
        self._is_asking = True
        try:
            await self.check(self.number, self.action, targets)
        finally:
            self._is_asking = False


def _strokes_of(action: Action, held: Collection[str]) -> Iterator[Stroke]:
    """Yield the key strokes of an action, each kind once, up to the first that moves the focus."""
    keys: list[tuple[str, list[str], str]] = []
    match action:
        case TypeText(text=text):
            text = text.replace("\r\n", "\n").replace("\r", "\n").partition("\t")[0]
            words = text.split()
            keys += [(words[0], [], words[0])] if words else []
            keys += [(name, [], "") for mark, name in ((" ", "space"), ("\n", "enter")) if mark in text]
        case PressKey(key=key) | KeyDown(key=key):
            keys.append((canonical(key), [canonical(key)], key if len(key) == 1 else ""))
        case KeyUp(key=key):
            keys += [("space", [], "")] if canonical(key) == "space" else []
        case Hotkey(keys=names):
            known = [canonical(name) for name in names]
            before_tab = known[: known.index("tab")] if "tab" in known else known
            keys += [(key, known, "") for key in before_tab]
    for key, down, typed in keys:
        stroke = _stroke(key, [*held, *down], typed)
        if stroke is not None:
            yield stroke


def _stroke(key: str, down: Collection[str], typed: str) -> Stroke | None:
    """Return the stroke of a key with other keys down; None if it only moves the focus or is a modifier."""
    chord = chord_of(down)
    plain = next(iter(chord_of([key])))
    ctrl, alt = bool(chord & {"ctrl", "win"}), "alt" in chord
    if plain in _FOCUS_AND_MODIFIER_KEYS:
        return None
    return Stroke(key=plain, typed="" if ctrl or alt else typed, ctrl=ctrl, alt=alt)
