"""Outputs that must match a schema, an expression or a grammar.

grammars = GrammarEngine(tokenizer)
matcher = grammars.compile(GrammarSpec(kind="json_object")).make_matcher()
"""

from model_runtime.engine.grammar.engine import Grammar, GrammarEngine
from model_runtime.engine.grammar.matcher import Matcher

__all__ = ["Grammar", "GrammarEngine", "Matcher"]
