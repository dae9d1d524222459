"""Engine of a run of rollouts: the bundled model in this process, or a server that returns token ids."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from apps.nano.model import MAX_TOKENS, NanoModel, load_nano
from cua.assemble import make_settings_model
from cua.config import Settings
from cua.errors import ConfigError
from cua.messages import Sampling
from cua.models.endpoint import Endpoint
from cua.models.openai_compat import OpenAICompatModel
from cua.rollouts.gateway_app import HttpEngine

MEDIA_TOKEN_ID = 163_605
"""Token that the features of images replace, in the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEngine:
    """Engine of a run.

    Attributes:
        engine: Engine of the gateway.
        model: Name of the model at the engine.
        media_token_id: Token that the features of images replace.
        sampling: Parameters of every call.
        weights: Folder of the weights; None if they are elsewhere.
    """

    engine: HttpEngine
    model: str
    media_token_id: int
    sampling: Sampling
    weights: Path | None


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[RolloutEngine]:
    """Open the engine of the configured model.

    Raises:
        ConfigError: If the model returns no token ids.
    """
    model, max_tokens, media_token_id = make_settings_model(settings), settings.max_output_tokens, MEDIA_TOKEN_ID
    async with AsyncExitStack() as stack:
        stack.push_async_callback(model.close)
        if isinstance(model, NanoModel):
            thread, app = await asyncio.to_thread(load_nano, model.folder, model.name)
            stack.push_async_callback(thread.close)
            engine = HttpEngine(Endpoint(base_url="http://nano.localhost/v1", api_key="none"), app=app)
            max_tokens, media_token_id = max_tokens or MAX_TOKENS, thread.tokenizer.special.media_pad
        elif isinstance(model, OpenAICompatModel):
            engine = HttpEngine(model.endpoint)
        else:
            raise ConfigError(
                f"the model {model.name!r} returns no token ids; use --model nano, or a server such as `cua serve` "
                "with --base-url"
            )
        stack.push_async_callback(engine.close)
        temperature = settings.temperature if isinstance(settings.temperature, float) else None
        sampling = Sampling(temperature=temperature, top_p=1.0, max_tokens=max_tokens)
        yield RolloutEngine(
            engine=engine,
            model=model.name,
            media_token_id=media_token_id,
            sampling=sampling,
            weights=model.folder if isinstance(model, NanoModel) else None,
        )
