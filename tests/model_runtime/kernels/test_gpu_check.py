"""`make gpu-check` with parts made for the test: order, limits, faults, and going on after it was killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.gpu_check import __main__ as command
from benchmarks.gpu_check.parts import PARTS, TILES_FILE, UNMEASURED, Command, Part, Setting, find_missed
from benchmarks.gpu_check.runner import ROOT, STATE_FILE, Device, Outcome, Plan, Results, find_version, run_parts
from benchmarks.gpu_check.summary import write_summary

GPU = Device(name="fake GPU")
FOREVER = "import time; print('begun', flush=True); time.sleep(600)"


def make_part(name: str, *codes: str, limit_s: float = 60.0, figures: tuple[str, ...] = (), **more: Any) -> Part:
    """A part whose commands are Python texts; `OUT` is its folder."""

    def commands(setting: Setting) -> Sequence[Command]:
        return [Command(argv=(sys.executable, "-c", code), env={"OUT": str(setting.folder)}) for code in codes]

    values: dict[str, Any] = {"modules": (), **more}
    return Part(name=name, title=name, expected="", limit_s=limit_s, commands=commands, figures=figures, **values)


def note(name: str) -> str:
    """Adds a line to a file."""
    return f"import os, pathlib; open(pathlib.Path(os.environ['OUT']) / 'order', 'a').write('{name}\\n')"


def run(folder: Path, *parts: Part, **more: Any) -> dict[str, Outcome]:
    values: dict[str, Any] = {"device": GPU, "version": "1", "limit_s": 120.0, "emit": lambda text: None, **more}
    outcomes = run_parts(Plan(parts=parts, setting=Setting(folder=folder), **values), Results(folder))
    return {one.part: one for one in outcomes}


def states(found: dict[str, Outcome]) -> list[str]:
    return [one.state for one in found.values()]


def order(folder: Path) -> list[str]:
    return (folder / "order").read_text().split()


def test_parts_run_in_order_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    wrong = make_part("wrong", "print('it hurts'); raise SystemExit(3)", note("wrong goes on"))
    found = run(tmp_path, make_part("one", note("one")), wrong, make_part("two", note("two")))
    assert states(found) == ["passed", "failed", "passed"]
    assert order(tmp_path) == ["one", "wrong", "goes", "on", "two"]
    assert "ended with exit code 3" in found["wrong"].note
    assert "it hurts" in found["wrong"].tail
    assert (found["one"].tail, found["one"].device, found["one"].version) == ("", "fake GPU", "1")


def test_what_has_ended_is_not_run_again_for_the_same_code_and_device(tmp_path: Path) -> None:
    parts = make_part("good", note("good")), make_part("bad", note("bad") + "; raise SystemExit(1)")
    for _ in range(2):
        assert states(run(tmp_path, *parts)) == ["passed", "failed"]
    assert order(tmp_path) == ["good", "bad"]
    run(tmp_path, *parts, again=frozenset({"bad"}))
    run(tmp_path, *parts, version="2")
    run(tmp_path, *parts, version="2", device=Device(name="another GPU"))
    assert order(tmp_path) == ["good", "bad", "bad", "good", "bad", "good", "bad"]


def test_a_part_beyond_its_time_is_ended(tmp_path: Path) -> None:
    part = make_part("slow", FOREVER, note("never"), limit_s=1.0)
    assert states(run(tmp_path, part, make_part("next", note("next")))) == ["timed out", "passed"]
    assert states(run(tmp_path, part)) == ["timed out"]  # and not tried again
    assert order(tmp_path) == ["next"]


def test_the_time_of_the_whole_run_cuts_a_part_off_and_the_next_run_goes_on(tmp_path: Path) -> None:
    later = make_part("later", note("later"))
    assert states(run(tmp_path, make_part("slow", FOREVER), later, limit_s=1.0)) == ["cut off", "cut off"]
    assert states(run(tmp_path, make_part("slow", note("mended")), later)) == ["passed", "passed"]
    assert order(tmp_path) == ["mended", "later"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    parts = make_part("a", modules=("no_such_package",)), make_part("b", program="no-such-program")
    found = run(tmp_path, *parts)
    assert states(found) == ["skipped", "skipped"]
    assert "no_such_package" in found["a"].note
    assert "no-such-program is not on PATH" in found["b"].note


def test_without_a_gpu_results_of_one_stay(tmp_path: Path) -> None:
    part = make_part("one", note("one"))
    run(tmp_path, part)
    found = run(tmp_path, part, device=Device(name=None))
    assert (found["one"].state, found["one"].note) == ("skipped", "no GPU")
    assert states(run(tmp_path, part)) == ["passed"]
    assert order(tmp_path) == ["one"]


def test_figures_of_an_earlier_run_do_not_pass_for_new_ones(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert run(tmp_path, make_part("one", "pass", figures=("a.json",)))["one"].figures == ()


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"parts": {"one": 1}}', '{"parts": {"one": {"odd": 1}}}'])
def test_a_broken_state_is_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    assert states(run(tmp_path, make_part("one", "pass"))) == ["passed"]


RUN = """
import sys
from pathlib import Path
from tests.model_runtime.kernels.test_gpu_check import CHILD, FOREVER, make_part, note, run
second = note("second") + "\\n" + FOREVER
run(Path(sys.argv[1]), make_part("first", note("first")), make_part("second", CHILD.format(second)))
"""
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {!r}])"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_after_it_was_killed(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (tmp_path / "order").exists() and order(tmp_path)[1:] == ["second"], process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 2
    process.send_signal(number)
    process.communicate(timeout=60)
    try:
        _, alive = psutil.wait_procs(children[: 1 if number == signal.SIGKILL else 2], timeout=60)
        assert alive == []
    finally:
        for child in children:  # nobody is left to end what the killed run's process had started
            with suppress(psutil.NoSuchProcess):
                child.kill()
    state = json.loads((tmp_path / STATE_FILE).read_text())["parts"]["second"]["state"]
    assert state == ("running" if number == signal.SIGKILL else "cut off")
    assert states(run(tmp_path, make_part("first", note("again")), make_part("second", note("done")))) == ["passed"] * 2
    assert order(tmp_path) == ["first", "second", "done"]


def wait_for(is_there: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Until something is there; the process must not end before."""
    while not is_there():
        assert process.poll() is None, process.communicate()
        os.sched_yield()


