"""What is asked of a screen, in words, and the right answer in the agent's protocol."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.train.screens.screen import Screen
from apps.train.screens.widgets import ICONS, Kind, Target
from apps.train.screens.words import Words, change_letter, is_held_out

ASK: dict[Kind, tuple[str, ...]] = {
    "button": ('Click the button "{}".', 'Click on the "{}" button.', 'Press "{}".', 'Click "{}".'),
    "link": ('Click the link "{}".', 'Click on the link "{}".', 'Follow the link "{}".'),
    "checkbox": ('Tick "{}".', 'Check the box "{}".', 'Select the checkbox "{}".'),
    "radio": ('Choose "{}".', 'Select the option "{}".', 'Select "{}".'),
    "tab": ('Open the tab "{}".', 'Click on the tab "{}".', 'Switch to the tab "{}".'),
    "item": ('Choose "{}" from the list.', 'Select the entry "{}".', 'Click on "{}".'),
    "menu": ('Open the menu "{}".', 'Click the menu "{}".'),
    "icon": ("Click the {} icon.", "Click on the {} icon."),
    "field": ('Click into the field "{}".', 'Focus the field "{}".'),
    "slider": ('Click the middle of the slider "{}".',),
}
ONLY: dict[Kind, tuple[str, ...]] = {
    "button": ("Click the button.", "Press the button."),
    "link": ("Click the link.", "Follow the link."),
    "checkbox": ("Tick the box.", "Check the box."),
    "field": ("Click into the text field.", "Focus the text field."),
    "slider": ("Click the middle of the slider.",),
}
"""For what there is one of on the screen."""
TYPE = ('Type "{value}" into the field "{name}".', 'Enter "{value}" in "{name}".', 'Write "{value}" into "{name}".')
TYPE_ONLY = ('Type "{value}" into the text field.', 'Enter "{value}" into the field.')
PLAIN_SHARE, ONLY_SHARE, STRANGE_SHARE = 0.15, 0.4, 0.05
"""How often a name stands without quotation marks; how often what there is one of is asked for without its name; how
often something else is asked for."""
STRANGE = (
    'Drag "{}" to the left.',
    'Scroll down to "{}".',
    'What is the price of "{}"?',
    "Sort the table by date.",
    "Go back to the last page.",
    "Play the video.",
    'Send a message to "{}".',
    "How many buttons are there?",
    "Write a poem about the sea.",
    'Save the file as "{}".',
)
"""What it does not learn to do: there it is to give up. Exams ask for other things that it did not learn."""
SEEN, ABSENT, DONE, UNKNOWN = "It is there.", "It is not there.", "It is done.", "That is new to me."
FAIL_CODE = 'computer.terminate(status="failure")'
CLICK, TYPE_ACTION, GIVE_UP, FINISH = "Click it.", "Click it and type.", "Give up.", "Finish."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about one screen, with its answer.

    Attributes:
        kind: What is asked for, for tables of results: an element's kind, `type`, `absent`, `strange` or `done`.
        instruction: As a user would say it.
        target: The element that is meant; None where there is none to be clicked.
        thought: What the answer thinks.
        action: Its sentence.
        code: Its code; `{x}` and `{y}` stand for the coordinates.
        typed: What it types; empty for a click alone.
        is_named: Whether the instruction says how the target is called on the screen.
    """

    kind: str
    instruction: str
    target: Target | None
    thought: str
    action: str
    code: str
    typed: str = ""
    is_named: bool = True


