"""What chat and plain completions have in common: how to sample, how to stream."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

MAX_CHOICES = 128


class StrictModel(BaseModel):
    """Strings are not numbers, numbers are not booleans."""

    model_config = ConfigDict(strict=True, frozen=True)


class OpenModel(StrictModel):
    """A request: fields it does not know are kept aside, and named in the answer's header `x-ignored-fields`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class StreamOptions(StrictModel):
    """What a stream carries beside the deltas."""

    include_usage: StrictBool | None = Field(default=None, description="A last chunk with token counts and no choices.")
    continuous_usage_stats: StrictBool | None = Field(default=None, description="Token counts with every chunk.")


Stop = Annotated[str, Field(min_length=1, max_length=1024)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class SamplingFields(OpenModel):
    """Sampling, ends of a sequence, streaming. Ranges are those of `engine.sampling.SamplingParams`."""

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
        default=None, description="Give `prompt_token_ids` and `token_ids` with each choice: tokens out for tokens in."
    )
    priority: int | None = Field(default=None, ge=-1000, le=1000, description="Lower runs first.")
    logit_bias: dict[str, float] | None = Field(default=None, description="Not supported; refused unless empty.")

    @property
    def unknown_fields(self) -> list[str]:
        """Names of fields that were sent and are not looked at."""
        extra: dict[str, Any] = self.model_extra or {}
        return list(extra)
