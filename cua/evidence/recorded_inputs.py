"""Validation of the inputs that a record names: a record may come from an untrusted source."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cua.errors import ConfigError, TrajectoryError
from cua.trajectory.run_files import check_name, copy_inside, hash_file
from cua.trajectory.run_record import RunRecord

INPUTS = "inputs"
MAX_INPUTS = 1000  # bounds the work on a record from an untrusted source
MAX_INPUT_BYTES = 512 * 2**20  # as above; larger files are read in place and are not part of a record
MAX_TOTAL_BYTES = 2 * 2**30
"""Limit on the total size of the inputs in the working folder of a kernel."""


class RecordedInput(BaseModel):
    """Input file, as in the record's header.

    Attributes:
        name: Name in `inputs/`, or an absolute path for a file that was read in place.
        is_copied: True if the run has a copy.
        size_bytes: Size of the file.
        sha256: Hash of the content; "" in records of earlier versions.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    is_copied: bool
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredInputs:
    """Inputs in a new folder.

    Attributes:
        readable: Files that are read in place.
        findings: Descriptions of differences from the record.
    """

    readable: tuple[Path, ...]
    findings: tuple[str, ...]


def listed_inputs(record: RunRecord) -> tuple[Any, ...]:
    """Return the inputs that a record lists, in the order of the questions; not validated."""
    entries = record.header.settings.get("inputs", [])
    later = [entry for exchange in record.exchanges for entry in exchange.inputs]
    return (*(entries if isinstance(entries, list | tuple) else [entries]), *later)


def recorded_inputs(record: RunRecord) -> tuple[RecordedInput, ...]:
    """Return the validated inputs of a run.

    Raises:
        TrajectoryError: If the header's list is damaged, too long, or names a file twice.
    """
    try:
        inputs = TypeAdapter(tuple[RecordedInput, ...]).validate_python(listed_inputs(record))
    except ValidationError as error:
        raise TrajectoryError(
            f"the list of inputs in {record.run_dir.name} is damaged: {error.errors()[0]['msg']}"
        ) from error
    if len(inputs) > MAX_INPUTS or len({entry.name for entry in inputs}) != len(inputs):
        raise TrajectoryError(
            f"{record.run_dir.name} names {len(inputs)} inputs; at most {MAX_INPUTS} were expected, each once"
        )
    return inputs


def restore_inputs(record: RunRecord, work_dir: Path, allowed: Sequence[Path] = ()) -> RestoredInputs:
    """Copy the inputs to a new folder, and compare them with their hashes.

    Args:
        record: Record of the run.
        work_dir: Folder to create.
        allowed: Files outside the run that may be read in place; given by the user, never by the record.

    Raises:
        TrajectoryError: If a name leads out of the run's folder, or an input is a link or not a regular file.
        ConfigError: If an input is missing, or is outside of the run and not allowed.
    """
    work_dir.mkdir()
    readable, findings, total_bytes = [], [], 0
    for entry in recorded_inputs(record):
        path = _copied(record, entry, work_dir) if entry.is_copied else _allowed(entry, allowed)
        if not entry.is_copied:
            readable.append(path)
        elif (total_bytes := total_bytes + path.stat().st_size) > MAX_TOTAL_BYTES:
            raise TrajectoryError(f"the inputs of {record.run_dir.name} are larger than {MAX_TOTAL_BYTES} bytes")
        if entry.sha256 and hash_file(path) != entry.sha256:
            findings.append(f"the input {entry.name} is not the file that the run was given: its hash differs")
    return RestoredInputs(readable=tuple(readable), findings=tuple(findings))


def _copied(record: RunRecord, entry: RecordedInput, work_dir: Path) -> Path:
    if len(check_name(entry.name)) != 1:
        raise TrajectoryError(f"the input {entry.name!a} is not a plain file name")
    try:
        copy_inside(record.run_dir, f"{INPUTS}/{entry.name}", work_dir / entry.name, max_bytes=MAX_INPUT_BYTES)
    except OSError as error:
        raise ConfigError(f"the input {entry.name} of {record.run_dir.name} is gone: {error.strerror}") from error
    return work_dir / entry.name


def _allowed(entry: RecordedInput, allowed: Sequence[Path]) -> Path:
    for path in allowed:
        if str(path.expanduser().resolve()) == entry.name and path.is_file():
            return Path(entry.name)
    raise ConfigError(
        f"the run read {entry.name!a} where it lay, and a record alone opens no file of this machine. "
        "If that is your file, say so: --input PATH"
    )
