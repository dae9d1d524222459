"""Headless LibreOffice: convert, recalculate, render. Each call has its own profile and a timeout."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unicodedata
from pathlib import Path

from apps.office.safe_xml import FilePath, OfficeError

TIMEOUT_S = 180.0  # per attempt; bounds files that make LibreOffice hang
_NEEDS_RESTART = 81
"""Exit code of a first start that only created a fresh profile."""
_INSTALL = "cua setup office"

_SETTINGS = (
    ("Office.Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("Office.Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Office.Common/Misc", "FirstRun", "false"),
    ("Office.Common/Save/Document", "WarnAlienFormat", "false"),
    ("Office.Calc/Formula/Load", "OOXMLRecalcMode", "0"),
    ("Office.Calc/Formula/Load", "ODFRecalcMode", "0"),
    ("Office.Calc/Content/Update", "Link", "2"),
    ("Office.Writer/Content/Update", "Link", "0"),
    ("Inet/Settings", "ooInetProxyType", "2"),
    ("Inet/Settings", "ooInetHTTPProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetHTTPProxyPort", "9"),
    ("Inet/Settings", "ooInetHTTPSProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetHTTPSProxyPort", "9"),
)
"""Security settings.

Macros never run, links are never followed (the proxy is an unused local port), and values of external sheets are
always recalculated.
"""


def find_soffice() -> str | None:
    """Return the path of the program, or None if it is not installed."""
    return shutil.which("soffice") or shutil.which("libreoffice")


def can_draw_equations() -> bool:
    """Return whether the component that draws equations is installed: without it LibreOffice silently omits them."""
    program = find_soffice()
    if program is None:
        return False
    folder = Path(program).resolve().parent
    return any(
        any((place / "program").glob("libsmlo.*")) for place in (folder.parent, Path("/usr/lib/libreoffice"))
    ) or any(folder.glob("libsmlo.*"))


def find_undrawn(text: str) -> str:
    """Return the characters of a text that no installed font has, in order; LibreOffice draws boxes for them.

    Without fontconfig the result is empty. Not considered: spaces, controls, marks that combine, private characters.
    """
    program = shutil.which("fc-list")
    wanted = [
        letter for letter in dict.fromkeys(text) if ord(letter) > 127 and unicodedata.category(letter)[0] not in "CMZ"
    ]
    if program is None or not wanted:
        return ""
    listed = subprocess.run([program, ":", "charset"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    ranges = {
        (int(first, 16), int(last or first, 16))
        for first, last in re.findall(r"\b([0-9a-f]+)(?:-([0-9a-f]+))?", listed.stdout.replace(":charset=", " "))
    }
    return "".join(letter for letter in wanted if not any(first <= ord(letter) <= last for first, last in ranges))


def convert(source: FilePath, target: FilePath, *, export_filter: str = "", timeout_s: float = TIMEOUT_S) -> Path:
    """Convert a file to the format of the target's suffix.

    Args:
        source: Any file that LibreOffice reads.
        target: Target file, replaced if it exists.
        export_filter: Filter as in `soffice --convert-to` after the suffix, such as
            `writer_pdf_Export:{"ExportBookmarks":...}`.
        timeout_s: Time limit in seconds; the process is killed after it.

    Returns:
        The target.

    Raises:
        OfficeError: If LibreOffice is missing, has no result, or exceeds the time limit.
    """
    target = Path(target)
    source = Path(source)
    program = find_soffice()
    if program is None:
        raise OfficeError(f"LibreOffice is not installed; this needs it. Install it with: {_INSTALL}")
    ending = target.suffix.lstrip(".")
    with tempfile.TemporaryDirectory(prefix="k25-soffice-") as scratch:
        profile, out = Path(scratch) / "profile", Path(scratch) / "out"
        _write_profile(profile)
        copy = Path(scratch) / f"source{source.suffix}"  # safe for names with spaces or a leading dash
        shutil.copyfile(source, copy)
        to = f"{ending}:{export_filter}" if export_filter else ending
        argv = [program, "--headless", "--norestore", "--nolockcheck", f"-env:UserInstallation={profile.as_uri()}"]
        argv += ["--convert-to", to, "--outdir", str(out), str(copy)]
        output = _run_twice(argv, timeout_s, source)
        produced = out / f"source.{ending}"
        if not produced.is_file() or not produced.stat().st_size:
            raise OfficeError(f"LibreOffice did not convert {source.name} to {ending}: {output or 'no reason given'}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(produced, target)
    return target


def render_pdf(source: FilePath, target: FilePath, *, timeout_s: float = TIMEOUT_S) -> Path:
    """Render a file as PDF with the headings as bookmarks; raises like `convert`."""
    target = Path(target)
    return convert(source, target.with_suffix(".pdf"), timeout_s=timeout_s)


def _write_profile(profile: Path) -> None:
    """Write the settings into a fresh profile."""
    items = "".join(
        f'<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop>'
        "</item>"
        for path, name, value in _SETTINGS
    )
    (profile / "user").mkdir(parents=True)
    (profile / "user" / "registrymodifications.xcu").write_text(
        '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry" '
        'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"{items}</oor:items>",
        "utf-8",
    )


def _run_twice(argv: list[str], timeout_s: float, source: Path) -> str:
    """Run LibreOffice, once more if it only requests a restart, and return its output."""
    output = ""
    for _ in range(2):
        code, output = _run(argv, timeout_s, source)
        if code != _NEEDS_RESTART:
            break
    return output


def _run(argv: list[str], timeout_s: float, source: Path) -> tuple[int, str]:
    environment = {**os.environ, "SAL_USE_VCLPLUGIN": "svp", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise OfficeError(
            f"LibreOffice did not finish {source.name} within {timeout_s:g} s and was stopped; the file may be too "
            "large, or crafted to block readers"
        ) from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line and "javaldx" not in line]
    return process.returncode, "; ".join(lines[-3:])
