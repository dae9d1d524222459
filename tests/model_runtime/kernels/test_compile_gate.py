"""The ahead-of-time check: everything that is shipped passes it, and what must not be shipped does not.

Kernels are interpreted in this process, so whatever compiles does it in a process of its own.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.runtime.jit import JITFunction

from model_runtime.errors import ConfigError
from model_runtime.kernels.launch import MAX_SHARED_BYTES, KernelCase, Launch
from scripts.compile_gate import figures, machine_code
from scripts.compile_gate.compile import Specialisation, specialise
from scripts.compile_gate.figures import (
    VERSIONS,
    Resources,
    compare_figures,
    find_environment,
    make_table,
    read_figures,
    write_figures,
)
from scripts.compile_gate.gate import find_violations, list_cases, run_gate

ROOT = Path(__file__).parents[3]
BAD = "tests.model_runtime.kernels.aot_kernels"


def run_command(version: str, *options: str) -> subprocess.CompletedProcess[str]:
    try:
        environment = find_environment(version, ROOT)
    except ConfigError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    command = [sys.executable, "-m", "scripts.compile_gate", *options]
    assert environment["TRITON_INTERPRET"] == "1"  # of this process; the command has to see to that itself
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_all_that_is_shipped_passes(version: str) -> None:
    done = run_command(version, "--check")
    assert f"triton {version}" in done.stderr, done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=VERSIONS)
def bad(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    path = tmp_path_factory.mktemp("aot") / "report.json"
    done = run_command(request.param, "--module", BAD, "--json", str(path))
    assert done.returncode == 1, done.stderr
    report = json.loads(path.read_text("utf-8"))
    assert report["triton"] == request.param
    assert all(text in done.stdout for text in report["violations"])
    yield report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("strides", "no LDGSTS or UTMALDG"),
        ("shared", "394,240 bytes of shared memory, expected at most 232,448"),
        ("hmma", "no HGMMA (16 HMMA)"),
        ("registers", "registers, expected at most 24"),
        ("conversions", "8 conversions of integers to floats, expected at most 4"),
        ("spills", "bytes of stack"),
        ("broken", "at least 17"),
        ("malformed", "a grid of (1, 70000) programs"),
        ("complex", "Triton takes no such arguments for widen ('complex64')"),
    ],
)
def test_a_bad_kernel_is_refused_for_what_is_wrong_with_it(bad: dict[str, Any], name: str, text: str) -> None:
    found = [line for line in bad["violations"] if line.startswith(f"aot.{name}: ")]
    assert len(found) == 1
    assert text in found[0]


@pytest.mark.slow
def test_registers_given_away_too_early_are_found(bad: dict[str, Any]) -> None:
    """By the assembler of 3.6.0; 3.9.0 waits where it has to."""
    found = [line for line in bad["violations"] if line.startswith("aot.hazards: ")]
    if bad["triton"] == "3.6.0":
        assert len(found) == 1 and "that a wgmma under way still reads" in found[0]
    else:
        assert found == [] and bad["cases"]["aot.hazards"]["hgmma"] > 0


@pytest.mark.slow
def test_a_good_kernel_is_let_pass(bad: dict[str, Any]) -> None:
    assert [line for line in bad["violations"] if line.startswith("aot.good")] == []
    good = Resources(**bad["cases"]["aot.good"])
    assert good.hgmma and good.ldgsts and good.loop_copies and good.spills == good.stack_bytes == good.int_to_float == 0
    assert 32 <= good.registers <= 255 and good.shared_bytes == 73 * 1024 and good.instructions > 100
    assert "aot.broken" not in bad["cases"]


@pytest.mark.slow
def test_no_case_and_two_of_one_name_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_cases.py").write_text("def release_cases():\n    return iter(())\n", "utf-8")
    (tmp_path / "two_cases.py").write_text(
        f"from {BAD} import release_cases as cases\ndef release_cases():\n    return iter([*cases(), *cases()])\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="has no case whose name contains ''"):
        run_gate("no_cases", workers=1)
    with pytest.raises(ConfigError, match=r"has two cases of the name 'aot\.good'"):
        list_cases("two_cases")


DEADLY = """
import os
from model_runtime.kernels.launch import KernelCase
from model_runtime.kernels.launch import Launch

class Deadly:
    __name__ = "deadly"
    arg_names = property(lambda _: os._exit(11))

def release_cases():
    yield KernelCase(name="deadly.a", launch=Launch(kernel=Deadly(), grid=(1,), args={}))
