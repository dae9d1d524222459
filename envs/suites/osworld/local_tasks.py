"""Tasks that run on a local guest, determined by running them: solutions, plain steps, substitutes for downloads.

`data/local_tasks.toml` has a table for each tested task. A task is valid if its setup works, its verdict has no error,
an agent that does nothing gets 0 and the scripted solution gets 1.

Substitutes for downloads (a drawing for a photograph, a short letter for a long one) change a task: a score on this
list is not comparable to OSWorld's score.
"""

import functools
import io
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

from envs.errors import EnvSetupError
from envs.suite import Baseline
from envs.suites.osworld.task_file import OsworldTaskData, TaskFile

LOCAL = "local"
"""Name of the list."""
DATA = Path(__file__).with_name("data") / "local_tasks.toml"
BASELINES: Mapping[str, Baseline] = {
    "null": Baseline(
        score=0.0, num_episodes=69, command="cua eval osworld --list local --provider local --baseline null"
    )
}
"""Measured baseline score; the definition of a valid task requires it, too."""
Wording = Literal["goal", "steps"]
_TERMINAL_START_S = 4.0
_TERMINAL_END_S = 3.0
_ZIP_TIME = (2026, 1, 1, 0, 0, 0)
_DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
_OOXML = "http://schemas.openxmlformats.org"
_IMAGES = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".webp": "WEBP", ".pdf": "PDF"}

StandIn = str | Mapping[str, str]
"""Text of a file, or texts of an archive's files by name."""


class _Table(TypedDict, total=False):
    """Table of a task in the file: like `LocalTask`, or with terminal commands in place of code."""

    why_not: str
    code: list[str]
    terminal: str
    wait_s: float
    end_s: float
    steps: str
    files: dict[str, StandIn]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTask:
    """Test results of one task on a local guest.

    Attributes:
        key: `DOMAIN/ID`.
        why_not: Reason why it is not valid, in one clause; None if it is.
        solution: Scripted solution, pyautogui code for each step; empty for infeasible tasks.
        steps: The instruction as plain steps, one action each, for a model that follows instructions literally; "" if
            missing.
        files: Contents of substitute files, by file name on the guest; other files are generated from their suffix.
    """

    key: str
    why_not: str | None = None
    solution: tuple[str, ...] = ()
    steps: str = ""
    files: Mapping[str, StandIn] = field(default_factory=dict)


