"""HTML page of a run: one self-contained file without network access."""

from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.load import load_run
from cua.trajectory.report.images import Format
from cua.trajectory.report.shell import PageTemplate
from cua.trajectory.report.view import run_view
from cua.trajectory.run_files import REPORT
from cua.trajectory.run_record import RunRecord

__all__ = ["render_report", "write_report"]

_PAGE = PageTemplate(package="cua.trajectory.report", template="report.html", script="report.js")


def render_report(record: RunRecord, form: Format = "small") -> str:
    """Render the page of a run.

    Args:
        record: Record of the run; its images are read from disk.
        form: `small` keeps the page under 30 MB; `png` embeds the images as the model saw them.
    """
    return _PAGE.render(run=run_view(record, form))


def write_report(run_dir: Path | str, path: Path | str | None = None, form: Format = "small") -> Path:
    """Write the page of a run atomically.

    Args:
        run_dir: The run's folder.
        path: Path of the page; None for `report.html` in the run's folder.
        form: As for `render_report`.

    Raises:
        TrajectoryError: If the record cannot be read or the file cannot be written.
    """
    record = _load(run_dir)
    target = Path(path) if path is not None else record.run_dir / REPORT
    return _PAGE.write(target, run=run_view(record, form))


def _load(run_dir: Path | str) -> RunRecord:
    """Load the record, with its images for a tool-using run, unless one of them is missing."""
    record = load_run(run_dir, images=0)
    if not record.is_tool_run:
        return record
    try:
        return load_run(run_dir, images=None)
    except TrajectoryError:
        return record