"""


@pytest.mark.long
def test_a_compiler_that_dies_is_told_with_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    [verdict] = run_gate("deadly", workers=1)
    assert verdict.name == "deadly.a" and verdict.resources is None
    assert verdict.violations[0].startswith("not compiled: a worker process ended abruptly")
    assert os.environ["TRITON_INTERPRET"] == "1"


# Rules

FINE = Resources(
    registers=128,
    stack_bytes=0,
    shared_bytes=MAX_SHARED_BYTES,
    instructions=1000,
    hgmma=4,
    hmma=0,
    ldgsts=2,
    utmaldg=0,
    loop_copies=2,
    ldg_128=0,
    int_to_float=3,
    spills=0,
    hazards=0,
)
LAUNCH = Launch(kernel=None, grid=(1,), args={})
STRICT = KernelCase(
    name="a.b", launch=LAUNCH, has_wgmma=True, has_async_copy=True, max_int_to_float=3, max_registers=128
)
LAX = KernelCase(name="a.b", launch=LAUNCH)


@pytest.mark.parametrize(
    ("changes", "strict", "lax"),
    [
        ({}, [], []),
        ({"ldgsts": 0, "utmaldg": 1, "loop_copies": 1}, [], []),
        ({"loop_copies": 0}, ["no LDGSTS"], []),
        ({"hgmma": 0, "hmma": 8}, ["no HGMMA (8 HMMA)"], []),
        ({"int_to_float": 4}, ["4 conversions"], []),
        ({"registers": 129}, ["129 registers, expected at most 128"], []),
        ({"stack_bytes": 8}, ["spills: 8 bytes"], ["spills: 8 bytes"]),
        ({"spills": 1}, ["0 bytes of stack, 1 loads"], ["0 bytes of stack, 1 loads"]),
        ({"hazards": 2}, ["2 writes to registers"], ["2 writes to registers"]),
        ({"shared_bytes": MAX_SHARED_BYTES + 1}, ["232,449 bytes"], ["232,449 bytes"]),
        ({"hgmma": 0, "loop_copies": 0, "stack_bytes": 8}, ["spills", "no HGMMA", "no LDGSTS"], ["spills"]),
    ],
)
def test_rules(changes: dict[str, int], strict: list[str], lax: list[str]) -> None:
    for case, expected in ((STRICT, strict), (LAX, lax)):
        found = list(find_violations(case, replace(FINE, **changes)))
        assert len(found) == len(expected)
        assert all(text in line for text, line in zip(expected, found, strict=True)), found


# Machine code

USAGE = " Function k:\n  REG:40 STACK:16 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0\n"
OPCODES = (
    *(
        "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8]",
        "HMMA.16816.F32.BF16 R4",
        "LDGSTS.E.BYPASS.128 [R1]",
        "UTMALDG.2D [UR8]",
    ),
    *("@P0 LDG.E.128.CONSTANT R4", "@!P1 LDG.E.LTC128B.128 R4", "LDG.E.64 R4", "LDG.E.LTC128B R4"),
    *("@!UP0 I2F.U8 R4", "I2FP.F32.S32 R4", "I2F.RP R4", "I2IP.S8.S32 R4", "F2I.TRUNC R4"),
    *("@P2 STL [R1]", "LDL.64 R4", "LDS.128 R4", "STS [R1]", "NOP", "NOP"),
)


def dump_of(opcodes: Sequence[str], usage: str = USAGE) -> str:
    lines = [f"        /*{16 * i:04x}*/      {text} ;    /* 0x00000a00ff017b82 */" for i, text in enumerate(opcodes)]
    second = "\n                                         /* 0x000fe20000000800 */\n"
    return usage + "\tcode for sm_90a\n\t\tFunction : k\n" + second.join(lines) + second


def test_a_dump_is_read() -> None:
    assert machine_code.read_dump(dump_of(OPCODES), 2048) == Resources(
        registers=40,
        stack_bytes=16,
        shared_bytes=3072,
        instructions=17,
        hgmma=1,
        hmma=1,
        ldgsts=1,
        utmaldg=1,
        loop_copies=2,
        ldg_128=2,
        int_to_float=3,
        spills=2,
        hazards=0,
    )


@pytest.mark.parametrize("dump", ["", dump_of(OPCODES, ""), dump_of(OPCODES, USAGE * 2), dump_of(())])
def test_a_dump_that_is_not_understood_is_an_error(dump: str) -> None:
    with pytest.raises(ConfigError, match="expected one kernel with instructions"):
        machine_code.read_dump(dump, 0)


def test_a_tool_that_is_missing_or_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = machine_code.Binary(cubin=b"", dynamic_shared_bytes=0)
    with pytest.raises(ConfigError, match="cuobjdump ended with"):
        machine_code.inspect_binary(binary)
    monkeypatch.setattr(machine_code, "TOOLS", tmp_path)
    with pytest.raises(ConfigError, match=r"cuobjdump is missing; .* pip install --force-reinstall"):
        machine_code.inspect_binary(binary)


# Specialisation


def many(pointer, odd, even, one, zero, large, real, nothing, held, SIZE):  # type: ignore[no-untyped-def]
    """Only its arguments matter."""


def compiled(**more: Any) -> Specialisation:
    many.__annotations__["SIZE"] = importlib.import_module("triton.language").constexpr
    launch = Launch(
        kernel=JITFunction(many, **more),
        grid=(1,),
        args={
            "pointer": torch.empty(4, dtype=torch.bfloat16, device="meta"),
            "odd": 17,
            "even": 32,
            "one": 1,
            "zero": 0,
            "large": 2**31,
            "real": 0.5,
            "nothing": None,
            "held": 1,
        },
        constexprs={"SIZE": 64},
        num_warps=8,
        num_stages=2,
    )
    return specialise(launch)


ALIGNED = [["tt.divisibility", 16]]


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_a_launch_is_specialised_as_triton_does_it() -> None:
    found = compiled(do_not_specialize=["held"])
    assert found.signature == {
        "pointer": "*bf16",
        "odd": "i32",
        "even": "i32",
        "one": "constexpr",
        "zero": "i32",
        "large": "i64",
        "real": "fp32",
        "nothing": "constexpr",
        "held": "i32",
        "SIZE": "constexpr",
    }
    assert found.constants == {(3,): 1, (7,): None, (9,): 64}
    assert {place: facts for place, facts in found.attributes.items() if facts} == {
        (0,): ALIGNED,
        (2,): ALIGNED,
        (4,): ALIGNED,
        (5,): ALIGNED,
    }
    assert (found.options["num_warps"], found.options["num_stages"]) == (8, 2)


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_what_must_not_be_specialised_is_not() -> None:
    found = compiled(do_not_specialize=["pointer", "even", "one", "held"], do_not_specialize_on_alignment=["zero"])
    assert found.signature["one"] == "i32"
    assert {place for place, facts in found.attributes.items() if facts} == {(5,)}
    assert set(found.constants) == {(7,), (9,)}


def test_an_interpreted_kernel_is_refused() -> None:
    kernels = importlib.import_module(BAD)
    with pytest.raises(ConfigError, match="widen was defined with TRITON_INTERPRET set"):
        specialise(kernels.make_widen())


# Committed figures


def test_figures_are_kept_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    write_figures(path, {"3.9.0": {"a.x": FINE, "a.y": FINE}, "3.6.0": {}})
    assert read_figures(path) == {"3.6.0": {}, "3.9.0": {"a.x": FINE, "a.y": FINE}}
    assert list(compare_figures(path, "3.9.0", {"a.x": FINE, "a.y": FINE})) == []
    assert list(compare_figures(path, "3.9.0", {"a.x": FINE}, only="x")) == []
    found = list(compare_figures(path, "3.9.0", {"a.y": replace(FINE, registers=130), "b.z": FINE}))
    assert found[:3] == [
        "a.x: case: committed there, now gone",
        "a.y: registers: committed 128, now 130",
        "b.z: case: committed not there, now new",
    ]
    assert figures.REWRITE in found[3]
    with pytest.raises(ConfigError, match=r"has figures of triton 3\.6\.0, 3\.9\.0, but this is 4\.0"):
        list(compare_figures(path, "4.0", {}))


@pytest.mark.parametrize("text", ["", "[]", '{"3.9.0": {"a": {"registers": 1}}}', '{"3.9.0": []}'])
def test_a_malformed_file_of_figures_is_told(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "figures.json").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="has no figures of compiled kernels"):
        read_figures(path)


def test_the_table_shows_where_versions_differ() -> None:
    text = make_table({"3.9.0": {"a.x": FINE, "b y.z": FINE}, "3.6.0": {"a.x": replace(FINE, registers=130)}})
    assert "| a, triton 3.6.0 / 3.9.0 | registers |" in text
    assert "| x | 130 / 128 | 227.0 | 0 | 4 HGMMA | 2 LDGSTS | 3 | 1,000 |" in text
    assert "| y.z | none / 128 | none / 227.0 |" in text


def test_a_version_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pip install --target \.venv/triton-3\.6\.0 --no-deps triton==3\.6\.0"):
        find_environment("3.6.0", tmp_path)
    (tmp_path / ".venv" / "triton-3.6.0" / "triton").mkdir(parents=True)
    assert find_environment("3.6.0", tmp_path)["PYTHONPATH"].startswith(str(tmp_path / ".venv"))
