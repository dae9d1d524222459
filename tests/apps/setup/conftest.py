from pathlib import Path

import pytest

from tests.apps.setup.machine import BareMachine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BareMachine:
    return BareMachine(tmp_path, monkeypatch)
