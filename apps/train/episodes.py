"""Work of several steps on one screen: an instruction of one to three parts, the screens it leads over, and its end."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from apps.train.screens.screen import Screen, ScreenOptions, make_screen, show_done
from apps.train.screens.widgets import Kind
from apps.train.screens.words import Words
from apps.train.skills import Question, ask_finish, ask_for, ask_to_type, draw_parts_of_nothing, vary

MAX_PARTS = 3
FILLED: tuple[Kind, ...] = ("field", "checkbox", "radio")
"""What people fill in before they press something."""
FILLED_ASKED = ("type", *FILLED)
"""Questions about that."""
END_SHARE = 0.3
"""How often work has come to its end where it may go on."""
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
    """An episode on a screen that has something to be worked on."""
    screen, parts = _begin(rng, options, is_varied)
    instruction, parts = _word(rng, [screen] * len(parts), parts, is_varied)
    return tuple(_play(rng, screen, parts, instruction, options))


def make_ways(rng: random.Random, options: ScreenOptions, count: int, long_share: float = 0.0) -> list[Episode]:
    """Pieces of work that begin alike, worded as `skills.vary` does, each up to what is next when that is done.

    All lead over the same screens; on the last one each goes on in its way, or has come to its end.

    Args:
        rng: Where everything is drawn from.
        options: Which screens.
        count: Of pieces.
        long_share: How often work of fewer than `MAX_PARTS` parts is passed over: most screens have no more, and some
            kinds never have as many.

    Raises:
        ValueError: `long_share` is 1 or more, or negative: on such screens it would never end.
    """
    if not 0 <= long_share < 1:
        raise ValueError(f"long_share is {long_share}; expected at least 0 and less than 1")
    screen, parts = _begin(rng, options, is_varied=True)
    while long_share and len(parts) < MAX_PARTS and rng.random() < long_share:
        screen, parts = _begin(rng, options, is_varied=True)
    done = parts[: rng.randint(0, len(parts))]
    *before, now = _walk(screen, done)
    if done and done[-1].kind not in FILLED_ASKED and rng.random() < 0.5:
        now, parts = make_screen(rng, options), done  # what was pressed leads elsewhere
    ways = []
    for number in range(count):
        rest = _draw_rest(rng, now, done) if number else parts[len(done) :]
        work = [*done, *rest] or parts
        instruction, worded = _word(rng, [*before, *[now] * len(work)], work, is_varied=True)
        last, *ahead = worded[len(done) :] or [ask_finish(instruction)]
        last = replace(last, ahead=tuple(ahead))
        steps = (Moment(screen=seen, question=part) for seen, part in zip(before, done, strict=True))
        ways.append((*steps, Moment(screen=now, question=replace(last, instruction=instruction))))
    return ways


def draw_request_ways(rng: random.Random, count: int) -> list[tuple[Question, ...]]:
    """Pieces of work on no screen, of one to three parts, each up to one of them: to be read alone."""
    ways = []
    for _ in range(count):
        parts = rng.sample(draw_parts_of_nothing(rng, 2 * MAX_PARTS), rng.choice((1, 2, 3, 3)))
        now = rng.randrange(len(parts))
        asked = replace(parts[now], instruction=join_parts(rng, parts, (*_JOINTS, " and ")))
        ways.append((*parts[:now], replace(asked, ahead=tuple(parts[now + 1 :]))))
    return ways


def _begin(rng: random.Random, options: ScreenOptions, is_varied: bool) -> tuple[Screen, list[Question]]:
    """A screen and what is to be done there."""
    while True:
        screen = make_screen(rng, options)
        parts = draw_parts(rng, screen, held_out=options.held_out_names)
        if parts and (len(parts) > 1 or not is_varied or rng.random() >= SHORT_SHARE):
            return screen, parts


def _draw_rest(rng: random.Random, screen: Screen, done: Sequence[Question]) -> list[Question]:
    """What else may be done when that is done, at most as much as makes up work; nothing now and then."""
    names = {part.target.name for part in done if part.target}
    free = tuple(target for target in screen.targets if target.name not in names)
    if done and rng.random() < END_SHARE:
        return []
    return draw_parts(rng, replace(screen, targets=free))[: MAX_PARTS - len(done)]


def _word(
    rng: random.Random, seen: Sequence[Screen], parts: Sequence[Question], is_varied: bool
) -> tuple[str, list[Question]]:
    """One instruction for all parts, and the parts as it says them, each of the screen that it is about."""
    listed = list_parts(rng, parts) if is_varied and rng.random() < LIST_SHARE else None
    is_free = is_varied and listed is None
    worded = [vary(rng, screen, part) if is_free else part for screen, part in zip(seen, parts, strict=False)]
    return listed or join_parts(rng, worded, (*_JOINTS, " and ") if is_varied else _JOINTS), worded


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
    return [ask_to_type(rng, one, words.text()) if one.kind == "field" else ask_for(rng, one) for one in chosen]


def _play(
    rng: random.Random, screen: Screen, parts: Sequence[Question], instruction: str, options: ScreenOptions
) -> Iterator[Moment]:
    *before, now = _walk(screen, parts)
    for seen, part in zip(before, parts, strict=True):
        yield Moment(screen=seen, question=replace(part, instruction=instruction))
    if parts[-1].kind not in FILLED_ASKED and rng.random() < 0.5:
        now = make_screen(rng, options)  # what was pressed leads elsewhere
    yield Moment(screen=now, question=ask_finish(instruction))


def _walk(screen: Screen, parts: Sequence[Question]) -> list[Screen]:
    """What is seen before each part is done, and after all of them."""
    screens = [screen]
    for part in parts:
        assert part.target is not None
        screens.append(show_done(screens[-1], part.target, part.typed))
    return screens


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
