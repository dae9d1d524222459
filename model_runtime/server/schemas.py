"""Bodies of requests to `/v1/chat/completions`, `/v1/completions`, `/tokenize` and `/detokenize`."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool
from pydantic_core import PydanticCustomError

from model_runtime.engine.contract import LogprobsMode, OnUpdate
from model_runtime.json_types import Json

MAX_CHOICES = 128  # the limit of OpenAI's API


class StrictModel(BaseModel):
    """Base model without conversions between strings, numbers and booleans."""

    model_config = ConfigDict(strict=True, frozen=True)


class OpenModel(StrictModel):
    """Base of requests: unknown fields are stored, and listed in the answer's header `x-ignored-fields`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class StreamOptions(StrictModel):
    """Content of a stream in addition to the deltas."""

    include_usage: StrictBool | None = Field(default=None, description="A last chunk with token counts and no choices.")
    continuous_usage_stats: StrictBool | None = Field(default=None, description="Token counts with every chunk.")


Stop = Annotated[str, Field(min_length=1, max_length=1024)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class SamplingFields(OpenModel):
    """Sampling, end conditions, streaming. For ranges see `engine.sampling.SamplingParams`."""

    model: str | None = Field(
        default=None, description="A name that /v1/models lists; left out, the only model answers."
    )
    temperature: float | None = Field(default=None, ge=0, le=100, description="0 takes the likeliest token.")
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, lt=2**31, description="0 or -1 for all tokens.")
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, ge=1e-3, le=10)
    seed: int | None = Field(
        default=None, ge=-(2**63), lt=2**63, description="Choice i of several samples with seed + i."
    )
    max_tokens: int | None = Field(default=None, ge=0, lt=2**31, description="None for what the context leaves.")
    min_tokens: int | None = Field(default=None, ge=0, lt=2**31)
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = Field(
        default=None, description="Texts that end the answer; they are not part of it."
    )
    stop_token_ids: Annotated[list[TokenId], Field(max_length=64)] | None = None
    ignore_eos: StrictBool | None = Field(default=None, description="Go on after the model's own end tokens.")
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES, description="Choices; they share the work on the prompt.")
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: StrictBool | None = Field(
        default=None,
        description="Give `prompt_token_ids`, `media` and `processor`, and `token_ids` with each choice: tokens out "
        "for tokens in. With `logprobs`, each token's entry says whether it was `sampled`; false where no other token "
        "could come.",
    )
    return_kept_token_ids: StrictBool | None = Field(
        default=None,
        description="With `return_token_ids` and `logprobs`: give the kept set of each token, the ids that could be "
        "drawn after top_k, top_p, min_p and a grammar. If any of the three is used, top_k is at most 1024.",
    )
    logprobs_mode: LogprobsMode | None = Field(
        default=None,
        description="`raw_logprobs` (the default): of the model's own distribution. `processed_logprobs`: of the one "
        "that the token was drawn from, after penalties, grammar, barred tokens, temperature, top_k, top_p, min_p; at "
        "temperature 0, and where one token alone could come, that is 0. Those of a prompt are always raw.",
    )
    priority: int | None = Field(default=None, ge=-1000, le=1000, description="Lower runs first.")
    logit_bias: dict[str, float] | None = Field(default=None, description="Not supported; refused unless empty.")

    @property
    def usage_at_end(self) -> bool:
        """True if a stream ends with token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def usage_always(self) -> bool:
        """True if every chunk has token counts."""
        return (
            self.usage_at_end and self.stream_options is not None and bool(self.stream_options.continuous_usage_stats)
        )

    @property
    def unknown_fields(self) -> list[str]:
        """Names of fields that were sent and are ignored."""
        extra: Json = self.model_extra or {}
        return list(extra)


class MediaUrl(StrictModel):
    """Location of an image or video: a data URL, or http(s) if the server allows it."""

    url: str = Field(min_length=1)
    detail: object = Field(
        default=None, description="Not looked at: images are always read at the model's own resolution."
    )


def _url(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


def _parts(value: object) -> object:
    if not isinstance(value, str | list):
        raise PydanticCustomError("content", "a string or a list of parts")
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


AnyUrl = Annotated[
    MediaUrl, BeforeValidator(_url, json_schema_input_type=MediaUrl | Annotated[str, Field(min_length=1)])
]


class TextIn(StrictModel):
    """Text. No part of it becomes a control token."""

    type: Literal["text"]
    text: str


class RefusalIn(StrictModel):
    """Refusal of an assistant; treated as text."""

    type: Literal["refusal"]
    refusal: str


class ImageIn(StrictModel):
    """An image, in any role's message, including tool results."""

    type: Literal["image_url"]
    image_url: AnyUrl


