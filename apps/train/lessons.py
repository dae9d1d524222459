"""Screens and questions as lessons: the very requests that the agent sends, as tokens, with labels."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch

from apps.train.episodes import Moment
from apps.train.screens.canvas import find_cells
from apps.train.screens.screen import Screen
from apps.train.screens.widgets import Target
from apps.train.skills import Question, ask_finish
from cua.gui_agent.protocol.history import to_messages
from cua.gui_agent.protocol.prompts import ProtocolOptions, system_prompt
from cua.messages import ImagePart as SentImage
from cua.messages import Reply
from cua.messages import TextPart as SentText
from cua.step import Step, Turn
from envs import Observation, ScreenGeometry
from model_runtime.chat import ChatMessage, ImagePart, Piece, TextPart, encode_chat, render_chat
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.tokenizer import Tokenizer
from model_runtime.training.batch import Example
from model_runtime.training.lessons import IGNORED, Lesson, Number, Word

PATCH_PX = 14
TOKEN_PX = 2 * PATCH_PX
NUM_COORDINATES = 1000
MAX_IMAGES = ProtocolOptions().max_images
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
OTHER_LETTER, NO_LETTER = len(LETTERS) + 1, 0
NUM_CLASSES = len(LETTERS) + 2
WORD_LENGTH = 8
GROUND_SHARE = 0.05
"""Share of the patches without a letter that are asked for: they are most of a screen, and easy."""
END = "<|im_end|>"
THINK_END = "</think>"


def letter_class(letter: str) -> int:
    """Class of a letter, upper and lower case alike; one class for all that are not of the English alphabet."""
    place = LETTERS.find(letter.lower())
    return place + 1 if place >= 0 else OTHER_LETTER


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A point of a screen as the model says it: thousandths of width and height."""

    x: float
    y: float

    @classmethod
    def of_target(cls, target: Target, screen: Screen) -> "Coordinates":
        """The middle of an element."""
        height, width = screen.pixels.shape[:2]
        x, y = target.center
        return cls(x / width * NUM_COORDINATES, y / height * NUM_COORDINATES)

    def texts(self) -> tuple[str, str]:
        """Both as they stand in the code."""
        return tuple(f"0.{min(int(value), NUM_COORDINATES - 1):03}" for value in (self.x, self.y))  # type: ignore[return-value]


