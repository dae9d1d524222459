"""What nano-K2.5 learns one after another, and the stream of lessons that it learns from."""

import random
from dataclasses import dataclass, field, replace

from apps.train.episodes import draw_request_ways, make_ways
from apps.train.lessons import LessonMaker
from apps.train.screens.screen import LATER_FAMILIES, READING, TRAINED_FAMILIES, ScreenOptions, make_screen
from apps.train.skills import draw_questions, draw_requests
from model_runtime.training.lessons import Lesson
from model_runtime.training.loss_weights import LossWeights

SMALL = ((280, 224), (160, 210), (224, 280))
MIDDLE = (*SMALL, *SMALL, (340, 220), (400, 300), (480, 320))
"""Small ones most of the time: they teach the same for less."""
STRIPS = ((1280, 140), (960, 168), (640, 224), (168, 720), (224, 480))
"""As wide or as high as large screens are, not both: places on large screens, for the price of middle ones."""
MIXED = (*MIDDLE * 4, *STRIPS, (640, 480))
"""With a large one now and then: 640 x 480 costs more than twice as much as 280 x 224, 1280 x 720 twelve times."""
LARGE = ((800, 600), (1024, 768), (1280, 720))
"""For the large model, on a GPU."""
OTHERS = tuple((200 + 37 * number % 320, 164 + 53 * number % 180) for number in range(48))
"""Of which none is whole tokens both ways: how much of the last ones is black says how wide a screen is."""

NUMBER_WIDTH, LAST_NUMBER_WIDTH = 12.0, 8.0
"""Thousandths of the screen within which a coordinate is nearly right: a third of a small button; less once the right
element is looked at most of the time, since then it counts how far from its middle a click is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One part of a course.

    Attributes:
        name: For progress lines and tables.
        steps: Of the optimizer.
        rate: Highest share of the rates, which falls to 0 until the end of the stage; None is what the schedule of the
            course says. A stage with one of its own comes after those without.
        options: Which screens.
        batch: Screens a step.
        questions: About each; none are asked where only letters and words are read.
        is_short: Whether instruction and code stand alone, without the system prompt.
        prefix_every: One step of so many begins with the system prompt, which costs a third of a step; 0 is none.
        episodes: Share of the batch that are steps of work of several parts, the first one or a later one.
        long_share: See `episodes.make_ways`.
        pages: How many of the batch are pages and forms to be read alone, so that neither letters nor what labels stand
            for are forgotten; of small print every other one.
        requests: How many are requests without an image, for names and for what is copied.
        sees_every: One step of so many trains the vision tower, which costs a third of a step, and has pages.
        image_rate: See `Trainer.step`; of the steps that train the tower.
        final_image_rate: What that falls to until the end of the stage; None is no other.
        weights: Of the losses.
        number_width: See `NumberTokens.width`, in thousandths of the screen.
        rounds_experts: Whether the experts are seen as INT4 has them.
    """

    name: str
    steps: int
    options: ScreenOptions
    rate: float | None = None
    batch: int = 16
    questions: int = 4
    is_short: bool = False
    prefix_every: int = 1
    episodes: float = 0.0
    long_share: float = 0.0
    pages: int = 0
    requests: int = 0
    sees_every: int = 1
    image_rate: float = 1.0
    final_image_rate: float | None = None
    weights: LossWeights = field(default_factory=LossWeights)
    number_width: float = NUMBER_WIDTH
    rounds_experts: bool = False

    def has_prefix(self, step: int) -> bool:
        """Whether the lessons of a step begin with the system prompt."""
        return not self.is_short and self.prefix_every > 0 and step % self.prefix_every == 0

    def sees(self, step: int) -> bool:
        """Whether a step trains the vision tower: another one than that with the system prompt, if there are any."""
        return self.image_rate > 0 and step % self.sees_every == 1 % self.sees_every

    @property
    def smallest_batch(self) -> int:
        """Lessons that each step has at least."""
        return self.batch if self.image_rate and self.sees_every == 1 else self.batch - self.pages