class VideoIn(StrictModel):
    """A video; frames are sampled at 2 per second."""

    type: Literal["video_url"]
    video_url: AnyUrl


class PlacedPart(StrictModel):
    """Position of media in token ids."""

    offset: int | None = Field(
        default=None, ge=0, lt=2**31, description="Index of its first placeholder; None for the next one."
    )


class PlacedImageIn(ImageIn, PlacedPart):
    """An image of the token ids."""


class PlacedVideoIn(VideoIn, PlacedPart):
    """A video of the token ids; its chunks take placeholders one after the other."""


class MediaHashIn(PlacedPart):
    """An image or a chunk of a video that this server has read before, by the hash in `media` of an answer."""

    type: Literal["media_hash"]
    media_hash: str = Field(pattern="^(?:[0-9a-f]{2}){8,64}$")


MediaIn = Annotated[PlacedImageIn | PlacedVideoIn | MediaHashIn, Field(discriminator="type")]


class TokenPromptFields(SamplingFields):
    """Media of a prompt that is given as token ids."""

    media: list[MediaIn] | None = Field(
        default=None,
        description="Images and videos of the placeholders in the token ids, in order: as parts of a message are, or "
        "as in `media` of an earlier answer. Each takes as many placeholders as it has tokens.",
    )


PartIn = Annotated[TextIn | RefusalIn | ImageIn | VideoIn, Field(discriminator="type")]
ContentIn = Annotated[list[PartIn], BeforeValidator(_parts, json_schema_input_type=str | list[PartIn])]


class FunctionIn(StrictModel):
    """The function of a call."""

    name: str = Field(min_length=1)
    arguments: str | Json | None = Field(default=None, description="JSON text, kept as it comes; or the object.")


class ToolCallIn(StrictModel):
    """A call made by an assistant."""

    id: str = Field(min_length=1)
    type: Literal["function"] = "function"
    function: FunctionIn


class MessageIn(StrictModel):
    """One message; fields of other roles are ignored."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: ContentIn | None = None
    name: str | None = None
    reasoning_content: str | None = Field(default=None, description="An assistant's reasoning in a running tool loop.")
    reasoning: str | None = Field(default=None, description="The same under the name that other servers use.")
    tool_calls: list[ToolCallIn] | None = None
    tool_call_id: str | None = None


class FunctionSpec(StrictModel):
    """A function that the model may call."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.\-]+$")
    description: str | None = None
    parameters: Json | None = Field(default=None, description="JSON schema of the arguments.")
    strict: StrictBool | None = Field(
        default=None, description="Hold the arguments to the schema while they are sampled."
    )


class ToolIn(StrictModel):
    """A tool; only functions exist."""

    type: Literal["function"]
    function: FunctionSpec


class ChosenFunction(StrictModel):
    """The name of a function."""

    name: str


class ToolChoice(StrictModel):
    """Choice of a function that must be called."""

    type: Literal["function"]
    function: ChosenFunction


class ThinkingOption(StrictModel):
    """Moonshot's option for reasoning."""

    type: Literal["enabled", "disabled"] | None = None
    budget_tokens: int | None = Field(default=None, ge=0, lt=2**31)


class SchemaSpec(StrictModel):
    """A named JSON schema."""

    name: str | None = None
    description: str | None = None
    schema_: Json | StrictBool | None = Field(default=None, alias="schema")
    strict: StrictBool | None = None


class TextFormat(StrictModel):
    """Any text."""

    type: Literal["text"]


class ObjectFormat(StrictModel):
    """Any JSON object."""

    type: Literal["json_object"]


class SchemaFormat(StrictModel):
    """JSON that matches a schema; enforced during sampling."""

    type: Literal["json_schema"]
    json_schema: SchemaSpec


ResponseFormat = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]


