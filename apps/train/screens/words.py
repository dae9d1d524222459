"""Texts on screens: random strings, words of several languages, and strings one letter apart."""

import random
import string
import tomllib
from importlib.resources import files
from zlib import crc32

HELD_SHARE = 5
"""Fraction of strings that are held out from training as names: one in 5, from any source."""
_WORDS = {
    language: tuple(text.split())
    for language, text in tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8")).items()
}


def is_held_out(name: str) -> bool:
    """Return True if a string is held out for tests."""
    return crc32(name.lower().encode()) % HELD_SHARE == 0


SIGN_SHARE = 0.15
SIGNS = ".-_@/,!"
"""Characters of texts in addition to letters and digits. Quotation marks would end them."""


class DrawnTexts:
    """Strings of one screen, distinct when case is ignored.

    Args:
        rng: Source of randomness.
        held_out: True to draw strings that training never has.
        near_share: Probability that a further string is one letter away from an earlier one.
    """

    def __init__(self, rng: random.Random, *, held_out: bool, near_share: float) -> None:
        self.rng, self.held_out, self.near_share = rng, held_out, near_share
        self._taken: list[str] = []
        self._lowered: set[str] = set()

    def name(self, max_length: int = 14) -> str:
        """Return a name that no other element of the screen has."""
        for _ in range(1000):
            text = self._draw(max_length)
            if len(text) <= max_length and is_held_out(text) is self.held_out and not self._is_taken(text):
                self._taken.append(text)
                self._lowered.add(text.lower())
                return text
        raise RuntimeError(f"no name of at most {max_length} letters is left in addition to {len(self._taken)} others")

    def filler(self, count: int) -> str:
        """Return words that are never asked for."""
        return " ".join(self.rng.choice(_WORDS["English"]) for _ in range(count))

    def value(self) -> str:
        """Return a text to type into a field: letters and digits, at most two words."""
        kind = self.rng.random()
        if kind < 0.5:
            return _random_string(self.rng, 3, 8)
        if kind < 0.7:
            return str(self.rng.randrange(10_000))
        return " ".join(self.rng.choice(self._language()) for _ in range(self.rng.choice((1, 1, 2))))

    def text(self) -> str:
        """Return a value in any case, sometimes with a sign in it, as in mail addresses and file names."""
        text = self.rng.choice((str.lower, str.capitalize, str.capitalize, str.title, str.upper, self._mix))(
            self.value()
        )
        if len(text) > 1 and self.rng.random() < SIGN_SHARE:
            place = self.rng.randint(1, len(text) - 1)  # at the end, a dot and the quotation mark would be one token
            text = text[:place] + self.rng.choice(SIGNS) + text[place:]
        return text

    def _mix(self, text: str) -> str:
        """Change the case of each letter at random."""
        return "".join(self.rng.choice((letter.lower(), letter.upper())) for letter in text)

    def _is_taken(self, text: str) -> bool:
        return text.lower() in self._lowered

    def _draw(self, max_length: int) -> str:
        has_short = any(len(text) <= max_length for text in self._taken)
        if has_short and self.rng.random() < self.near_share:
            return change_letter(self.rng, self.rng.choice([text for text in self._taken if len(text) <= max_length]))
        if self.rng.random() < 0.55:
            text = _random_string(self.rng, 2, min(8, max_length))
        else:
            text = " ".join(self.rng.choice(self._language()) for _ in range(self.rng.choice((1, 1, 1, 2))))
        return self.rng.choice((str.lower, str.capitalize, str.capitalize, str.title, str.upper))(text)

    def _language(self) -> tuple[str, ...]:
        return _WORDS["English"] if self.rng.random() < 0.7 else _WORDS[self.rng.choice(tuple(_WORDS))]


def change_letter(rng: random.Random, text: str) -> str:
    """Return the string with another letter at one position, in the same case."""
    places = [place for place, letter in enumerate(text) if letter.isalnum()]
    place = rng.choice(places)
    letters = string.digits if text[place].isdigit() else string.ascii_lowercase
    new = rng.choice([letter for letter in letters if letter != text[place].lower()])
    return text[:place] + (new.upper() if text[place].isupper() else new) + text[place + 1 :]


def _random_string(rng: random.Random, shortest: int, longest: int) -> str:
    letters = string.ascii_lowercase if rng.random() < 0.8 else string.ascii_lowercase + string.digits
    return "".join(rng.choice(letters) for _ in range(rng.randint(shortest, longest)))
