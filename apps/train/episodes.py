"""Work of several steps on one screen: an instruction of one to three parts, the screens it leads over, and its end."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from apps.train.screens.screen import Screen, ScreenOptions, make_screen, show_done
from apps.train.screens.widgets import Kind, Target
from apps.train.screens.words import Words
from apps.train.skills import Question, ask_finish, ask_for, ask_to_type, vary

MAX_PARTS = 3
FILLED: tuple[Kind, ...] = ("field", "checkbox", "radio")
"""What people fill in before they press something."""
SHORT_SHARE = 0.65
"""How often work of one part is passed over, where it may vary: most screens have no more to be worked on."""
LIST_SHARE = 0.5
"""How often boxes that are ticked one after another are listed behind one verb, where the words may vary."""
_JOINTS = (", then ", ", and then ", ". Then ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step of an episode: what is seen, and the right answer to the instruction."""

    screen: Screen
    question: Question


Episode = tuple[Moment, ...]
"""From the first step to the one that says it is done; all ask for the same instruction."""


def make_episode(rng: random.Random, options: ScreenOptions, *, is_varied: bool = False) -> Episode:
    """An episode on a screen that has something to be worked on.

    Args:
        rng: Where everything is drawn from.
        options: Which screens.
        is_varied: See `skills.draw_questions`.
    """
    while True:
        screen = make_screen(rng, options)
        parts = draw_parts(rng, screen, held_out=options.held_out_names)
        if not parts or (is_varied and len(parts) == 1 and rng.random() < SHORT_SHARE):
            continue
        listed = list_parts(rng, parts) if is_varied and rng.random() < LIST_SHARE else None
        if is_varied and listed is None:
            parts = [vary(rng, screen, part) for part in parts]
        joints = (*_JOINTS, " and ") if is_varied else _JOINTS
        return tuple(_play(rng, screen, parts, listed or join_parts(rng, parts, joints), options))


def draw_parts(rng: random.Random, screen: Screen, *, held_out: bool = False) -> list[Question]:
    """What is to be done, one after another: things to fill in, then something to press; none on some screens."""
    open_ = [target for target in screen.targets if not target.is_on and not (target.kind == "field" and target.value)]
    filled = [target for target in open_ if target.kind in FILLED]
    pressed = [target for target in open_ if target.kind not in FILLED]
    count = rng.randint(1, MAX_PARTS)
    chosen = rng.sample(filled, min(len(filled), count))
    if not chosen and count == 2:
        chosen = rng.sample(pressed, min(len(pressed), 2))  # one thing pressed after another
    elif pressed and (len(chosen) < count or rng.random() < 0.7):
        chosen = [*chosen[: count - 1], rng.choice(pressed)]
    words = Words(rng, held_out=held_out, near_share=0.0)
    return [ask_to_type(rng, one, words.value()) if one.kind == "field" else ask_for(rng, one) for one in chosen]


def _play(
    rng: random.Random, screen: Screen, parts: Sequence[Question], instruction: str, options: ScreenOptions
) -> Iterator[Moment]:
    targets: list[Target] = []
    for part in parts:
        assert part.target is not None
        targets.append(part.target)
        yield Moment(screen=screen, question=replace(part, instruction=instruction))
        screen = show_done(screen, part.target, part.typed)
    if targets[-1].kind not in FILLED and rng.random() < 0.5:
        screen = make_screen(rng, options)  # what was pressed leads elsewhere
    yield Moment(screen=screen, question=ask_finish(instruction))


def list_parts(rng: random.Random, parts: Sequence[Question]) -> str | None:
    """Boxes behind one verb, with what is pressed at the end: `Tick "A", "B" and click "C".`; None for other work."""
    boxes = [part for part in parts if part.kind in ("checkbox", "radio")]
    rest = [part for part in parts if part not in boxes]
    if len(parts) < 2 or not boxes or any(part.kind not in ("button", "link") for part in rest):
        return None
    form = rng.choice(('"{}"', "{}"))
    names = [form.format(part.target.name) for part in (*boxes, *rest) if part.target]
    listed = ", ".join(names[:-1])
    last = f"{rng.choice(('click', 'press'))} {names[-1]}" if rest else names[-1]
    return f"{rng.choice(('Select', 'Tick', 'Check'))} {listed} and {last}."


def join_parts(rng: random.Random, parts: Sequence[Question], joints: Sequence[str] = _JOINTS) -> str:
    """One instruction of several sentences, as people write them: joined by words, in a row, or numbered."""
    texts = [part.instruction.removesuffix(".") for part in parts]
    if len(texts) == 1:
        return f"{texts[0]}."
    form = rng.randrange(3)
    if form == 0:
        return " ".join(f"{number}. {text}." for number, text in enumerate(texts, start=1))
    if form == 1:
        return " ".join(f"{text}." for text in texts)
    joint = rng.choice(joints)
    return joint.join([texts[0], *(text[0].lower() + text[1:] for text in texts[1:])]) + "."
