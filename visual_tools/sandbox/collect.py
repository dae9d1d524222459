"""Collect the output of a cell within the limits: text head and tail, checked images, nbformat outputs."""

import base64
import binascii
import re
import struct
from collections import deque
from collections.abc import Mapping

from visual_tools.sandbox.contract import CellError, CellImage, KernelLimits
from visual_tools.sandbox.zygote.display import LEFT_OUT_KEY, ORIGINAL_KEY

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ERROR_CHARS, _ERROR_LINES = 10_000, 1000  # of a traceback: the model needs its beginning and its end
_FLOOD_FACTOR = 200  # multiple of the kept text after which the cell is stopped
_MIN_FLOOD_CHARS = 4_000_000  # total output after which a cell is interrupted, even if less of it is shown


class Clipped:
    """Text of which only head and tail are kept."""

    def __init__(self, max_chars: int) -> None:
        self._half = max(1, max_chars // 2)
        self._head: list[str] = []
        self._num_head = 0
        self._tail: deque[str] = deque()
        self._num_tail = 0
        self.num_chars = 0

    def add(self, text: str, left_out: int = 0) -> None:
        """Append text from whose middle `left_out` characters are already missing."""
        self.num_chars += len(text) + left_out
        room = self._half - self._num_head
        if room > 0:
            self._head.append(text[:room])
            self._num_head += len(self._head[-1])
            text = text[room:]
        if text:
            self._tail.append(text[-self._half :])
            self._num_tail += len(self._tail[-1])
            while self._num_tail - len(self._tail[0]) >= self._half:
                self._num_tail -= len(self._tail.popleft())

    @property
    def is_clipped(self) -> bool:
        """True if text is missing."""
        return self.num_chars > 2 * self._half

    def __str__(self) -> str:
        head, tail = "".join(self._head), "".join(self._tail)[-self._half :]
        left_out = self.num_chars - len(head) - len(tail)
        return head + tail if left_out <= 0 else f"{head}\n[... {left_out} characters left out ...]\n{tail}"


def clean(text: str) -> str:
    """Return text as a terminal would show it: no colours, no control characters, no overwritten lines.

    Runs in linear time for any input.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(map(_last_writing, text.split("\n")))
    return _CONTROLS.sub("", text)


def _last_writing(line: str) -> str:
    """Return the visible part of a line with carriage returns; one at its end begins a line."""
    is_ended = line.endswith("\r")
    seen = line[: len(line) - is_ended].rpartition("\r")[2]
    return f"{seen}\n" if is_ended else seen


class Collector:
    """Outputs of one cell."""

    def __init__(self, limits: KernelLimits) -> None:
        self._limits = limits
        self._text = Clipped(limits.output_chars)
        self._outputs: list[dict[str, object]] = []
        self._stream: tuple[str, Clipped] | None = None
        self._num_output_chars = 0
        self._num_images = self._num_left_out = 0
        self.images: list[CellImage] = []
        self.error: CellError | None = None
        self.has_left_out_images = False

    @property
    def is_flooded(self) -> bool:
        """True if the cell has sent too much output and should be stopped."""
        allowed = max(_MIN_FLOOD_CHARS, _FLOOD_FACTOR * self._limits.output_chars)
        return self._text.num_chars > allowed or self._num_images > 50 * self._limits.num_images + 100

    @property
    def is_truncated(self) -> bool:
        """True if text or images were left out."""
        return self._text.is_clipped or self.has_left_out_images

    @property
    def text(self) -> str:
        """All text in chronological order, cleaned."""
        return clean(str(self._text))

    @property
    def outputs(self) -> tuple[Mapping[str, object], ...]:
        """Outputs in nbformat's form."""
        self._end_stream()
        return tuple(self._outputs)

    def take(self, kind: str, content: Mapping[str, object]) -> None:
        """Process one message of the kernel's output channel; its content is untrusted."""
        if kind == "stream":
            self._take_stream(_text_of(content.get("name")), _text_of(content.get("text")))
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self._take_display(kind, content)
        elif kind == "error":
            self._take_error(content)

    def _take_stream(self, name: str, text: str) -> None:
        if name not in ("stdout", "stderr") or not text:
            return
        self._text.add(text)
        if self._stream is None or self._stream[0] != name:
            self._end_stream()
            self._stream = (name, Clipped(self._limits.output_chars))
        self._stream[1].add(text)

    def _end_stream(self) -> None:
        if self._stream is not None:
            name, text = self._stream
            self._stream = None
            self._put({"output_type": "stream", "name": name, "text": clean(str(text))}, text.num_chars)

    def _put(self, output: dict[str, object], num_chars: int) -> None:
        """Add an output unless there are too many already; text is bounded separately."""
        kept = min(num_chars, self._limits.output_chars)
        if self._num_output_chars + kept <= 4 * self._limits.output_chars and len(self._outputs) < 1000:
            self._outputs.append(output)
            self._num_output_chars += kept

    def _take_display(self, kind: str, content: Mapping[str, object]) -> None:
        self._end_stream()
        data = content.get("data")
        data = data if isinstance(data, dict) else {}
        text = _text_of(data.get("text/plain"))
        bundle: dict[str, str] = {"text/plain": clean(text[: self._limits.output_chars])} if text else {}
        if "image/png" in data:
            text = self._take_image(data["image/png"], content.get("metadata"), bundle)
        if text:
            self._text.add(text if text.endswith("\n") else text + "\n", _left_out(content.get("metadata")))
        if bundle:
            output: dict[str, object] = {"output_type": "display_data", "data": bundle, "metadata": {}}
            if kind == "execute_result":
                count = content.get("execution_count")
                number = count if isinstance(count, int) else None
                output |= {"output_type": "execute_result", "execution_count": number}
            self._put(output, len(text))

    def _take_image(self, encoded: object, metadata: object, bundle: dict[str, str]) -> str:
        """Keep an image, or return the reason why it is left out."""
        self._num_images += 1
        if len(self.images) >= self._limits.num_images:
            self.has_left_out_images = True
            self._num_left_out += 1
            return f"[only the first {self._limits.num_images} images are shown]" if self._num_left_out == 1 else ""
        image = parse_image(encoded if isinstance(encoded, str) else "", metadata, self._limits)
        if isinstance(image, str):
            self.has_left_out_images = True
            return f"[image {self._num_images}: {image}]"
        self.images.append(image)
        bundle["image/png"] = base64.b64encode(image.png).decode()
        width, height = image.size_px
        reduced = image.size_px != image.original_px
        was = f", reduced from {image.original_px[0]}x{image.original_px[1]}" if reduced else ""
        return f"[image {self._num_images}: {width}x{height} px{was}]"

    def _take_error(self, content: Mapping[str, object]) -> None:
        self._end_stream()
        lines = content.get("traceback")
        kept = Clipped(_ERROR_CHARS)
        for number, line in enumerate(lines[:_ERROR_LINES] if isinstance(lines, list) else ()):
            kept.add(("\n" if number else "") + _text_of(line))
        name, message = (clean(_text_of(content.get(key), _ERROR_CHARS)) for key in ("ename", "evalue"))
        traceback = clean(str(kept))
        self.error = CellError(name=name, message=message, traceback=traceback)
        self._put({"output_type": "error", "ename": name, "evalue": message, "traceback": traceback.splitlines()}, 0)


def _text_of(value: object, max_chars: int | None = None) -> str:
    """Return text that can be encoded; lone surrogates are replaced."""
    return value[:max_chars].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def parse_image(encoded: str, metadata: object, limits: KernelLimits) -> CellImage | str:
    """Check a base64 PNG from a kernel by its first bytes, without decoding it.

    Returns the image, or the reason why it is left out.
    """
    if len(encoded) > limits.image_bytes * 4 // 3 + 1000:
        return f"left out, larger than {limits.image_bytes >> 10} KB"
    try:
        png = base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return "left out, not readable"
    if len(png) < 33 or not png.startswith(_PNG_MAGIC) or png[12:16] != b"IHDR":
        return "left out, not a PNG"
    width, height = struct.unpack(">II", png[16:24])
    if not 0 < max(width, height) <= limits.image_side_px or min(width, height) < 1:
        return f"left out, its size {width}x{height} px is not allowed"
    return CellImage(png=png, size_px=(width, height), original_px=_original(metadata) or (width, height))


def _left_out(metadata: object) -> int:
    about = metadata.get("text/plain") if isinstance(metadata, dict) else None
    count = about.get(LEFT_OUT_KEY) if isinstance(about, dict) else None
    return count if type(count) is int and 0 < count < 10**12 else 0


def _original(metadata: object) -> tuple[int, int] | None:
    about = metadata.get("image/png") if isinstance(metadata, dict) else None
    size = about.get(ORIGINAL_KEY) if isinstance(about, dict) else None
    if isinstance(size, list) and len(size) == 2 and all(type(side) is int and 0 < side < 10**6 for side in size):
        return size[0], size[1]
    return None