def draw_questions(
    rng: random.Random, screen: Screen, count: int, *, held_out: bool = False, is_varied: bool = False
) -> list[Question]:
    """Questions about a screen: most about elements that are there, some about what is not or is done already.

    Args:
        rng: Where they are drawn from.
        screen: One element at least.
        count: How many; elements are asked for again where there are fewer.
        held_out: Whether values that are typed are those that training never has.
        is_varied: Whether some are asked as `vary` does, and some for what cannot be done.
    """
    targets = list(screen.targets)
    rng.shuffle(targets)
    questions = []
    for number in range(count):
        target = targets[number % len(targets)]
        chance = rng.random()
        if is_varied and rng.random() < STRANGE_SHARE:
            questions.append(ask_strange(rng, target))
        elif chance < 0.1:
            questions.append(ask_absent(rng, screen, target))
        elif target.kind in ("checkbox", "radio") and target.is_on:
            questions.append(ask_finish(ask_for(rng, target).instruction))  # it is ticked already
        elif target.kind == "field" and not target.value and chance < 0.6:
            asked = ask_to_type(rng, target, Words(rng, held_out=held_out, near_share=0.0).value())
            questions.append(vary(rng, screen, asked) if is_varied else asked)
        else:
            asked = ask_for(rng, target)
            questions.append(vary(rng, screen, asked) if is_varied else asked)
    return questions


def vary(rng: random.Random, screen: Screen, question: Question) -> Question:
    """The same, now and then without quotation marks, or without the name where one kind of element says enough."""
    target = question.target
    assert target is not None
    is_only = target.kind in ONLY and sum(one.kind == target.kind for one in screen.targets) == 1
    if is_only and rng.random() < ONLY_SHARE:
        form = rng.choice(TYPE_ONLY if question.typed else ONLY[target.kind])
        return replace(question, instruction=form.format(value=question.typed), is_named=False)
    if rng.random() < PLAIN_SHARE:
        return replace(question, instruction=question.instruction.replace(f'"{target.name}"', target.name))
    return question


def ask_for(rng: random.Random, target: Target) -> Question:
    """A click on an element."""
    return Question(
        kind=target.kind,
        instruction=rng.choice(ASK[target.kind]).format(target.name),
        target=target,
        thought=SEEN,
        action=CLICK,
        code="pyautogui.click(x={x}, y={y})",
        is_named=target.kind != "icon",
    )


def ask_to_type(rng: random.Random, target: Target, value: str) -> Question:
    """A click into a field, and a text that is typed into it."""
    return replace(
        ask_for(rng, target),
        kind="type",
        instruction=rng.choice(TYPE).format(value=value, name=target.name),
        action=TYPE_ACTION,
        code=f'pyautogui.click(x={{x}}, y={{y}})\npyautogui.write("{value}")',
        typed=value,
    )


def ask_absent(rng: random.Random, screen: Screen, like: Target) -> Question:
    """For an element of that kind whose name no element has, often one letter away."""
    taken = {target.name.lower() for target in screen.targets}
    if like.kind == "icon":
        name = rng.choice([icon for icon in ICONS if icon not in taken])
    else:
        name = _other_name(rng, like.name, taken)
    asked = ask_for(rng, replace(like, name=name))
    return replace(asked, kind="absent", target=None, thought=ABSENT, action=GIVE_UP, code=FAIL_CODE)


def ask_strange(rng: random.Random, like: Target, forms: Sequence[str] = STRANGE) -> Question:
    """For something else than a click or a text.

    Args:
        rng: Where the form is drawn from.
        like: An element whose name some forms have.
        forms: Of sentences; `{}` stands for a name.
    """
    return Question(
        kind="strange",
        instruction=rng.choice(forms).format(like.name),
        target=None,
        thought=UNKNOWN,
        action=GIVE_UP,
        code=FAIL_CODE,
        is_named=False,
    )


def _other_name(rng: random.Random, name: str, taken: set[str]) -> str:
    wanted = is_held_out(name)
    for _ in range(1000):
        near = change_letter(rng, name)
        name_of_other = near if rng.random() < 0.5 else Words(rng, held_out=wanted, near_share=0.0).name()
        if name_of_other.lower() not in taken and is_held_out(name_of_other) is wanted:
            return name_of_other
    raise RuntimeError(f"no name is left beside {len(taken)} others")


def ask_finish(instruction: str) -> Question:
    """The end of work that has been done."""
    code = 'computer.terminate(status="success")'
    return Question(kind="done", instruction=instruction, target=None, thought=DONE, action=FINISH, code=code)