TokenIds = Annotated[list[TokenId], Field(min_length=1)]


class ChatRequest(TokenPromptFields):
    """A conversation to continue."""

    messages: list[MessageIn] | None = Field(
        default=None, description="May be left out, or empty, only with `prompt_token_ids`."
    )
    prompt_token_ids: TokenIds | None = Field(
        default=None,
        description="Ids of the conversation before `messages`, which are rendered and appended: `prompt_token_ids` "
        "and `token_ids` of the last answer. Without messages they are the whole prompt. Tools are not declared again.",
    )
    tools: list[ToolIn] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: ResponseFormat | None = None
    max_completion_tokens: int | None = Field(default=None, ge=0, lt=2**31, description="The newer name of max_tokens.")
    logprobs: StrictBool | None = Field(default=None, description="Of every token, reasoning and markers included.")
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    thinking: ThinkingOption | None = None
    thinking_budget: int | None = Field(default=None, ge=0, lt=2**31, description="Tokens that reasoning may take.")
    chat_template_kwargs: Json | None = Field(default=None, description="`thinking`: false answers at once.")
    reasoning_effort: str | None = Field(
        default=None, description="`none` switches reasoning off; others are not looked at."
    )
    functions: list[object] | None = Field(default=None, description="Not supported; use tools.")
    function_call: object = Field(default=None, description="Not supported; use tool_choice.")
    audio: object = Field(default=None, description="Not supported.")
    modalities: list[str] | None = Field(default=None, description="Text only.")
    web_search_options: object = Field(default=None, description="Not supported.")


Texts = Annotated[list[str], Field(min_length=1)]


class TextRequest(TokenPromptFields):
    """A prompt to continue, as text or as token ids.

    Tokens in, tokens out: send `prompt` as a list of ids, with `media` if it has images, and set `return_token_ids`;
    with `logprobs: 0`, `token_ids`, `logprobs.token_logprobs` and `logprobs.sampled` of a choice are lists of equal
    length, with one entry per token, including the end token. `logprobs_mode` selects the distribution of the
    log-probabilities.
    """

    prompt: str | TokenIds | Texts | Annotated[list[TokenIds], Field(min_length=1)] = Field(
        description="Text spells no control tokens unless parse_special_tokens is set. Placeholders need `media`."
    )
    max_tokens: int | None = Field(default=16, ge=0, lt=2**31, description="0 only with echo.")
    logprobs: int | None = Field(
        default=None, ge=0, le=20, description="Alternatives at each token; 0 for the token alone."
    )
    prompt_logprobs: int | None = Field(default=None, ge=0, le=20, description="The same for the tokens of the prompt.")
    echo: StrictBool | None = Field(default=None, description="Put the prompt before the answer.")
    skip_special_tokens: StrictBool | None = Field(
        default=None, description="False shows control tokens by their names."
    )
    parse_special_tokens: StrictBool | None = Field(
        default=None, description="True reads names of control tokens in text as control tokens. For trusted text only."
    )
    best_of: int | None = Field(default=None, ge=1, description="Not supported beyond n.")
    suffix: str | None = Field(default=None, description="Not supported.")


class TokenizeRequest(OpenModel):
    """A text, or a conversation as for the chat endpoint, to be tokenized."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[MessageIn], Field(min_length=1)] | None = None
    tools: list[ToolIn] | None = None
    chat_template_kwargs: Json | None = None

    @property
    def chat(self) -> ChatRequest | None:
        """The conversation as a chat request."""
        if self.messages is None:
            return None
        return ChatRequest(messages=self.messages, tools=self.tools, chat_template_kwargs=self.chat_template_kwargs)


class UpdateRequest(OpenModel):
    """New weights, from a folder below the one that the operator allows."""

    version: str = Field(min_length=1, max_length=200, description="Version that replies of these weights carry.")
    folder: str = Field(min_length=1, description="Folder of a checkpoint of the same sizes.")
    running: OnUpdate = Field(
        default="finish",
        description="Requests that run: `finish` with the old weights while new ones wait; `pause` and go on with the "
        "new ones; `restart` ends them with 503, so that clients send them again.",
    )


class DetokenizeRequest(OpenModel):
    """Token ids to convert to text."""

    model: str | None = None
    tokens: list[TokenId]
