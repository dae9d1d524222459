"""Conversion of screens and questions to lessons: tokens of the agent's requests, with labels.

The requests are built by the agent's own code.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from apps.train.episodes import EpisodeStep
from apps.train.labels import (
    NUM_COORDINATES,
    TOKEN_PX,
    Coordinates,
    find_choices,
    find_images,
    find_numbers,
    find_token,
    find_within,
    label_images,
    label_name,
)
from apps.train.screens.screen import DrawnScreen
from apps.train.skills import ANSWERS, CLICK_CODE, TYPE_CODE, ScreenQuestion, ask_finish
from cua.gui_agent.protocol.history import to_messages
from cua.gui_agent.protocol.prompts import ProtocolOptions, system_prompt
from cua.messages import ImagePart as SentImage
from cua.messages import Reply
from cua.messages import TextPart as SentText
from cua.step import Step, Turn
from envs import Observation, ScreenGeometry
from model_runtime.chat.messages import ChatMessage, ImagePart, TextPart
from model_runtime.chat.template import Piece, encode_chat, render_chat
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.tokenizer import Tokenizer
from model_runtime.training.batch import Example
from model_runtime.training.lessons import AttentionTarget, Lesson, NumberLabel, RequestPart, WordLabel

MAX_IMAGES = ProtocolOptions().max_images


def pieces_to_image(questions: Sequence[ScreenQuestion], images: Sequence[MediaItem]) -> list[Piece]:
    """Return the request up to the end of the current image, which all questions about it have in common."""
    pieces = render(questions, images)
    return pieces[: _find_end(pieces)]


def pieces_after_image(questions: Sequence[ScreenQuestion], images: Sequence[MediaItem]) -> list[Piece]:
    """Return the rest of the user's message, and the opening of the answer."""
    pieces = render(questions, images)
    return pieces[_find_end(pieces) :]


def _find_end(pieces: Sequence[Piece]) -> int:
    return max(index for index, piece in enumerate(pieces) if isinstance(piece, MediaItem)) + 2  # with <|media_end|>


def render(questions: Sequence[ScreenQuestion], images: Sequence[MediaItem]) -> list[Piece]:
    """Return the request that the agent sends at the last of these steps, without the system prompt.

    Args:
        questions: Questions of all steps from the first one on.
        images: Images of the last `MAX_IMAGES` steps.
    """
    seen = [_observe(number) for number in range(len(questions))]
    steps = [
        Step(index=number, observation=observation, reply=Reply(content=""), turn=_turn_of(question))
        for number, (observation, question) in enumerate(zip(seen, questions[:-1], strict=False), start=1)
    ]
    first = len(questions) - len(images)
    messages = to_messages(questions[-1].instruction, steps, seen[-1], ProtocolOptions())[1:]
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
    """Return an observation whose screenshot is its number; the caller replaces it with the image."""
    return Observation(screenshot=b"%d" % number, geometry=ScreenGeometry(native_px=(1, 1), sent_px=(1, 1)))


def _turn_of(question: ScreenQuestion) -> Turn:
    return Turn(thought=question.thought, action_text=question.action, code=question.code)


NAME_QUERY_HEAD = 0
"""Head that attends to the requested name, one layer before the heads that attend to the image (`SupervisedHeads`)."""
CHOICE_HEAD, COPY_HEAD = 2, 3
"""Supervised heads after those of the two coordinates: for the element that determines the answer, and for the text to
copy.
"""
END = "<|im_end|>"
THINK_END = "</think>"
BLANK = MediaItem(frames=np.zeros((1, TOKEN_PX, TOKEN_PX, 3), dtype=np.uint8), content_hash=bytes(32))
"""Placeholder image for requests of which only the part after the image is used."""


