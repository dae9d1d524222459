"""One self-contained HTML page of a run."""

from cua.trajectory.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
