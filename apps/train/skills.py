"""Questions about a screen, in words, and the right answer in the agent's protocol."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.train.screens.screen import DrawnScreen
from apps.train.screens.widgets import ICONS, DrawnElement, Kind
from apps.train.screens.words import DrawnTexts, change_letter, is_held_out

ASK: dict[Kind, tuple[str, ...]] = {
    "button": (
        'Click the button "{}".',
        'Click on the "{}" button.',
        'Click button "{}".',
        'Press "{}".',
        'Click "{}".',
        'Click on "{}".',
    ),
    "link": ('Click the link "{}".', 'Click on the link "{}".', 'Follow the link "{}".'),
    "checkbox": ('Tick "{}".', 'Check the box "{}".', 'Select the checkbox "{}".', 'Select "{}".'),
    "radio": ('Choose "{}".', 'Select the option "{}".', 'Select "{}".'),
    "tab": ('Open the tab "{}".', 'Click on the tab "{}".', 'Switch to the tab "{}".', 'Click on "{}".'),
    "item": ('Choose "{}" from the list.', 'Select the entry "{}".', 'Click on "{}".'),
    "menu": ('Open the menu "{}".', 'Click the menu "{}".'),
    "icon": ("Click the {} icon.", "Click on the {} icon."),
    "field": ('Click into the field "{}".', 'Focus the field "{}".'),
    "slider": ('Click the middle of the slider "{}".',),
}
CLOSE = ("Close the dialog.", "Close the window.", 'Click on "x".', 'Close it with the "x".')
"""Instructions for an icon that closes something."""
ONLY: dict[Kind, tuple[str, ...]] = {
    "button": ("Click the button.", "Press the button."),
    "link": ("Click the link.", "Follow the link."),
    "checkbox": ("Tick the box.", "Check the box."),
    "field": ("Click into the text field.", "Focus the text field.", "Focus into the field.", "Click on the text box."),
    "slider": ("Click the middle of the slider.",),
}
"""Instructions for the only element of its kind on the screen."""
TYPE = ('Type "{value}" into the field "{name}".', 'Enter "{value}" in "{name}".', 'Write "{value}" into "{name}".')
TYPE_ONLY = (
    'Type "{value}" into the text field.',
    'Enter "{value}" into the field.',
    'Enter "{value}" into the text field.',
    'Write "{value}" into the box.',
)
SPELLED: dict[Kind, tuple[str, ...]] = {
    "field": ("Click into the textbox.", "Click on the textbox.", "Focus the textbox.", "Click into the input box."),
}
"""Instructions for a single element with a word outside the vocabulary, so that it is tokenized as letters, as names
are.
"""
TYPE_SPELLED = ('Type "{value}" into the textbox.', 'Enter "{value}" into the input box.')
BESIDE_SHARE, MAX_BESIDE, AHEAD_SHARE = 0.2, 4, 0.7
"""Probability of unknown words next to a quoted name, as in `the button labeled "OK"`; their maximum number;
probability that they are before the name and not after it.
"""
PLAIN_SHARE, ONLY_SHARE, STRANGE_SHARE, ABSENT_SHARE, TYPE_SHARE, CLOSE_SHARE = 0.15, 0.4, 0.07, 0.2, 0.75, 0.5
"""Probabilities: a name without quotation marks; a single element asked for without its name; an unlearned instruction;
an absent element; threshold below which an empty field is typed into; a close icon asked for by its purpose.
"""
DIGIT_SHARE = 0.3
"""Share of copied texts without an image that are replaced by numbers: three digits are one token of a thousand."""
VARIED_ABSENT_SHARE = 0.28
"""Probability of an absent element in training, where a third of the lessons are later steps, which have none."""
NEAR_ABSENT_SHARE = 0.3
"""Probability, in training, that the name of an absent element is one letter away from an existing one."""
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
"""Instructions that the model does not learn: the right answer is to give up. Exams use other ones."""
UNHEARD_SHARE = 0.7
"""Share of unlearned instructions that begin with a random word, so that any unknown word leads to giving up."""
UNHEARD = ('{} "{}".', "{} it.", '{} the button "{}".', "{} the text.", '{} "{}" to the right.', '{} "{}"?', "{}?")
SEEN, ABSENT, DONE, UNKNOWN = "It is there.", "It is not there.", "It is done.", "That is new to me."
CLICK, TYPE_ACTION, GIVE_UP, FINISH = "Click it.", "Click it and type.", "Give up.", "Finish."
CLICK_CODE = "pyautogui.click(x={x}, y={y})"
TYPE_CODE = CLICK_CODE + '\npyautogui.write("{value}")'
FAIL_CODE, FINISH_CODE = 'computer.terminate(status="failure")', 'computer.terminate(status="success")'
ANSWERS = (
    (SEEN, CLICK, CLICK_CODE),
    (SEEN, TYPE_ACTION, TYPE_CODE),
    (ABSENT, GIVE_UP, FAIL_CODE),
    (UNKNOWN, GIVE_UP, FAIL_CODE),
    (DONE, FINISH, FINISH_CODE),
)
"""Thought, action and code of all answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenQuestion:
    """One question about one screen, with its answer.

    Attributes:
        kind: Kind for tables of results: an element's kind, `type`, `absent`, `strange` or `done`.
        instruction: Instruction in the words of a user.
        target: Element to click; None if nothing is to be clicked.
        subject: Element that the question is about, which may be absent, already ticked, or without a screen; None if
            there is none.
        thought: Thought of the answer.
        action: Action sentence of the answer.
        code: Code of the answer, with the placeholders `{x}` and `{y}` for the coordinates.
        typed: Text that is typed; empty for a click only.
        is_named: True if the instruction has the name of the subject, as read from the screen or from an icon's shape.
        ahead: Questions of later parts of the instruction, in order.
    """

    kind: str
    instruction: str
    target: DrawnElement | None
    subject: DrawnElement | None
    thought: str
    action: str
    code: str
    typed: str = ""
    is_named: bool = True
    ahead: tuple["ScreenQuestion", ...] = ()


