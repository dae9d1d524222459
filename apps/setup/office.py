"""`cua setup office`: headless LibreOffice, and the Python packages that read and write documents."""

import asyncio
import importlib.metadata
import importlib.util
import re
import sys
import tempfile
from pathlib import Path

from apps.office.libreoffice import can_draw_equations, convert, find_soffice, find_undrawn
from apps.office.safe_xml import OfficeError
from apps.setup.command import Say, run_command
from apps.setup.packages import PackageManager, find_package_manager, install_need, is_root, manual_command
from apps.setup.report import DoctorRow

EXTRA = "office"
_DISTRIBUTION = "cua-k25"
_PIP_TIMEOUT_S = 900.0  # some 100 MB over a slow network
_ASIAN_LETTERS = "季报體かなカナ한글"
_TRIAL_S = 120.0  # the first start of LibreOffice makes its profile


async def install_office(say: Say) -> tuple[DoctorRow, ...]:
    """Install the packages, LibreOffice and fonts if they are missing, and test them with a small document."""
    return await _make_sure_of_packages(say), await _make_sure_of_libreoffice(say), check_fonts()


def check_fonts() -> DoctorRow:
    """Check whether a font has Chinese, Japanese and Korean letters; LibreOffice draws boxes for missing ones."""
    undrawn = find_undrawn(_ASIAN_LETTERS)
    if not undrawn:
        return DoctorRow(name="office fonts", level="ok", actual="Chinese, Japanese and Korean letters are drawn")
    return DoctorRow(
        name="office fonts",
        level="warn",
        actual=f"no font has {undrawn}, which documents show as boxes",
        expected="a font with Chinese, Japanese and Korean letters",
        fix=manual_command("office") or "install a font with Chinese, Japanese and Korean letters",
    )


def missing_requirements(extra: str = EXTRA) -> list[str]:
    """Return requirements of an extra and its nested extras that are not installed, in pip's format."""
    missing: list[str] = []
    for line in importlib.metadata.requires(_DISTRIBUTION) or ():
        requirement, _, marker = (piece.strip() for piece in line.partition(";"))
        if not re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker):
            continue
        name, _, options = requirement.partition("[")
        name = re.split(r"[\s<>=!~(]", name.strip(), maxsplit=1)[0]
        if name == _DISTRIBUTION:
            for other in options.partition("]")[0].split(","):
                missing += missing_requirements(other.strip())
        elif not _has(name):
            missing.append(requirement)
    return list(dict.fromkeys(missing))


def _has(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def _make_sure_of_packages(say: Say) -> DoctorRow:
    missing = missing_requirements()
    if missing:
        say(f"getting {', '.join(missing)} by pip")
        argv = (
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--no-input",
            "--quiet",
            *missing,
        )
        result = await run_command(argv, timeout_s=_PIP_TIMEOUT_S, say=say)
        importlib.invalidate_caches()
        left = missing_requirements()
        if left:
            return DoctorRow(
                name="office packages",
                level="fail",
                actual=f"pip did not get {', '.join(left)}: {result.why}",
                expected="the packages of the extra office",
                fix=f"pip install '{_DISTRIBUTION}[{EXTRA}]'",
            )
    return DoctorRow(
        name="office packages", level="ok", actual="python-docx, openpyxl, python-pptx, typst, pandoc, pypdf"
    )


async def _make_sure_of_libreoffice(say: Say) -> DoctorRow:
    manager = find_package_manager()
    is_complete = can_draw_equations() and not find_undrawn(_ASIAN_LETTERS)
    reason = "" if is_complete else await _get_libreoffice(manager, say)
    fix = manual_command("office") or "install LibreOffice"
    program = find_soffice()
    if program is None:
        return _broken(f"not installed: {reason or 'there is still no soffice'}", "soffice on PATH", fix)
    try:
        await asyncio.to_thread(_try_out)
    except OfficeError as error:
        return _broken(str(error), "a document that it turns into PDF", fix)
    if not can_draw_equations():
        actual = f"{program} has no part Math, so that equations would be left out" + (f": {reason}" if reason else "")
        return DoctorRow(name="libreoffice", level="warn", actual=actual, expected="equations that are drawn", fix=fix)
    return DoctorRow(name="libreoffice", level="ok", actual=f"{program} turns a document into PDF")


async def _get_libreoffice(manager: PackageManager | None, say: Say) -> str:
    """Install LibreOffice if permitted; return the reason of a failure, or ""."""
    if manager is None:
        return "no known package manager is on PATH"
    if not is_root():
        return f"only root may install it by {manager.name}"
    what = "fonts" if can_draw_equations() else "LibreOffice"
    size = "2 MB, 5 MB on disk" if what == "fonts" else "some 110 MB, 320 MB on disk"
    say(f"getting {what} by {manager.name} ({size})")
    result = await install_need(manager, "office", say)
    return "" if result.code == 0 else f"{manager.name}: {result.why}"


def _broken(actual: str, expected: str, fix: str) -> DoctorRow:
    return DoctorRow(name="libreoffice", level="fail", actual=actual, expected=expected, fix=fix)


def _try_out() -> None:
    with tempfile.TemporaryDirectory(prefix="k25-try-") as scratch:
        page = Path(scratch) / "page.html"
        page.write_text("<p>A page</p>", "utf-8")
        convert(page, page.with_suffix(".pdf"), timeout_s=_TRIAL_S, export_filter="writer_web_pdf_Export")
