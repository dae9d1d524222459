"""The benchmark's report and targets, and the whole command at toy sizes on a CPU."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.kernels import __main__ as command
from benchmarks.kernels import report, targets
from benchmarks.kernels.case import OURS, Row
from benchmarks.kernels.cost.hardware import Hardware
from model_runtime.errors import ConfigError
from model_runtime.kernels import launch, moe

TOY = "toy sizes on a CPU, no measurement"

# --- report and targets ---


def make_report(rows: Sequence[Row], peaks: Hardware | None = None, machine: str = TOY) -> report.Report:
    return report.Report(
        machine=machine,
        versions={"torch": "2"},
        commit="c0ffee",
        command="python -m x",
        date="2026-11-21",
        peaks=peaks,
        rows=rows,
    )


def measured_row(peer: str = OURS, **more: Any) -> Row:
    values: dict[str, Any] = {"kernel": "moe", "variant": "bf16", "peer": peer, "size": {"tokens": 16384}}
    return Row(**{**values, "us": 100.0, "tflop_s": 450.0, "floor_share": 0.5, "error": 4e-3, **more})


def test_ratios_are_ours_over_theirs_and_ours_comes_first() -> None:
    other = measured_row(size={"tokens": 1})
    made = make_report([measured_row("x", us=400.0), other, measured_row()], Hardware(), "NVIDIA H200")
    assert [row.peer for row in report.sort_rows(made.rows)] == [OURS, "x", OURS]
    [line] = [line for line in report.as_table(made).splitlines() if " x " in line]
    assert "0.25" in line
    assert "4,300 GB/s" in report.as_table(made)


def test_only_measurements_have_a_place(tmp_path: Path) -> None:
    made = make_report([], Hardware(), "NVIDIA H200 (SXM)")
    assert report.place_of(made, tmp_path).name == "nvidia-h200-sxm-2026-11-21.json"
    with pytest.raises(ConfigError, match="no measurement: this is not saved"):
        report.place_of(make_report([]), tmp_path)


def test_json_of_a_measurement(tmp_path: Path) -> None:
    report.write(make_report([measured_row()], Hardware(), "NVIDIA H200"), tmp_path / "x.json")
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["ceilings"] == {"copy_gb_s": 4300.0, "matmul_tflop_s": 790.0}
    assert found["rows"] == [
        {
            "kernel": "moe",
            "variant": "bf16",
            "peer": "ours",
            "size": {"tokens": 16384},
            "us": 100.0,
            "gb_s": None,
            "tflop_s": 450.0,
            "floor_share": 0.5,
            "error": 4e-3,
            "note": "",
            "is_wrong": False,
        }
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "x.json"]


def outcomes(*rows: Row, is_measurement: bool = True) -> dict[str, tuple[str, str]]:
    found = targets.judge(rows, is_measurement=is_measurement)
    assert len({outcome.text for outcome in found}) == len(found)
    return {outcome.text: (outcome.state, outcome.found) for outcome in found}


def test_goals() -> None:
    decode = [
        measured_row(variant="int4", size={"tokens": t}, floor_share=s) for t, s in ((1, 0.55), (8, 0.8), (64, 0.9))
    ]
    router = [
        measured_row(kernel="router", variant="", size={"tokens": t}, us=us) for t, us in ((1, 3), (8, 4), (64, 6))
    ]
    found = outcomes(*decode, *router, measured_row(), measured_row("grouped_mm", us=125.0))
    assert found["INT4 experts, 1 to 64 tokens: >= 50 % of the floor"] == ("met", "55 %")
    assert found["INT4 experts, 1 to 64 tokens: >= 70 % of the floor"] == ("missed", "55 %")
    assert found["router, 1 to 64 tokens: <= 5 us"] == ("missed", "6 us")
    assert found["bf16 experts, 16,384 tokens: >= 400 TFLOP/s"] == ("met", "450 TFLOP/s")
    assert found["bf16 experts, 16,384 tokens: >= 500 TFLOP/s"] == ("missed", "450 TFLOP/s")
    assert found["bf16, 16,384 tokens: no slower than torch's grouped_mm"] == ("met", "0.80 of its time")
    assert found["vision attention, a screenshot: >= 50 % of the floor"] == ("not measured", "")


def test_a_goal_needs_all_of_its_sizes() -> None:
    row = measured_row(variant="int4", size={"tokens": 1}, floor_share=0.9)
    failed = measured_row(variant="int4", size={"tokens": 8}, us=None, floor_share=None)
    assert outcomes(row, failed)["INT4 experts, 1 to 64 tokens: >= 50 % of the floor"] == ("not measured", "")


def test_the_peers_rows_meet_no_goal_of_ours() -> None:
    states = {state for state, _ in outcomes(measured_row("grouped_mm")).values()}
    assert states == {"not measured"}


def test_a_toy_run_meets_no_goal() -> None:
    assert {state for state, _ in outcomes(measured_row(), is_measurement=False).values()} == {"not measured"}


# --- the command ---


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    """Table and JSON of a whole run at toy sizes."""
    file = tmp_path_factory.mktemp("toy") / "toy.json"
    printed: list[str] = []
    patch = pytest.MonkeyPatch()
    patch.setattr("builtins.print", lambda *text, **_: printed.append(" ".join(map(str, text))))
    threads = torch.get_num_threads()
    try:
        assert command.main(["--toy", "--json", str(file)]) == 0
    finally:
        patch.undo()
        torch.set_num_threads(threads)
    yield printed[-1], json.loads(file.read_text())


@pytest.mark.slow
def test_a_toy_run_cannot_be_taken_for_a_measurement(toy: tuple[str, dict[str, Any]]) -> None:
    table, found = toy
    assert table.startswith(TOY)
    assert found["machine"] == TOY
    assert found["ceilings"] == {"copy_gb_s": None, "matmul_tflop_s": None}
    for row in found["rows"]:
        assert row["note"].startswith(TOY)
        assert (row["gb_s"], row["tflop_s"], row["floor_share"]) == (None, None, None)
    assert " met" not in table
    assert "missed" not in table
    assert all("toy" in line for line in table.split("\n\n")[1].splitlines()[1:])


@pytest.mark.long
def test_the_reference_and_its_peers_are_right(toy: tuple[str, dict[str, Any]]) -> None:
    rows = toy[1]["rows"]
    checked = [row for row in rows if row["error"] is not None]
    assert all(row["error"] < 2e-2 for row in checked)
    names = {(row["kernel"], row["peer"]) for row in checked}
    for kernel in ("router", "moe", "mla_decode", "mla_prefill", "vision_attention", "merge_patches", "write_latent"):
        assert (kernel, "torch") in names
    assert {"grouped_mm", "transformers"} <= {peer for kernel, peer in names if kernel == "moe"}
    assert {"torch.compile", "torch"} <= {peer for kernel, peer in names if kernel == "rms_norm"}


@pytest.mark.long
def test_every_file_of_kernels_is_timed_by_a_file_of_its_name(toy: tuple[str, dict[str, Any]]) -> None:
    assert set(launch.MODULES) <= command.FILES.keys()
    folder = Path(moe.__file__).parent
    home = {"combine": "moe"}  # timed by itself, and a part of that file
    assert [name for name in command.FILES if not (folder / f"{home.get(name, name)}.py").is_file()] == []
    in_table = {row["kernel"] for row in toy[1]["rows"] if row["peer"] == OURS}
    operators = {"norm": "rms_norm", "latent": "write_latent"}
    assert {operators.get(name, name) for name in command.FILES} <= in_table


@pytest.mark.long
def test_what_cannot_run_here_says_so(toy: tuple[str, dict[str, Any]]) -> None:
    failed = [row for row in toy[1]["rows"] if row["us"] is None]
    with_ours = [row for row in failed if row["peer"] == OURS or row["kernel"] == "overlap"]
    assert {row["peer"] for row in failed if row not in with_ours} <= {"varlen_attn"}
    assert all("--interpreter" in row["note"] for row in with_ours)


@pytest.mark.long
def test_our_kernels_in_the_interpreter(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert command.main(["--interpreter", "--only", "norm,latent", "--json", str(file)]) == 0
    rows = [row for row in json.loads(file.read_text())["rows"] if row["peer"] == OURS]
    assert {row["kernel"] for row in rows} == {"rms_norm", "add_rms_norm", "write_latent"}
    assert all(row["error"] is not None and row["error"] < 1e-6 for row in rows), rows
    assert TOY in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--toy", "--save"], "results at toy sizes are not saved"),
        (["--device", "cpu", "--save"], "results at toy sizes are not saved"),
        (["--toy", "--save", "--only", "moe"], "are not saved"),
        (["--only", "router,moo"], "--only moo: there is no such file; there are router, moe"),
        (["--device", "cuda"], "torch finds no GPU"),
        (["--peers", "/no/such/folder"], "there is no such folder"),
        (["--tokens", "1,many"], "--tokens many: expected numbers"),
    ],
)
def test_options_that_make_no_sense(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    if argv == ["--device", "cuda"] and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert command.main(argv) == 2
    assert text in capsys.readouterr().err


def test_a_spent_budget_leaves_out_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--toy", "--only", "router", "--budget-s", "0"]) == 0
    assert "left out: the budget of time is spent" in capsys.readouterr().out


def test_variants_and_tokens_choose_cases(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--toy", "--only", "moe,mla_decode", "--variant", "int4", "--tokens", "33", "--budget-s", "0"]
    assert command.main(argv) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert lines == [
        f"moe int4{layer} tokens 33 all: left out: the budget of time is spent" for layer in ("", " layer", "")
    ]


def test_a_wrong_row_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "run_cases", lambda cases, bench: iter([measured_row(is_wrong=True, note="empty")]))
    assert command.main(["--toy", "--only", "router"]) == 1
    assert "wrong: moe bf16 ours: empty" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    argv = ["--toy", "--only", "router", "--budget-s", "0", "--json", str(tmp_path / "none" / "x.json")]
    assert command.main(argv) == 2
    assert "No such file" in capsys.readouterr().err