def draw_questions(
    rng: random.Random, screen: DrawnScreen, count: int, *, held_out: bool = False, is_varied: bool = False
) -> list[ScreenQuestion]:
    """Draw questions about a screen: most about existing elements, some about absent or finished ones.

    Args:
        rng: Source of randomness.
        screen: Screen with at least one element.
        count: Number of questions; elements are repeated if there are fewer.
        held_out: True to type values that training never has.
        is_varied: True to vary the wording as `vary` does, and to include instructions that cannot be done.
    """
    targets, questions = _mix_kinds(rng, screen.targets), []
    for number in range(count):
        target = targets[number % len(targets)]
        chance = rng.random()
        if is_varied and rng.random() < STRANGE_SHARE:
            questions.append(ask_strange(rng, target))
        elif chance < (VARIED_ABSENT_SHARE if is_varied else ABSENT_SHARE):
            question = ask_absent(rng, screen, target, NEAR_ABSENT_SHARE if is_varied else 0.5)
            questions.append(add_words(rng, question) if is_varied else question)
        elif target.kind in ("checkbox", "radio") and target.is_on:
            question = ask_finish(ask_for(rng, target).instruction, target)  # already ticked
            questions.append(add_words(rng, question) if is_varied else question)
        elif target.kind == "field" and not target.value and chance < TYPE_SHARE:
            words = DrawnTexts(rng, held_out=held_out, near_share=0.0)
            question = ask_to_type(rng, target, words.text())
            questions.append(vary(rng, screen, question) if is_varied else question)
        else:
            question = ask_for(rng, target)
            questions.append(vary(rng, screen, question) if is_varied else question)
    return questions


def draw_requests(rng: random.Random, count: int) -> list[ScreenQuestion]:
    """Draw questions about elements without a screen, every other one with a text to type; they are trained as text
    only.
    """
    questions = []
    for question in draw_parts_of_nothing(rng, count):
        assert question.subject is not None
        if rng.random() < PLAIN_SHARE:
            question = replace(
                question, instruction=question.instruction.replace(f'"{question.subject.name}"', question.subject.name)
            )
        questions.append(add_words(rng, question))
    return questions


def draw_parts_of_nothing(rng: random.Random, count: int) -> list[ScreenQuestion]:
    """Draw questions about elements without a screen, as parts of a task: names are quoted."""
    words, questions = DrawnTexts(rng, held_out=False, near_share=0.0), []
    for number in range(count):
        kind = "field" if number % 2 else rng.choice([kind for kind in ASK if kind != "icon"])
        target = DrawnElement(kind=kind, name=words.name(), box=(0, 0, 1, 1), read_at=(0.0, 0.0))
        value = str(rng.randrange(100_000)) if rng.random() < DIGIT_SHARE else words.text()
        questions.append(ask_to_type(rng, target, value) if number % 2 else ask_for(rng, target))
    return questions


def _mix_kinds(rng: random.Random, targets: Sequence[DrawnElement]) -> list[DrawnElement]:
    """Order targets with one of each kind first, then a second one of each: buttons are the majority."""
    shuffled, count = list(targets), Counter[str]()
    rng.shuffle(shuffled)
    turns = []
    for target in shuffled:
        count[target.kind] += 1
        turns.append(count[target.kind])
    return [target for _, target in sorted(zip(turns, shuffled, strict=True), key=lambda pair: pair[0])]


