"""One run of vLLM for each checkpoint."""

import pytest

from tests.model_runtime.vllm_peer.both import Both, ask


@pytest.fixture(scope="session")
def bf16(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return ask(tmp_path_factory.mktemp("vllm-bf16"), quantized=False)


@pytest.fixture(scope="session")
def int4(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return ask(tmp_path_factory.mktemp("vllm-int4"), quantized=True)