class LessonMaker:
    """Makes lessons of screens.

    Args:
        tokenizer: Of `apps.train.vocabulary.make_vocabulary`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        text = ChatMessage(role="system", parts=(TextPart(system_prompt(ProtocolOptions())),))
        self.prefix = self._encode(render_chat([text], add_generation_prompt=False))

    def make(
        self, rng: random.Random, screen: Screen, questions: Sequence[Question], *, is_short: bool = False
    ) -> Lesson:
        """A lesson of first steps: the image is the trunk, each question a branch.

        Args:
            rng: Which patches without a letter are asked for.
            screen: The image.
            questions: One at least.
            is_short: Whether instruction and code stand alone, a third of the tokens of the whole protocol.
        """
        return self._make(rng, [[Moment(screen=screen, question=question)] for question in questions], is_short)

    def make_reading(self, rng: random.Random, screen: Screen) -> Lesson:
        """A lesson of letters and words alone: nothing is asked in words."""
        image = make_image(screen)
        trunk = self._encode(_pieces_to_image([Moment(screen=screen, question=ask_finish(""))], [image]))
        first = trunk.index(self.tokenizer.special.media_pad)
        return Lesson(
            example=Example(trunk=trunk, images=(image,)),
            letters=_label_patches(rng, screen, image),
            words=tuple(_label_words(screen, image, first)),
            shown=(_find_shown(screen, image),),
        )

    def make_step(self, rng: random.Random, moments: Sequence[Moment]) -> Lesson:
        """A lesson of a later step: the last of these moments, with those before it as its history."""
        return self._make(rng, [moments], is_short=False)

    def _make(self, rng: random.Random, ways: Sequence[Sequence[Moment]], is_short: bool) -> Lesson:
        """All ways lead to one screen over the same ones; they ask for different things there."""
        screens = [moment.screen for moment in ways[0][-MAX_IMAGES:]]
        images = [make_image(screen) for screen in screens]
        trunk = self._encode(_pieces_to_image(ways[0], images))
        places = find_images(trunk, self.tokenizer.special.media_pad, images)
        branches = [self._make_branch(way, images, places[-1], is_short) for way in ways]
        labels = zip(screens, images, places, strict=True)
        return Lesson(
            example=Example(trunk=trunk, branches=tuple(branch[0] for branch in branches), images=tuple(images)),
            spoken=tuple(branch[1] for branch in branches),
            numbers=tuple(branch[2] for branch in branches),
            letters=torch.cat([_label_patches(rng, *shown) for shown in zip(screens, images, strict=True)]),
            words=tuple(word for shown in labels for word in _label_words(*shown)),
            shown=tuple(map(_find_shown, screens, images)),
        )

    def _make_branch(
        self, way: Sequence[Moment], images: Sequence[MediaItem], first: int, is_short: bool
    ) -> tuple[tuple[int, ...], int, tuple[Number, ...]]:
        """Token ids, from where on the model speaks, and which of them are coordinates."""
        screen, question = way[-1].screen, way[-1].question
        if is_short:
            asked = tuple(self.tokenizer.encode(f"\n{question.instruction}\n"))
        else:
            asked = self._encode(_pieces_after_image(way, images))
        if question.target is None:
            return (*asked, *self._encode_answer(question, question.code, is_short)), len(asked), ()
        point = Coordinates.of_target(question.target, screen)
        x, y = point.texts()
        answer = self._encode_answer(question, question.code.format(x=x, y=y), is_short)
        look_at = first + find_token(question.target.center, screen.pixels.shape[1])
        places = find_numbers(answer, (self.number_id(x), self.number_id(y)))
        name = _label_name(question.target) if question.is_named else ()
        numbers = [
            Number(place=len(asked) + place, value=value, look_at=look_at, letters=name, axis=axis)
            for axis, (place, value) in enumerate(zip(places, (point.x, point.y), strict=True))
        ]
        return (*asked, *answer), len(asked), tuple(numbers)

    def make_prompt(self, moments: Sequence[Moment]) -> Prompt:
        """The whole request for the last of these moments, as the engine takes it."""
        images = [make_image(moment.screen) for moment in moments[-MAX_IMAGES:]]
        pieces = [*_pieces_to_image(moments, images), *_pieces_after_image(moments, images)]
        token_ids = (*self.prefix, *self._encode(pieces))
        places = find_images(token_ids, self.tokenizer.special.media_pad, images)
        spans = [MediaSpan(offset=place, item=image) for place, image in zip(places, images, strict=True)]
        return Prompt(token_ids=token_ids, media=tuple(spans))

    def number_id(self, text: str) -> int:
        """The token of the three digits of a coordinate such as `0.042`."""
        (token,) = self.tokenizer.encode(text[-3:])
        return token

    def number_ids(self) -> torch.Tensor:
        """The tokens of all coordinates in order: (1000,) int64."""
        return torch.tensor([self.number_id(f"0.{number:03}") for number in range(NUM_COORDINATES)])

    def _encode_answer(self, question: Question, code: str, is_short: bool) -> tuple[int, ...]:
        if is_short:
            return tuple(self.tokenizer.encode(code))
        special = self.tokenizer.special
        text = answer_text(question.action, code)
        thought, said = self.tokenizer.encode(question.thought), self.tokenizer.encode(text)
        return (*thought, special.id_of(THINK_END), *said, special.id_of(END))

    def _encode(self, pieces: Sequence[Piece]) -> tuple[int, ...]:
        return encode_chat(pieces, self.tokenizer).token_ids


def answer_text(action: str, code: str) -> str:
    """What stands behind the thought."""
    return f"## Action:\n{action}\n## Code:\n```python\n{code}\n```"


def _pieces_to_image(moments: Sequence[Moment], images: Sequence[MediaItem]) -> list[Piece]:
    """The request up to the end of the current image: what all questions about it have in common."""
    pieces = _render(moments, images)
    return pieces[: _find_end(pieces)]


def _pieces_after_image(moments: Sequence[Moment], images: Sequence[MediaItem]) -> list[Piece]:
    """The rest of the user's message, and the opening of the answer."""
    pieces = _render(moments, images)
    return pieces[_find_end(pieces) :]


