from pathlib import Path

import pytest

from apps.office.libreoffice import find_soffice

needs_libreoffice = pytest.mark.skipif(find_soffice() is None, reason="LibreOffice is not installed: cua setup office")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "libreoffice" in getattr(item, "fixturenames", ()):
            item.add_marker(needs_libreoffice)


@pytest.fixture(scope="session")
def libreoffice() -> Path:
    """Tests that ask for it are skipped where there is none."""
    return Path(find_soffice() or "")
