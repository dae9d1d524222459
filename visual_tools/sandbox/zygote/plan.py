"""What the host tells the zygote, as plain types that travel as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from visual_tools.sandbox.contract import Limits

Mode = Literal["nested", "exec", "landlock", "none"]
"""How a kernel is cut off: namespaces made by the fork; one bwrap for each kernel; Landlock and seccomp; not at all."""

HOST_ROOT = "/host"
WORK_DIRS = ("/work", "/mnt/work", "/sandbox/work")  # the first that hides nothing else
NOBODY = 65534
SIZE_MARK = "{size}"  # in a command line: bytes of a folder that lies in memory
CHANNELS = ("shell", "control", "iopub")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a zygote makes kernels.

    Attributes:
        mode: See `Mode`.
        control_fd: Socket to the host.
        is_root: Started by the real root, so that a kernel can be given another user.
        system_paths: Files and folders of the system and of Python that a kernel may read.
        links: Symbolic links at the root, name to target (`bin` to `usr/bin`).
        import_paths: To be put before `sys.path`.
        wrapper: For the mode `exec`, the command line of bubblewrap up to what differs between kernels.
        preflight_dir: Empty folder for the preflight.
        cache_dir: Where compiled loops are kept from one zygote to the next; "" for nowhere. Kernels do not see it.
        is_preflight: Only try, print why kernels cannot be made (nothing when they can), and go.
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
    """One kernel.

    Attributes:
        folder: Working folder, on the host.
        inside_dir: The same as the kernel sees it.
        readable: Further paths that it may read.
        private_dir: Where no namespace hides the host's /tmp: a folder to use for temporary files.
        owner: User that the kernel becomes and that must own the folder; None for the one who starts it.
        key: Signs its messages.
        limits: What it may use.
        disk: Number of the file system in memory that it works in; 0 when it works in the folder itself.
    """

    folder: str
    inside_dir: str
    readable: tuple[str, ...]
    private_dir: str
    owner: int | None
    key: str
    limits: Limits
    disk: int = 0


def to_json(thing: Plan | KernelSpec) -> str:
    """As text for the other side."""
    return json.dumps(asdict(thing))


def _from_fields(kind: type[T], values: dict[str, Any]) -> T:
    known = {name.name: values[name.name] for name in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})


def plan_from_json(text: str) -> Plan:
    """The plan that `to_json` wrote."""
    return _from_fields(Plan, json.loads(text))


def spec_from_json(text: str) -> KernelSpec:
    """The specification that `to_json` wrote."""
    values = json.loads(text)
    return _from_fields(KernelSpec, values | {"limits": Limits(**values["limits"])})
