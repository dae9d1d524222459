"""Model `nano`: engine and server of `model_runtime` in this process, without a socket."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cua.errors import ConfigError
from cua.messages import Message, Reply, Sampling
from cua.model import Tool
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from envs.errors import require

if TYPE_CHECKING:
    from model_runtime.engine.thread import EngineThread

NAME, EXTRA = "nano", "nano"
WEIGHTS = Path(__file__).with_name("weights")
"""Folder of the bundled weights."""
FOLDER_VARIABLE = "K25_NANO"
"""Environment variable for the folder of another such model, for example a newly trained one."""
MAX_TOKENS = 160
"""Maximum number of tokens of an answer: twice the length of a thought, a sentence and two lines of code."""
CACHE_GIB = 0.25
"""Cache size of the engine: a hundred times the longest request."""
_BASE_URL = "http://nano.localhost/v1"  # never connected to: requests are passed to the application directly


def find_weights() -> Path:
    """Return the folder of the weights: from the environment variable, else the bundled one.

    Raises:
        ConfigError: If the folder has no model.
    """
    named = os.environ.get(FOLDER_VARIABLE, "").strip()
    folder = Path(named).expanduser() if named else WEIGHTS
    if not (folder / "config.json").is_file():
        origin = f"{FOLDER_VARIABLE} names {folder}, which" if named else f"this installation's {folder}"
        raise ConfigError(
            f"{origin} holds no model. `make nano` trains one (about two hours); "
            f"{FOLDER_VARIABLE}=FOLDER selects another folder"
        )
    return folder


def make_nano() -> "NanoModel":
    """Make the model of `--model nano`; the weights are loaded on the first call.

    Raises:
        ConfigError: If weights or a package are missing.
    """
    return NanoModel(find_weights())


class NanoModel:
    """Small Kimi K2.5 in this process; implements `cua.model.Model`.

    Args:
        folder: Folder in the layout of the release.
        name: Name for logs.

    Raises:
        EnvError: If a package is missing.
    """

    def __init__(self, folder: Path, *, name: str = NAME) -> None:
        self.name, self.folder = name, folder
        self._engine: EngineThread | None = None
        self._client: OpenAICompatModel | None = None
        self._lock = asyncio.Lock()
        for module in ("torch", "safetensors", "tiktoken", "fastapi"):
            require(module, EXTRA)

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Generate an answer, greedily unless `sampling` is set; see `cua.model.Model`.

        Raises:
            ModelError: If the request is rejected, or the engine failed.
            TruncatedReplyError: If the reply is incomplete.
        """
        async with self._lock:
            if self._client is None:
                self._engine, app = await asyncio.to_thread(load_nano, self.folder, self.name)
                self._client = _connect(app, self.name)
        return await self._client.generate(messages, tools, sampling)

    async def close(self) -> None:
        """Release the engine; the next call loads it again."""
        client, self._client = self._client, None
        engine, self._engine = self._engine, None
        if client is not None:
            await client.close()
        if engine is not None:
            await engine.close()


def load_nano(folder: Path, name: str) -> "tuple[EngineThread, Any]":
    """Load the engine, and the application that serves it."""
    from model_runtime.launch.options import NativeOptions
    from model_runtime.native import make_engine
    from model_runtime.processor.processor import Processor
    from model_runtime.server.app import make_app

    options = NativeOptions(model_dir=folder, served_name=name, dtype="float32", cache_gib=CACHE_GIB)
    engine = make_engine(options)
    return engine, make_app(engine, Processor.load(folder))


def _connect(app: Any, name: str) -> OpenAICompatModel:
    import httpx2

    options = OpenAICompatOptions(
        model=name,
        base_url=_BASE_URL,
        sampling=Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
        streaming=False,
    )
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)  # an error is a reply with status 500
    return OpenAICompatModel(options, http_client=httpx2.AsyncClient(transport=transport))
