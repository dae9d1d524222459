"""What the compiler made of a kernel: resources, instructions and loops of its machine code, read with cuobjdump.

Hopper's instructions that matter here: HGMMA multiplies matrices with a group of four warps (wgmma), HMMA with one;
LDGSTS (cp.async) and UTMALDG (TMA) copy global to shared memory behind the arithmetic; STL and LDL are spills; I2F and
I2FP turn integers into floats at a quarter or half of the usual rate (I2F.RP is part of an integer division).

A hazard is a register of a matrix instruction under way that is overwritten: results that are wrong now and then.
wgmma may take its left operand from registers and runs on behind the program, which has to wait for it before those
registers get other values. Triton 3.6.0 moves that wait behind the next turn of a loop, and its assembler then hands
the registers out too early (github.com/triton-lang/triton/issues/9433). Nothing warns, and the interpreter has no
registers. So the machine code of each kernel's longest loop is followed for a few turns.

Source: CUDA Binary Utilities, section "Hopper Instruction Set"; PTX ISA, "wgmma.wait_group"; the kinds of I2F were seen
in compiles of each cast; the instructions' form as cuobjdump prints them for sm_90.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import triton

from model_runtime.errors import ConfigError
from scripts.compile_gate.compile import Binary
from scripts.compile_gate.figures import Resources

TURNS = 3
"""As many as a group of matrix instructions can stay under way in the kernels here, and one more."""

_LINE = re.compile(r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]+);", re.MULTILINE)
_BACK = re.compile(r"\bBRA\b.*?0x(?P<target>[0-9a-f]+)")
_PRODUCTS = tuple(re.compile(rf"\b{name}\b") for name in ("HGMMA", "HMMA", "FFMA"))
"""Instructions that multiply, the mightiest first: where one is used, the following only do what is left."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions that are repeated.

    Attributes:
        code: Of one turn.
        turns: How many of them are worth following; 1 where the compiler has unrolled them all.
    """

    code: list[str]
    turns: int


def find_loops(dump: str) -> list[Loop]:
    """All loops, the longest first; where nothing jumps back, all of the code is one.

    Args:
        dump: What `cuobjdump --dump-sass` prints of one kernel.
    """
    code = [(int(match["address"], 16), match["text"].strip()) for match in _LINE.finditer(dump)]
    jumps = [(int(match["target"], 16), address) for address, text in code if (match := _BACK.search(text))]
    spans = sorted({(last - first, first, last) for first, last in jumps if first < last}, reverse=True)
    loops = [
        Loop(code=[text for address, text in code if first <= address <= last], turns=TURNS) for _, first, last in spans
    ]
    return loops or [Loop(code=[text for _, text in code], turns=1)]


def find_product_loop(loops: list[Loop]) -> Loop:
    """The one along the sum of a matmul: the innermost that holds most of the multiplications.

    Programs that stay have a loop around it, whose copies fill the pipeline and say nothing of what follows.
    """
    for product in _PRODUCTS:
        counts = [sum(bool(product.search(text)) for text in loop.code) for loop in loops]
        if most := max(counts):
            return [loop for loop, count in zip(loops, counts, strict=True) if 2 * count > most][-1]
    return loops[0]


A_REGISTERS = 4
"""Of one thread for a left operand of 64 x 16 values of 16 bits."""

_MATMUL = re.compile(r"\bHGMMA\S*\s+R\d+,\s+R(?P<first>\d+),\s+gdesc")
_WAIT = re.compile(r"\bWARPGROUP\.DEPBAR\.LE\s+gsb0,\s+0x(?P<left>[0-9a-f]+)")
_WRITE = re.compile(r"^(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)\s+(?:P\w+,\s+)?R(?P<first>\d+)\b")
_NO_TARGET = {
    "BAR",
    "BRA",
    "FENCE",
    "HGMMA",
    "LDGSTS",
    "R2UR",
    "RED",
    "STG",
    "STL",
    "STS",
    "SYNCS",
    "UTMALDG",
    "WARPSYNC",
}


def find_hazards(loop: Loop) -> Iterator[str]:
    """The instructions that write too early, over some turns of a loop."""
    open_group: set[int] = set()
    under_way: list[set[int]] = []
    for text in loop.code * loop.turns:
        if (match := _MATMUL.search(text)) is not None:
            open_group |= set(range(int(match["first"]), int(match["first"]) + A_REGISTERS))
        elif (match := _WAIT.search(text)) is not None:
            left = int(match["left"], 16)
            under_way = under_way[len(under_way) - left :] if left < len(under_way) else under_way
        elif written_by(text) & open_group.union(*under_way):
            yield text
        if "HGMMA" in text and "gsb0" in text:  # the last of a group
            under_way.append(open_group)
            open_group = set()


def written_by(text: str) -> set[int]:
    """Numbers of the registers that an instruction writes."""
    match = _WRITE.match(text)
    if match is None:
        return set()
    opcode, *kinds = match["opcode"].split(".")
    if opcode in _NO_TARGET:
        return set()
    width = 4 if "128" in kinds or (opcode == "LDSM" and "4" in kinds) else 1
    if "64" in kinds or "WIDE" in kinds or (opcode == "LDSM" and "2" in kinds):
        width = 2
    return set(range(int(match["first"]), int(match["first"]) + width))


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
