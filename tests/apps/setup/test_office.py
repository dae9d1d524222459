import importlib.metadata

import pytest

from apps.setup.office import missing_requirements


def test_extras_that_an_extra_names_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "pydantic>=2",
        'cua-k25[sandbox,other]; extra == "office"',
        'no-such-thing[speed]>=1.5; extra == "office"',
        'pytest>=1; extra == "office"',
        'no-such-kernel>=7; extra == "sandbox"',
        'no-such-thing[speed]>=1.5; extra == "sandbox"',
        'no-such-model>=1; extra == "desktop"',
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    assert missing_requirements() == ["no-such-kernel>=7", "no-such-thing[speed]>=1.5"]
