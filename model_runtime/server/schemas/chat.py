"""The body of `POST /v1/chat/completions`."""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from model_runtime.server.schemas.common import SamplingFields, StrictModel
from model_runtime.server.schemas.content import MessageIn


class FunctionSpec(StrictModel):
    """A function that the model may call."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.\-]+$")
    description: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="JSON schema of the arguments.")
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
    """This function has to be called."""

    type: Literal["function"]
    function: ChosenFunction


class Thinking(StrictModel):
    """Moonshot's switch for reasoning."""

    type: Literal["enabled", "disabled"] | None = None
    budget_tokens: int | None = Field(default=None, ge=0, lt=2**31)


class SchemaSpec(StrictModel):
    """A named JSON schema."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | StrictBool | None = Field(default=None, alias="schema")
    strict: StrictBool | None = None


class TextFormat(StrictModel):
    """Any text."""

    type: Literal["text"]


class ObjectFormat(StrictModel):
    """Some JSON object."""

    type: Literal["json_object"]


class SchemaFormat(StrictModel):
    """JSON that a schema allows; held to it while it is sampled."""

    type: Literal["json_schema"]
    json_schema: SchemaSpec


ResponseFormat = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]


class ChatRequest(SamplingFields):
    """A conversation to continue."""

    messages: list[MessageIn] = Field(min_length=1)
    tools: list[ToolIn] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: ResponseFormat | None = None
    max_completion_tokens: int | None = Field(default=None, ge=0, lt=2**31, description="The newer name of max_tokens.")
    logprobs: StrictBool | None = Field(default=None, description="Of every token, reasoning and markers included.")
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    thinking: Thinking | None = None
    thinking_budget: int | None = Field(default=None, ge=0, lt=2**31, description="Tokens that reasoning may take.")
    chat_template_kwargs: dict[str, Any] | None = Field(default=None, description="`thinking`: false answers at once.")
    reasoning_effort: str | None = Field(
        default=None, description="`none` switches reasoning off; others are not looked at."
    )
    functions: list[Any] | None = Field(default=None, description="Not supported; use tools.")
    function_call: Any = Field(default=None, description="Not supported; use tool_choice.")
    audio: Any = Field(default=None, description="Not supported.")
    modalities: list[str] | None = Field(default=None, description="Text only.")
    web_search_options: Any = Field(default=None, description="Not supported.")
