"""Creates models from their names on the command line."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cua.errors import ConfigError, ModelError
from cua.messages import Message, Reply, Sampling
from cua.model import Model, Tool

if TYPE_CHECKING:
    from importlib import metadata

    from cua.models.accumulator import Delta
    from cua.models.gate import Retry
    from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions


MODELS_GROUP = "k25.models"
SCRIPTS_GROUP = "k25.scripts"
"""Entry point group of scripted models for one suite of tasks: found by name as in `MODELS_GROUP`, but not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """User settings of a model, as in flags and config files.

    Attributes:
        base_url: Base URL; by default `OPENAI_BASE_URL`.
        api_key: API key; by default `OPENAI_API_KEY`.
        preset: Key of `endpoint.PRESETS`; None selects one by model and host.
        temperature: Sampling temperature; takes precedence over the preset. `omit` leaves it out of the request.
        top_p: Nucleus sampling; takes precedence over the preset. `omit` leaves it out of the request.
        max_tokens: Limit on output tokens; takes precedence over the preset.
        image_format: `png`, `webp:QUALITY` or `jpeg:QUALITY`.
        tool_images: Position of images of tool results: in the `tool` message, in a `user` message after it, or `auto`.
        streaming: True to request a stream.
        connect_timeout_s: Timeout of the connection.
        idle_timeout_s: Timeout between two chunks of a streamed answer.
        timeout_s: Timeout of one whole try.
        max_retries: Number of retries of a failed call; None for the defaults of `RetryPolicy`.
        retry_time_s: Seconds for which a failing call is repeated.
        record_tokens: True to request token ids with every reply, and to continue conversations from them.
        fallback: Name of a model at the same endpoint, or `literal`, used when the first is not available.
        prices_file: JSON file of prices; by default `K25_PRICES`.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    preset: str | None = None
    temperature: float | Literal["omit"] | None = None
    top_p: float | Literal["omit"] | None = None
    max_tokens: int | None = None
    image_format: str = "png"
    tool_images: Literal["auto", "tool", "user"] = "auto"
    streaming: bool = True
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 300.0
    timeout_s: float = 1200.0
    max_retries: int | None = None
    retry_time_s: float = 600.0
    record_tokens: bool = False
    fallback: str | None = None
    prices_file: str | None = None


def make_model(
    name: str,
    settings: ModelSettings = ModelSettings(),
    *,
    on_delta: "Callable[[Delta], None] | None" = None,
    on_retry: "Callable[[Retry], None] | None" = None,
    on_note: Callable[[str], None] | None = None,
) -> Model:
    """Create a model without contacting the endpoint.

    Args:
        name: `scripted:FILE` for recorded replies, `baseline:null|fail|random` for agents without skill, `smollm2` or
            `llamacpp:FILE.gguf` for a small model that llama.cpp runs in this process, the name of an entry point in
            the group `k25.models` or `k25.scripts`; any other name is the id of a model at an OpenAI-compatible
            endpoint.
        settings: Settings of the model.
        on_delta: Called with each piece of a streamed reply.
        on_retry: Called before each wait for a retry.
        on_note: Called with what the model does not provide although the settings request it.

    Returns:
        The model; the caller closes it.

    Raises:
        ConfigError: If no endpoint is configured, or a setting is invalid.
    """
    if settings.fallback:
        alone = replace(settings, fallback=None)
        primary, fallback = (
            make_model(each, alone, on_delta=on_delta, on_retry=on_retry, on_note=on_note)
            for each in (name, settings.fallback)
        )
        return FallbackModel(primary, fallback)
    if name == "scripted" or name.startswith("scripted:"):
        return _make_scripted(name.removeprefix("scripted").removeprefix(":"))
    if name == "smollm2" or name.startswith("llamacpp:"):
        from cua.models.llamacpp import LlamaCppModel, find_weights

        return LlamaCppModel(find_weights(name), name=name)
    if name.startswith("baseline:"):
        from cua.models.scripted import BaselineModel

        return BaselineModel.from_name(name)
    from importlib import metadata  # 20 ms

    for group in (MODELS_GROUP, SCRIPTS_GROUP):
        for brought in metadata.entry_points(group=group, name=name):
            return _make_brought(brought)
    if not name.strip():
        raise ConfigError("the model has no name: give --model ID, or --model literal for the embedded one")
    return _make_openai_compat(name, settings, on_delta, on_retry, on_note)


def list_own_models() -> list[str]:
    """Return the names of the models that run on this machine without an endpoint."""
    from importlib import metadata

    return [*sorted(metadata.entry_points(group=MODELS_GROUP).names), "smollm2"]


def _make_brought(entry: "metadata.EntryPoint") -> Model:
    """Create the model of an installed package: its entry point names a function without arguments that returns it."""
    try:
        maker: Callable[[], Model] = entry.load()
    except Exception as error:  # it runs code of another distribution
        raise ConfigError(f"the model {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    return maker()


def _make_scripted(path: str) -> Model:
    from cua.models.scripted import ScriptedModel

    if not path:
        raise ConfigError("--model scripted needs a file of recorded replies: scripted:FILE")
    return ScriptedModel.from_file(path)


def _make_openai_compat(
    name: str,
    settings: ModelSettings,
    on_delta: "Callable[[Delta], None] | None",
    on_retry: "Callable[[Retry], None] | None",
    on_note: Callable[[str], None] | None,
) -> "OpenAICompatModel":
    from cua.models.gate import RetryPolicy
    from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
    from cua.models.prices import load_prices
    from cua.models.wire import ImageFormat

    _check_numbers(settings)
    options = OpenAICompatOptions(
        model=name,
        base_url=settings.base_url,
        api_key=settings.api_key,
        sampling=_sampling(name, settings),
        streaming=settings.streaming,
        image_format=ImageFormat.parse(settings.image_format),
        tool_images=settings.tool_images,
        connect_timeout_s=settings.connect_timeout_s,
        idle_timeout_s=settings.idle_timeout_s,
        timeout_s=settings.timeout_s,
        retry=RetryPolicy(max_retries=settings.max_retries, max_elapsed_s=settings.retry_time_s),
        record_tokens=settings.record_tokens,
        prices=load_prices(settings.prices_file),
    )
    return OpenAICompatModel(options, on_delta=on_delta, on_retry=on_retry, on_note=on_note)


def endpoint_options(model: Model) -> "tuple[OpenAICompatOptions, ...]":
    """Return the options with which another process can open the same model, with its key: never record them.

    Returns:
        Options of a model behind an HTTP endpoint, or of it and its fallback; empty for all other models, such as
        embedded, scripted and user-defined ones.
    """
    from cua.models.openai_compat import OpenAICompatModel

    if isinstance(model, FallbackModel):
        primary, fallback = endpoint_options(model.primary), endpoint_options(model.fallback)
        return (*primary, *fallback) if primary and fallback else ()
    return (model.portable_options,) if isinstance(model, OpenAICompatModel) and model.portable_options else ()


def _sampling(name: str, settings: ModelSettings) -> Sampling:
    from cua.models.endpoint import automatic_sampling, find_endpoint, preset_sampling

    endpoint = find_endpoint(settings.base_url, settings.api_key)
    sampling = preset_sampling(settings.preset, endpoint) if settings.preset else automatic_sampling(name, endpoint)
    if settings.temperature is not None:
        sampling = replace(sampling, temperature=None if settings.temperature == "omit" else settings.temperature)
    if settings.top_p is not None:
        sampling = replace(sampling, top_p=None if settings.top_p == "omit" else settings.top_p)
    if settings.max_tokens is not None:
        sampling = replace(sampling, max_tokens=settings.max_tokens)
    return sampling


def _check_numbers(settings: ModelSettings) -> None:
    ranges: tuple[tuple[str, object, float, float], ...] = (
        ("temperature", settings.temperature, 0, 2),
        ("top_p", settings.top_p, 0, 1),
        ("max_tokens", settings.max_tokens, 1, 10_000_000),
        ("max_retries", settings.max_retries, 0, 1000),
        ("retry_time_s", settings.retry_time_s, 0, 31_536_000),
        ("connect_timeout_s", settings.connect_timeout_s, 0.001, 86_400),
        ("idle_timeout_s", settings.idle_timeout_s, 0.001, 86_400),
        ("timeout_s", settings.timeout_s, 0.001, 86_400),
    )
    for name, value, low, high in ranges:
        if isinstance(value, int | float) and not low <= value <= high:
            raise ConfigError(f"{name} is {value:g}; expected a number from {low:g} to {high:g}")


class FallbackModel:
    """Model that calls `primary`, and `fallback` after a retryable error of it; implements `Model`.

    Permanent errors (a wrong key, a refused request, a truncated reply) are raised at once: another model would hide a
    configuration error. After a failure the primary is skipped for `pause_s`, so that not every step waits for its
    retries.

    Args:
        primary: Model that is called first.
        fallback: Model that is called after the primary has failed. It uses its own sampling, because the
            sampling of the call is meant for the primary.
        pause_s: Seconds for which the primary is skipped after a failure.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, primary: Model, fallback: Model, *, pause_s: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = f"{primary.name} (fallback: {fallback.name})"
        self.primary = primary
        self.fallback = fallback
        self._pause_s = pause_s
        self._clock = clock
        self._paused_until = float("-inf")
        self._last_error = ""

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Answer a conversation; `Reply.model` says if the fallback answered.

        Raises:
            ModelError: If the primary failed permanently, or both failed.
        """
        if self._clock() >= self._paused_until:
            try:
                return await self.primary.generate(messages, tools, sampling)
            except ModelError as error:
                if not error.retryable:
                    raise
                self._last_error = str(error)
                self._paused_until = self._clock() + self._pause_s
        return await self._ask_fallback(messages, tools)

    async def close(self) -> None:
        """Close the connections of both models."""
        try:
            await self.primary.close()
        finally:
            await self.fallback.close()

    async def _ask_fallback(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        try:
            reply = await self.fallback.generate(messages, tools)
        except ModelError as error:
            if not error.retryable:
                raise
            raise ModelError(f"{self._last_error}; and the fallback: {error}", retryable=True) from error
        return replace(reply, model=f"{reply.model or self.fallback.name} (fallback for {self.primary.name})")