def vary(rng: random.Random, screen: DrawnScreen, question: ScreenQuestion) -> ScreenQuestion:
    """Vary the wording: sometimes without quotation marks, without the name of a single element, or with words next to
    the name.
    """
    target = question.target
    assert target is not None
    if (target.kind, target.name) == ("icon", "close") and rng.random() < CLOSE_SHARE:
        return replace(question, instruction=rng.choice(CLOSE), is_named=False)  # other programs' icons look different
    is_only = target.kind in ONLY and sum(other.kind == target.kind for other in screen.targets) == 1
    if is_only and rng.random() < ONLY_SHARE:
        forms = (*ONLY[target.kind], *SPELLED.get(target.kind, ()))
        form = rng.choice((*TYPE_ONLY, *TYPE_SPELLED) if question.typed else forms)
        return replace(question, instruction=form.format(value=question.typed), is_named=False)
    if rng.random() < PLAIN_SHARE:
        return replace(question, instruction=question.instruction.replace(f'"{target.name}"', target.name))
    return add_words(rng, question)


def add_words(rng: random.Random, question: ScreenQuestion) -> ScreenQuestion:
    """Sometimes add words next to a quoted name, which the model has to ignore."""
    name = f'"{question.subject.name}"' if question.subject else ""
    if not name or name not in question.instruction or rng.random() >= BESIDE_SHARE:
        return question
    words = DrawnTexts(rng, held_out=False, near_share=0.0).filler(rng.randint(1, MAX_BESIDE)).lower()
    if name.strip('"').lower() in words:  # it would be found in these words
        return question
    before, after = question.instruction.rsplit(name, 1)
    around = f"{words} {name}" if rng.random() < AHEAD_SHARE else f"{name} {words}"
    return replace(question, instruction=f"{before}{around}{after}")


def ask_for(rng: random.Random, target: DrawnElement) -> ScreenQuestion:
    """Return a question for a click on an element; one without a name is the only one of its kind."""
    forms = ASK if target.name else ONLY
    return ScreenQuestion(
        kind=target.kind,
        instruction=rng.choice(forms[target.kind]).format(target.name),
        target=target,
        subject=target,
        thought=SEEN,
        action=CLICK,
        code=CLICK_CODE,
        is_named=bool(target.name),
    )


def ask_to_type(rng: random.Random, target: DrawnElement, value: str) -> ScreenQuestion:
    """Return a question for a click into a field and a text to type."""
    return replace(
        ask_for(rng, target),
        kind="type",
        instruction=rng.choice(TYPE if target.name else TYPE_ONLY).format(value=value, name=target.name),
        action=TYPE_ACTION,
        code=TYPE_CODE.replace("{value}", value),
        typed=value,
    )


def ask_absent(rng: random.Random, screen: DrawnScreen, like: DrawnElement, near_share: float = 0.5) -> ScreenQuestion:
    """Return a question for an element of a given kind with a name that no element has.

    Args:
        rng: Source of randomness.
        screen: Screen without that name.
        like: Element of the same kind.
        near_share: Probability that the name is one letter away from that element's.
    """
    taken_names = {target.name.lower() for target in screen.targets}
    if like.kind == "icon":
        name = rng.choice([icon for icon in ICONS if icon not in taken_names])
    else:
        name = _other_name(rng, like.name, taken_names, near_share)
    question = ask_for(rng, replace(like, name=name))
    return replace(question, kind="absent", target=None, thought=ABSENT, action=GIVE_UP, code=FAIL_CODE)


def ask_strange(rng: random.Random, like: DrawnElement, forms: Sequence[str] = ()) -> ScreenQuestion:
    """Return a question for something other than a click or a text.

    Args:
        rng: Source of randomness.
        like: Element whose name some forms have.
        forms: Sentences with `{}` for a name, none of them in training; empty for the forms of training.
    """
    if forms or rng.random() >= UNHEARD_SHARE:
        instruction = rng.choice(forms or STRANGE).format(like.name)
    else:
        words = DrawnTexts(rng, held_out=False, near_share=0.0)
        unheard = " ".join(words.name(9) for _ in range(rng.choice((1, 1, 2)))).lower().capitalize()
        instruction = rng.choice(UNHEARD).format(unheard, like.name)
    return ScreenQuestion(
        kind="strange",
        instruction=instruction,
        target=None,
        subject=None,
        thought=UNKNOWN,
        action=GIVE_UP,
        code=FAIL_CODE,
        is_named=False,
    )


def _other_name(rng: random.Random, name: str, taken_names: set[str], near_share: float) -> str:
    wanted = is_held_out(name) if name else False
    for _ in range(1000):
        near = change_letter(rng, name) if name else ""
        name_of_other = (
            near if name and rng.random() < near_share else DrawnTexts(rng, held_out=wanted, near_share=0.0).name()
        )
        if name_of_other.lower() not in taken_names and is_held_out(name_of_other) is wanted:
            return name_of_other
    raise RuntimeError(f"no name is left in addition to {len(taken_names)} others")


def ask_finish(instruction: str, subject: DrawnElement | None = None) -> ScreenQuestion:
    """Return a question for the end of a finished task: on an element that shows it, or on several."""
    return ScreenQuestion(
        kind="done",
        instruction=instruction,
        target=None,
        subject=subject,
        thought=DONE,
        action=FINISH,
        code=FINISH_CODE,
        is_named=subject is not None,
    )
