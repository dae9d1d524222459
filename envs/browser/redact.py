"""Redaction of secrets in texts, and in a finished HAR file: URLs, headers, bodies, cookies."""

import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from envs.secret_texts import SecretForms

STARS = "***"
_BLOCK_CHARS = 2**18  # HAR files are large: they are redacted in blocks, not in memory as a whole


class Redactor(SecretForms):
    """Redaction of secret texts, in any encoding, as `***`."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(secrets)
        super().__init__([(secret, STARS) for secret in self._secrets])

    def learn(self, secrets: Sequence[str]) -> None:
        """Also replace these secrets from now on."""
        new = [secret for secret in secrets if secret not in self._secrets]
        if new:
            self._secrets += tuple(new)
            super().__init__([(secret, STARS) for secret in self._secrets])


def scrub_har(path: Path, forms: SecretForms) -> None:
    """Replace secrets in a HAR file, plain or zipped; remove a file that cannot be cleaned.

    Memory is bounded for any file size.

    Raises:
        OSError: If it could neither be cleaned nor removed.
    """
    if not path.is_file():
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".har-")
    draft = Path(name)
    try:
        os.close(handle)
        if zipfile.is_zipfile(path):
            _scrub_zip(path, draft, forms)
        else:
            with path.open("rb") as source, draft.open("wb") as target:
                _scrub(source, target, forms)
        draft.replace(path)
    except (OSError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)
    finally:
        draft.unlink(missing_ok=True)


def _scrub_zip(path: Path, draft: Path, forms: SecretForms) -> None:
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            with before.open(entry) as source, after.open(forms(entry.filename), "w", force_zip64=True) as target:
                _scrub(source, target, forms)


def _scrub(source: IO[bytes], target: IO[bytes], forms: SecretForms) -> None:
    """Copy and redact block by block; a secret may span two blocks. Invalid UTF-8 is kept unchanged."""
    rest = b""
    while True:
        block = source.read(_BLOCK_CHARS)
        text = (rest + block).decode("utf-8", "surrogateescape")
        cut = forms.cut_at(text) if block else len(text)
        target.write(forms(text[:cut]).encode("utf-8", "surrogateescape"))
        rest = text[cut:].encode("utf-8", "surrogateescape")
        if not block:
            return
