"""Secrets out of texts."""

from collections.abc import Sequence
from urllib.parse import quote, quote_plus


class Redactor:
    """Replaces secret texts, also as they stand in addresses, by `***`."""

    def __init__(self, secrets: Sequence[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            forms |= {secret, quote(secret), quote(secret, safe=""), quote_plus(secret)}
        self._forms = sorted(forms, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        for form in self._forms:
            text = text.replace(form, "***")
        return text
