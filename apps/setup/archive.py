"""Archives that come from elsewhere: nothing is unpacked outside of the folder that is named."""

import tarfile
from collections.abc import Iterable
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path, members: Iterable[tarfile.TarInfo] | None = None) -> None:
    """Unpack members of an archive, by default all, inside `folder` only. Leading slashes are removed.

    Raises:
        tarfile.TarError: If a member lies outside of the folder or is a device; before Python 3.11.4, which has no
            filter for that, also if it is a link.
        OSError: If a file cannot be written.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, members=members, filter="data")
        return
    root = folder.resolve()
    for member in archive if members is None else members:
        member.name = member.name.lstrip("/")
        inside = (root / member.name).resolve().is_relative_to(root)
        if not inside or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"the archive holds {member.name!r}, which does not belong there")
        archive.extract(member, root)
