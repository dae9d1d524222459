"""Answer a dialog by its buttons."""

from cua.models.literal.find_text import Found, find_text, name_nearest
from cua.models.literal.moves import Act, Missing, Move, at
from cua.models.literal.screen import Screen
from cua.models.literal.steps import AnswerDialog
from cua.models.literal.text_match import WHOLE

_ACCEPT = ("OK", "Yes", "Accept", "Confirm", "Allow", "Agree", "Got it")
_ACCEPT_BESIDE_DISMISS = ("Continue", "Delete", "Remove", "Save", "Discard", "Leave", "Done", "Close")
_DISMISS = ("Cancel", "No", "Dismiss", "Not now", "Reject", "Decline", "Deny", "Abort", "Stay", "Close")
"""Texts of buttons in the order in which they are looked for. Those of the second list stand on ordinary pages too,
so that they only count in a dialog that dims its page, or beside a button that dismisses."""

_BESIDE_PX = 320


def plan_dialog(step: AnswerDialog, screen: Screen) -> Move:
    """Press the button that accepts or dismisses."""
    for text in (*_ACCEPT, *_ACCEPT_BESIDE_DISMISS) if step.accept else (*_DISMISS, "OK"):
        place = _find_button(screen, text)
        if place is None:
            continue
        if text in _ACCEPT_BESIDE_DISMISS and screen.dialog is None and not _is_beside_dismiss(screen, place):
            continue
        return Act(code=(f"pyautogui.click({at(screen, place.point)})",), thought=f'The dialog has a button "{text}".')
    wanted = ", ".join((_ACCEPT if step.accept else _DISMISS)[:4])
    return Missing(what=f"a dialog with a button such as {wanted}", nearest=tuple(name_nearest(screen, "OK")))


def _find_button(screen: Screen, text: str) -> Found | None:
    """The button of that text: in the dialog when one dims its page."""
    for place in find_text(screen, text):
        is_inside = screen.dialog is None or screen.dialog.contains(place.box_px)
        if place.fit >= WHOLE and is_inside and (place.button is not None or screen.dialog is not None):
            return place
    return None


def _is_beside_dismiss(screen: Screen, place: Found) -> bool:
    others = (_find_button(screen, text) for text in _DISMISS[:3])
    return any(
        abs(other.box_px.center[1] - place.box_px.center[1]) < place.box_px.height
        and abs(other.box_px.center[0] - place.box_px.center[0]) < _BESIDE_PX
        for other in others
        if other is not None
    )