# --- the list itself ---


def test_the_whole_list_fits_into_its_time() -> None:
    assert sum(part.limit_s for part in PARTS) <= command.LIMIT_S == 2400
    assert len({part.name for part in PARTS}) == len(PARTS)


def test_every_command_of_the_list_names_what_is_there(tmp_path: Path) -> None:
    for is_rehearsal in (False, True):
        setting = Setting(folder=tmp_path, is_rehearsal=is_rehearsal)
        for part in PARTS:
            for one in part.commands(setting):
                module = one.argv[one.argv.index("-m") + 1]
                path = ROOT / module.replace(".", "/")
                assert module == "pytest" or path.with_suffix(".py").exists() or (path / "__main__.py").exists()
                assert all((ROOT / word).exists() for word in one.argv if word.startswith("tests/"))
                written = [Path(word).name for word in one.argv if word.startswith(str(tmp_path))]
                assert set(written) <= {*part.figures, TILES_FILE}, part.name


def make_row(kernel: str, variant: str = "", tokens: int = 1, **figures: float) -> dict[str, Any]:
    return {"kernel": kernel, "variant": variant, "peer": "ours", "size": {"tokens": tokens}, "us": 1.0, **figures}


def test_what_is_tuned_is_ranked_by_missed_targets(tmp_path: Path) -> None:
    setting = Setting(folder=tmp_path)
    all_files = {kernel.split(".")[0] for kernel, _ in UNMEASURED} | {"moe_gemv_dense", "router", "vision_attention"}
    assert [one.kernel for one in find_missed(setting, ("moe_int4", "mla_decode"))] == ["moe_int4"] * 2 + ["mla_decode"]
    rows = [
        make_row("moe", "int4", 1, floor_share=0.71),
        make_row("moe", "int4", 8, floor_share=0.79),
        make_row("moe", "int4", 64, floor_share=0.63),
        make_row("moe", "int4", 64, floor_share=0.2) | {"peer": "torch"},
        make_row("moe", "int4", 64, floor_share=0.63) | {"us": None},
        make_row("moe", "int4 layer", 64, floor_share=0.5),
        make_row("moe", "int4", 4096, tflop_s=280.0),
        make_row("moe", "int4", 16384, tflop_s=366.0),
        make_row("moe", "bf16", 16384, tflop_s=450.0),
        make_row("moe_gemv_int4", "down", 1, floor_share=0.66),
        make_row("moe_gemv_int4", "down", 8, floor_share=0.80),
        make_row("mla_decode", "64 heads") | {"size": {"batch": 1, "context": 1024}, "floor_share": 0.02},
        make_row("mla_decode", "64 heads") | {"size": {"batch": 1, "context": 65536}, "floor_share": 0.57},
        make_row("router", "384 top 8", 1, floor_share=0.14) | {"us": 9.0},
        make_row("combine", "top 8", floor_share=0.01),
    ]
    (tmp_path / "int4.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "latent.json").write_text("cut off")
    found = [(one.kernel, one.tokens, round(one.reach, 2)) for one in find_missed(setting, all_files)]
    assert found == [("moe_int4", 64, 0.9), ("moe_int4", 4096, 0.93), ("moe_gemv_int4.down", None, 0.94)]
    assert [one.kernel for one in find_missed(setting, ("mla_decode", "moe_dense"))] == ["mla_decode", "moe_dense"]
    assert find_missed(setting, ("router", "vision_attention")) == []


def test_parts_tune_what_was_measured_before_them(tmp_path: Path) -> None:
    commands = {part.name: list(part.commands(Setting(folder=tmp_path))) for part in PARTS}
    tuned = {
        name: [one.argv[one.argv.index("--only") + 1] for one in some if "benchmarks.kernels.tune" in one.argv]
        for name, some in commands.items()
    }
    assert {name: kernels for name, kernels in tuned.items() if kernels} == {
        "tune": ["moe_int4", "moe_int4", "moe_gemv_int4.down"],
        "latent": ["mla_decode"],
        "prefill": ["moe_dense"],
    }
    names = [part.name for part in PARTS]
    assert names == "operators tests memory graphs peaks decode tune latent prefill tower engine".split()


def test_the_summary_shows_states_figures_and_faults(tmp_path: Path) -> None:
    rows = [
        make_row("moe", "int4", floor_share=0.30, error=1e-3),
        make_row("moe", "int4") | {"peer": "torch", "us": 4.0},
        make_row("router") | {"us": None, "note": "left out"},
    ]
    (tmp_path / "int4.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "int4-tuned.json").write_text(json.dumps({"rows": [make_row("moe", "int4", floor_share=0.7)]}))
    engine = {"title": "The engine", "columns": ["what", "found"], "rows": [["batch <1>", 31.25]]}
    (tmp_path / "engine.json").write_text(json.dumps(engine | {"bars": [["batch <1>", 31.25, "31 tokens/s"]]}))
    parts = make_part("good", "pass"), make_part("bad", "print('line | one'); raise SystemExit(1)"), make_part("new")
    plan = Plan(parts=parts[:2], setting=Setting(folder=tmp_path), device=GPU, version="1", limit_s=60, emit=len)
    results = Results(tmp_path)
    run_parts(plan, results)
    page = write_summary(parts, results.outcomes, plan).read_text()
    assert "| good | passed |" in page
    assert "| new | not run |" in page
    assert "| moe int4 | tokens 1 | 1 | 30 |  | 1.0e-03 | torch 4.0 | 1 |" in page
    assert "| batch <1> | 31.25 |" in page
    assert "line | one" in page
    assert "batch &lt;1&gt;" in (tmp_path / "engine.svg").read_text()
    assert "&gt;= 70 % of the floor, tuned" in (tmp_path / "floors.svg").read_text()


def test_the_version_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "model_runtime").mkdir()
    file = tmp_path / "model_runtime" / "a.py"
    file.write_text("1")
    first = find_version(tmp_path)
    (tmp_path / "model_runtime" / "notes.txt").write_text("x")
    assert find_version(tmp_path) == first
    file.write_text("2")
    assert find_version(tmp_path) != first


# --- the command ---


def test_the_plan_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--plan", "--out", str(tmp_path / "x")]) == 0
    assert "1. operators" in capsys.readouterr().out
    assert not (tmp_path / "x").exists()


def test_a_part_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "kernles"]) == 2
    assert "--only kernles: there is no such part; there are operators, tests" in capsys.readouterr().err


