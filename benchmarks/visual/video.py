"""How long exact frames of a long video take: ours, PyAV as one writes it first, OpenCV, decord and ffmpeg.

    python benchmarks/visual/video.py [--minutes 60] [--frames 2048] [--rounds 1] [--peer-python PYTHON]

One minute of 1080p30 H.264 is encoded and strung together by copying packets, once with a keyframe every second and
once with one every 20 seconds. Everybody then brings the same frames, evenly from the first to the last, 448 px wide.
Each frame carries its number, and what came back is read: a frame that is not the one asked for is counted as
wrong. Every way runs in a process of its own, one after another, in rounds. `--peer-python` is a Python with
decord and imageio-ffmpeg (which brings an ffmpeg); what is missing there is passed over with the reason.

For a quick look: --minutes 6 --frames 205.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH_PX, HEIGHT_PX, RATE = 1920, 1080, 30
SMALL_PX = (448, 252)
BITS, BLOCK_PX = 12, 96
KEYFRAMES = {"a keyframe every second": 30, "a keyframe every 20 s": 600}
RgbImage = NDArray[np.uint8]
Way = Callable[[Path, list[int]], Iterator[RgbImage]]


def make_minute(path: Path, group: int) -> None:
    """One minute: a gradient and a grain that move, and the frame's number in blocks along the upper edge."""
    import av

    rng = np.random.default_rng(0)
    grain = rng.integers(0, 64, (HEIGHT_PX // 8, WIDTH_PX // 4), np.uint8).repeat(8, 0).repeat(8, 1)
    gradient = (np.add.outer(np.arange(HEIGHT_PX), np.arange(WIDTH_PX)) // 24).astype(np.uint8)
    options = {"preset": "veryfast", "crf": "26", "g": str(group), "keyint_min": str(group), "sc_threshold": "0"}
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH_PX, HEIGHT_PX, "yuv420p"
        for number in range(60 * RATE):
            left = number * 3 % (grain.shape[1] - WIDTH_PX)
            luma = np.roll(gradient, number * 5, 1) + grain[:, left : left + WIDTH_PX] + np.uint8(16)
            bits = np.where((number >> np.arange(BITS)) & 1, 235, 16).astype(np.uint8)
            luma[:BLOCK_PX, : BITS * BLOCK_PX] = bits.repeat(BLOCK_PX)
            frame = av.VideoFrame(WIDTH_PX, HEIGHT_PX, "yuv420p")
            for plane, values in zip(frame.planes, (luma, 110, 140), strict=True):
                rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)  # type: ignore[call-overload]
                rows[:, : plane.width] = values
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def string_together(minute: Path, path: Path, times: int) -> None:
    """The same packets one after another."""
    import av

    with av.open(str(path), "w") as out:
        copy, shift = None, 0
        for _ in range(times):
            with av.open(str(minute)) as source:
                stream = source.streams.video[0]
                copy = copy or out.add_stream_from_template(stream)
                for packet in source.demux(stream):
                    if packet.size:
                        packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, copy
                        out.mux(packet)
                shift += round(60 / stream.time_base)


def read_number(image: RgbImage) -> int:
    """The number that a small image carries."""
    scale = SMALL_PX[0] / WIDTH_PX
    row = image[int(BLOCK_PX / 2 * scale)].mean(axis=1)
    return sum(1 << bit for bit in range(BITS) if row[int((bit + 0.5) * BLOCK_PX * scale)] > 110)


def by_ours(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from visual_tools.video.sample import sample_frames

    yield from sample_frames(path, timestamps_s=[one / RATE for one in indices], max_side_px=SMALL_PX[0]).images


def by_pyav_seek(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    """A jump to the keyframe before each frame, then decoding up to it."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for index in indices:
            pts = round(index / RATE / stream.time_base)
            container.seek(pts, stream=stream)
            frame = next(frame for frame in container.decode(stream) if frame.pts is not None and frame.pts >= pts)
            yield frame.reformat(*SMALL_PX, format="rgb24", interpolation="AREA").to_ndarray()


def by_pyav_sequence(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    """All frames from the first to the last."""
    import av

    wanted = set(indices)
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "AUTO"
        for index, frame in enumerate(container.decode(video=0)):
            if index in wanted:
                yield frame.reformat(*SMALL_PX, format="rgb24", interpolation="AREA").to_ndarray()


def by_opencv_seek(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    import cv2

    video = cv2.VideoCapture(str(path))
    for index in indices:
        video.set(cv2.CAP_PROP_POS_FRAMES, index)
        yield cv2.resize(video.read()[1], SMALL_PX, interpolation=cv2.INTER_AREA)[:, :, ::-1]


def by_opencv_sequence(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    """All frames, those that are not wanted only grabbed."""
    import cv2

    video, wanted = cv2.VideoCapture(str(path)), set(indices)
    for index in range(indices[-1] + 1):
        video.grab()
        if index in wanted:
            yield cv2.resize(video.retrieve()[1], SMALL_PX, interpolation=cv2.INTER_AREA)[:, :, ::-1]


def by_decord(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    import decord

    yield from decord.VideoReader(str(path), width=SMALL_PX[0], height=SMALL_PX[1]).get_batch(indices).asnumpy()


def by_ffmpeg(path: Path, indices: list[int]) -> Iterator[RgbImage]:
    """One process that reads all, keeps frames by their number, and makes them small."""
    import imageio_ffmpeg

    step = indices[-1] / (len(indices) - 1)
    keep = f"lt(floor(ceil(n/{step!r}-1e-7)*{step!r}+1e-7),n+1)"  # the frames floor(k * step)
    filters = f"select='{keep}',scale={SMALL_PX[0]}:{SMALL_PX[1]}:flags=area"
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        str(path),
        "-vf",
        filters,
        "-fps_mode",
        "passthrough",
    ]
    command += ["-pix_fmt", "rgb24", "-f", "rawvideo", "-"]
    size = SMALL_PX[0] * SMALL_PX[1] * 3
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=size) as process:
        assert process.stdout is not None
        while data := process.stdout.read(size):
            yield np.frombuffer(data, np.uint8).reshape(SMALL_PX[1], SMALL_PX[0], 3)


WAYS: dict[str, Way] = {
    "ours": by_ours,
    "PyAV, seek": by_pyav_seek,
    "PyAV, all frames": by_pyav_sequence,
    "OpenCV, seek": by_opencv_seek,
    "OpenCV, all frames": by_opencv_sequence,
    "decord": by_decord,
    "ffmpeg, select": by_ffmpeg,
}


def read_peak_mb() -> float:
    """Peak memory of this process since it began (getrusage counts what it was forked from as well)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(way: Way, path: Path, num_frames: int) -> dict[str, float]:
    """One run in this process: seconds, processor seconds, peak memory, frames that are not those asked for."""
    total = int(path.stem.split("-")[1]) * 60 * RATE
    indices = [k * (total - 1) // (num_frames - 1) for k in range(num_frames)]
    started = time.perf_counter()
    images = list(way(path, indices))
    took_s = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    right = sum(read_number(image) == index % (60 * RATE) for image, index in zip(images, indices, strict=False))
    return {
        "took_s": took_s,
        "processor_s": sum(one.ru_utime + one.ru_stime for one in used),
        "memory_mb": read_peak_mb() + (used[1].ru_maxrss / 1024 if used[1].ru_utime > 1 else 0),
        "wrong": num_frames - right,
    }


def run_way(name: str, path: Path, arguments: argparse.Namespace) -> dict[str, Any] | str:
    """One run in a process of its own, or the reason why there is none."""
    is_ours = name == "ours" or name.startswith("PyAV")
    python = sys.executable if is_ours else arguments.peer_python
    command = [python, __file__, "--way", name, "--file", str(path), "--frames", str(arguments.frames)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit_s)
    except subprocess.TimeoutExpired:
        return f"not ready after {arguments.limit_s:g} s"
    if done.returncode:
        return f"passed over: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(title: str, path: Path, arguments: argparse.Namespace) -> None:
    names = [name for name in WAYS if not arguments.only or name in arguments.only]
    runs: dict[str, list[dict[str, Any] | str]] = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            if not any(isinstance(run, str) for run in runs[name]):
                runs[name].append(run_way(name, path, arguments))
    print(
        f"{title}: {arguments.frames} frames of {arguments.minutes} min, median of {arguments.rounds} runs", flush=True
    )
    ours: dict[str, float] | None = None
    for name, results in runs.items():
        good = [run for run in results if isinstance(run, dict)]
        if not good or len(good) < len(results):
            print(f"  {name:20} {next(run for run in results if isinstance(run, str))}", flush=True)
            continue
        middle = {key: statistics.median(run[key] for run in good) for key in good[0]}
        ours = ours or middle
        print(
            f"  {name:20} {middle['took_s']:7.1f} s   {middle['took_s'] / ours['took_s']:5.2f}x of ours   "
            f"{middle['processor_s']:7.1f} s of processor ({middle['processor_s'] / ours['processor_s']:.2f}x)   "
            f"{middle['memory_mb']:6.0f} MB   {middle['wrong']:.0f} wrong",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--frames", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=1800)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--folder", type=Path, help="keep the videos here")
    parser.add_argument("--only", nargs="*", choices=WAYS, help="these ways alone")
    parser.add_argument(
        "--groups", nargs="*", type=int, default=list(KEYFRAMES.values()), help="frames from key to key"
    )
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(measure(WAYS[arguments.way], arguments.file, arguments.frames)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        returned_mb = arguments.frames * SMALL_PX[0] * SMALL_PX[1] * 3 / 2**20
        print(f"{os.cpu_count()} cores, images returned: {returned_mb:.0f} MB")
        for title, group in KEYFRAMES.items():
            if group not in arguments.groups:
                continue
            minute, path = folder / f"minute-1-{group}.mp4", folder / f"video-{arguments.minutes}-{group}.mp4"
            if not minute.exists():
                make_minute(minute, group)
            if not path.exists():
                string_together(minute, path, arguments.minutes)
            compare(title, path, arguments)


if __name__ == "__main__":
    main()
