"""Record of a run on disk: written during the run, loaded, shown, exported, replayed."""

from cua.trajectory.events import NoteEvent, RunHeader
from cua.trajectory.load import load_run
from cua.trajectory.run_files import default_runs_dir
from cua.trajectory.run_record import ActionsOutcome, PendingStep, RunRecord, forget_image, resume_steps
from cua.trajectory.writer import TrajectoryWriter

__all__ = [
    "ActionsOutcome",
    "NoteEvent",
    "PendingStep",
    "RunHeader",
    "RunRecord",
    "TrajectoryWriter",
    "default_runs_dir",
    "forget_image",
    "load_run",
    "resume_steps",
]
