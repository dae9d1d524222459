"""Says it where the runtime's tests are left out."""

import pytest

from tests.model_runtime.conftest import MISSING


def test_the_runtime_is_tested() -> None:
    if MISSING:
        text = f"tests/model_runtime and those of training are left out: {', '.join(MISSING)} not installed"
        pytest.skip(f"{text}; get them with: scripts/bootstrap.sh runtime-dev")
