"""Functions that run inside a kernel for tools that are not code: view files, run commands.

They print for the model and display images; exceptions become the cell's error.
Paths are relative to the current folder, which is the working folder.
"""

import importlib.metadata
import os
import platform
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MAX_COMMAND_BYTES = 200_000  # output of a command: more is truncated for the model anyway
_MAX_LISTED = 500  # files of one listing; bounds its tokens
_LINE_CHARS = 2000  # of one line, since a minified file has a single one
_LARGE_SIDE_PX = 1024  # small images are enlarged to about this side, so that details can be read
_DISTRIBUTIONS = {
    "numpy": "numpy",
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "scipy": "scipy",
    "skimage": "scikit-image",
    "matplotlib": "matplotlib",
    "pandas": "pandas",
    "networkx": "networkx",
    "numba": "numba",
    "av": "av",
    "rapidocr": "rapidocr",
    "zxingcpp": "zxing-cpp",
    "pypdfium2": "pypdfium2",
}


def list_files(path: str = ".") -> None:
    """Print the size in bytes and the name of the files below a folder."""
    root = Path(path)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {path!r} here; the folder has: {_names('.')}")
    files = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
    for file in sorted(files)[:_MAX_LISTED]:
        print(f"{file.lstat().st_size:>12}  {file.relative_to(root) if path == '.' else file}")
    if not files:
        print("(no files)")
    if len(files) > _MAX_LISTED:
        print(f"... and {len(files) - _MAX_LISTED} more")


def read_file(path: str, offset: int = 1, limit: int = 500) -> None:
    """Print lines of a text file, numbered from 1."""
    data = _existing(path).read_bytes()
    if b"\0" in data[:4096]:
        raise ValueError(f"{path} is not text ({len(data)} bytes); look at an image with view_image")
    lines = data.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], start=offset):
        print(f"{number:>6}  {line[:_LINE_CHARS]}")
    left = len(lines) - (offset - 1 + limit)
    if left > 0:
        print(f"... {left} more lines, go on with offset {offset + limit}")
    if not lines:
        print("(the file is empty)")


def write_file(path: str, content: str) -> None:
    """Write text to a file."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, encoding="utf-8")
    print(f"wrote {len(content.encode())} bytes to {path}")


def view_image(path: str, box: Sequence[int] = ()) -> None:
    """Display an image file, or an enlarged part of it."""
    from IPython.display import display
    from PIL import Image

    from visual_tools.images.files import load_image

    _existing(path)
    image = Image.fromarray(load_image(path))
    width, height = image.size
    print(f"{path}: {width}x{height} px")
    if box:
        left, top, right, bottom = _checked_box(box, width, height)
        image = image.crop((left, top, right, bottom))
        factor = max(1, _LARGE_SIDE_PX // max(image.size))
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.LANCZOS)
        print(f"part ({left}, {top})-({right}, {bottom}), enlarged {factor} times")
    display(image)  # type: ignore[no-untyped-call]


def run_command(command: str, limit_s: float) -> None:
    """Run a command line with bash and print its output, then its exit code if it failed."""
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        text, why = _read_output(process, time.monotonic() + limit_s)
    finally:
        _end_group(process)
    print(text.decode("utf-8", "replace"), end="" if text.endswith(b"\n") else "\n" if text else "")
    if why:
        raise TimeoutError(why.format(limit_s=limit_s))
    if process.returncode:
        print(f"(exit code {process.returncode})")


def _read_output(process: subprocess.Popen[bytes], until: float) -> tuple[bytes, str]:
    """Read the command's output; also return why it was cut off ("" if the command ended by itself)."""
    assert process.stdout is not None
    pipe, text = process.stdout.fileno(), b""
    while True:
        is_readable = bool(select.select([pipe], [], [], 0.05)[0])
        piece = os.read(pipe, 65536) if is_readable else b""
        text += piece
        if not piece and (is_readable or process.poll() is not None):  # closed, or held open only by its children
            process.wait(timeout=max(0.1, until - time.monotonic()))
            return text, ""
        if len(text) > MAX_COMMAND_BYTES:
            return text[:MAX_COMMAND_BYTES], f"it wrote more than {MAX_COMMAND_BYTES} bytes and was ended"
        if time.monotonic() > until:
            return text, "it took longer than {limit_s:g} s and was ended"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and the processes that it left in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def _existing(path: str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path!r} here; the folder has: {_names(file.parent)}")
    return file


def _names(folder: str | Path) -> str:
    try:
        names = sorted(entry.name for entry in Path(folder).iterdir())
    except OSError:
        return "nothing of that name"
    return ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "") or "no files"


def _checked_box(box: Sequence[int], width: int, height: int) -> tuple[int, int, int, int]:
    if len(box) != 4:
        raise ValueError(f"box has {len(box)} numbers, expected [left, top, right, bottom]")
    left, top, right, bottom = max(0, box[0]), max(0, box[1]), min(width, box[2]), min(height, box[3])
    if left >= right or top >= bottom:
        raise ValueError(f"the box {list(box)} does not lie on the image, which is {width}x{height} px")
    return left, top, right, bottom


@cache
def describe_inside() -> str:
    """Return one line with Python's version and the import names of the packages available in a kernel."""
    versions = []
    for module, distribution in _DISTRIBUTIONS.items():
        try:
            versions.append(f"{module} {importlib.metadata.version(distribution)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"Python {platform.python_version()} with {', '.join([*versions, 'visual_tools'])}; no network"
