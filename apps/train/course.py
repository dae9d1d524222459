"""Training course of nano-K2.5: its stages, and the stream of lessons."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from apps.train.episodes import draw_step_requests, make_variants
from apps.train.lessons import LessonMaker
from apps.train.screens.screen import LATER_FAMILIES, READING, TRAINED_FAMILIES, ScreenOptions, make_screen
from apps.train.skills import draw_questions, draw_requests
from cua.errors import ConfigError, name_choices
from model_runtime.training.lessons import Lesson
from model_runtime.training.loss_weights import LossWeights

SMALL = ((280, 224), (160, 210), (224, 280))
MIDDLE = (*SMALL, *SMALL, (340, 220), (400, 300), (480, 320))
"""Sizes of early stages, mostly small ones: they teach the same at a lower cost."""
STRIPS = ((1280, 140), (960, 168), (640, 224), (168, 720), (224, 480))
"""Sizes as wide or as high as large screens, but not both: positions of large screens at the cost of middle ones."""
MIXED = (*MIDDLE * 4, *STRIPS, (640, 480))
"""Mostly middle sizes, with an occasional large one: 640 x 480 costs more than twice as much as 280 x 224, 1280 x 720
twelve times.
"""
LARGE = ((800, 600), (1024, 768), (1280, 720))
"""Sizes for the large model, on a GPU."""
OTHERS = tuple((200 + 37 * number % 320, 164 + 53 * number % 180) for number in range(48))
"""Sizes of which none is a whole number of tokens in both directions: the black part of the last tokens shows where the
screen ends.
"""

NUMBER_WIDTH, LAST_NUMBER_WIDTH = 12.0, 8.0
"""Tolerance of a coordinate in thousandths of the screen: a third of a small button. Smaller once the right element is
looked at most of the time, since the distance from its middle then matters.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseStage:
    """One stage of a course.

    Attributes:
        name: Name for progress lines and tables.
        steps: Number of optimizer steps.
        rate: Peak of the learning rate factor, which falls to 0 until the end of the stage; None to follow the schedule
            of the course. Stages with their own rate come after those without.
        options: Options of the drawn screens.
        batch: Screens per step.
        questions: Questions per screen; 0 to train reading only (letters and words).
        is_short: True to leave out the system prompt: a lesson is only the instruction and the code.
        prefix_every: Interval in steps at which lessons begin with the system prompt, which costs a third of a step; 0
            for never.
        episodes: Share of the batch that are steps of tasks with several parts, the first step or a later one.
        long_share: See `episodes.make_variants`.
        pages: Number of pages and forms in a batch that are only read, so that letters and field labels are not
            forgotten; every other one has small print.
        requests: Number of requests without an image, which train names and copying.
        vision_every: Interval in steps at which the vision tower is trained, which costs a third of a step; these steps
            have pages.
        image_rate: See `Trainer.step`; used in steps that train the tower.
        final_image_rate: Value to which `image_rate` falls until the end of the stage; None to keep it constant.
        weights: Weights of the losses.
        number_width: See `NumberTokens.width`, in thousandths of the screen.
        rounds_experts: True to round the experts to INT4 in the forward pass.
        heads_only: True to train the auxiliary heads of the losses alone, not the model.
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
    vision_every: int = 1
    image_rate: float = 1.0
    final_image_rate: float | None = None
    weights: LossWeights = field(default_factory=LossWeights)
    number_width: float = NUMBER_WIDTH
    rounds_experts: bool = False
    heads_only: bool = False

    def has_prefix(self, step: int) -> bool:
        """Return True if the lessons of a step begin with the system prompt."""
        return not self.is_short and self.prefix_every > 0 and step % self.prefix_every == 0

    def trains_vision(self, step: int) -> bool:
        """Return True if a step trains the vision tower: if possible, not the steps with the system prompt."""
        return self.image_rate > 0 and step % self.vision_every == 1 % self.vision_every

    @property
    def smallest_batch(self) -> int:
        """Smallest number of lessons in a step."""
        return self.batch if self.image_rate and self.vision_every == 1 else self.batch - self.pages


READING_LOSSES = LossWeights.only("letter", "order", "word", "read_word_attn", "place")
"""Letters, words and positions only, which train the vision tower and the projector."""
FEW = 0.3
"""Weight of losses for which a batch has few names: a mean over few is noisy, and small batches learn to read more
slowly with it. A larger weight of `match` also slows down reading.
"""
SIGHT = replace(READING_LOSSES, match=FEW, click_point=FEW, state=FEW, target_attn=FEW, state_attn=FEW)
"""Reading, and in addition the token at which a name is found, the click position of its element, and whether the
element is on.
"""
SPELLING = replace(LossWeights.only("token", "copy", "attention", "name", "char_position_attn"), code=FEW)
"""Names and copies only, which train the language model."""
PARTS = replace(SPELLING, name_query_attn=1.0, part_id=1.0)
"""Spelling, and in addition which of several parts is next."""
IMAGE_RATE = 0.2
"""Rate factor of the vision tower while the language model learns: gradients through a model that does not know where
to look are noise, and degrade what the tower has learned.
"""
LAST_SIGHT_RATE = 0.05
"""Rate factor of the tower at the end of its own stage: letters differ by small details, which a high rate covers with
noise.
"""
PAGES = ScreenOptions(
    families=(*[READING] * len(TRAINED_FAMILIES), *TRAINED_FAMILIES),  # half of them full of words
    sizes_px=SMALL,
    text_px=(12, 26),
    near_share=0.0,
    max_elements=60,
)
PAGES_AND_FORMS = replace(PAGES, families=(*[READING] * (len(TRAINED_FAMILIES) + 4), *TRAINED_FAMILIES, *["form"] * 4))
"""Pages with more forms, since field labels are not at the click position."""
SMALL_PRINT = replace(
    PAGES_AND_FORMS,
    families=(*PAGES_AND_FORMS.families, *LATER_FAMILIES * 2),
    sizes_px=(*SMALL * 4, *STRIPS, (400, 300), (480, 320), (640, 480)),
    text_px=(9, 22),
    max_elements=200,
)
"""Smaller text on larger screens, as on web pages; used once letters are known."""
NUM_REQUESTS = 8
"""Number of requests in one lesson without an image."""
Course = tuple[CourseStage, ...]


def make_course(scale: float = 1.0, *, has_large_screens: bool = False) -> Course:
    """Return the course: letters, spelling, parts of a request, elements, all kinds of elements, INT4 experts, all of
    it together, and longer tasks.
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
    read = CourseStage(
        name="read",
        steps=count(700),
        options=all_kinds,
        batch=12,
        pages=4,
        requests=1,
        episodes=0.35,
        prefix_every=4,
        vision_every=4,
        image_rate=IMAGE_RATE,
        weights=LossWeights(click_point=FEW, state=FEW, target_attn=FEW, state_attn=FEW, choice=2.0),
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
        weights=replace(
            read.weights, letter=0.0, order=0.0, state=0.0, read_word_attn=0.0, target_attn=0.0, state_attn=0.0
        ),
    )
    # the tower with everything else at every other step, and screens whose sizes are not a whole number of tokens
    settle = replace(
        read,
        name="settle",
        steps=count(2200),
        options=replace(all_kinds, sizes_px=(*mixed, *OTHERS)),
        episodes=0.4,
        prefix_every=2,
        vision_every=2,
        number_width=LAST_NUMBER_WIDTH,
        rounds_experts=True,
    )
    see = CourseStage(name="see", steps=count(3900), options=PAGES_AND_FORMS, questions=0, is_short=True, weights=SIGHT)
    small = replace(see, name="small", steps=count(900), batch=12, options=SMALL_PRINT, image_rate=0.4)
    small = replace(small, final_image_rate=LAST_SIGHT_RATE)
    begin = replace(see, name="begin", steps=count(3000), batch=4, options=PAGES, weights=READING_LOSSES)
    return (
        # early in training, many small steps are worth more than few large ones
        begin,
        replace(begin, name="look", steps=count(1500), batch=8),
        replace(see, final_image_rate=LAST_SIGHT_RATE),
        small,
        replace(find, name="spell", steps=count(800), requests=8, is_short=True, weights=SPELLING),
        replace(find, name="parts", steps=count(400), batch=4, requests=4, prefix_every=0, weights=PARTS),
        find,
        read,
        settle,
        # tasks of three parts and their end, which are rare in the stages before
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


HEADS_STEPS = 400
"""Steps in which new auxiliary heads learn to read a trained model; docs/training.md, "Training further"."""
FURTHER_RATE = 0.1
"""Peak of the rate of stages that continue from trained weights: that of `forms`, which came last."""


def make_further_course(names: Sequence[str], scale: float = 1.0) -> Course:
    """Return a course that continues from trained weights: new auxiliary heads first, then stages of `make_course`.

    Raises:
        ConfigError: If a stage does not exist.
    """
    stages = {stage.name: stage for stage in make_course(scale)}
    unknown = [name for name in names if name not in stages]
    if unknown or not names:
        raise ConfigError(f"there is no stage {unknown[0] if unknown else ''!r}.{name_choices('', stages)}")
    steps = max(round(scale * HEADS_STEPS), 1)
    heads = replace(stages["forms"], name="heads", steps=steps, rate=1.0, heads_only=True, rounds_experts=False)
    chosen = (stages[name] for name in names)
    return (heads, *(replace(stage, rate=stage.rate or FURTHER_RATE) for stage in chosen))


SMOKE_LOSSES = {"letter": 2.6}
"""Threshold that `make_smoke_course` must reach; guessing by letter frequency has a loss of 3.29."""


def make_smoke_course() -> Course:
    """Return a course of a few minutes that shows if the model learns at all: letters come first."""
    pages = ScreenOptions(families=(READING,), sizes_px=((160, 210),), text_px=(12, 26), max_elements=60)
    buttons = replace(pages, families=("scatter",), max_elements=7)
    return (
        CourseStage(name="see", steps=300, batch=4, options=pages, questions=0, is_short=True, weights=READING_LOSSES),
        CourseStage(name="speak", steps=4, options=buttons, batch=4, weights=SIGHT, rounds_experts=True),
    )


class LessonStream:
    """Stream of batches of lessons: each lesson depends only on the seed, its step and its index in the batch.

    A course can therefore resume at any step, and several processes can draw the parts of a batch.
    """

    def __init__(self, maker: LessonMaker, seed: int) -> None:
        self.maker, self.seed = maker, seed

    def draw(self, stage: CourseStage, step: int, part: slice = slice(None)) -> list[Lesson]:
        """Return the batch of a step, or a part of it."""
        indices = range(0 if stage.trains_vision(step) else stage.pages, stage.batch)[part]
        return [self._draw_one(stage, index, random.Random(f"course {self.seed} {step} {index}")) for index in indices]

    def _draw_one(self, stage: CourseStage, index: int, rng: random.Random) -> Lesson:
        if index < stage.pages:
            return self.maker.make_reading(rng, make_screen(rng, (SMALL_PRINT, PAGES_AND_FORMS)[index // 2 % 2]))
        if index < stage.pages + stage.requests:
            several = 0 if stage.is_short else NUM_REQUESTS // 2
            alone = [(question,) for question in draw_requests(rng, NUM_REQUESTS - several)]
            requests = [*alone, *draw_step_requests(rng, several)]
            return self.maker.make_requests(requests, is_short=stage.is_short)
        if stage.episodes and rng.random() < stage.episodes:
            return self.maker.make_steps(rng, make_variants(rng, stage.options, stage.questions, stage.long_share))
        screen = make_screen(rng, stage.options)
        if not stage.questions:
            return self.maker.make_reading(rng, screen)
        questions = draw_questions(rng, screen, stage.questions, is_varied=True)
        return self.maker.make(rng, screen, questions, is_short=stage.is_short)
