"""The user's files: copied into the run, and shown to the model as far as a model can look at them."""

import hashlib
import io
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cua.errors import ConfigError
from cua.messages import ImagePart, Part, TextPart
from visual_tools.errors import ImageError, VideoError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["picture", "document", "video", "other"]

MAX_COPIED_BYTES = 256 * 2**20
"""A larger file is not copied into the run but read where it lies."""

MAX_PATCHES = 16_384
PATCH_PX = 14
MAX_SIDE_PX = 7168
"""What K2.5 sees of one picture; more would be reduced on the way. Source: its image processor's configuration."""

MAX_SHOWN_PAGES = 8
NUM_SHOWN_FRAMES = 16
FRAME_SIDE_PX = 448
"""Frames of a video as they are shown at first; the model takes more, or larger ones, with code."""

_PDF_START = b"%PDF"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file of the user.

    Attributes:
        name: What it is called in the working folder, or its absolute path when it is read where it lies.
        path: The user's own file.
        size_bytes: Its size.
        is_copied: Whether the run holds a copy.
        sha256: Of the content; "" for a file that is not copied.
    """

    name: str
    path: Path
    size_bytes: int
    is_copied: bool
    sha256: str = ""


def find_inputs(paths: Sequence[Path]) -> tuple[InputFile, ...]:
    """Look at the files; nothing is copied yet. Equal names get a number.

    Raises:
        ConfigError: A file is missing, unreadable, empty or no file.
    """
    names: set[str] = set()
    return tuple(_find_input(path, names) for path in paths)


def _find_input(path: Path, names: set[str]) -> InputFile:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name the files in it")
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if size_bytes == 0:
        raise ConfigError(f"{path} is empty")
    is_copied = size_bytes <= MAX_COPIED_BYTES
    name = _free_name(path, names) if is_copied else str(path.resolve())
    names.add(name)
    return InputFile(name=name, path=path.resolve(), size_bytes=size_bytes, is_copied=is_copied)


def _free_name(path: Path, names: set[str]) -> str:
    name, number = path.name, 2
    while name in names:
        name, number = f"{path.stem}-{number}{path.suffix}", number + 1
    return name


def copy_inputs(inputs: Sequence[InputFile], inputs_dir: Path, files_dir: Path) -> tuple[InputFile, ...]:
    """Copy files into a run: once untouched as evidence, once to work on.

    Returns:
        The files with their hashes.

    Raises:
        ConfigError: A file cannot be copied.
    """
    for folder in (inputs_dir, files_dir):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tuple(_copied(file, inputs_dir, files_dir) if file.is_copied else file for file in inputs)


def _copied(file: InputFile, inputs_dir: Path, files_dir: Path) -> InputFile:
    try:
        shutil.copyfile(file.path, inputs_dir / file.name)
        shutil.copyfile(file.path, files_dir / file.name)
        with (inputs_dir / file.name).open("rb") as copy:
            sha256 = hashlib.file_digest(copy, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot copy {file.path} into the run: {error.strerror}") from error
    return InputFile(name=file.name, path=file.path, size_bytes=file.size_bytes, is_copied=True, sha256=sha256)


def make_question(question: str, inputs: Sequence[InputFile]) -> tuple[Part, ...]:
    """The user's message: each file with what can be seen of it, then the words.

    Raises:
        ConfigError: A picture, document or video is broken; the text says how.
    """
    parts: list[Part] = []
    for file in inputs:
        try:
            parts += _shown(file)
        except (ImageError, VideoError) as error:
            raise ConfigError(f"{file.path} cannot be read: {error}") from error
    return (*parts, TextPart(text=question))


def _shown(file: InputFile) -> Iterator[Part]:
    match kind_of(file.path):
        case "picture":
            yield from _picture(file)
        case "document":
            yield from _document(file)
        case "video":
            yield from _video(file)
        case "other":
            yield TextPart(text=f"File {file.name}: {file.size_bytes} bytes.\n")


def kind_of(path: Path) -> Kind:
    """What a file is, by its content: the suffix may lie."""
    from PIL import Image

    from visual_tools.require import require

    with path.open("rb") as file:
        if _PDF_START in file.read(1024):
            return "document"
    try:
        with Image.open(path):
            return "picture"
    except Image.DecompressionBombError:
        return "picture"
    except (OSError, ValueError, SyntaxError):
        pass  # no picture
    av = require("av", "visual")
    try:
        with av.open(str(path)) as container:
            return "video" if container.streams.video else "other"
    except (av.FFmpegError, ValueError):
        return "other"


def _picture(file: InputFile) -> Iterator[Part]:
    from visual_tools.images import load_image

    image = load_image(file.path)
    part, shown = encode_for_model(image)
    yield TextPart(text=f"File {file.name}: picture, {image.shape[1]}x{image.shape[0]} px{shown}.\n")
    yield part


def _document(file: InputFile) -> Iterator[Part]:
    from visual_tools.images import load_pages

    pages = load_pages(file.path, dpi=110, pages=None, max_pages=MAX_SHOWN_PAGES)
    left = pages.num_pages - len(pages)
    more = f", the first {len(pages)} of them below" if left else ""
    yield TextPart(text=f"File {file.name}: document of {pages.num_pages} pages{more}.\n")
    for page in pages:
        yield TextPart(text=f"Page {page.number} of {file.name}:\n")
        yield encode_for_model(page.image)[0]


def _video(file: InputFile) -> Iterator[Part]:
    from visual_tools.video import probe, sample_frames

    info = probe(file.path)
    sampled = sample_frames(file.path, n=NUM_SHOWN_FRAMES, max_side_px=FRAME_SIDE_PX)
    yield TextPart(text=f"File {file.name}: video, {info}; {len(sampled)} frames of it below.\n")
    for frame in sampled:
        yield TextPart(text=f"{frame.timestamp_s:.3f} s of {file.name}:\n")
        yield encode_for_model(frame.image)[0]


def encode_for_model(image: "NDArray[np.uint8]") -> tuple[ImagePart, str]:
    """A picture as PNG no larger than K2.5 takes it in, and a clause that says so when it was reduced.

    Args:
        image: (H, W, 3) uint8 RGB.
    """
    from PIL import Image

    picture = Image.fromarray(image)
    size = size_for_model(picture.size)
    shown = ""
    if size != picture.size:
        picture, shown = picture.resize(size, Image.Resampling.BICUBIC), f", shown reduced to {size[0]}x{size[1]}"
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3)
    return ImagePart(data=buffer.getvalue()), shown


def size_for_model(size_px: tuple[int, int]) -> tuple[int, int]:
    """Width and height after K2.5's own reduction; never enlarged.

    Source: K2.5's image processor: scale = min(1, sqrt(patches allowed / patches), longest side allowed / side).
    """
    width, height = size_px
    patches = max(1, width // PATCH_PX) * max(1, height // PATCH_PX)
    scale = min(1.0, math.sqrt(MAX_PATCHES / patches), MAX_SIDE_PX / width, MAX_SIDE_PX / height)
    return max(1, int(width * scale)), max(1, int(height * scale))
