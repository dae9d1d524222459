"""GPUs that people serve K2.5 on, by their makers' data sheets."""

import difflib
from dataclasses import dataclass, replace

from model_runtime.errors import RuntimeFault

MEASURED_SHARE = 4.3 / 4.8
"""Of the data sheet's bandwidth: what a copy reaches on an H200, 4.3 of 4.8 TB/s. Taken for the others too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One kind of GPU.

    Attributes:
        name: As people say it.
        memory_gib: As its driver shows it.
        bandwidth_tb_s: Of its memory, by the data sheet.
        max_tp: Largest tensor-parallel size that K2.5's attention runs with on it.
    """

    name: str
    memory_gib: float
    bandwidth_tb_s: float
    max_tp: int = 64

    @property
    def copy_tb_s(self) -> float:
        """Bandwidth that floors are reckoned with."""
        return self.bandwidth_tb_s * MEASURED_SHARE


GPUS = (
    Gpu(name="H200", memory_gib=139.8, bandwidth_tb_s=4.8),
    Gpu(name="H100", memory_gib=79.1, bandwidth_tb_s=3.35),
    Gpu(name="H20", memory_gib=95.1, bandwidth_tb_s=4.0),
    Gpu(name="B200", memory_gib=178.4, bandwidth_tb_s=8.0),
    Gpu(name="B300", memory_gib=267.7, bandwidth_tb_s=8.0),
    Gpu(name="A100", memory_gib=79.1, bandwidth_tb_s=2.04),
    Gpu(name="MI300X", memory_gib=191.5, bandwidth_tb_s=5.3, max_tp=4),
    Gpu(name="MI325X", memory_gib=255.5, bandwidth_tb_s=6.0, max_tp=4),
    Gpu(name="MI355X", memory_gib=287.5, bandwidth_tb_s=8.0, max_tp=4),
    Gpu(name="L40S", memory_gib=44.4, bandwidth_tb_s=0.864),
    Gpu(name="RTX4090", memory_gib=23.5, bandwidth_tb_s=1.008),
)
"""AMD: attention kernels need a multiple of 16 of the 64 heads on each GPU, so at most 4 (SGLang's guide for K2.5)."""


def find_gpu(name: str, *, memory_gib: float | None = None, bandwidth_tb_s: float | None = None) -> Gpu:
    """A GPU by its name, with another memory or bandwidth where given; both given make one that is not listed.

    Raises:
        RuntimeFault: It is not listed and one of the two numbers is missing, or a number is not positive.
    """
    for what, value in (("memory", memory_gib), ("bandwidth", bandwidth_tb_s)):
        if value is not None and value <= 0:
            raise RuntimeFault(f"the GPU's {what} is {value}, expected a positive number")
    listed = {_key(gpu.name): gpu for gpu in GPUS}
    gpu = listed.get(_key(name))
    if gpu is not None:
        return replace(
            gpu, memory_gib=memory_gib or gpu.memory_gib, bandwidth_tb_s=bandwidth_tb_s or gpu.bandwidth_tb_s
        )
    if memory_gib is not None and bandwidth_tb_s is not None:
        return Gpu(name=name, memory_gib=memory_gib, bandwidth_tb_s=bandwidth_tb_s)
    near = difflib.get_close_matches(_key(name), listed, n=1)
    hint = f"; did you mean {listed[near[0]].name}?" if near else ""
    known = ", ".join(gpu.name for gpu in GPUS)
    raise RuntimeFault(f"no GPU {name!r} among {known}{hint} Others need --gpu-memory GIB and --bandwidth TB/S")


def _key(name: str) -> str:
    return "".join(character for character in name.upper() if character.isalnum())
