"""Targets of actions, and the check that may reject an input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.actions import Action

_MAX_SHOWN = 80  # of a target's name in a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Target of an action: the button under the pointer, the form that Enter submits.

    All texts come from the page or the window and are untrusted. A target without a role is unknown.

    Attributes:
        role: `button`, `link`, `input[type=text]`, `dialog button`, `window`, ...
        names: Every text that a person or a program takes for its name, the accessible name first: its drawn text,
            labels, values, titles, generated texts.
        context: Surrounding texts that explain it: the question of the dialog, the heading above.
        item: Name of the row or list entry that it belongs to, without the other texts there; "" if it belongs to none.
        hints: Invisible words that may be meaningless: names of icons, classes, ids.
        handlers: Its effects in the code of the page, name and value: `onclick deleteAll()`, `data-method delete`,
            `action /users/7/delete`.
        url: URL of a link.
        page_url: URL of the page that it is on.
        is_image: True if no text is drawn on it: a person sees an image, whatever its name is.
        is_field: True if it takes text or a choice; using it activates nothing by itself.
        is_element: True if it is the element itself; False if only the window around it is known, or nothing.
    """

    role: str = ""
    names: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    item: str = ""
    hints: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    url: str | None = None
    page_url: str | None = None
    is_image: bool = False
    is_field: bool = False
    is_element: bool = True

    @property
    def text(self) -> str | None:
        """One line for people: `button "Delete"`, `link "Next" -> https://...`; None if unknown."""
        return self.text_as(self.names[0] if self.names else "")

    def text_as(self, name: str) -> str | None:
        """Return the same line with another one of the names, cut to a readable length."""
        shown = name if len(name) <= _MAX_SHOWN else f"{name[: _MAX_SHOWN - 1]}…"
        parts = [self.role, f'"{shown}"' if shown else "", f"-> {self.url}" if self.url else ""]
        return " ".join(part for part in parts if part) or None


UNKNOWN_TARGET = Target(is_element=False)
"""Target of an input that activates something that the env cannot identify."""


class ActionCheck(Protocol):
    """Callback of `Env.step` right before an input that activates something, and before text is typed into a field."""

    async def __call__(self, number: int, action: Action, targets: Sequence[Target]) -> None:
        """Return to allow the input, or raise to reject it.

        Args:
            number: Index of the action in the step, counted from 0.
            action: Action that the input belongs to.
            targets: Elements that the input would activate on the current screen.

        Raises:
            ActionError: If the input must not be executed; the step ends there.
        """
        ...
