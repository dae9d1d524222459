"""How well and how quickly hours of video are watched without a model, on videos whose events are known.

    python -m benchmarks.video_showcase make FOLDER [--files 32] [--minutes 45] [--seed 100]
    python -m benchmarks.video_showcase run FOLDER [--jobs N] [--out FILE.json]
    python -m benchmarks.video_showcase one FOLDER [--only 8] # one agent: the same spans, one after the other
    python -m benchmarks.video_showcase hd FOLDER --minutes 5 # time and memory alone, at 1080p30 with long GOPs

`make` writes the videos and `truth.json`. `run` has `cua video --model literal`'s own code watch them, follows the
memory of all its processes, and compares: an event is found where one of its kind begins within 2 s of it, each counted
once; a text or a score must also be read (0.8 alike). `one` watches the same spans with one agent at a time, in one
process: its steps are all steps, one after the other. `--only` takes the first files alone.
"""

import argparse
import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apps.video_showcase.events import VideoEvent, digits_of, event_from_json, text_similarity
from apps.video_showcase.request import parse_request
from apps.video_showcase.run import VideoOptions, make_plan, run_video
from benchmarks.made_videos import Recipe, make_video
from cua.swarm import SwarmOptions
from cua.swarm.budget import SwarmLimits

QUESTION = "List every scene, score, banner, flash, beep and whatever moves."
KINDS = ("text", "score", "motion", "flash", "beep", "scene")
SLACK_S = 2.0
SAME_TEXT = 0.8
FORMATS = (
    ("libx264", "mp4", "aac"),
    ("libx265", "mkv", "aac"),
    ("mpeg4", "avi", "mp3"),
    ("libx264", "mkv", "libopus"),
    ("libvpx-vp9", "webm", "libopus"),
    ("libx264", "mov", "aac"),
    ("libvpx", "webm", "libopus"),
    ("mpeg4", "mp4", "aac"),
)
KEY_GAPS_S = (2.0, 10.0, 20.0, 60.0)
RATES = (5, 8, 10)
NUM_FRAMES = 2048


