"""What is checked, in which order, how long each part may take, and which commands it runs."""

import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks.kernels.case import Row
from benchmarks.kernels.targets import MissedTarget, rank_missed

NUM_TUNED = 3
"""Kernels that a part tunes at most: the first ones of the ranking."""

TILES = Path(__file__).parents[2] / "model_runtime" / "kernels" / "tiles.json"
TILES_FILE = "tiles.json"
"""Table of a run, which several parts change: unlike their figures it is kept when they begin."""

UNMEASURED = (
    ("moe_int4", 64),
    ("moe_int4", 4096),
    ("moe_gemv_int4.down", None),
    ("mla_decode", None),
    ("moe_dense", 16384),
)
"""Kernels and tokens that are tuned without measurements: they missed their targets on 2026-11-27."""


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
        env: Variables in addition to those of this process.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


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
    limit_s=60,
)


@part(
    name="tests",
    title="The tests that need a GPU",
    expected="the whole model on the GPU compared with the CPU; each folder of tests stops at its third fault",
    limit_s=60,
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
    expected="reads behind a tensor's end hide in padding; without racecheck, which reached no line in 80 s",
    limit_s=180,
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
    check = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--target-processes", "all")
    yield Command(argv=(*check, *layer.argv), env=layer.env)


add_program(
    "graphs",
    title="CUDA graphs against plain launches, bit for bit",
    expected="decoding at batch 1, 8 and 32, one stream or two; a capture with a side stream is a named risk",
    limit_s=80,
)


add_program(
    "peaks",
    title="Peaks of this machine",
    expected="4.3 TB/s of copies and 790 TFLOP/s of bf16 matmuls on an H200; every share below is of these",
    limit_s=40,
)


def run_kernels(
    setting: Setting, only: str, file: str, budget_s: float, *more: str, variant: str = "", tokens: str = ""
) -> Command:
    """The kernels' benchmark, which stops by itself before the part's limit; a rehearsal takes all toy sizes."""
    toy = ("--toy", "--device", "cpu", "--interpreter") if setting.is_rehearsal else ("--device", "cuda")
    figures = ("--json", setting.file(file), "--budget-s", f"{budget_s:g}")
    cases = [("--variant", variant), ("--tokens", "" if setting.is_rehearsal else tokens)]
    chosen = [word for option, value in cases if value for word in (option, value)]
    return run_module(setting, "benchmarks.kernels", "--only", only, *chosen, *figures, *more, *toy)


def run_tuner(setting: Setting, missed: MissedTarget, budget_s: float) -> Iterator[Command]:
    """The tuner for one kernel, on the run's own table; it measures or does nothing, so a rehearsal leaves it out."""
    if setting.is_rehearsal:
        return
    tokens = () if missed.tokens is None else ("--tokens", str(missed.tokens))
    options = ("--only", missed.kernel, *tokens, "--budget-s", f"{budget_s:g}", *use_tiles(setting))
    yield run_module(setting, "benchmarks.kernels.tune", *options)


def use_tiles(setting: Setting) -> tuple[str, str]:
    """Options for the run's table of tiles, which begins as a copy of the shipped one."""
    path = Path(setting.file(TILES_FILE))
    if not path.exists():
        shutil.copyfile(TILES, path)
    return "--tiles", str(path)


INT4_TOKENS = "1,8,64,4096"


@part(
    name="decode",
    title="Kernels of decoding, each compared with float64",
    expected="latent attention from 64k on 30 to 51 % of the floor (goal 60), INT4 63 to 79 % (goal 70)",
    limit_s=300,
    figures=("latent.json", "gemv.json", "int4.json"),
)
def _decode(setting: Setting) -> Iterator[Command]:
    yield run_kernels(setting, "mla_decode", "latent.json", 120)
    yield run_kernels(setting, "moe_gemv_int4", "gemv.json", 30)
    yield run_kernels(setting, "moe", "int4.json", 60, variant="int4", tokens=INT4_TOKENS)


@part(
    name="tune",
    title="The tuner for the INT4 kernels that miss their targets, and these again",
    expected="their tiles rest on floors and on what the compiler makes of them",
    limit_s=600,
    figures=("gemv-tuned.json", "int4-tuned.json"),
)
def _tune(setting: Setting) -> Iterator[Command]:
    Path(setting.file(TILES_FILE)).unlink(missing_ok=True)  # of an earlier run
    chosen = find_missed(setting, ("moe_int4", "moe_gemv_int4"))
    for missed in chosen:
        yield from run_tuner(setting, missed, 420 / len(chosen))
    tiles = use_tiles(setting)
    yield run_kernels(setting, "moe_gemv_int4", "gemv-tuned.json", 30, *tiles)
    yield run_kernels(setting, "moe", "int4-tuned.json", 60, *tiles, variant="int4", tokens=INT4_TOKENS)


@part(
    name="latent",
    title="The tuner for latent attention, and its join at few and at many sequences",
    expected="joining 32 sequences of 1,024 tokens took 29 us, as long as the attention itself",
    limit_s=360,
    figures=("latent-tuned.json",),
)
def _latent(setting: Setting) -> Iterator[Command]:
    for missed in find_missed(setting, ("mla_decode",)):
        yield from run_tuner(setting, missed, 150)
    yield run_kernels(setting, "mla_decode", "latent-tuned.json", 140, *use_tiles(setting))


@part(
    name="prefill",
    title="Tiles of bf16 experts for long prompts",
    expected="476 TFLOP/s at 16,384 tokens (goal 500); few of their tiles were tried in 50 s",
    limit_s=240,
    figures=("bf16.json", "bf16-tuned.json"),
)
def _prefill(setting: Setting) -> Iterator[Command]:
    long = {"variant": "bf16", "tokens": "16384"}
    yield run_kernels(setting, "moe", "bf16.json", 40, **long)
    for missed in find_missed(setting, ("moe_dense",)):
        yield from run_tuner(setting, missed, 100)
    yield run_kernels(setting, "moe", "bf16-tuned.json", 40, *use_tiles(setting), **long)


@part(
    name="tower",
    title="The whole vision tower and projector at a screenshot of 1920x1080",
    expected="2.0 times the floor by arithmetic (goal 1.7)",
    limit_s=180,
    figures=("tower.json",),
)
def _tower(setting: Setting) -> Iterator[Command]:
    yield run_program(setting, "tower", *use_tiles(setting))


@part(
    name="engine",
    title="The whole engine: tokens a second, and the first token of an agent's next step",
    expected="8 layers of the release's shape in INT4, torch's operators against ours with the tiles of this run",
    limit_s=300,
    figures=("engine.json",),
    modules=("torch", "triton", "tiktoken", "llguidance"),
)
def _engine(setting: Setting) -> Iterator[Command]:
    yield run_program(setting, "engine", *use_tiles(setting))


MEASURED_FILES = ("latent.json", "gemv.json", "int4.json", "bf16.json")
"""Figures of kernels before tuning; afterwards they are in NAME-tuned.json."""


def find_missed(setting: Setting, files: Collection[str]) -> list[MissedTarget]:
    """The kernels of some files that miss their targets, the first one to tune first; a default without figures."""
    rows = [row for row in map(as_row, read_rows(setting.folder, *MEASURED_FILES)) if row is not None]
    if not rows:
        missed = [MissedTarget(kernel=kernel, tokens=tokens, reach=0.0) for kernel, tokens in UNMEASURED]
    else:
        lines = json.loads(TILES.read_text("utf-8"))
        missed = rank_missed(rows, {line["kernel"] for line in lines if line["measured"]})
    return [one for one in missed if one.kernel.split(".")[0] in files][:NUM_TUNED]


def as_row(values: Mapping[str, Any]) -> Row | None:
    """A row as the benchmark has it; None for one that was not timed, or that another version wrote."""
    names = {one.name for one in fields(Row)}
    if values.get("us") is None or not set(values) <= names:
        return None
    return Row(**values)


def read_rows(folder: Path, *names: str) -> list[dict[str, Any]]:
    """Rows of the kernels' benchmark in files that may be missing or broken."""
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            rows += json.loads((folder / name).read_text("utf-8"))["rows"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return rows
