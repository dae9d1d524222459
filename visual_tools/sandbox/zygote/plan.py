"""Messages from the host to the zygote, as plain types that are sent as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Literal, TypeVar

from visual_tools.sandbox.contract import KernelLimits

Mode = Literal["nested", "exec", "landlock", "none"]
"""Isolation mode: namespaces made by the fork; one bwrap per kernel; Landlock and seccomp; none."""

HOST_ROOT = "/host"
WORK_DIRS = ("/work", "/mnt/work", "/sandbox/work")  # the first that hides no other path is used
NOBODY = 65534  # overflow user of Linux, without rights to any file
SIZE_MARK = "{size}"  # placeholder in a command line: bytes of a folder in memory
CHANNELS = ("shell", "control", "iopub")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygotePlan:
    """Parameters for a zygote that creates kernels.

    Attributes:
        mode: Isolation mode, see `Mode`.
        control_fd: Socket to the host.
        is_root: True if started by the real root, so that a kernel can get another user.
        system_paths: Files and folders of the system and of Python that a kernel may read.
        links: Symbolic links at the root, name to target (`bin` to `usr/bin`).
        import_paths: Folders to prepend to `sys.path`.
        wrapper: For the mode `exec`, the bubblewrap command line up to the arguments that differ between kernels.
        preflight_dir: Empty folder for the preflight.
        cache_dir: Cache folder for compiled loops that zygotes share; "" for none. Kernels do not see it.
        is_preflight: True to only run the preflight, print why kernels cannot be created (nothing if they can), and
            exit.
    """

    mode: Mode
    control_fd: int
    is_root: bool
    system_paths: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    import_paths: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    preflight_dir: str = ""
    cache_dir: str = ""
    is_preflight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """Specification of one kernel.

    Attributes:
        folder: Working folder, on the host.
        inside_dir: Working folder as the kernel sees it.
        readable: Additional paths that it may read.
        private_dir: Folder for temporary files, used if no namespace hides the host's /tmp.
        owner: User that the kernel becomes and that must own the folder; None for the current user.
        key: Key that signs its messages.
        limits: Resource limits.
        disk: Number of the in-memory file system that it works in; 0 if it works in the folder itself.
    """

    folder: str
    inside_dir: str
    readable: tuple[str, ...]
    private_dir: str
    owner: int | None
    key: str
    limits: KernelLimits
    disk: int = 0


def to_json(thing: ZygotePlan | KernelSpec) -> str:
    """Serialize a plan or specification to JSON."""
    return json.dumps(asdict(thing))


def _from_fields(kind: type[T], values: Mapping[str, object]) -> T:
    known = {name.name: values[name.name] for name in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})


def plan_from_json(text: str) -> ZygotePlan:
    """Parse a plan written by `to_json`."""
    return _from_fields(ZygotePlan, json.loads(text))


def spec_from_json(text: str) -> KernelSpec:
    """Parse a specification written by `to_json`."""
    values = json.loads(text)
    return _from_fields(KernelSpec, values | {"limits": KernelLimits(**values["limits"])})
