"""The bodies of `POST /v1/completions`, `/tokenize` and `/detokenize`."""

from typing import Annotated, Any

from pydantic import Field, StrictBool

from model_runtime.server.schemas.chat import ChatRequest, ToolIn
from model_runtime.server.schemas.common import OpenModel, SamplingFields, TokenId
from model_runtime.server.schemas.content import MessageIn

TokenIds = Annotated[list[TokenId], Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1)]


class TextRequest(SamplingFields):
    """A prompt to continue, as text or as token ids.

    Tokens in, tokens out: send `prompt` as a list of ids and set `return_token_ids`; with `logprobs: 0`, `token_ids`
    and `logprobs.token_logprobs` of a choice are lists of equal length, one entry for each sampled token, the end
    token included. Log-probabilities are those of the model, before temperature and filters.
    """

    prompt: str | TokenIds | Texts | Annotated[list[TokenIds], Field(min_length=1)] = Field(
        description="Text spells no control tokens unless parse_special_tokens is set; media placeholders are refused."
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
    """A text, or a conversation as the chat endpoint takes it, to be counted."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[MessageIn], Field(min_length=1)] | None = None
    tools: list[ToolIn] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def chat(self) -> ChatRequest | None:
        """The conversation as a chat request."""
        if self.messages is None:
            return None
        return ChatRequest(messages=self.messages, tools=self.tools, chat_template_kwargs=self.chat_template_kwargs)


class DetokenizeRequest(OpenModel):
    """Token ids to show."""

    model: str | None = None
    tokens: list[TokenId]
