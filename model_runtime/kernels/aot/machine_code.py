"""What the compiler made of a kernel: resources and instructions of its machine code, read with cuobjdump.

Hopper's instructions that matter here: HGMMA multiplies matrices with a group of four warps (wgmma), HMMA with one;
LDGSTS (cp.async) and UTMALDG (TMA) copy global to shared memory behind the arithmetic; STL and LDL are spills; I2F and
I2FP turn integers into floats at a quarter or half of the usual rate (I2F.RP is part of an integer division).

Source: CUDA Binary Utilities, section "Hopper Instruction Set"; the kinds of I2F were seen in compiles of each cast.
"""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import triton

from model_runtime.errors import ConfigError
from model_runtime.kernels.aot.compile import Binary
from model_runtime.kernels.aot.figures import Resources
from model_runtime.kernels.aot.hazards import find_hazards
from model_runtime.kernels.aot.loops import find_loops, find_product_loop

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

_USAGE = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)")
_COPY = re.compile(r"\b(?:LDGSTS|UTMALDG)\b")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)", re.MULTILINE)


def inspect_binary(binary: Binary) -> Resources:
    """Look into a compiled kernel.

    Raises:
        ConfigError: cuobjdump is missing, fails, or prints what is not understood.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.cubin)
        file.flush()
        dump = _run_cuobjdump("--dump-resource-usage", "--dump-sass", file.name)
    return read_dump(dump, binary.dynamic_shared_bytes)


def read_dump(dump: str, dynamic_shared_bytes: int) -> Resources:
    """Figures from what cuobjdump prints of a file with one kernel.

    Args:
        dump: Of `--dump-resource-usage --dump-sass`.
        dynamic_shared_bytes: What the file itself does not say.

    Raises:
        ConfigError: It is not understood.
    """
    found = list(_USAGE.finditer(dump))
    opcodes = Counter(match["opcode"] for match in _INSTRUCTION.finditer(dump))
    if len(found) != 1 or not opcodes:
        seen = f"{len(found)} kernels and {sum(opcodes.values())} instructions"
        text = f"cuobjdump's dump has {seen}, expected one kernel with instructions"
        raise ConfigError(f"{text}; it begins with: {dump[:300]!r}")
    [figures] = found
    loops = find_loops(dump)
    kinds: Counter[str] = Counter()
    for opcode, times in opcodes.items():
        kinds[opcode.split(".")[0]] += times
    return Resources(
        registers=int(figures["registers"]),
        stack_bytes=int(figures["stack"]) + int(figures["local"]),
        shared_bytes=int(figures["shared"]) + dynamic_shared_bytes,
        instructions=sum(opcodes.values()) - kinds["NOP"],
        hgmma=kinds["HGMMA"],
        hmma=kinds["HMMA"],
        ldgsts=kinds["LDGSTS"],
        utmaldg=kinds["UTMALDG"],
        loop_copies=sum(bool(_COPY.search(text)) for text in find_product_loop(loops).code),
        ldg_128=sum(times for name, times in opcodes.items() if name.startswith("LDG.") and "128" in name.split(".")),
        int_to_float=kinds["I2F"] + kinds["I2FP"],
        spills=kinds["LDL"] + kinds["STL"],
        hazards=sum(1 for _ in find_hazards(loops[0])),
    )


def _run_cuobjdump(*arguments: str) -> str:
    tool = TOOLS / "cuobjdump"
    if not tool.is_file():
        text = f"{tool} is missing; triton {triton.__version__} as a wheel for Linux brings it"
        raise ConfigError(f"{text}: pip install --force-reinstall --no-deps triton=={triton.__version__}")
    done = subprocess.run([str(tool), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"{tool} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
