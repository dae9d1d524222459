"""Secrets out of texts."""

import re
from collections.abc import Sequence


class Redactor:
    """Replaces secret texts, also as they stand in addresses, by `***`."""

    def __init__(self, secrets: Sequence[str]) -> None:
        longest_first = sorted(secrets, key=len, reverse=True)
        pattern = "|".join("".join(_any_form(char) for char in secret) for secret in longest_first)
        self._pattern = re.compile(pattern) if pattern else None

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        return self._pattern.sub("***", text) if self._pattern is not None else text


def _any_form(char: str) -> str:
    """A pattern for a character as it is, and as addresses may write it."""
    encoded = "".join(f"(?i:%{byte:02x})" for byte in char.encode("utf-8", "surrogatepass"))
    plus = r"|\+" if char == " " else ""
    return f"(?:{re.escape(char)}|{encoded}{plus})"