@functools.cache
def load_local_tasks(path: Path = DATA) -> Mapping[str, LocalTask]:
    """Return all tested tasks, by key.

    Raises:
        EnvSetupError: If the file is damaged.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EnvSetupError(f"{path} cannot be read: {error}") from error
    shared = content.pop("files", {})
    tasks = (_parse(f"{domain}/{id}", table, shared) for domain, ids in content.items() for id, table in ids.items())
    return {task.key: task for task in tasks}


def _parse(key: str, table: _Table, shared: Mapping[str, StandIn]) -> LocalTask:
    """Parse one table.

    Raises:
        EnvSetupError: If the table has an unknown key.
    """
    unknown = table.keys() - _Table.__annotations__.keys()
    if unknown:
        raise EnvSetupError(f"{DATA.name}: {key} has {sorted(unknown)}, which is not known")
    solution = tuple(table.get("code", ()))
    if "terminal" in table:
        solution += _terminal_code(table["terminal"], table.get("wait_s", 0.0), table.get("end_s", _TERMINAL_END_S))
    return LocalTask(
        key=key,
        why_not=table.get("why_not"),
        solution=solution,
        steps=" ".join(table.get("steps", "").split()),
        files={**shared, **table.get("files", {})},
    )


def _terminal_code(commands: str, wait_s: float, end_s: float) -> tuple[str, ...]:
    """Return code that opens a terminal after a wait for started programs, and types commands."""
    opened = f"time.sleep({wait_s})\npyautogui.hotkey('ctrl', 'alt', 't')\ntime.sleep({_TERMINAL_START_S})"
    return opened, f"pyautogui.write({commands.strip() + chr(10)!r})\ntime.sleep({end_s})"


def local_keys(wording: Wording = "goal") -> tuple[str, ...]:
    """Return the keys of the valid tasks; with `steps`, only tasks with plain steps."""
    tasks = load_local_tasks().values()
    return tuple(task.key for task in tasks if task.why_not is None and (wording == "goal" or task.steps))


def load_solutions() -> Mapping[str, tuple[str, ...]]:
    """Return the solution of each valid task, by its instruction in either wording; the last step ends the episode."""
    data, solutions = OsworldTaskData(), {}
    for key in local_keys():
        task, file = load_local_tasks()[key], data.task(key)
        status = "failure" if file.is_infeasible else "success"
        code = (*task.solution, f"computer.terminate(status='{status}')")
        solutions[file.instruction] = code
        if task.steps:
            solutions[task.steps] = code
    return solutions


def why_not_local(file: TaskFile) -> str | None:
    """Return why a task is not in the list, in one clause; None if it is."""
    known = load_local_tasks().get(file.key)
    if known is not None:
        return known.why_not
    if file.domain == "vs_code" or any("code" in app.lower() for app in file.related_apps):
        return "VS Code is not to be had from Debian"
    if file.needs_account:
        return "it needs an account at Google Drive"
    expected = [metric.expected or {} for metric in file.metrics]
    if any(source.get("type") == "cloud_file" for source in expected):
        return "it is compared with a document that is downloaded"
    if file.needs_proxy or file.domain == "chrome":
        return "it needs live web sites"
    return "it needs documents or pages that are downloaded, and was not tried with others in their place"


def save_standins(folder: Path, files: Mapping[str, StandIn], names: Mapping[str, str]) -> None:
    """Write substitute files to the paths where downloads would be in the task's folder.

    Args:
        folder: Folder of the task.
        files: Contents by the name of the file on the guest.
        names: Name in that folder, by path on the guest.
    """
    for path, name in names.items():
        target, content = folder / name, make_standin(path, files.get(path.rpartition("/")[2]))
        if not target.is_file() or target.read_bytes() != content:
            target.write_bytes(content)


def make_standin(path: str, given: StandIn | None = None) -> bytes:
    """Make a small, deterministic file of the type given by its name.

    Args:
        path: Name of the file; the suffix selects the type.
        given: Content; None for a default.
    """
    suffix = Path(path).suffix.lower()
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, Mapping):
        return _make_zip(given) if suffix == ".zip" else _make_tar(given)
    if suffix in _IMAGES:
        return _make_image(_IMAGES[suffix])
    if suffix == ".docx":
        return _make_docx()
    if suffix == ".xlsx":
        return _make_xlsx()
    return b"A file in place of one that is downloaded.\n"


def _make_image(kind: str) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (320, 240), "lightblue")
    drawing = ImageDraw.Draw(image)
    drawing.ellipse((90, 50, 230, 190), fill="orange", outline="black", width=3)
    drawing.rectangle((0, 200, 320, 240), fill="green")
    stored = io.BytesIO()
    image.save(stored, kind)
    return stored.getvalue()


def _make_zip(files: Mapping[str, str]) -> bytes:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), text)
    return stored.getvalue()


def _make_tar(files: Mapping[str, str]) -> bytes:
    """Make a compressed tar file; gzip stores no time, so that it is deterministic."""
    import gzip

    stored = io.BytesIO()
    with gzip.GzipFile(fileobj=stored, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stored.getvalue()


def _make_docx() -> bytes:
    words = ("A short letter", "It stands in place of a longer one.", "It has three paragraphs.")
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in words)
    namespace = f"{_OOXML}/wordprocessingml/2006/main"
    content = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    return _make_office("word/document.xml", _DOCX_TYPE, content, {})


def _make_xlsx() -> bytes:
    namespace, relations = f"{_OOXML}/spreadsheetml/2006/main", f"{_OOXML}/officeDocument/2006/relationships"
    book = (
        f'<workbook xmlns="{namespace}" xmlns:r="{relations}"><sheets>'
        '<sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>'
    )
    rows = "".join(
        f'<row r="{row}">' + "".join(f'<c r="{column}{row}"><v>{row * 10}</v></c>' for column in "ABC") + "</row>"
        for row in range(1, 5)
    )
    sheet = f'<worksheet xmlns="{namespace}"><sheetData>{rows}</sheetData></worksheet>'
    more = {
        "xl/worksheets/sheet1.xml": sheet,
        "xl/_rels/workbook.xml.rels": _relations(f"{relations}/worksheet", "worksheets/sheet1.xml"),
    }
    return _make_office("xl/workbook.xml", _XLSX_TYPE, book, more)


def _make_office(main: str, kind: str, content: str, more: Mapping[str, str]) -> bytes:
    """Make an Office Open XML file. Source: ECMA-376, part 2."""
    types = (
        f'<Types xmlns="{_OOXML}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet'
        f'+xml"/><Override PartName="/{main}" ContentType="{kind}"/></Types>'
    )
    document = f"{_OOXML}/officeDocument/2006/relationships/officeDocument"
    parts = {"[Content_Types].xml": types, "_rels/.rels": _relations(document, main), main: content, **more}
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    return _make_zip({name: head + text for name, text in parts.items()})


def _relations(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_OOXML}/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{kind}" Target="{target}"/></Relationships>'
    )
