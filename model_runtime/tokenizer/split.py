"""Cuts texts that are too long for the regular expression engine, where the release's tokenizer cuts them."""

import re
from collections.abc import Iterator

MAX_CHARS = 400_000
MAX_RUN_CHARS = 25_000
"""Characters that are all spaces, or all not.

Source: `tokenization_kimi.py` of moonshotai/Kimi-K2.5, `encode`; github.com/openai/tiktoken/issues/195.
"""

_LONG_RUN = re.compile(rf"(?<!\S)\S{{{MAX_RUN_CHARS + 1},}}|(?<!\s)\s{{{MAX_RUN_CHARS + 1},}}")


def split_text(text: str) -> Iterator[str]:
    """Parts of a text, in order; nearly always the text itself."""
    if len(text) <= MAX_RUN_CHARS:
        yield text
        return
    for start in range(0, len(text), MAX_CHARS):
        yield from _split_runs(text[start : start + MAX_CHARS])


def _split_runs(text: str) -> Iterator[str]:
    """Cuts every `MAX_RUN_CHARS` inside longer runs of spaces or of other characters."""
    last = 0
    for run in _LONG_RUN.finditer(text):
        for cut in range(run.start() + MAX_RUN_CHARS, run.end(), MAX_RUN_CHARS):
            yield text[last:cut]
            last = cut
    yield text[last:]
