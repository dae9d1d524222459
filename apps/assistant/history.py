"""History of recorded runs: list and search, film strip, thumbnails, exports, delete."""

import io
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from apps.assistant.errors import NotFoundError
from apps.assistant.event_log import make_thumbnail
from apps.assistant.wording import phrase_reason
from cua.errors import TrajectoryError
from cua.json_text import Json, JsonMapping
from cua.trajectory import RunRecord, default_runs_dir, load_run
from cua.trajectory.describe import describe_action
from cua.trajectory.disk import is_locked
from cua.trajectory.images import ImageFolder
from cua.trajectory.run_files import TRAJECTORY, check_name
from cua.trajectory.runs import RunSummary, list_runs, summarize

MAX_LISTED = 500  # newest runs in the list; bounds its time
_THUMB_PX = (320, 200)
_MAX_MOVIE_PX = (960, 960)  # with the limit below: bounds the size of an exported film
_MAX_GIF_FRAMES = 120
_FRAME_S = 1.0


class History:
    """Runs in a folder.

    Args:
        runs_dir: Folder of the runs; None for the default one.
    """

    def __init__(self, runs_dir: Path | None = None) -> None:
        self.runs_dir = runs_dir or default_runs_dir()

    def find(self, run_id: str) -> Path:
        """Return the folder of a run.

        Raises:
            NotFoundError: If the folder has no run with exactly that name.
        """
        if len(check_name(run_id)) != 1 or not (self.runs_dir / run_id / TRAJECTORY).is_file():
            raise NotFoundError(f"there is no run {run_id[:80]!r} here")
        return self.runs_dir / run_id

    def find_runs(self, search: str, limit: int, values: JsonMapping) -> list[Json]:
        """Return runs whose instruction, model, status or id has all words of the search, newest first.

        Args:
            search: Words, in any order.
            limit: Maximum number of runs.
            values: Fields of `RunSummary` that have exactly these values.
        """
        words = search.lower().split()
        rows = []
        for run in list_runs(self.runs_dir, MAX_LISTED):
            text = f"{run.id} {run.instruction} {run.model} {run.env} {run.status}".lower()
            if all(word in text for word in words) and all(getattr(run, name) == values[name] for name in values):
                rows.append(_row(run))
            if len(rows) >= limit:
                break
        return rows

    def details(self, run_id: str) -> dict[str, Any]:
        """Return a run with its steps, for a film strip.

        Raises:
            CuaError: If the run does not exist, or cannot be read.
        """
        run_dir = self.find(run_id)
        record = load_run(run_dir, images=0)
        return {**_row(summarize(run_dir)), "is_tool_run": record.is_tool_run, "steps": list(_steps(record))}

    def image(self, run_id: str, step: int) -> bytes:
        """Return the screenshot of a step as PNG; step 0 is the last screenshot of the run.

        Raises:
            CuaError: If it does not exist, or cannot be read.
        """
        run_dir = self.find(run_id)
        hashes = _images_of(run_dir, _stamp(run_dir))
        sha256 = hashes.get(step) if step else next(reversed([sha for sha in hashes.values() if sha]), None)
        if not sha256:
            raise NotFoundError("this step has no image")
        return ImageFolder(run_dir).get(sha256)

    def thumbnail(self, run_id: str) -> bytes:
        """Return a small JPEG of the last screenshot of a run.

        Raises:
            CuaError: If it has no images, or cannot be read.
        """
        run_dir = self.find(run_id)
        return _thumbnail(self, run_id, _stamp(run_dir))

    def delete(self, run_id: str) -> None:
        """Delete a run with its folder.

        Raises:
            CuaError: If the run does not exist, or is being written.
        """
        run_dir = self.find(run_id)
        if is_locked(run_dir):
            raise TrajectoryError("this run is being written; stop it first")
        shutil.rmtree(run_dir)

    def export(self, run_id: str, kind: str) -> bytes:
        """Export a run as one file.

        Raises:
            CuaError: If the kind is unknown, or not available for this run.
        """
        run_dir = self.find(run_id)
        if kind not in EXPORTS:
            raise NotFoundError(f"there is no export {kind[:40]!r}; expected one of {', '.join(EXPORTS)}")
        return EXPORTS[kind].make(run_dir)


def _row(run: RunSummary) -> dict[str, Any]:
    row = {name: value for name, value in asdict(run).items() if name != "run_dir"}
    return {
        "id": run.id,
        **row,
        "instruction": run.instruction[:2000],
        "reason": phrase_reason(run.reason)[:2000],
    }


def _steps(record: RunRecord) -> Iterator[dict[str, Any]]:
    for step in record.steps:
        yield {
            "index": step.index,
            "thought": step.turn.thought[:4000],
            "action": step.turn.action_text[:2000],
            "code": step.turn.code[:4000],
            "done": [describe_action(action)[:200] for action in step.actions],
            "error": step.error,
            "has_image": bool(record.images.get(step.index)),
            "url": step.observation.url,
            "notes": [note.text[:1000] for note in record.notes if note.index == step.index],
        }
    if record.pending is not None and record.images.get(record.pending.index):
        yield {"index": record.pending.index, "action": "the last screen", "has_image": True, "done": [], "notes": []}
    for exchange in record.exchanges:
        for tool_step in exchange.steps:
            calls = [f"{outcome.call.name}: {outcome.result.text[:1000]}" for outcome in tool_step.outcomes]
            text = tool_step.reply.content[:4000]
            yield {"index": tool_step.index, "action": text, "has_image": False, "done": calls, "notes": []}


