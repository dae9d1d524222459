"""What the agent sends at each step of work, as pieces of a chat: rendered by its own code."""

from collections.abc import Sequence

from apps.train.skills import Question
from cua.gui_agent.protocol.history import to_messages
from cua.gui_agent.protocol.prompts import ProtocolOptions
from cua.messages import ImagePart as SentImage
from cua.messages import Reply
from cua.messages import TextPart as SentText
from cua.step import Step, Turn
from envs import Observation, ScreenGeometry
from model_runtime.chat import ChatMessage, ImagePart, Piece, TextPart, render_chat
from model_runtime.media import MediaItem

MAX_IMAGES = ProtocolOptions().max_images


def pieces_to_image(questions: Sequence[Question], images: Sequence[MediaItem]) -> list[Piece]:
    """The request up to the end of the current image: what all questions about it have in common."""
    pieces = render(questions, images)
    return pieces[: _find_end(pieces)]


def pieces_after_image(questions: Sequence[Question], images: Sequence[MediaItem]) -> list[Piece]:
    """The rest of the user's message, and the opening of the answer."""
    pieces = render(questions, images)
    return pieces[_find_end(pieces) :]


def _find_end(pieces: Sequence[Piece]) -> int:
    return max(place for place, piece in enumerate(pieces) if isinstance(piece, MediaItem)) + 2  # with <|media_end|>


def render(questions: Sequence[Question], images: Sequence[MediaItem]) -> list[Piece]:
    """What the agent sends at the last of these steps, but for the system prompt.

    Args:
        questions: Of all steps from the first one on.
        images: Of the last `MAX_IMAGES` of them.
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
    """An observation whose screenshot is its number: who renders the request puts the image there."""
    return Observation(screenshot=b"%d" % number, geometry=ScreenGeometry(native_px=(1, 1), sent_px=(1, 1)))


def _turn_of(question: Question) -> Turn:
    return Turn(thought=question.thought, action_text=question.action, code=question.code)
