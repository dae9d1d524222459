"""One compiled vocabulary for all."""

import pytest

from model_runtime.engine.grammar import GrammarEngine
from model_runtime.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def grammars(tokenizer: Tokenizer) -> GrammarEngine:
    return GrammarEngine(tokenizer)
