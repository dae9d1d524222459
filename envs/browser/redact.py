"""Secrets out of texts."""

from collections.abc import Sequence

from envs.secret_forms import SecretForms

STARS = "***"


class Redactor(SecretForms):
    """Replaces secret texts, in whatever form, by `***`."""

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__([(secret, STARS) for secret in secrets])
