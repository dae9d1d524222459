"""Messages of a chat and the parts they are made of."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from model_runtime.server.schemas.common import StrictModel


class MediaUrl(StrictModel):
    """Where a picture or video is: a data URL, or http(s) where the server allows it."""

    url: str = Field(min_length=1)
    detail: Any = Field(
        default=None, description="Not looked at: pictures are always read at the model's own resolution."
    )


def _url(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


def _parts(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise PydanticCustomError("content", "a string or a list of parts")
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


AnyUrl = Annotated[
    MediaUrl, BeforeValidator(_url, json_schema_input_type=MediaUrl | Annotated[str, Field(min_length=1)])
]


class TextIn(StrictModel):
    """Text. Nothing in it becomes a control token."""

    type: Literal["text"]
    text: str


class RefusalIn(StrictModel):
    """What an assistant said instead of an answer; read as text."""

    type: Literal["refusal"]
    refusal: str


class ImageIn(StrictModel):
    """A picture, in any role's message, tool results included."""

    type: Literal["image_url"]
    image_url: AnyUrl


class VideoIn(StrictModel):
    """A video; frames are sampled at 2 a second."""

    type: Literal["video_url"]
    video_url: AnyUrl


PartIn = Annotated[TextIn | RefusalIn | ImageIn | VideoIn, Field(discriminator="type")]
ContentIn = Annotated[list[PartIn], BeforeValidator(_parts, json_schema_input_type=str | list[PartIn])]


class FunctionIn(StrictModel):
    """The function of a call."""

    name: str = Field(min_length=1)
    arguments: str | dict[str, Any] | None = Field(
        default=None, description="JSON text, kept as it comes; or the object."
    )


class ToolCallIn(StrictModel):
    """A call that an assistant made."""

    id: str = Field(min_length=1)
    type: Literal["function"] = "function"
    function: FunctionIn


class MessageIn(StrictModel):
    """One message; fields of other roles are not looked at."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: ContentIn | None = None
    name: str | None = None
    reasoning_content: str | None = Field(default=None, description="An assistant's reasoning in a running tool loop.")
    reasoning: str | None = Field(default=None, description="The same under the name that other servers use.")
    tool_calls: list[ToolCallIn] | None = None
    tool_call_id: str | None = None
