"""What an action activates, and who may object to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.actions import Action

_MAX_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing that an action would activate: the button under the pointer, the form that Enter submits.

    All texts come from the page or the window and may lie. A target without a role is unknown.

    Attributes:
        role: What it is: `button`, `link`, `input[type=text]`, `dialog button`, `window`, ...
        names: Every text that a person or a program takes for its name, the accessible name first: what is
            drawn on it, its labels, values, titles, generated texts.
        context: What stands around it and says what it means: the dialog's question, the heading above.
        hints: Words that nobody sees and that need not mean anything: names of icons, classes, ids.
        handlers: What it does in the page's own code, name and value: `onclick deleteAll()`, `data-method delete`,
            `action /users/7/delete`.
        url: Where a link leads.
        page_url: Address of the page that it is on.
        is_image: No text is drawn on it: a person sees an image, whatever its name is.
        is_field: It takes text or a choice; using it activates nothing by itself.
        is_element: It is the thing itself; False: only the window around it is known, or nothing.
    """

    role: str = ""
    names: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    url: str | None = None
    page_url: str | None = None
    is_image: bool = False
    is_field: bool = False
    is_element: bool = True

    @property
    def text(self) -> str | None:
        """One line for people: `button "Delete"`, `link "Next" -> https://...`; None when nothing is known."""
        return self.text_as(self.names[0] if self.names else "")

    def text_as(self, name: str) -> str | None:
        """The same line with another one of the names, cut to a readable length."""
        shown = name if len(name) <= _MAX_SHOWN else f"{name[: _MAX_SHOWN - 1]}…"
        parts = [self.role, f'"{shown}"' if shown else "", f"-> {self.url}" if self.url else ""]
        return " ".join(part for part in parts if part) or None


UNKNOWN = Target(is_element=False)
"""Something is activated, and the env cannot tell what."""


class Check(Protocol):
    """Asked by `Env.step` right before an input that activates something, and before text goes into a field."""

    async def __call__(self, number: int, action: Action, targets: Sequence[Target]) -> None:
        """Let it pass, or object.

        Args:
            number: Which action of the step it belongs to, counted from 0.
            action: That action.
            targets: What the input is about to activate, as the screen is now.

        Raises:
            ActionError: It must not be carried out; the step ends there.
        """
        ...
