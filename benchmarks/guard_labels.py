"""Recall and false alarms of the guard's word list on labels of buttons in 20 languages.

    python -m benchmarks.guard_labels              # the held-out half, as in guard_labels.md
    python -m benchmarks.guard_labels --half dev --misses

The labels are halved by a hash of language and label. Only the half `dev` was looked at while the list was written.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cua.guard.words import kind_of


@dataclass(frozen=True, slots=True)
class Label:
    """What a button says, its language, and the kind of risk; None for a harmless one."""

    language: str
    label: str
    kind: str | None
    group: str

    @property
    def half(self) -> str:
        """`dev` or `held-out`."""
        digest = hashlib.sha256(f"{self.language}:{self.label}".encode()).digest()
        return "dev" if digest[0] % 2 else "held-out"


def load_labels() -> list[Label]:
    """The committed labels."""
    path = Path(__file__).with_name("guard_labels.json")
    return [Label(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def is_right(label: Label) -> bool:
    """Whether the guard asks about a dangerous label, of whatever kind, and lets a harmless one pass."""
    return (kind_of(label.label) is not None) == (label.group == "dangerous")


def row(name: str, labels: Sequence[Label]) -> str:
    """A row of the table."""
    dangerous = [label for label in labels if label.group == "dangerous"]
    harmless = [label for label in labels if label.group == "harmless"]
    found, asked = sum(map(is_right, dangerous)), len(harmless) - sum(map(is_right, harmless))
    recall = f"{found} of {len(dangerous)} ({found / len(dangerous):.0%})"
    return f"| {name} | {recall} | {asked} of {len(harmless)} ({asked / len(harmless):.0%}) |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=("dev", "held-out"), default="held-out")
    parser.add_argument("--misses", action="store_true", help="also the labels that are judged wrong")
    options = parser.parse_args()
    labels = [label for label in load_labels() if label.half == options.half]
    print("| language | dangerous labels found | harmless labels asked about |\n|---|---|---|")
    for language in dict.fromkeys(label.language for label in labels):
        print(row(language, [label for label in labels if label.language == language]))
    print(row("**all**", labels))
    for label in labels if options.misses else ():
        if not is_right(label):
            print(label.language, label.group, label.label, "->", kind_of(label.label))


if __name__ == "__main__":
    main()