READING_LOSSES = LossWeights.only("letter", "order", "word", "gather", "place")
"""Letters, words and places alone, which the vision tower and the projector answer for."""
FEW = 0.3
"""Weight of what few names of a batch are asked for: a mean over few is noise as much as it is news, and small batches
learn to read more slowly beside it. Reading is slower beside a larger weight of `match`, too."""
SIGHT = replace(READING_LOSSES, match=FEW, aim=FEW, state=FEW, reach=FEW, mark=FEW)
"""With which token a name is found at, and what names say of their elements: where these are clicked, and whether they
are on."""
SPELLING = replace(LossWeights.only("token", "copy", "attention", "name", "spell"), code=FEW)
"""Names and copies alone, which the language model answers for."""
PARTS = replace(SPELLING, seek=1.0, part=1.0)
"""With which of several parts is next."""
IMAGE_RATE = 0.2
"""Of the vision tower while the language model learns: gradients that come through a model that does not know yet
where to look are noise, and blur what was learnt before."""
LAST_SIGHT_RATE = 0.05
"""Of the tower at the end of its own stage: letters are told apart by little, which a high rate covers with noise."""
PAGES = ScreenOptions(
    families=(*[READING] * len(TRAINED_FAMILIES), *TRAINED_FAMILIES),  # half of them full of words
    sizes_px=SMALL,
    text_px=(12, 26),
    near_share=0.0,
    max_elements=60,
)
PAGES_AND_FORMS = replace(PAGES, families=(*[READING] * (len(TRAINED_FAMILIES) + 4), *TRAINED_FAMILIES, *["form"] * 4))
"""With more forms, since labels of fields stand where nothing is clicked."""
SMALL_PRINT = replace(
    PAGES_AND_FORMS,
    families=(*PAGES_AND_FORMS.families, *LATER_FAMILIES * 2),
    sizes_px=(*SMALL * 4, *STRIPS, (400, 300), (480, 320), (640, 480)),
    text_px=(9, 22),
    max_elements=200,
)
"""Smaller text on larger screens, as web pages have it, once letters are known."""
NUM_REQUESTS = 8
"""That one lesson without an image has."""
Course = tuple[Stage, ...]


def make_course(scale: float = 1.0, *, has_large_screens: bool = False) -> Course:
    """See letters, spell names, tell parts of a request apart, find elements, all kinds of them, experts in INT4, all
    of it together, and longer work.
    """
    mixed = (*MIXED, *LARGE * 2) if has_large_screens else MIXED

    def count(steps: int) -> int:
        return max(round(scale * steps), 1)

    scattered = ScreenOptions(families=("scatter",), sizes_px=SMALL, text_px=(12, 26), near_share=0.1, max_elements=7)
    all_kinds = ScreenOptions(
        families=(*TRAINED_FAMILIES, *LATER_FAMILIES, "form"),
        sizes_px=mixed,
        text_px=(10, 24),
        near_share=0.3,
        inset_share=0.5,
    )
    read = Stage(
        name="read",
        steps=count(700),
        options=all_kinds,
        batch=12,
        pages=4,
        requests=1,
        episodes=0.35,
        prefix_every=4,
        sees_every=4,
        image_rate=IMAGE_RATE,
        weights=LossWeights(aim=FEW, state=FEW, reach=FEW, mark=FEW, choice=2.0),
    )
    find = replace(
        read,
        name="find",
        steps=count(450),
        options=scattered,
        batch=8,
        pages=0,
        episodes=0.0,
        image_rate=0.0,
        weights=replace(read.weights, letter=0.0, order=0.0, state=0.0, gather=0.0, reach=0.0, mark=0.0),
    )
    # the tower with all else at every other step, and screens of sizes that are no whole number of tokens
    settle = replace(
        read,
        name="settle",
        steps=count(2200),
        options=replace(all_kinds, sizes_px=(*mixed, *OTHERS)),
        episodes=0.4,
        prefix_every=2,
        sees_every=2,
        number_width=LAST_NUMBER_WIDTH,
        rounds_experts=True,
    )
    see = Stage(name="see", steps=count(3900), options=PAGES_AND_FORMS, questions=0, is_short=True, weights=SIGHT)
    small = replace(see, name="small", steps=count(900), batch=12, options=SMALL_PRINT, image_rate=0.4)
    small = replace(small, final_image_rate=LAST_SIGHT_RATE)
    begin = replace(see, name="begin", steps=count(3000), batch=4, options=PAGES, weights=READING_LOSSES)
    return (
        # while little is known, many small steps are worth more than few large ones
        begin,
        replace(begin, name="look", steps=count(1500), batch=8),
        replace(see, final_image_rate=LAST_SIGHT_RATE),
        small,
        replace(find, name="spell", steps=count(800), requests=8, is_short=True, weights=SPELLING),
        replace(find, name="parts", steps=count(400), batch=4, requests=4, prefix_every=0, weights=PARTS),
        find,
        read,
        settle,
        # work of three parts and its end, of which the stages before have little
        replace(
            settle,
            name="forms",
            steps=count(220),
            rate=0.1,
            options=replace(settle.options, families=(*all_kinds.families, *["form"] * 4)),
            episodes=0.4,
            long_share=0.9,
        ),
    )


