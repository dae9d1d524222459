"""A chip's peaks, what a piece of work takes under them, and the sizes for which floors and predictions are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from model_runtime.config import VisionConfig

Grid = tuple[int, int, int]
"""Frames, rows and columns of patches of one item."""

TOKENS = (1, 8, 64, 512, 4096, 16384)
CONTEXTS = (1024, 4096, 16384, 32768, 65536, 131072, 262144)
BATCHES = (1, 32)
PROMPTS = (4096, 16384, 65536)

CHUNK: Grid = (4, 32, 32)
"""Four frames of 448 x 448."""


def grid_of(width: int, height: int, vision: VisionConfig) -> Grid:
    """Patches of an image, padded so that they merge evenly. Not for images that have to be made smaller first."""
    rows, columns = vision.merge_kernel_size
    high, wide = vision.patch_size * rows, vision.patch_size * columns
    return 1, -(-height // high) * rows, -(-width // wide) * columns


def vision_inputs(vision: VisionConfig) -> dict[str, list[Grid]]:
    """Items by the name of their lot."""
    screenshot = grid_of(1920, 1080, vision)
    return {
        "448x448 image": [grid_of(448, 448, vision)],
        "1 screenshot": [screenshot],
        "3 screenshots": [screenshot] * 3,
        "16384 patches": [(1, 128, 128)],
        "64 chunks": [CHUNK] * 64,
        "512 chunks": [CHUNK] * 512,
    }


def patches_of(grids: Sequence[Grid]) -> int:
    """Rows of the vision tower."""
    return sum(map(prod, grids))


MICRO = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Ceilings of one GPU. The defaults are an H200's, for which two of them were measured.

    Attributes:
        copy_tb_s: Terabytes a second that a copy moves, read and written together.
        matmul_tflop_s: Of a large matmul in bf16.
        multiprocessors: Of the chip.
        launch_us: Of each kernel beside its work.
    """

    copy_tb_s: float = 4.3
    matmul_tflop_s: float = 790.0
    multiprocessors: int = 132
    launch_us: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What has to be done at the least.

    Attributes:
        bytes: Read from and written to memory.
        flops: Multiplications and additions of matmuls.
    """

    bytes: float
    flops: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(bytes=self.bytes + other.bytes, flops=self.flops + other.flops)

    def __mul__(self, times: float) -> "Work":
        return Work(bytes=self.bytes * times, flops=self.flops * times)

    def memory_us(self, hardware: Hardware) -> float:
        """For moving alone."""
        return self.bytes / (hardware.copy_tb_s * 1e12) * MICRO

    def matmul_us(self, hardware: Hardware) -> float:
        """For computing alone."""
        return self.flops / (hardware.matmul_tflop_s * 1e12) * MICRO

    def floor_us(self, hardware: Hardware) -> float:
        """The longer of the two."""
        return max(self.memory_us(hardware), self.matmul_us(hardware))

    def bound(self, hardware: Hardware) -> str:
        """Which of the two that is."""
        return "memory" if self.memory_us(hardware) >= self.matmul_us(hardware) else "matmul"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One launch, as we cut it.

    Attributes:
        name: Of the kernel; what torch does has a name of its own.
        work: With padding, and with what goes between kernels.
        programs: Equal pieces of work; None where they are not ours to cut, then the chip counts as full.
    """

    name: str
    work: Work
    programs: float | None = None

    def fill(self, hardware: Hardware) -> float:
        """Share of the multiprocessors that have work, over all waves."""
        if self.programs is None:
            return 1.0
        waves = ceil(self.programs / hardware.multiprocessors)
        return self.programs / (waves * hardware.multiprocessors)

    def predict_us(self, hardware: Hardware) -> float:
        """Under the assumptions of the package."""
        return hardware.launch_us + self.work.floor_us(hardware) / self.fill(hardware)
