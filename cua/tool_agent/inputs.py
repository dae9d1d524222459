"""The user's files: copied into the run, and shown to the model if their type allows it."""

import io
import math
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cua.errors import ConfigError
from cua.messages import ImagePart, Part, TextPart
from cua.trajectory.run_files import hash_file
from visual_tools.errors import ImageError, VideoError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["image", "document", "video", "other"]

MAX_COPIED_BYTES = 256 * 2**20
"""Limit for copied files; a larger file is read in place."""

MAX_PATCHES = 16_384
PATCH_PX = 14
MAX_SIDE_PX = 7168
"""Longest side that K2.5 accepts; larger images would be reduced. Source: its image processor's configuration."""

MAX_SHOWN_PAGES = 8
NUM_SHOWN_FRAMES = 16
FRAME_SIDE_PX = 448
"""Longest side of the video frames shown first; the model gets more or larger ones with code."""

_PDF_START = b"%PDF"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """File of the user.

    Attributes:
        name: Name in the working folder, or the absolute path of a file that is read in place.
        path: Path of the user's own file.
        size_bytes: Size of the file.
        is_copied: True if the run has a copy.
        sha256: Hash of the content.
    """

    name: str
    path: Path
    size_bytes: int
    is_copied: bool
    sha256: str = ""


def find_inputs(paths: Sequence[Path], taken: Iterable[str] = ()) -> tuple[InputFile, ...]:
    """Check the files without copying them. Equal names get a number.

    Raises:
        ConfigError: If a path is missing, unreadable, empty or not a file.
    """
    names = set(taken)
    return tuple(_find_input(path, names) for path in paths)


def _find_input(path: Path, names: set[str]) -> InputFile:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name the files in it")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is not a regular file; name an image, a document, a video or a data file")
        size_bytes = status.st_size
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if size_bytes == 0:
        raise ConfigError(f"{path} is empty")
    is_copied = size_bytes <= MAX_COPIED_BYTES
    name = _unique_name(path, names) if is_copied else str(path.resolve())
    names.add(name)
    return InputFile(name=name, path=path.resolve(), size_bytes=size_bytes, is_copied=is_copied, sha256=_hashed(path))


def _unique_name(path: Path, names: set[str]) -> str:
    """Return the file's own name, cleaned for the record, with a number if it is taken."""
    plain = Path(os.fsencode(path.name).decode("utf-8", "replace"))
    name, number = plain.name, 2
    while name in names:
        name, number = f"{plain.stem}-{number}{plain.suffix}", number + 1
    return name


def _hashed(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def copy_inputs(inputs: Sequence[InputFile], inputs_dir: Path, files_dir: Path) -> None:
    """Copy files into a run: one unmodified copy as evidence, one to work on.

    Raises:
        ConfigError: If a file cannot be copied, or has changed since it was checked.
    """
    for folder in (inputs_dir, files_dir):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in inputs:
        if file.is_copied:
            _copy(file, inputs_dir, files_dir)


def _copy(file: InputFile, inputs_dir: Path, files_dir: Path) -> None:
    try:
        for folder in (inputs_dir, files_dir):
            with file.path.open("rb") as source, (folder / file.name).open("xb") as copy:  # links are not followed
                shutil.copyfileobj(source, copy)
        sha256 = hash_file(inputs_dir / file.name)
    except OSError as error:
        raise ConfigError(f"cannot copy {file.path} into the run: {error.strerror}") from error
    if sha256 != file.sha256:
        raise ConfigError(f"{file.path} was changed while the run began; ask again")


def make_question(question: str, inputs: Sequence[InputFile]) -> tuple[Part, ...]:
    """Return the user message: each file with its images or description, then the text.

    Raises:
        ConfigError: If an image, document or video is broken.
    """
    parts: list[Part] = []
    for file in inputs:
        try:
            parts += _input_parts(file)
        except (ImageError, VideoError) as error:
            raise ConfigError(f"{file.path} cannot be read: {error}") from error
    return (*parts, TextPart(text=question))


def _input_parts(file: InputFile) -> Iterator[Part]:
    match kind_of(file.path):
        case "image":
            yield from _image(file)
        case "document":
            yield from _document(file)
        case "video":
            yield from _video(file)
        case "other":
            yield TextPart(text=f"File {file.name}: {file.size_bytes} bytes.\n")


def kind_of(path: Path) -> Kind:
    """Detect the kind of a file by its content; the suffix may be wrong."""
    from PIL import Image

    from visual_tools.errors import require
    from visual_tools.images.files import BROKEN_FILE

    with path.open("rb") as file:
        if _PDF_START in file.read(1024):
            return "document"
    try:
        with Image.open(path):
            return "image"
    except Image.DecompressionBombError:
        return "image"
    except BROKEN_FILE:
        pass  # not an image
    av = require("av", "visual")
    try:
        with av.open(str(path)) as container:
            return "video" if container.streams.video else "other"
    except (av.FFmpegError, ValueError):
        return "other"


def _image(file: InputFile) -> Iterator[Part]:
    from visual_tools.images import load_image

    image = load_image(file.path)
    part, shown = encode_for_model(image)
    yield TextPart(text=f"File {file.name}: image, {image.shape[1]}x{image.shape[0]} px{shown}.\n")
    yield part


def _document(file: InputFile) -> Iterator[Part]:
    from visual_tools.images import load_pages

    pages = load_pages(file.path, dpi=110, pages=None, max_pages=MAX_SHOWN_PAGES)
    num_omitted = pages.num_pages - len(pages)
    more = f", the first {len(pages)} of them below" if num_omitted else ""
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
    """Encode an image as PNG within K2.5's size limit, and return a note if it was reduced.

    Args:
        image: (H, W, 3) uint8 RGB.
    """
    from PIL import Image

    pixels = Image.fromarray(image)
    size = size_for_model(pixels.size)
    shown = ""
    if size != pixels.size:
        pixels, shown = pixels.resize(size, Image.Resampling.BICUBIC), f", shown reduced to {size[0]}x{size[1]}"
    buffer = io.BytesIO()
    pixels.save(buffer, "PNG", compress_level=3)
    return ImagePart(data=buffer.getvalue()), shown


def size_for_model(size_px: tuple[int, int]) -> tuple[int, int]:
    """Return width and height after K2.5's own reduction; images are never enlarged.

    `tests/k25_media_rules.json` compares this function, the video functions and the runtime, which do not import each
    other.

    Source: K2.5's image processor: scale = min(1, sqrt(patches allowed / patches), longest side allowed / side).
    """
    width, height = size_px
    patches = max(1, width // PATCH_PX) * max(1, height // PATCH_PX)
    scale = min(1.0, math.sqrt(MAX_PATCHES / patches), MAX_SIDE_PX / width, MAX_SIDE_PX / height)
    return max(1, int(width * scale)), max(1, int(height * scale))
