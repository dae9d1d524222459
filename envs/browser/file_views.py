"""Files as HTML pages without script, for a browser to show: PDFs and pictures as images, text escaped.

Nothing of a file is interpreted by the page: HTML is shown as text, SVG as an image. Everything is bounded.
"""

import asyncio
import base64
import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

MAX_PDF_PAGES = 30
"""Pages of a PDF in one view."""
_MAX_PDF_BYTES = 64 * 2**20
_MAX_IMAGE_BYTES = 16 * 2**20
_MAX_TEXT_BYTES = 500_000
_MAX_LINE_BYTES = 16 * 2**20
_MAX_PDF_S = 10.0
_HEAD_BYTES = 4096
_IMAGE_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
)
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
body { margin: 0; background: #fff; font: 15px sans-serif; color: #202124 }
body.pages { background: #525659; text-align: center }
header { padding: 8px 12px; background: #323639; color: #f1f3f4; text-align: left; overflow-wrap: anywhere }
img { display: block; max-width: 100%; margin: 8px auto; background: #fff }
pre { margin: 8px; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px monospace; text-align: left }
p { margin: 16px; overflow-wrap: anywhere } .pages p { color: #f1f3f4 }
"""


async def view_file(path: Path, name: str = "", first_page: int = 1) -> str:
    """A page that shows a file, or says why it cannot be shown.

    Args:
        path: The file.
        name: Its name for people; "" takes it from the path, which then is an address that opens it.
        first_page: First page of a PDF to show, counted from 1.
    """
    address, name = ("", name) if name else (str(path), path.name)
    try:
        size_bytes, head = await asyncio.to_thread(_read, path, _MAX_TEXT_BYTES)
        if b"%PDF-" in head[:1024]:
            return await _view_pdf(path, size_bytes, name, address, first_page)
        kind = _image_type(path, head)
        if kind is not None and size_bytes > _MAX_IMAGE_BYTES:
            return message(name, _too_large(size_bytes, _MAX_IMAGE_BYTES))
        _, data = await asyncio.to_thread(_read, path, _MAX_IMAGE_BYTES)
    except OSError as error:
        return message(name, f"It cannot be read: {error.strerror}.")
    if kind is not None:
        source = base64.b64encode(data).decode()
        return _page(name, f'<img alt="" src="data:image/{kind};base64,{source}">', "pages")
    text = _decode(head)
    if text is None:
        return message(name, f"It is not a PDF, a picture or a text; it has {size_bytes} bytes.")
    more = f"<p>The rest of its {size_bytes} bytes is not shown.</p>" if size_bytes > _MAX_TEXT_BYTES else ""
    return _page(name, f"<pre>{escape(text)}</pre>{more}")


def view_list(title: str, names: Sequence[tuple[str, str]]) -> str:
    """A page with links to files, given as (name, address)."""
    rows = "".join(f'<p><a href="{escape(address)}">{escape(name)}</a></p>' for name, address in names)
    return _page(title, rows or "<p>There are none.</p>")


def message(name: str, why: str) -> str:
    """A page that says why a file cannot be shown."""
    return _page(name, f"<p><b>{escape(name)}</b> cannot be shown.</p><p>{escape(why)}</p>")


def _read(path: Path, max_bytes: int) -> tuple[int, bytes]:
    """Size of a file in bytes, and its beginning."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, file.read(max_bytes)


def _too_large(size_bytes: int, max_bytes: int) -> str:
    return f"It has {size_bytes} bytes; up to {max_bytes} bytes can be shown."


def _page(title: str, body: str, kind: str = "") -> str:
    header = f"<header>{escape(title)}</header>" if kind else ""
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style></head>'
        f'<body class="{kind}">{header}{body}</body></html>'
    )


def _image_type(path: Path, data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[4:12] in (b"ftypavif", b"ftypavis"):
        return "avif"
    if path.suffix.lower() == ".svg" and b"<svg" in data[:_HEAD_BYTES].lower():
        return "svg+xml"  # in an <img>, its scripts do not run and nothing is loaded
    return next((kind for magic, kind in _IMAGE_TYPES if data.startswith(magic)), None)


def _decode(data: bytes) -> str | None:
    """The text of a file; None for a binary one."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_HEAD_BYTES]:
        return None
    for cut in range(4 if len(data) == _MAX_TEXT_BYTES else 1):  # the end may be in the middle of a character
        with contextlib.suppress(UnicodeDecodeError):
            return data[: len(data) - cut].decode("utf-8-sig")
    return data.decode("cp1252", "replace")


async def _view_pdf(path: Path, size_bytes: int, name: str, address: str, first_page: int) -> str:
    if size_bytes > _MAX_PDF_BYTES:
        return message(name, _too_large(size_bytes, _MAX_PDF_BYTES))
    if importlib.util.find_spec("pypdfium2") is None:
        return message(name, "The package pypdfium2 is not installed: pip install 'cua-k25[browser]'")
    lines = await _render_pdf(path, first_page)
    if not lines or lines[0].get("error") == "damaged":
        return message(name, "The PDF is damaged, or too complex to be drawn.")
    if lines[0].get("error") == "password":
        return message(name, "The PDF is protected with a password.")
    num_pages, pages = int(lines[0]["num_pages"]), lines[1:]
    first_page = min(first_page, num_pages)
    last_page = int(pages[-1]["number"]) if pages else first_page - 1
    images = [_pdf_page(int(page["number"]), num_pages, page["jpeg"]) for page in pages]
    title = f"{name} ({num_pages} page{'s' * (num_pages != 1)})"
    if first_page > 1:
        images.insert(0, f"<p>From page {first_page}.</p>")
    if last_page < num_pages:
        where = f" To see them, open {address}?page={last_page + 1}" if address else ""
        images.append(f"<p>Pages {last_page + 1} to {num_pages} are not shown.{escape(where)}</p>")
    return _page(title, "".join(images), "pages")


def _pdf_page(number: int, num_pages: int, jpeg: str) -> str:
    if not jpeg:
        return f"<p>Page {number} cannot be drawn.</p>"
    label = f"Page {number} of {num_pages}"
    return f'<img id="page={number}" alt="{label}" src="data:image/jpeg;base64,{jpeg}">'


async def _render_pdf(path: Path, first_page: int) -> list[dict[str, str]]:
    """The lines of `pdf_pages.py`, as many as come within the time."""
    program = str(Path(__file__).with_name("pdf_pages.py"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", program, str(path), str(first_page), str(MAX_PDF_PAGES)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_MAX_LINE_BYTES,
    )
    assert process.stdout is not None
    lines: list[dict[str, str]] = []
    try:
        async with asyncio.timeout(_MAX_PDF_S):
            async for line in process.stdout:
                lines.append(json.loads(line))
            await process.wait()
    except (TimeoutError, ValueError):  # what has come is shown
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return lines
