"""Recall and false alarms of the search for texts that a page addresses to the agent.

    python -m benchmarks.addressed_texts               # both halves
    python -m benchmarks.addressed_texts --half dev --misses

The texts are halved by a hash of language and text. Only the half `dev` was looked at while the rules were written.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cua.guard.addressed import find_addressed


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text of a page, its language, its style (`hidden`: a person does not see it), `injection` or `harmless`."""

    language: str
    style: str
    group: str
    text: str

    @property
    def half(self) -> str:
        """`dev` or `held-out`."""
        digest = hashlib.sha256(f"{self.language}:{self.text}".encode()).digest()
        return "dev" if digest[0] % 2 else "held-out"

    @property
    def is_found(self) -> bool:
        """True if it is taken for addressed to the agent."""
        return bool(find_addressed(self.text, is_hidden=self.style == "hidden"))


def load_texts() -> list[LabelledText]:
    """The committed texts."""
    path = Path(__file__).with_name("addressed_texts.json")
    return [LabelledText(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def row(name: str, texts: Sequence[LabelledText]) -> str:
    """A row of the table."""
    cells = []
    for group in ("injection", "harmless"):
        some = [text for text in texts if text.group == group]
        found = sum(text.is_found for text in some)
        cells.append(f"{found} of {len(some)} ({found / len(some):.1%})" if some else "-")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=("dev", "held-out"), help="only this half, by style")
    parser.add_argument("--misses", action="store_true", help="also the texts that are judged wrong")
    options = parser.parse_args()
    texts = [text for text in load_texts() if options.half in (None, text.half)]
    print("| texts | injections found | harmless texts found |\n|---|---|---|")
    for half in dict.fromkeys(text.half for text in texts):
        print(row(half, [text for text in texts if text.half == half]))
    if options.half:
        for style in dict.fromkeys(text.style for text in texts):
            print(row(style, [text for text in texts if text.style == style]))
    for text in texts if options.misses else ():
        if text.is_found != (text.group == "injection"):
            print(text.group, text.language, text.style, repr(text.text[:300]))


if __name__ == "__main__":
    main()
