"""Lists written without quotes: "Terms and Conditions" are two things, unless the screen has one of that name."""

from dataclasses import replace

from cua.models.literal.find_text import find_text
from cua.models.literal.progress import Progress
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Click, PlainStep, Report, SelectOption, Target, Tick
from cua.models.literal.text_match import WHOLE, normalize

IS_PART = "These words are a part of the name before."


def settle_list(step: PlainStep, screen: Screen, progress: Progress) -> PlainStep:
    """A step whose target is one part of a list, or the list's words as one name when the screen has that name.

    When the screen has neither, the words count as one name, which is then looked for.
    """
    match step:
        case Click(target=target) | Tick(target=target) | Report(target=target) if target.whole:
            return replace(step, target=_settle(target, screen, progress))
        case SelectOption(option=option) if option.whole:
            return replace(step, option=_settle(option, screen, progress))
        case _:
            return step


def is_part(step: PlainStep) -> bool:
    """Whether a step is the rest of a name that the step before it took as a whole."""
    match step:
        case Click(target=target) | Tick(target=target) | Report(target=target) | SelectOption(option=target):
            return target.is_rest and target.text == target.whole
        case _:
            return False


def _settle(target: Target, screen: Screen, progress: Progress) -> Target:
    was_one = target.is_rest and f'"{target.whole}"' in progress.last_action
    if was_one or _stands(screen, target.whole):
        return replace(target, text=target.whole)
    is_there = any(place.fit >= WHOLE for place in find_text(screen, target.text))
    if target.is_rest or is_there:
        return replace(target, whole="", is_rest=False)
    return replace(target, text=target.whole)


def _stands(screen: Screen, whole: str) -> bool:
    """Whether a screen has the words as one text; a list with commas has to stand there with them."""
    if "," in whole:
        return any(normalize(line.text) == normalize(whole) for line in screen.lines)
    return any(place.fit >= WHOLE for place in find_text(screen, whole))
