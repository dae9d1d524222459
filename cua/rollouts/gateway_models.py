"""Sessions of a gateway as models of agents in this process: each attempt has its own, whose turns become samples."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cua.messages import Sampling
from cua.models.gate import EndpointGate
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.rollouts.gateway import Gateway, GatewaySession
from cua.rollouts.gateway_app import make_gateway_app
from cua.rollouts.play import ModelSession
from cua.rollouts.rollout import Rollout
from cua.rollouts.samples import RolloutSample, SampleWriter

_BASE_URL = "http://gateway.localhost/v1"  # never connected to: requests are passed to the application directly


class GatewayModels:
    """Models that speak to a gateway in this process.

    Args:
        gateway: Gateway in front of the engine.
        writer: Stores the images of the sessions.
        name: Name of the model in records.
        sampling: Parameters of every call.
    """

    def __init__(self, gateway: Gateway, writer: SampleWriter, *, name: str, sampling: Sampling) -> None:
        self._gateway = gateway
        self._writer = writer
        self._name, self._sampling = name, sampling
        self._app = make_gateway_app(gateway)
        self._gate = EndpointGate()

    @asynccontextmanager
    async def open(self, rollout: Rollout) -> AsyncIterator[ModelSession]:
        """Open the session of an attempt; for `make_episode_spec`.

        Raises:
            GatewayError: If there are too many sessions.
        """
        import httpx2

        key = hashlib.sha256(f"{rollout.id} {rollout.attempt}".encode()).hexdigest()  # any text becomes an API key
        session = self._gateway.open_session(key)
        transport = httpx2.ASGITransport(app=self._app, raise_app_exceptions=False)
        model = OpenAICompatModel(
            OpenAICompatOptions(
                model=self._name, base_url=_BASE_URL, api_key=key, sampling=self._sampling, streaming=False
            ),
            gate=self._gate,
            http_client=httpx2.AsyncClient(transport=transport, trust_env=False),
        )

        async def read_branches() -> tuple[RolloutSample, ...]:
            await asyncio.to_thread(self._store_media, session)
            return session.log.branches(lambda version: int(version or rollout.version))

        try:
            yield ModelSession(model=model, read_branches=read_branches)
        finally:
            self._gateway.close_session(key)
            await model.close()

    def _store_media(self, session: GatewaySession) -> None:
        for data in session.read_media():
            self._writer.put_media(data)