def recipes(num_files: int, minutes: float, first_seed: int = 100) -> list[Recipe]:
    """Every fourth file has distractors; codecs, rates and keyframe distances go round at different speeds."""
    made = []
    for number in range(num_files):
        codec, ending, sound = FORMATS[number % len(FORMATS)]
        made.append(
            Recipe(
                name=f"{number + 1:02}-{codec}.{ending}",
                seconds=60 * minutes,
                seed=first_seed + number,
                codec=codec,
                sound=sound,
                fps=RATES[number % len(RATES)],
                key_gap_s=KEY_GAPS_S[number // 2 % len(KEY_GAPS_S)],
                has_distractors=(number + number // 8) % 4 == 3,
                mean_gap_s=60,
            )
        )
    return made


def make(folder: Path, num_files: int, minutes: float, first_seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    truth_file = folder / "truth.json"
    truth: dict[str, Any] = json.loads(truth_file.read_text()) if truth_file.is_file() else {}
    for recipe in recipes(num_files, minutes, first_seed):
        if recipe.name in truth:
            continue
        started = time.monotonic()
        path, events = make_video(recipe, folder)
        truth[recipe.name] = {
            "has_distractors": recipe.has_distractors,
            "codec": recipe.codec,
            "seconds": recipe.seconds,
            "events": [event.to_json() for event in events],
        }
        truth_file.write_text(json.dumps(truth))
        size_mb = path.stat().st_size / 1e6
        print(f"{recipe.name}: {len(events)} events, {size_mb:.1f} MB, {time.monotonic() - started:.0f} s", flush=True)


@dataclass
class Count:
    """Events that are there, found, and found but not there."""

    true: int = 0
    hit: int = 0
    found: int = 0

    def add(self, other: "Count") -> "Count":
        return Count(self.true + other.true, self.hit + other.hit, self.found + other.found)

    @property
    def recall(self) -> float:
        return self.hit / self.true if self.true else 1.0

    @property
    def precision(self) -> float:
        return self.hit / self.found if self.found else 1.0


def compare(truth: Sequence[VideoEvent], found: Sequence[VideoEvent]) -> tuple[dict[str, Count], list[str]]:
    """Counts by kind, and a line for each event that was missed or made up."""
    counts = {kind: Count() for kind in KINDS}
    wrong: list[str] = []
    for kind in KINDS:
        left = [event for event in found if event.kind == kind]
        true = [event for event in truth if event.kind == kind]
        counts[kind] = Count(len(true), 0, len(left))
        for event in true:
            near = [one for one in left if abs(one.start_s - event.start_s) <= SLACK_S and _says(one, event)]
            if not near:
                wrong.append(f"missed {event.citation} {kind} {event.text}")
                continue
            left.remove(min(near, key=lambda one: abs(one.start_s - event.start_s)))
            counts[kind].hit += 1
        wrong += [f"made up {event.citation} {kind} {event.text}" for event in left]
    return counts, wrong


def _says(found: VideoEvent, true: VideoEvent) -> bool:
    return true.kind not in ("text", "score") or text_similarity(found.text, true.text) >= SAME_TEXT


class Memory:
    """Peak memory of this process and all below it, and how busy the machine was meanwhile."""

    def __init__(self) -> None:
        self.peak_mb = self.largest_mb = 0.0
        self.loads: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._over.wait(1.0):
            sizes = []
            for process in [me, *me.children(recursive=True)]:
                try:
                    sizes.append(process.memory_full_info().pss / 1e6)
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.peak_mb = max(self.peak_mb, sum(sizes))
            self.largest_mb = max(self.largest_mb, *sizes)
            self.loads.append(os.getloadavg()[0])


def hd(folder: Path, minutes: float, jobs: int | None) -> None:
    """A gradient and a grain that move, with a keyframe each 20 s: every frame costs what it costs in real footage."""
    from benchmarks.visual.video import make_minute, string_together

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "hd.mp4").is_file():
        make_minute(folder / "minute.mp4", 600)
        string_together(folder / "minute.mp4", folder / "hd.mp4", round(minutes))
    started, used = time.monotonic(), os.times()
    with Memory() as memory, tempfile.TemporaryDirectory() as runs_dir:
        plan = make_plan([folder / "hd.mp4"], parse_request(QUESTION), num_parallel=jobs)
        options = VideoOptions(num_parallel=jobs)
        result = asyncio.run(run_video(plan, model="literal", options=options, runs_dir=runs_dir))
    wall_s, after = time.monotonic() - started, os.times()
    cpu_s = sum(getattr(after, name) - getattr(used, name) for name in _CPU)
    size_mb = (folder / "hd.mp4").stat().st_size / 1e6
    print(f"{minutes:g} minutes, {size_mb:.0f} MB, {len(plan.spans)} spans, missing: {list(result.missing)}")
    print(f"wall {wall_s:.1f} s, processor {cpu_s:.1f} s, {60 * minutes / wall_s:.1f} times its playing time")
    print(f"peak {memory.peak_mb:.0f} MB, largest process {memory.largest_mb:.0f} MB, load {memory.loads[-1:]}")


def load_truth(folder: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    return truth


def run(folder: Path, jobs: int | None, out: Path | None, *, only: int | None = None, is_one: bool = False) -> None:
    truth = load_truth(folder)
    names = sorted(truth)[:only]
    started, used = time.monotonic(), os.times()
    with Memory() as memory, tempfile.TemporaryDirectory() as runs_dir:
        plan = make_plan([folder / name for name in names], parse_request(QUESTION), num_parallel=jobs)
        probed_s = time.monotonic() - started
        alone = SwarmOptions(limits=SwarmLimits(max_parallel=1))
        options = VideoOptions(num_parallel=1, swarm=alone) if is_one else VideoOptions(num_parallel=jobs)
        result = asyncio.run(run_video(plan, model="literal", options=options, runs_dir=runs_dir))
        disk_mb = sum(each.stat().st_size for each in Path(runs_dir).rglob("*") if each.is_file()) / 1e6
        span_seconds = _span_seconds(Path(runs_dir))
    wall_s, after = time.monotonic() - started, os.times()
    cpu_s = sum(getattr(after, name) - getattr(used, name) for name in _CPU)
    seconds = sum(truth[name]["seconds"] for name in names)
    measures = result.swarm["measures"]
    figures = {
        "files": len(names),
        "hours": round(seconds / 3600, 2),
        "spans": len(plan.spans),
        "wall_s": round(wall_s, 1),
        "inventory_s": round(probed_s, 1),
        "cpu_s": round(cpu_s, 1),
        "times_playing_time": round(seconds / wall_s, 1),
        "spans_one_after_another_s": round(sum(span_seconds), 1),
        "peak_mb": round(memory.peak_mb),
        "largest_process_mb": round(memory.largest_mb),
        "run_folder_mb": round(disk_mb, 1),
        "mean_load": round(sum(memory.loads) / max(len(memory.loads), 1), 1),
        "critical_steps": measures["critical_steps"],
        "total_steps": measures["total_steps"],
        "step_speedup": round(measures["step_speedup"], 2),
        "missing": list(result.missing),
    }
    if is_one:  # nobody works beside it
        figures |= {"critical_steps": measures["total_steps"], "step_speedup": 1.0}
    report(truth, names, result.events, figures, out)
    print(check_citations(folder, truth, result.events))


def check_citations(folder: Path, truth: dict[str, Any], events: Sequence[VideoEvent]) -> str:
    """Check texts and scores apart from the detectors: their cited frames, read whole at full size, and their times."""
    from visual_tools.ocr import read_text
    from visual_tools.video.sample import sample_frames

    cited = [event for event in events if event.kind in ("text", "score") and not event.began_before]
    shown = near = 0
    for event in cited:
        frame = sample_frames(folder / event.file, timestamps_s=[event.evidence_s[0]]).images[0]
        big = np.repeat(np.repeat(frame, 3, axis=0), 3, axis=1)
        lines = [line.text for line in read_text(big)]
        shown += any(
            digits_of(line) == digits_of(event.text) and text_similarity(line, event.text) >= SAME_TEXT
            for line in lines
        )
        true = [one for one in truth[event.file]["events"] if one["kind"] == event.kind]
        near += any(abs(one["start_s"] - event.start_s) <= 0.5 for one in true)
    unsure = sum(event.is_unsure for event in cited)
    return (
        f"cited frames: {shown} of {len(cited)} show the text that is claimed; {near} begin within 0.5 s of a true "
        f"event; {unsure} are marked unsure"
    )


_CPU = ("user", "system", "children_user", "children_system")


def _span_seconds(runs_dir: Path) -> list[float]:
    results = [each for each in runs_dir.glob("*/children/*/files/span-*.json") if "seconds" in each.read_text()]
    return [json.loads(each.read_text())["seconds"] for each in results]


def report(
    truth: dict[str, Any], names: Sequence[str], events: Sequence[VideoEvent], figures: dict[str, Any], out: Path | None
) -> None:
    groups: dict[str, dict[str, Count]] = {"plain": {}, "distractors": {}, "all": {}}
    wrong: list[str] = []
    true_events: list[VideoEvent] = []
    for name in names:
        true = [event_from_json(each) for each in truth[name]["events"]]
        true_events += true
        counts, lines = compare(true, [event for event in events if event.file == name])
        wrong += lines
        for group in ("distractors" if truth[name]["has_distractors"] else "plain", "all"):
            for kind, count in counts.items():
                groups[group][kind] = groups[group].get(kind, Count()).add(count)
    for key, value in figures.items():
        print(f"{key}: {value}")
    for group, counts in groups.items():
        whole = Count()
        for kind in KINDS:
            count = counts.get(kind, Count())
            whole = whole.add(count)
            print(_row(group, kind, count))
        print(_row(group, "together", whole))
    for frames, who in ((NUM_FRAMES, "of the whole set"), (NUM_FRAMES * len(names), "of each file")):
        share = uniform_recall(true_events, figures["hours"] * 3600 / frames)
        print(f"{NUM_FRAMES} frames {who}: at most {share:.3f} of the events fall on a frame")
    print("\n".join(wrong[:60]))
    if out is not None:
        out.write_text(json.dumps({"figures": figures, "wrong": wrong}, indent=1))


def _row(group: str, kind: str, count: Count) -> str:
    return f"| {group} | {kind} | {count.true} | {count.recall:.3f} | {count.precision:.3f} |"


def uniform_recall(truth: Sequence[VideoEvent], step_s: float) -> float:
    """Share of events of which a frame is seen when one is taken every `step_s`: a bound for who reads each perfectly.

    Sound is in no frame; a score stays until the next one, and its time is known only from the frame before it.
    """
    seen = 0
    for event in truth:
        first = -(-event.start_s // step_s) * step_s
        if event.kind == "beep":
            continue
        if event.kind in ("score", "scene"):
            seen += first - event.start_s <= SLACK_S or event.start_s - (first - step_s) <= SLACK_S
        else:
            seen += first < event.end_s and first - event.start_s <= SLACK_S
    return seen / len(truth) if truth else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "run", "one", "hd"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--seed", type=int, default=100, help="Of the first file")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--only", type=int, help="The first files alone")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.files, given.minutes, given.seed)
    elif given.what == "hd":
        hd(given.folder, given.minutes, given.jobs)
    else:
        run(given.folder, given.jobs, given.out, only=given.only, is_one=given.what == "one")


if __name__ == "__main__":
    main()
