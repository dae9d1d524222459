"""Secrets out of texts."""

from collections.abc import Sequence

from envs.secret_forms import SecretForms

STARS = "***"


class Redactor(SecretForms):
    """Replaces secret texts, in whatever form, by `***`."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(secrets)
        super().__init__([(secret, STARS) for secret in self._secrets])

    def learn(self, secrets: Sequence[str]) -> None:
        """Replace these as well from now on."""
        new = [secret for secret in secrets if secret not in self._secrets]
        if new:
            self._secrets += tuple(new)
            super().__init__([(secret, STARS) for secret in self._secrets])