def test_faults_are_told_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = make_part("good", "pass"), make_part("bad", "raise SystemExit(1)")
    assert command.main(["--rehearse", "--out", str(tmp_path)], parts) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("failed: bad: ")
    assert command.main(["--rehearse", "--out", str(tmp_path), "--only", "good"], parts) == 0


@pytest.mark.slow
def test_the_tower_program_runs_at_toy_sizes(tmp_path: Path) -> None:
    assert command.main(["--rehearse", "--out", str(tmp_path), "--only", "tower"]) == 0
    rows = json.loads((tmp_path / "tower.json").read_text())["rows"]
    assert [row[0] for row in rows] == ["triton", "torch"]
    for _, ms, floor_ms, times, goal in rows:
        assert times == pytest.approx(ms / floor_ms)
        assert goal == 1.7
    assert "The vision tower at 1080p" in (tmp_path / "gpu-check.md").read_text()


@pytest.mark.slow
def test_the_peaks_program_runs_at_toy_sizes(tmp_path: Path) -> None:
    assert command.main(["--rehearse", "--out", str(tmp_path), "--only", "peaks"]) == 0
    assert json.loads((tmp_path / "peaks.json").read_text())["title"] == "Peaks of this machine"
    assert "copy, GB/s" in (tmp_path / "gpu-check.md").read_text()