class LessonMaker:
    """Builder of lessons from screens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        text = ChatMessage(role="system", parts=(TextPart(system_prompt(ProtocolOptions())),))
        self.prefix = self._encode(render_chat([text], add_generation_prompt=False))
        empty = ChatMessage(role="user", parts=(TextPart(""),))
        self.opening = self._encode(render_chat([empty], add_generation_prompt=False))[:-1]
        self._answer_forms = {is_short: self._encode_answer_forms(is_short=is_short) for is_short in (False, True)}

    def make(
        self, rng: random.Random, screen: DrawnScreen, questions: Sequence[ScreenQuestion], *, is_short: bool = False
    ) -> Lesson:
        """Return a lesson of first steps: the image is the trunk, each question a branch.

        Args:
            rng: See `label_images`.
            screen: Screen of the image.
            questions: Questions, at least one.
            is_short: True for only instruction and code, a third of the tokens of the whole protocol.
        """
        return self._make(rng, [[EpisodeStep(screen=screen, question=question)] for question in questions], is_short)

    def make_reading(self, rng: random.Random, screen: DrawnScreen) -> Lesson:
        """Return a lesson of letters and words only, without questions."""
        image = make_image(screen)
        trunk = self._encode(pieces_to_image([ask_finish("")], [image]))  # the question comes after the image
        first = trunk.index(self.tokenizer.special.media_pad)
        return Lesson(
            example=Example(trunk=trunk, images=(image,)),
            **label_images(rng, [screen], [image], [first]),
        )

    def make_requests(self, requests: Sequence[Sequence[ScreenQuestion]], *, is_short: bool = False) -> Lesson:
        """Return a lesson without an image. The predicted part of an answer is the part before its coordinates, or the
        typed text alone.

        Args:
            requests: Questions about elements without a screen, at least one; each question follows those that were
                answered before it.
            is_short: See `make`; if True, no earlier question is answered.
        """
        branches = [
            self._make_short_request(questions[-1]) if is_short else self._make_request(questions)
            for questions in requests
        ]
        example = Example(trunk=self.opening, branches=tuple(branch.token_ids for branch in branches))
        return Lesson(example=example, **_join(branches))

    def _make_short_request(self, question: ScreenQuestion) -> "_Branch":
        instruction_ids = tuple(self.tokenizer.encode(f"\n{question.instruction}\n"))
        code = TYPE_CODE.splitlines()[1].format(value=question.typed) if question.typed else CLICK_CODE.split("{")[0]
        return self._label_request([question], instruction_ids, (), tuple(self.tokenizer.encode(code)))

    def _make_request(self, questions: Sequence[ScreenQuestion]) -> "_Branch":
        """Return a request of the whole protocol. The part of the answer that needs the image is given: the thought,
        and the coordinates before a typed text.
        """
        question = questions[-1]
        pieces = render(questions, [BLANK] * min(len(questions), MAX_IMAGES))
        instruction_ids = self._encode([piece for piece in pieces if not isinstance(piece, MediaItem)])[
            len(self.opening) :
        ]
        answer = self._encode_answer(question, question.code.format(x="0.101", y="0.202"), is_short=False)
        first, second = find_numbers(answer, [self.number_id(text) for text in ("0.101", "0.202")])
        answer_start = self._find_thought_end(answer) + 1
        start, end = (second + 1, len(answer)) if question.typed else (answer_start, first)
        return self._label_request(questions, instruction_ids, answer[:start], answer[start:end])

    def _label_request(
        self,
        questions: Sequence[ScreenQuestion],
        instruction_ids: Sequence[int],
        given_ids: Sequence[int],
        predicted_ids: Sequence[int],
    ) -> "_Branch":
        """Return the branch of a request, the given part of its answer, and the rest of the answer."""
        question = questions[-1]
        assert question.subject is not None
        name, before, length = label_name(question.subject.name), (*instruction_ids, *given_ids), len(self.opening)
        query_indices = (len(instruction_ids) - 1, *([] if question.typed else [len(before) + len(predicted_ids) - 1]))
        names, copied = (
            self._find_name(question, instruction_ids),
            self._label_copies(question, before, predicted_ids, length),
        )
        return _Branch(
            token_ids=(*before, *predicted_ids),
            first_predicted=len(before),
            name_words=names,
            query_words=tuple(WordLabel(token_index=index, letters=name) for index in query_indices),
            query_targets=_label_queries(names, query_indices, length),
            request_parts=self._label_parts(
                questions, instruction_ids, (*query_indices, *(index - 1 for index in copied.get("copies", ())))
            ),
            **copied,
        )

    def make_steps(self, rng: random.Random, variants: Sequence[Sequence[EpisodeStep]]) -> Lesson:
        """Return a lesson of later steps: the last step of each episode, with the earlier ones as its history.

        Args:
            rng: See `make`.
            variants: Episodes over the same screens with the same actions so far (`apps.train.episodes.make_variants`).
        """
        return self._make(rng, variants, is_short=False)

    def _make(self, rng: random.Random, variants: Sequence[Sequence[EpisodeStep]], is_short: bool) -> Lesson:
        """Return the lesson of episodes over the same screens that ask for different things on the last screen."""
        screens = [step.screen for step in variants[0][-MAX_IMAGES:]]
        images = [make_image(screen) for screen in screens]
        trunk = self._encode(pieces_to_image([step.question for step in variants[0]], images))
        indices = find_images(trunk, self.tokenizer.special.media_pad, images)
        branches = [self._make_branch(episode, images, (indices[-1], len(trunk)), is_short) for episode in variants]
        return Lesson(
            example=Example(trunk=trunk, branches=tuple(branch.token_ids for branch in branches), images=tuple(images)),
            **_join(branches),
            **label_images(rng, screens, images, indices),
        )

    def _make_branch(
        self, episode: Sequence[EpisodeStep], images: Sequence[MediaItem], trunk: tuple[int, int], is_short: bool
    ) -> "_Branch":
        """Return the branch after an image: the request and its answer.

        Args:
            episode: Steps up to the question.
            images: Images of the last steps.
            trunk: Index of the first token of the last image, and length of the trunk.
            is_short: See `make`.
        """
        screen, question = episode[-1].screen, episode[-1].question
        if is_short:
            instruction_ids = tuple(self.tokenizer.encode(f"\n{question.instruction}\n"))
        else:
            instruction_ids = self._encode(pieces_after_image([step.question for step in episode], images))
        first, length = trunk
        look_at = length - 1  # the end of the image, where there is nothing to look at
        if question.subject is not None and question.kind != "absent":
            look_at = first + find_token(question.subject.read_at, screen.pixels.shape[1])
        point = Coordinates.of_target(question.target, screen) if question.target else None
        questions = [step.question for step in episode]
        branch = self._label_branch(questions, instruction_ids, point, length, is_short=is_short)
        if point is None:
            numbers: tuple[NumberLabel, ...] = ()
        else:
            numbers = tuple(
                NumberLabel(token_index=index, value=value, look_at=look_at, axis=axis)
                for axis, (index, value) in enumerate(zip(branch.coordinates, (point.x, point.y), strict=True))
            )
        targets = (
            AttentionTarget(token_index=index, target_index=look_at, head=CHOICE_HEAD) for index in branch.decisive
        )
        return replace(branch, numbers=numbers, attention_targets=(*targets, *branch.attention_targets))

    def _label_branch(
        self,
        questions: Sequence[ScreenQuestion],
        instruction_ids: Sequence[int],
        point: Coordinates | None,
        length: int,
        *,
        is_short: bool,
    ) -> "_Branch":
        """Return a request with its answer, and the labels that do not need an image; `length` is the trunk's.

        Queries are the tokens that need the requested name: those before a decisive choice or a coordinate.
        """
        question, start, texts = questions[-1], len(instruction_ids), point.texts() if point else ()
        code = question.code.format(x=texts[0], y=texts[1]) if texts else question.code
        answer = self._encode_answer(question, code, is_short)
        coordinates = find_numbers(answer, [self.number_id(text) for text in texts])
        choices = find_choices(answer, coordinates, self._answer_forms[is_short])
        end = coordinates[0] if coordinates else len(answer)
        if not is_short:  # the action follows from the thought, which has to be learned, too
            end = self._find_thought_end(answer)
            endings = [form[self._find_thought_end(form) :] for form in self._answer_forms[is_short]]
            after = find_choices(answer[end:], [index - end for index in coordinates], endings)
            choices = sorted({*choices, *(end + index for index in after)})
        decisive = [index for index in choices if index < end]
        name = label_name(question.subject.name) if question.subject is not None and question.is_named else ()
        names = self._find_name(question, instruction_ids) if name else ()
        copied = self._label_copies(question, instruction_ids, answer, length)
        query_indices = [start + index - 1 for index in (*decisive, *coordinates)]
        return _Branch(
            token_ids=(*instruction_ids, *answer),
            first_predicted=start,
            coordinates=tuple(start + index for index in coordinates),
            choices=tuple(start + index for index in choices),
            decisive=tuple(start + index for index in decisive),
            name_words=names,
            query_words=tuple(WordLabel(token_index=index, letters=name) for index in query_indices if name),
            query_targets=_label_queries(names, query_indices, length),
            request_parts=self._label_parts(
                questions, instruction_ids, (*query_indices, *(index - 1 for index in copied.get("copies", ())))
            ),
            **copied,
        )

    def _label_parts(
        self, questions: Sequence[ScreenQuestion], instruction_ids: Sequence[int], acting: Sequence[int]
    ) -> tuple[RequestPart, ...]:
        """Return the part of an instruction that each name, text and answer token belongs to.

        Args:
            questions: The parts that are done, then the current one.
            instruction_ids: Tokens of the instruction.
            acting: Indices of tokens that act for the current part: they precede a choice, a coordinate or a copy.
        """
        *done, question = questions
        parts = [*done, *([] if question.target is None else [question]), *question.ahead]
        if len(parts) < 2:
            return ()
        numbers: dict[int, set[int]] = {}
        for number, part in enumerate(parts):
            for index in self._find_own(part, instruction_ids):
                numbers.setdefault(index, set()).add(number)
        if question.target is not None:
            numbers |= {index: {len(done)} for index in acting}
        return tuple(RequestPart(token_index=index, number=min(own)) for index, own in numbers.items() if len(own) == 1)

    def _find_own(self, part: ScreenQuestion, instruction_ids: Sequence[int]) -> list[int]:
        """Return the indices of one part of a request: the name, and the text to type."""
        indices = [word.token_index for word in self._find_name(part, instruction_ids)]
        value = self.tokenizer.encode(part.typed)
        start = find_within(instruction_ids, value) if value else None
        return indices if start is None else [*indices, *range(start, start + len(value))]

    def _find_thought_end(self, answer: Sequence[int | None]) -> int:
        return answer.index(self.tokenizer.special.id_of(THINK_END))

    def _label_copies(
        self, question: ScreenQuestion, instruction_ids: Sequence[int], answer: Sequence[int], length: int
    ) -> dict[str, Any]:
        """Return the typed text with the token that ends it, and the positions of these tokens in the request."""
        if not question.typed:
            return {}
        value = self.tokenizer.encode(question.typed)
        here, there = find_within(answer, value), find_within(instruction_ids, value)
        assert here is not None, "the typed text occurs literally in the request"
        indices = range(len(instruction_ids) + here, len(instruction_ids) + here + len(value) + 1)
        sources = range(length + there, length + there + len(indices)) if there is not None else ()
        targets = (
            AttentionTarget(token_index=to, target_index=at, head=COPY_HEAD)
            for to, at in zip(indices, sources, strict=False)
        )
        return {"copies": tuple(indices), "attention_targets": tuple(targets)}

    def _find_name(self, question: ScreenQuestion, instruction_ids: Sequence[int]) -> tuple[WordLabel, ...]:
        """Return each letter of the name in a request, with the letters before it; empty if the request does not have
        the name.
        """
        if question.subject is None or not question.subject.name:
            return ()
        name = question.subject.name
        for text in (name, f" {name}"):
            tokens = self.tokenizer.encode(text)
            start = find_within(instruction_ids, tokens)
            if start is not None:
                prefixes = (self.tokenizer.decode(tokens[:count]).lstrip() for count in range(1, len(tokens) + 1))
                return tuple(
                    WordLabel(token_index=index, letters=label_name(part))
                    for index, part in enumerate(prefixes, start)
                    if part
                )
        return ()

    def make_prompt(self, steps: Sequence[EpisodeStep]) -> Prompt:
        """Return the whole request for the last of these steps, as engine input."""
        images = [make_image(step.screen) for step in steps[-MAX_IMAGES:]]
        token_ids = (*self.prefix, *self._encode(render([step.question for step in steps], images)))
        indices = find_images(token_ids, self.tokenizer.special.media_pad, images)
        spans = [MediaSpan(offset=index, item=image) for index, image in zip(indices, images, strict=True)]
        return Prompt(token_ids=token_ids, media=tuple(spans))

    def number_id(self, text: str) -> int:
        """Return the token of the three digits of a coordinate such as `0.042`."""
        (token,) = self.tokenizer.encode(text[-3:])
        return token

    def number_ids(self) -> torch.Tensor:
        """Return the tokens of all coordinates in order: (1000,) int64."""
        return torch.tensor([self.number_id(f"0.{number:03}") for number in range(NUM_COORDINATES)])

    def _encode_answer(self, question: ScreenQuestion, code: str, is_short: bool) -> tuple[int, ...]:
        if is_short:
            return tuple(self.tokenizer.encode(code))
        special = self.tokenizer.special
        text = answer_text(question.action, code)
        thought, answer = self.tokenizer.encode(question.thought), self.tokenizer.encode(text)
        return (*thought, special.id_of(THINK_END), *answer, special.id_of(END))

    def _encode_answer_forms(self, *, is_short: bool) -> list[tuple[int | None, ...]]:
        """Return all answers as tokens, with None for coordinates; an answer that types ends before the typed text."""
        forms = []
        for thought, action, code in ANSWERS:
            question = ScreenQuestion(
                kind="", instruction="", target=None, subject=None, thought=thought, action=action, code=code
            )
            answer_ids = self._encode_answer(question, code.format(x="0.101", y="0.202", value="303"), is_short)
            numbers = [self.number_id(text) for text in ("101", "202", "303")]
            end = answer_ids.index(numbers[2]) if numbers[2] in answer_ids else len(answer_ids)
            forms.append(tuple(None if token in numbers else token for token in answer_ids[:end]))
        return forms

    def _encode(self, pieces: Sequence[Piece]) -> tuple[int, ...]:
        return encode_chat(pieces, self.tokenizer).token_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """A request and its answer, with the fields of `Lesson` for one branch.

    Attributes:
        choices: Indices of the tokens at which the possible answers (`ANSWERS`) differ.
        coordinates: Indices of the answer's coordinates in `token_ids`, for labels that need the image.
        decisive: The `choices` before the coordinates or the end of the thought, which determine the clicked element;
            for labels that need the image.
    """

    token_ids: tuple[int, ...]
    first_predicted: int
    name_words: tuple[WordLabel, ...]
    query_words: tuple[WordLabel, ...]
    query_targets: tuple[AttentionTarget, ...] = ()
    request_parts: tuple[RequestPart, ...] = ()
    coordinates: tuple[int, ...] = ()
    choices: tuple[int, ...] = ()
    decisive: tuple[int, ...] = ()
    copies: tuple[int, ...] = ()
    attention_targets: tuple[AttentionTarget, ...] = ()
    numbers: tuple[NumberLabel, ...] = ()


def _join(branches: Sequence[_Branch]) -> dict[str, Any]:
    """Return the fields of a lesson from its branches."""
    names = (
        "first_predicted",
        "numbers",
        "choices",
        "copies",
        "attention_targets",
        "name_words",
        "query_words",
        "query_targets",
        "request_parts",
    )
    return {name: tuple(getattr(branch, name) for branch in branches) for name in names}


def _label_queries(
    names: Sequence[WordLabel], query_indices: Sequence[int], length: int
) -> tuple[AttentionTarget, ...]:
    """Return the tokens that need the name, with its last token in the request as target; `length` is the trunk's.

    An `AttentionTarget` has the index of the token that is predicted, one after the token that attends.
    """
    return tuple(
        AttentionTarget(token_index=index + 1, target_index=length + names[-1].token_index, head=NAME_QUERY_HEAD)
        for index in query_indices
        if names
    )


def answer_text(action: str, code: str) -> str:
    """Return the text after the thought."""
    return f"## Action:\n{action}\n## Code:\n```python\n{code}\n```"


def make_image(screen: DrawnScreen) -> MediaItem:
    """Return a screen as the processor passes it to the model."""
    pixels = pad_image(screen.pixels)[None]
    return MediaItem(frames=pixels, content_hash=sha256(pixels.tobytes()).digest())


def pad_image(pixels: np.ndarray) -> np.ndarray:
    """Pad an image with black below and on the right to whole tokens, as the processor does: (height, width, 3) in and
    out.
    """
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, -height % TOKEN_PX), (0, -width % TOKEN_PX), (0, 0)))
