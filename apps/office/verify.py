"""Checks from outside of the sandbox: each file is copied in, checked there, and the results are copied out."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from apps.office.check.findings import CheckReport, Expectation
from apps.office.diff import DocumentComparison
from apps.office.safe_xml import OfficeError
from apps.office.sandbox import OfficeKernels, run_in_kernel

_MODULE = "apps.office.sandbox_functions"
_MAX_BYTES = 512 * 2**20  # bounds memory; larger documents are not office files in practice


async def verify_in_sandbox(
    maker: OfficeKernels, path: Path, images: Path | None = None, expect: Sequence[str] = ()
) -> CheckReport:
    """Check a file in a fresh kernel.

    Args:
        maker: Maker of the kernel.
        path: File to check.
        images: Folder for images of its pages.
        expect: Requested counts, such as `words>=10000`.

    Raises:
        OfficeError: If it cannot be read safely, or an expectation is invalid.
    """
    for text in expect:
        Expectation.parse(text)
    with tempfile.TemporaryDirectory(prefix="k25-office-") as scratch:
        folder = Path(scratch)
        name = await asyncio.to_thread(copy_into_sandbox, path, folder / "input")
        kernel = await maker.make_kernel(folder)
        try:
            values = await run_in_kernel(kernel, _MODULE, "check", name, "images", list(expect))
        finally:
            await kernel.close()
        report = CheckReport.from_json(values)
        if images is not None:
            await asyncio.to_thread(copy_images, folder / "images", images, report.images)
    return report


async def compare_in_sandbox(
    maker: OfficeKernels, before: Path, after: Path, images: Path | None = None
) -> DocumentComparison:
    """Compare two files in a fresh kernel; arguments and errors as for `compare_files`."""
    with tempfile.TemporaryDirectory(prefix="k25-office-") as scratch:
        folder = Path(scratch)
        names = [
            await asyncio.to_thread(copy_into_sandbox, path, folder / which)
            for which, path in (("before", before), ("after", after))
        ]
        kernel = await maker.make_kernel(folder)
        try:
            comparison = DocumentComparison.from_json(await run_in_kernel(kernel, _MODULE, "compare", *names, "images"))
        finally:
            await kernel.close()
        if images is not None:
            await asyncio.to_thread(copy_images, folder / "images", images, comparison.images)
    return comparison


def copy_into_sandbox(path: Path, folder: Path) -> str:
    """Copy a file into its own folder within a kernel's, and return its path as seen from the kernel.

    The file keeps its name, which errors and findings mention; in its own folder that name shadows no other file and
    no module that the kernel imports.

    Raises:
        OfficeError: If it is missing or too large to be copied.
    """
    if not path.is_file():
        raise OfficeError(f"there is no file {str(path)!r}")
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise OfficeError(f"{path.name} has {size / 1e6:.0f} MB; files of up to {_MAX_BYTES / 1e6:.0f} MB are read")
    folder.mkdir()
    for directory in (folder.parent, folder):
        directory.chmod(0o777)
    shutil.copyfile(path, folder / path.name)
    (folder / path.name).chmod(0o644)
    return f"{folder.name}/{path.name}"


def copy_images(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copy images out of a kernel's folder; only the given names are copied."""
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        produced = source / Path(name).name
        if produced.is_file() and not produced.is_symlink():
            shutil.copyfile(produced, target / produced.name)
