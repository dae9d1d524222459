"""From a record to one HTML file that needs nothing else and can do nothing else.

Every text is escaped by the template engine; on top, the page's own content security policy forbids any
request and any script but the one that it came with, so that text of a page or a model stays text.
"""

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from cua.errors import TrajectoryError
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.load import load_run
from cua.trajectory.report.images import Format
from cua.trajectory.report.view import run_view
from cua.trajectory.run_files import REPORT
from cua.trajectory.run_record import RunRecord

if TYPE_CHECKING:
    from jinja2 import Template


def render_report(record: RunRecord, form: Format = "small") -> str:
    """The page of a run.

    Args:
        record: The run; its images are read from disk.
        form: `small` keeps the page under 30 MB; `png` embeds the images as the model saw them.
    """
    style, script = _part("report.css"), _part("report.js")
    policy = inline_policy(style, script)
    return _template().render(run=run_view(record, form), style=style, script=script, policy=policy)


def write_report(run_dir: Path | str, path: Path | str | None = None, form: Format = "small") -> Path:
    """Write the page of a run, whole or not at all.

    Args:
        run_dir: The run's folder.
        path: The file; None for `report.html` in the run's folder.
        form: See `render_report`.

    Returns:
        The file.

    Raises:
        TrajectoryError: The record cannot be read or the file cannot be written.
    """
    record = _load(run_dir)
    target = Path(path) if path is not None else record.run_dir / REPORT
    page = render_report(record, form)
    with translate_os_errors("write", target):
        write_atomically(target, page.encode("utf-8", "replace"))
    return target


def report_style() -> str:
    """The style sheet, for pages of the same family."""
    return _part("report.css")


def inline_policy(style: str, script: str) -> str:
    """The content security policy of a page with one inline style and one inline script, and nothing else."""
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )


def _load(run_dir: Path | str) -> RunRecord:
    """The record; with its images for a tool-using run, unless one of them is lost."""
    record = load_run(run_dir, images=0)
    if not record.is_tool_run:
        return record
    try:
        return load_run(run_dir, images=None)
    except TrajectoryError:
        return record


@cache
def _part(name: str) -> str:
    return resources.files("cua.trajectory.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> "Template":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    engine = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_part)
    )
    return engine.get_template("report.html")


def _hash(text: str) -> str:
    """How a content security policy names an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