SMOKE_LOSSES = {"letter": 2.6}
"""What `make_smoke_course` must reach; one who guesses by how frequent letters are has 3.29."""


def make_smoke_course() -> Course:
    """A few minutes that show whether anything is learnt: letters come before all else."""
    pages = ScreenOptions(families=(READING,), sizes_px=((160, 210),), text_px=(12, 26), max_elements=60)
    buttons = replace(pages, families=("scatter",), max_elements=7)
    return (
        Stage(name="see", steps=300, batch=4, options=pages, questions=0, is_short=True, weights=READING_LOSSES),
        Stage(name="speak", steps=4, options=buttons, batch=4, weights=SIGHT, rounds_experts=True),
    )


class LessonStream:
    """Lessons, one batch after another: each is drawn from the seed, its step and its place in the batch alone.

    So a course goes on from any step, and several processes may draw the parts of a batch.
    """

    def __init__(self, maker: LessonMaker, seed: int) -> None:
        self.maker, self.seed = maker, seed

    def draw(self, stage: Stage, step: int, part: slice = slice(None)) -> list[Lesson]:
        """The batch of a step, or a part of it."""
        places = range(0 if stage.sees(step) else stage.pages, stage.batch)[part]
        return [self._draw_one(stage, place, random.Random(f"course {self.seed} {step} {place}")) for place in places]

    def _draw_one(self, stage: Stage, place: int, rng: random.Random) -> Lesson:
        if place < stage.pages:
            return self.maker.make_reading(rng, make_screen(rng, (SMALL_PRINT, PAGES_AND_FORMS)[place // 2 % 2]))
        if place < stage.pages + stage.requests:
            several = 0 if stage.is_short else NUM_REQUESTS // 2
            alone = [(question,) for question in draw_requests(rng, NUM_REQUESTS - several)]
            ways = [*alone, *draw_request_ways(rng, several)]
            return self.maker.make_requests(ways, is_short=stage.is_short)
        if stage.episodes and rng.random() < stage.episodes:
            return self.maker.make_steps(rng, make_ways(rng, stage.options, stage.questions, stage.long_share))
        screen = make_screen(rng, stage.options)
        if not stage.questions:
            return self.maker.make_reading(rng, screen)
        questions = draw_questions(rng, screen, stage.questions, is_varied=True)
        return self.maker.make(rng, screen, questions, is_short=stage.is_short)
