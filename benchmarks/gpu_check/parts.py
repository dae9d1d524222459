"""What is checked, in which order, how long each part may take, and which commands it runs."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NUM_TUNED = 3
"""Kernels that are tuned: those that miss their goals by most."""

TILES = Path(__file__).parents[2] / "model_runtime" / "kernels" / "tiles.json"

UNTUNED = ("moe_gemv_int4", "mla_decode", "moe_int4")
"""What is tuned where nothing was measured: what a decode step and a prompt spend their time in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where and how the parts run.

    Attributes:
        folder: For results.
        is_rehearsal: At toy sizes on a CPU.
    """

    folder: Path
    is_rehearsal: bool = False

    def file(self, name: str) -> str:
        """A result's path."""
        return str(self.folder / name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process of a part.

    Attributes:
        argv: What is run, in the repository's root.
        env: Beside the environment.
        may_end_s: Seconds after which the rest of the part goes first: the command is ended and counts as cut off.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    may_end_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of the list.

    Attributes:
        name: Of its files, and for `--only` and `--again`.
        title: For people.
        expected: What was expected before anything ran, and why it is looked at.
        limit_s: Seconds for all of its commands.
        commands: Made one after the other, since the tuner's depend on what was measured before.
        figures: Files that it writes.
        modules: Python packages that it needs.
        program: Of the system, that it needs.
    """

    name: str
    title: str
    expected: str
    limit_s: float
    commands: Callable[[Setting], Iterable[Command]]
    figures: tuple[str, ...] = ()
    modules: tuple[str, ...] = ("torch", "triton")
    program: str | None = None


PARTS: list[Part] = []
"""In their order."""

Commands = Callable[[Setting], Iterable[Command]]


def part(**facts: Any) -> Callable[[Commands], Commands]:
    """The next part: its facts stand above the function that makes its commands."""

    def add(commands: Commands) -> Commands:
        PARTS.append(Part(commands=commands, **facts))
        return commands

    return add


TESTED = (
    *("pytest", "pytest_asyncio", "hypothesis", "transformers", "safetensors", "tiktoken", "llguidance", "fastapi"),
    "compressed_tensors",
)
"""What the tests of `model_runtime` import; without them they would all be left out without a word."""

INTERPRETED, COMPILED = {"TRITON_INTERPRET": "1"}, {"TRITON_INTERPRET": "0"}


def run_module(setting: Setting, module: str, *arguments: str, **more: Any) -> Command:
    """A module of ours; a rehearsal's kernels are interpreted."""
    env = {**(INTERPRETED if setting.is_rehearsal else COMPILED), **more.pop("env", {})}
    return Command(argv=(sys.executable, "-m", module, *arguments), env=env, **more)


def run_program(setting: Setting, name: str, *arguments: str, **more: Any) -> Command:
    """One of `benchmarks.gpu_check.programs`, whose figures go to NAME.json."""
    toy = ("--toy",) if setting.is_rehearsal else ()
    figures = ("--json", setting.file(f"{name}.json"))
    return run_module(setting, "benchmarks.gpu_check.programs", name, *figures, *arguments, *toy, **more)


def add_program(name: str, **facts: Any) -> None:
    """A part that is one of `benchmarks.gpu_check.programs`."""
    part(name=name, figures=(f"{name}.json",), **facts)(lambda setting: [run_program(setting, name)])


add_program(
    "operators",
    title="Layers of the release's shape through our kernels, compared with torch's operators at odd sizes",
    expected="right before fast; needs torch and triton alone",
    limit_s=80,
)


@part(
    name="tests",
    title="The tests that need a GPU",
    expected="the whole model on the GPU compared with the CPU; each folder of tests stops at its third fault",
    limit_s=90,
    modules=("torch", "triton", *TESTED),
)
def _tests(setting: Setting) -> Iterator[Command]:
    for folder in ("kernels", "model"):  # each stops by itself, and the next one goes on
        where = ("--confcutdir=tests/model_runtime", f"tests/model_runtime/{folder}")  # without the sandbox's packages
        options = ("-m", "gpu", "--maxfail", "3", "-p", "no:cacheprovider")
        yield run_module(setting, "pytest", *options, *where, env=COMPILED)


@part(
    name="memory",
    title="compute-sanitizer over decoder layers at 1, 9, 64 and 512 tokens",
    expected="reads behind a tensor's end hide in padding; memcheck, then racecheck in what time is left",
    limit_s=200,
    figures=("layer.json",),
    program="compute-sanitizer",
)
def _memory(setting: Setting) -> Iterator[Command]:
    """Without torch's own pool of memory, in which an access behind a tensor would meet another tensor."""
    env = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    layer = run_program(setting, "layer", env=env)
    if setting.is_rehearsal:
        yield layer
        return
    for tool, may_end_s in (("memcheck", None), ("racecheck", 80.0)):
        check = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--target-processes", "all")
        yield Command(argv=(*check, *layer.argv), env=layer.env, may_end_s=may_end_s)


add_program(
    "graphs",
    title="CUDA graphs against plain launches, bit for bit",
    expected="decoding at batch 1, 8 and 32, one stream or two; a capture with a side stream is a named risk",
    limit_s=120,
)


add_program(
    "peaks",
    title="Peaks of this machine",
    expected="4.3 TB/s of copies and 790 TFLOP/s of bf16 matmuls on an H200; every share below is of these",
    limit_s=40,
)


def run_kernels(setting: Setting, only: str, file: str, budget_s: float, *more: str) -> Command:
    """The kernels' benchmark, which stops by itself before the part's limit."""
    toy = ("--toy", "--device", "cpu", "--interpreter") if setting.is_rehearsal else ("--device", "cuda")
    figures = ("--json", setting.file(file), "--budget-s", f"{budget_s:g}")
    return run_module(setting, "benchmarks.kernels", "--only", only, *figures, *more, *toy)


DECODE, PREFILL, VISION = "moe_gemv_int4,mla_decode", "moe", "router,norm,vision_attention"


@part(
    name="decode",
    title="Kernels of decoding",
    expected="INT4 experts 55 to 75 % of the floor (goal 70), attention 40 to 55 % (goal 60)",
    limit_s=190,
    figures=("decode.json",),
)
def _decode(setting: Setting) -> Iterator[Command]:
    yield run_kernels(setting, DECODE, "decode.json", 150)


@part(
    name="prefill",
    title="Kernels of prompts and images",
    expected="INT4 250 to 400 TFLOP/s (goal 300), bf16 380 to 500 (goal 500); a screenshot's attention 50 %",
    limit_s=260,
    figures=("vision.json", "moe.json"),
)
def _prefill(setting: Setting) -> Iterator[Command]:
    yield run_kernels(setting, VISION, "vision.json", 60)
    yield run_kernels(setting, PREFILL, "moe.json", 170)


@part(
    name="tune",
    title="The tuner for the three kernels that are worst against their goals, and these again",
    expected="tiles rest on floors and on what the compiler makes of them, where tiles.json has no measurement",
    limit_s=330,
    figures=("tiles.json", "decode-tuned.json", "moe-tuned.json", "vision-tuned.json"),
)
def _tune(setting: Setting) -> Iterator[Command]:
    shutil.copyfile(TILES, setting.file("tiles.json"))  # the tuner changes lines of it, and the shipped table stays
    tiles = ("--tiles", setting.file("tiles.json"))
    kernels = find_worst(setting.folder)
    if not setting.is_rehearsal:  # the tuner measures or does nothing
        for kernel in kernels:
            yield run_module(setting, "benchmarks.kernels.tune", "--only", kernel, "--budget-s", "60", *tiles)
    tuned = [only for only, files in MEASURED_BY.items() if set(kernels) & set(files)]
    for only in tuned:
        name = "decode" if only == DECODE else "vision" if only == VISION else "moe"
        yield run_kernels(setting, only, f"{name}-tuned.json", 120 / len(tuned), *tiles)


add_program(
    "engine",
    title="The whole engine: tokens a second, and the first token of an agent's next step",
    expected="what a user feels: 8 layers of the release's shape in INT4, torch's operators against ours",
    limit_s=190,
    modules=("torch", "triton", "tiktoken", "llguidance"),
)


MEASURED_BY: dict[str, tuple[str, ...]] = {
    DECODE: ("moe_gemv_int4", "mla_decode"),
    PREFILL: ("moe_int4", "moe_dense", "moe_gemv_dense"),
    VISION: ("router", "norm", "vision_attention"),
}
"""Which run of the benchmark shows what the tuner gained for a kernel's file."""

GOALS: dict[str, float] = {"moe_gemv_int4": 0.70, "mla_decode": 0.60, "vision_attention": 0.50, "router": 0.50}
"""Shares of the floor to be reached; of the targets in `benchmarks.kernels.targets`, by file."""

SPEED_GOALS: dict[str, float] = {"int4": 300.0, "bf16": 500.0}
"""TFLOP/s of long prompts' experts: between what reading let expect (250 to 400, 380 to 500) and the card's 790."""

"""In this order. Their limits together are the 25 minutes of a whole run."""


def find_worst(folder: Path) -> list[str]:
    """The kernels' files to tune, the one that misses its goal by most first."""
    shares: dict[str, float] = {}
    for row in read_rows(folder, "decode.json", "vision.json", "moe.json"):
        found = rate(row)
        if found is not None:
            file, share = found
            shares[file] = min(share, shares.get(file, share))
    worst = sorted(shares, key=lambda file: shares[file])[:NUM_TUNED]
    return worst if len(worst) == NUM_TUNED else list(UNTUNED)


def rate(row: Mapping[str, Any]) -> tuple[str, float] | None:
    """The file whose kernels a measured row of ours is about, and how much of its goal it reaches; None for others."""
    kernel, variant, tokens = row.get("kernel"), str(row.get("variant", "")), dict(row.get("size", {})).get("tokens", 0)
    if row.get("peer") != "ours" or row.get("us") is None:
        return None
    if kernel == "moe" and variant in SPEED_GOALS and row.get("tflop_s"):
        return ("moe_int4" if variant == "int4" else "moe_dense"), row["tflop_s"] / SPEED_GOALS[variant]
    if kernel in GOALS and row.get("floor_share") and (kernel != "router" or tokens <= 64):
        return str(kernel), row["floor_share"] / GOALS[str(kernel)]
    return None


def read_rows(folder: Path, *names: str) -> list[dict[str, Any]]:
    """Rows of the kernels' benchmark in files that may be missing or broken."""
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            rows += json.loads((folder / name).read_text("utf-8"))["rows"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return rows