def _find_end(pieces: Sequence[Piece]) -> int:
    return max(place for place, piece in enumerate(pieces) if isinstance(piece, MediaItem)) + 2  # with <|media_end|>


def _render(moments: Sequence[Moment], images: Sequence[MediaItem]) -> list[Piece]:
    """What the agent sends at the last of these moments, but for the system prompt.

    Args:
        moments: From the first step on.
        images: Of the last `MAX_IMAGES` of them.
    """
    seen = [_observe(number) for number in range(len(moments))]
    steps = [
        Step(index=number, observation=observation, reply=Reply(content=""), turn=_turn_of(moment.question))
        for number, (observation, moment) in enumerate(zip(seen, moments[:-1], strict=False), start=1)
    ]
    first = len(moments) - len(images)
    messages = to_messages(moments[-1].question.instruction, steps, seen[-1], ProtocolOptions())[1:]
    return render_chat(
        [
            ChatMessage(
                role=message.role,
                parts=tuple(
                    TextPart(part.text) if isinstance(part, SentText) else ImagePart(images[int(part.data) - first])
                    for part in message.parts
                    if isinstance(part, SentText | SentImage)
                ),
            )
            for message in messages
        ]
    )


def _observe(number: int) -> Observation:
    """An observation whose screenshot is its number: who renders the request puts the image there."""
    return Observation(screenshot=b"%d" % number, geometry=ScreenGeometry(native_px=(1, 1), sent_px=(1, 1)))


def _turn_of(question: Question) -> Turn:
    return Turn(thought=question.thought, action_text=question.action, code=question.code)


def make_image(screen: Screen) -> MediaItem:
    """A screen as the processor hands it to the model."""
    pixels = pad_image(screen.pixels)[None]
    return MediaItem(frames=pixels, content_hash=sha256(pixels.tobytes()).digest())


def find_images(token_ids: Sequence[int], placeholder_id: int, images: Sequence[MediaItem]) -> list[int]:
    """Where the rows of each image begin."""
    places, start = [], 0
    for image in images:
        places.append(token_ids.index(placeholder_id, start))
        start = places[-1] + image.num_tokens
    return places


def pad_image(pixels: np.ndarray) -> np.ndarray:
    """Black below and right up to whole tokens, as the processor does: (height, width, 3) -> the same."""
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, -height % TOKEN_PX), (0, -width % TOKEN_PX), (0, 0)))


def find_token(point: tuple[float, float], width_px: int) -> int:
    """Which of a image's tokens shows a point, in raster order."""
    columns = -(-width_px // TOKEN_PX)
    return int(point[1] // TOKEN_PX) * columns + int(point[0] // TOKEN_PX)


def find_numbers(answer: Sequence[int], ids: Sequence[int]) -> list[int]:
    """Places of tokens in an answer, each behind the one before."""
    places: list[int] = []
    for token in ids:
        places.append(answer.index(token, places[-1] + 1 if places else 0))
    return places


def _label_patches(rng: random.Random, screen: Screen, image: MediaItem) -> torch.Tensor:
    _, rows, columns = image.grid
    draw = np.random.default_rng(rng.getrandbits(32)).random((rows, columns))
    labels = np.where(draw < GROUND_SHARE, NO_LETTER, IGNORED)
    for row, column, letter in find_cells(list(screen.letters), PATCH_PX):
        labels[row, column] = letter_class(letter)
    return torch.from_numpy(labels.astype(np.int64).reshape(-1))


def _find_shown(screen: Screen, image: MediaItem) -> tuple[float, float]:
    """Shares of the padded image's width and height that are the screen."""
    (height, width), (_, padded_height, padded_width, _) = screen.pixels.shape[:2], image.frames.shape
    return width / padded_width, height / padded_height


def _label_words(screen: Screen, image: MediaItem, first: int) -> list[Word]:
    """Names, read from the token on which they are centred; where two meet, neither."""
    width = image.frames.shape[2]
    at: dict[int, list[Target]] = {}
    for target in screen.targets:
        if target.kind != "icon":
            at.setdefault(find_token(target.read_at, width), []).append(target)
    return [
        Word(place=first + token, letters=_label_name(targets[0])) for token, targets in at.items() if len(targets) == 1
    ]


def _label_name(target: Target) -> tuple[int, ...]:
    return tuple(letter_class(letter) for letter in target.name[:WORD_LENGTH])
