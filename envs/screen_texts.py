"""Visible and hidden texts of a screen, and its forms that people fill in themselves."""

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

AreaKind = Literal["login", "captcha", "payment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenText:
    """Texts of a document.

    Attributes:
        text: Lines.
        is_hidden: True if a person does not see them: too small, in the colour of the background, outside the page, or
            only in an attribute such as `aria-label` or `alt`.
    """

    text: str = field(repr=False)
    is_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveArea:
    """Part of the screen that people may prefer to handle themselves.

    Attributes:
        kind: A login form, a CAPTCHA, or fields for a payment.
        origin: Origin of its document, such as `https://shop.example`.
        box_px: Left, top, right, bottom in screen pixels.
        has_focus: True if it has the keyboard focus.
    """

    kind: AreaKind
    origin: str
    box_px: tuple[float, float, float, float]
    has_focus: bool = False

    def has_point(self, x_px: float, y_px: float) -> bool:
        """Return True if a point of the screen is inside."""
        left, top, right, bottom = self.box_px
        return left <= x_px <= right and top <= y_px <= bottom


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenTexts:
    """Result of reading a screen.

    Attributes:
        texts: Texts that were read, those in view first.
        areas: Login forms, CAPTCHAs and payment fields in view.
        is_cut: True if there was more than could be read.
        is_on_display: True if a person at this machine can use the screen with their own mouse and keyboard.
    """

    texts: tuple[ScreenText, ...] = ()
    areas: tuple[SensitiveArea, ...] = ()
    is_cut: bool = False
    is_on_display: bool = False


@runtime_checkable
class ReadableScreen(Protocol):
    """Optional capability: the texts of the screen can be read."""

    async def read_texts(self) -> ScreenTexts:
        """Read the texts of the screen, frames included, both visible and hidden from a person.

        Takes at most about 1 s; texts that cannot be read by then are missing, and `is_cut` is True. Does not raise if
        a page is gone or does not answer.
        """
        ...
