"""Tasks of several steps on one screen: an instruction of one to three parts, the screens in sequence, and the end."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from apps.train.screens.screen import DrawnScreen, ScreenOptions, make_screen, show_done
from apps.train.screens.widgets import Kind
from apps.train.screens.words import DrawnTexts
from apps.train.skills import ScreenQuestion, ask_finish, ask_for, ask_to_type, draw_parts_of_nothing, vary

MAX_PARTS = 3
FILLED: tuple[Kind, ...] = ("field", "checkbox", "radio")
"""Elements that are filled in before something is pressed."""
FILLED_ASKED = ("type", *FILLED)
"""Kinds of questions about these elements."""
END_SHARE = 0.3
"""Probability that a task that could go on is finished instead."""
SHORT_SHARE = 0.65
"""Probability of rejecting a task of one part if the wording may vary: most screens have no more."""
LIST_SHARE = 0.5
"""Probability of listing ticked boxes behind one verb if the wording may vary."""
_JOINTS = (", then ", ", and then ", ". Then ")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStep:
    """One step of an episode: a screen, and the question with the right answer."""

    screen: DrawnScreen
    question: ScreenQuestion


Episode = tuple[EpisodeStep, ...]
"""All steps up to the report of the end; all have the same instruction."""


def make_episode(rng: random.Random, options: ScreenOptions, *, is_varied: bool = False) -> Episode:
    """Return an episode on a screen that has something to do."""
    screen, parts = _begin(rng, options, is_varied)
    instruction, parts = _word(rng, [screen] * len(parts), parts, is_varied)
    return tuple(_play(rng, screen, parts, instruction, options))


def make_ways(rng: random.Random, options: ScreenOptions, count: int, long_share: float = 0.0) -> list[Episode]:
    """Return tasks with a common beginning, worded as by `skills.vary`, each up to its next step.

    All lead over the same screens; on the last one, each continues differently or is finished.

    Args:
        rng: Source of randomness.
        options: Options of the screens.
        count: Number of tasks.
        long_share: Probability of rejecting a task of fewer than `MAX_PARTS` parts: most screens have no more, and some
            kinds never have as many.

    Raises:
        ValueError: If `long_share` is negative, or 1 or more: on some screens the search would not end.
    """
    if not 0 <= long_share < 1:
        raise ValueError(f"long_share is {long_share}; expected at least 0 and less than 1")
    screen, parts = _begin(rng, options, is_varied=True)
    while long_share and len(parts) < MAX_PARTS and rng.random() < long_share:
        screen, parts = _begin(rng, options, is_varied=True)
    done = parts[: rng.randint(0, len(parts))]
    *before, now = _walk(screen, done)
    if done and done[-1].kind not in FILLED_ASKED and rng.random() < 0.5:
        now, parts = make_screen(rng, options), done  # the pressed element leads to another screen
    ways = []
    for number in range(count):
        rest = _draw_rest(rng, now, done) if number else parts[len(done) :]
        work = [*done, *rest] or parts
        instruction, worded = _word(rng, [*before, *[now] * len(work)], work, is_varied=True)
        last, *ahead = worded[len(done) :] or [ask_finish(instruction)]
        last = replace(last, ahead=tuple(ahead))
        steps = (EpisodeStep(screen=seen, question=part) for seen, part in zip(before, done, strict=True))
        ways.append((*steps, EpisodeStep(screen=now, question=replace(last, instruction=instruction))))
    return ways


def draw_request_ways(rng: random.Random, count: int) -> list[tuple[ScreenQuestion, ...]]:
    """Return tasks of one to three parts without a screen, each up to one of its parts, for training on text only."""
    ways = []
    for _ in range(count):
        parts = rng.sample(draw_parts_of_nothing(rng, 2 * MAX_PARTS), rng.choice((1, 2, 3, 3)))
        now = rng.randrange(len(parts))
        question = replace(parts[now], instruction=join_parts(rng, parts, (*_JOINTS, " and ")))
        ways.append((*parts[:now], replace(question, ahead=tuple(parts[now + 1 :]))))
    return ways


def _begin(rng: random.Random, options: ScreenOptions, is_varied: bool) -> tuple[DrawnScreen, list[ScreenQuestion]]:
    """Draw a screen and the parts of a task on it."""
    while True:
        screen = make_screen(rng, options)
        parts = draw_parts(rng, screen, held_out=options.held_out_names)
        if parts and (len(parts) > 1 or not is_varied or rng.random() >= SHORT_SHARE):
            return screen, parts


def _draw_rest(rng: random.Random, screen: DrawnScreen, done: Sequence[ScreenQuestion]) -> list[ScreenQuestion]:
    """Draw further parts of a task, at most `MAX_PARTS` in total; sometimes none."""
    names = {part.target.name for part in done if part.target}
    free = tuple(target for target in screen.targets if target.name not in names)
    if done and rng.random() < END_SHARE:
        return []
    return draw_parts(rng, replace(screen, targets=free))[: MAX_PARTS - len(done)]


def _word(
    rng: random.Random, seen: Sequence[DrawnScreen], parts: Sequence[ScreenQuestion], is_varied: bool
) -> tuple[str, list[ScreenQuestion]]:
    """Return one instruction for all parts, and the parts as worded in it. `seen` has the screen of each part."""
    listed = list_parts(rng, parts) if is_varied and rng.random() < LIST_SHARE else None
    is_free = is_varied and listed is None
    worded = [vary(rng, screen, part) if is_free else part for screen, part in zip(seen, parts, strict=False)]
    return listed or join_parts(rng, worded, (*_JOINTS, " and ") if is_varied else _JOINTS), worded


def draw_parts(rng: random.Random, screen: DrawnScreen, *, held_out: bool = False) -> list[ScreenQuestion]:
    """Draw the parts of a task in order: elements to fill in, then one to press; empty for some screens."""
    open_ = [target for target in screen.targets if not target.is_on and not (target.kind == "field" and target.value)]
    filled = [target for target in open_ if target.kind in FILLED]
    pressed = [target for target in open_ if target.kind not in FILLED]
    count = rng.randint(1, MAX_PARTS)
    chosen = rng.sample(filled, min(len(filled), count))
    if not chosen and count == 2:
        chosen = rng.sample(pressed, min(len(pressed), 2))  # press one element after another
    elif pressed and (len(chosen) < count or rng.random() < 0.7):
        chosen = [*chosen[: count - 1], rng.choice(pressed)]
    words = DrawnTexts(rng, held_out=held_out, near_share=0.0)
    return [
        ask_to_type(rng, target, words.text()) if target.kind == "field" else ask_for(rng, target) for target in chosen
    ]


def _play(
    rng: random.Random, screen: DrawnScreen, parts: Sequence[ScreenQuestion], instruction: str, options: ScreenOptions
) -> Iterator[EpisodeStep]:
    *before, now = _walk(screen, parts)
    for seen, part in zip(before, parts, strict=True):
        yield EpisodeStep(screen=seen, question=replace(part, instruction=instruction))
    if parts[-1].kind not in FILLED_ASKED and rng.random() < 0.5:
        now = make_screen(rng, options)  # the pressed element leads to another screen
    yield EpisodeStep(screen=now, question=ask_finish(instruction))


def _walk(screen: DrawnScreen, parts: Sequence[ScreenQuestion]) -> list[DrawnScreen]:
    """Return the screen before each part, and the one after all of them."""
    screens = [screen]
    for part in parts:
        assert part.target is not None
        screens.append(show_done(screens[-1], part.target, part.typed))
    return screens


def list_parts(rng: random.Random, parts: Sequence[ScreenQuestion]) -> str | None:
    """Word boxes behind one verb and a final press: `Tick "A", "B" and click "C".`; None for other tasks."""
    boxes = [part for part in parts if part.kind in ("checkbox", "radio")]
    rest = [part for part in parts if part not in boxes]
    if len(parts) < 2 or not boxes or any(part.kind not in ("button", "link") for part in rest):
        return None
    form = rng.choice(('"{}"', "{}"))
    names = [form.format(part.target.name) for part in (*boxes, *rest) if part.target]
    listed = ", ".join(names[:-1])
    last = f"{rng.choice(('click', 'press'))} {names[-1]}" if rest else names[-1]
    return f"{rng.choice(('Select', 'Tick', 'Check'))} {listed} and {last}."


def join_parts(rng: random.Random, parts: Sequence[ScreenQuestion], joints: Sequence[str] = _JOINTS) -> str:
    """Join parts to one instruction as people write it: with conjunctions, as sentences, or numbered."""
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
