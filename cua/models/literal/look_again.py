"""After an act: did it work? Messages, questions left open, and buttons that changed nothing."""

from collections.abc import Sequence

from cua.models.literal.differences import find_effects
from cua.models.literal.do_pointer import find_pressed
from cua.models.literal.find_target import is_echo
from cua.models.literal.moves import Act, Failed
from cua.models.literal.progress import Progress
from cua.models.literal.sight import Sight
from cua.models.literal.steps import (
    AnswerDialog,
    CheckShown,
    ClearField,
    Click,
    Drag,
    OpenAddress,
    PlainStep,
    PressKeys,
    Report,
    ScrollBy,
    ScrollUntil,
    SelectOption,
    SetValue,
    Tick,
    TypeText,
    WaitFor,
    find_typed,
)
from cua.models.literal.trouble import find_question, find_trouble, still_stands

_MAX_LOOKS = 3
_FILLING = (TypeText, SetValue, SelectOption, Tick, ClearField)
_SLOW = (Click, PressKeys, Drag, AnswerDialog, OpenAddress)
_SUBMITS = frozenset(
    "save submit send apply register login signin signup logon create add order pay buy update confirm post publish"
    " checkout book subscribe store delete remove".split()
)


def find_message(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> str | None:
    """A message that the last act brought up and that says that something is wrong."""
    before = sight.back(1 + progress.num_looks) or sight.back(len(sight.pictures) - 1)
    if before is None or len(sight.pictures) < 2 or not progress.last_action or _has_scrolled(steps, progress):
        return None
    return find_trouble(before, sight.now, _named_texts(steps), is_form=_is_sent(steps, progress))


def _has_scrolled(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether the last action only moved the view or opened a list, so that what is new is no message."""
    if progress.phases:
        return progress.last not in ("type", "toggle", "pick", "keys")
    return bool(progress.index) and isinstance(steps[progress.index - 1], (ScrollBy, ScrollUntil, Report, CheckShown))


def is_final(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether a message after the last act cannot be mended by what is still to be done."""
    if progress.phases or not progress.index:
        return False
    last, rest = steps[progress.index - 1], steps[progress.index :]
    return isinstance(last, _SLOW) and not any(isinstance(step, (*_FILLING, CheckShown, WaitFor)) for step in rest)


def look_again(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> Act | Failed | None:
    """What to do when all steps are done: look once more, say what is wrong, or nothing.

    Args:
        steps: The whole instruction.
        sight: What is seen, and what was seen before.
        progress: All steps done.
    """
    for text in progress.seen:
        if still_stands(text, sight.now):
            return Failed(reason=f'all steps are done, and the screen says "{text}"')
    last = steps[-1]
    if len(sight.pictures) < 2 or not progress.last_action or not isinstance(last, _SLOW):
        return None
    before = sight.back(1 + progress.num_looks)
    if before is not None:
        question = find_question(before, sight.now, _named_texts(steps))
        if question is not None:
            return Failed(reason=f'a question was left open after the last step ({last}): "{question}"')
    if progress.num_looks == 0 or (progress.num_looks < _MAX_LOOKS and not sight.is_stuck):
        return Act(code=("time.sleep(1)",), thought="I look again whether it worked.", phase="look")
    if progress.num_looks == 1 and not sight.has_news and isinstance(last, Click) and _had_no_effect(steps, sight):
        return Failed(reason=f"nothing on the screen changed after the last step ({last}), so that I cannot claim it")
    return None


def _had_no_effect(steps: Sequence[PlainStep], sight: Sight) -> bool:
    """Whether a form's button, a heading or what was typed was pressed and nothing but itself looks different."""
    last, before = steps[-1], sight.back(2)
    if before is None or not isinstance(last, Click) or last.button != "left" or not last.clicks:
        return False
    typed = find_typed(steps)
    pressed = find_pressed(before, last.target, typed)
    if pressed is None:
        return False
    is_submit = pressed.button is not None and _is_form(steps, Progress(index=len(steps)))
    if not is_submit and not pressed.is_heading and not is_echo(before, pressed, typed):
        return False
    return not find_effects(before, sight.now, pressed.button or pressed.line.box_px)


def _is_form(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether a form was filled so far, or the last act pressed something that is named as such buttons are."""
    done = steps[: progress.index + bool(progress.phases)]
    if any(isinstance(step, _FILLING) for step in done):
        return True
    last = done[-1] if done else None
    text = last.target.text.lower().replace("-", "") if isinstance(last, Click) else ""
    return bool(_SUBMITS & {text.replace(" in", "in").replace(" up", "up"), *text.split()})


def _is_sent(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether the last act may have sent a form: red hints that come up while it is filled are none of a refusal."""
    is_filling = bool(progress.phases) or (progress.index and isinstance(steps[progress.index - 1], _FILLING))
    return not is_filling and _is_form(steps, progress)


def _named_texts(steps: Sequence[PlainStep]) -> list[str]:
    """What the instruction names: a message made of it is wanted."""
    return [str(step) for step in steps]
