"""Screens after something was done on them."""

from dataclasses import replace

from apps.train.screens.screen import Screen
from apps.train.screens.widgets import Target, fill_field, mark_chosen, tick


def show_done(screen: Screen, target: Target, typed: str = "") -> Screen:
    """The screen after something was done to an element: a text in a field, a tick, a row that is chosen.

    Args:
        screen: As it was; it stays so.
        target: One of its elements. Buttons, links and the like show nothing.
        typed: All that a field that was empty holds now.
    """
    pen = replace(screen.pen, canvas=screen.pen.canvas.copy())
    match target.kind:
        case "field":
            after = fill_field(pen, target, typed)
        case "checkbox" | "radio":
            after = tick(pen, target)
        case "item" | "tab":
            after = mark_chosen(pen, target)
        case _:
            return screen
    targets = tuple(after if one is target else one for one in screen.targets)
    return Screen(family=screen.family, targets=targets, pen=pen)