def _stamp(run_dir: Path) -> tuple[int, int]:
    """Return a stamp that changes with the record."""
    stat = (run_dir / TRAJECTORY).stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=32)
def _images_of(run_dir: Path, stamp: tuple[int, int]) -> dict[int, str]:
    return dict(load_run(run_dir, images=0).images)


@lru_cache(maxsize=256)
def _thumbnail(history: History, run_id: str, stamp: tuple[int, int]) -> bytes:
    return make_thumbnail(history.image(run_id, 0), _THUMB_PX)


def _report(run_dir: Path) -> bytes:
    from cua.swarm.report import is_swarm, write_swarm_report
    from cua.trajectory.report import write_report

    if is_swarm(load_run(run_dir, images=0)):
        return Path(write_swarm_report(run_dir)).read_bytes()
    with tempfile.TemporaryDirectory(prefix="k25-export-") as folder:
        return Path(write_report(run_dir, Path(folder) / "report.html")).read_bytes()


def _osworld(run_dir: Path) -> bytes:
    from cua.trajectory.osworld_export import OSWorldNames, export_osworld

    record = load_run(run_dir, images=0)
    if record.is_tool_run:
        raise TrajectoryError("OSWorld's layout is for runs on a screen; export this one as atif or report")
    with _zipped() as (folder, packed):
        names = OSWorldNames(domain="custom", task_id=run_dir.name, model=record.header.model or "unknown")
        export_osworld(record, folder, names)
    return packed.getvalue()


def _atif(run_dir: Path) -> bytes:
    from cua.trajectory.atif_export import FILE, export_atif

    with _zipped() as (folder, packed):
        target = folder / run_dir.name
        target.mkdir()
        record = load_run(run_dir, images=0)
        export_atif(load_run(run_dir, images=None) if record.is_tool_run else record, target / FILE)
    return packed.getvalue()


def _record(run_dir: Path) -> bytes:
    with _zipped() as (folder, packed):
        shutil.copytree(run_dir, folder / run_dir.name, symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
    return packed.getvalue()


@contextmanager
def _zipped() -> Iterator[tuple[Path, io.BytesIO]]:
    """Yield a folder to write to and the archive that contains its files afterwards, without links."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="k25-export-") as name:
        folder = Path(name)
        yield folder, packed
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    archive.write(path, path.relative_to(folder))


def _images(run_dir: Path) -> Iterator[Any]:
    """Yield the screenshots of a run in order, small enough for a film, all of one size."""
    from PIL import Image

    size = None
    for sha256 in _images_of(run_dir, _stamp(run_dir)).values():
        if not sha256:
            continue
        image = Image.open(io.BytesIO(ImageFolder(run_dir).get(sha256))).convert("RGB")
        image.thumbnail(_MAX_MOVIE_PX)
        size = size or (image.width // 2 * 2, image.height // 2 * 2)
        yield image if image.size == size else image.resize(size)


def _gif(run_dir: Path) -> bytes:
    frames = [image.quantize(128) for image in _images(run_dir)]
    if not frames:
        raise NotFoundError("this run has no images to make a film of")
    frames = frames[:: -(-len(frames) // _MAX_GIF_FRAMES)]
    buffer = io.BytesIO()
    frames[0].save(
        buffer, "GIF", save_all=True, append_images=frames[1:], duration=round(_FRAME_S * 1000), loop=0, optimize=False
    )
    return buffer.getvalue()


def _mp4(run_dir: Path) -> bytes:
    from envs.errors import require

    av = require("av", "visual")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as film:
        stream = None
        for image in _images(run_dir):
            if stream is None:
                stream = film.add_stream("libx264", rate=2)
                stream.width, stream.height, stream.pix_fmt = image.width, image.height, "yuv420p"
            for _ in range(round(2 * _FRAME_S)):
                film.mux(stream.encode(av.VideoFrame.from_image(image)))
        if stream is None:
            raise NotFoundError("this run has no images to make a film of")
        film.mux(stream.encode())
    return buffer.getvalue()


class ExportKind(NamedTuple):
    """Kind of export: the suffix of its file's name, its media type, and the function that makes it."""

    suffix: str
    media_type: str
    make: Callable[[Path], bytes]


EXPORTS = {
    "report": ExportKind("html", "text/html", _report),
    "osworld": ExportKind("zip", "application/zip", _osworld),
    "atif": ExportKind("zip", "application/zip", _atif),
    "gif": ExportKind("gif", "image/gif", _gif),
    "mp4": ExportKind("mp4", "video/mp4", _mp4),
    "record": ExportKind("zip", "application/zip", _record),
}
