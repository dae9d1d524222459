"""The search for tiles: with fake times and verdicts, and one try of a real kernel in the interpreter."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.kernels import measurement, norm, table, tune
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import find_candidates
from benchmarks.kernels.device import CpuDevice
from benchmarks.kernels.search import Found, Group, find_groups, list_neighbours, mark, search
from benchmarks.kernels.sizes import toy_sizes
from benchmarks.kernels.table import Line
from model_runtime.errors import ConfigError
from model_runtime.kernels import tiles
from model_runtime.ops.registry import find_ops

LINES: list[dict[str, Any]] = [
    {"kernel": "moe_int4.gate_up", "max_tokens": None, "block_m": 64, "block_n": 64, "num_warps": 4, "measured": None},
    {"kernel": "moe_int4.gate_up", "max_tokens": 512, "block_m": 16, "block_n": 64, "num_warps": 4, "measured": None},
    {"kernel": "moe_int4.down", "max_tokens": 512, "block_m": 16, "block_n": 128, "num_warps": 4, "measured": None},
    {"kernel": "norm", "max_tokens": 256, "block_n": 512, "measured": None},
]


def group_of(*lines: Line, tokens: int = 512) -> Group:
    return Group(file=lines[0]["kernel"].split(".")[0], tokens=tokens, lines=lines)


def never() -> float:
    return 1.0


# --- groups and steps ---


def test_lines_of_one_file_for_the_same_tokens_are_one_group() -> None:
    groups = find_groups(LINES, "", 16384)
    assert [group.name for group in groups] == ["moe_int4, 512 tokens", "moe_int4, 16384 tokens", "norm, 256 tokens"]
    assert [line["kernel"] for line in groups[0].lines] == ["moe_int4.gate_up", "moe_int4.down"]


def test_only_chooses_groups_with_such_a_kernel() -> None:
    assert [group.tokens for group in find_groups(LINES, "moe_int4.down", 16384)] == [512]
    assert find_groups(LINES, "moe_dense", 16384) == []


def test_tokens_choose_the_lines_that_kernels_take_for_them() -> None:
    def names(tokens: int) -> list[tuple[str, int, int]]:
        return [(group.file, group.tokens, len(group.lines)) for group in find_groups(LINES, "moe", 16384, tokens)]

    assert names(64) == [("moe_int4", 64, 2)]
    assert names(4096) == [("moe_int4", 4096, 1)]


def test_steps_change_one_number_and_rows_in_all_lines() -> None:
    found = list(list_neighbours(LINES[1:3]))
    changes = [[(line["block_m"], line["block_n"], line["num_warps"]) for line in lines] for lines in found]
    assert [[m for m, _, _ in lines] for lines in changes if lines[0][0] != 16] == [[32, 32]]
    assert [(16, 32, 4), (16, 128, 4)] in changes
    assert [(16, 64, 8), (16, 128, 4)] in changes
    assert [(16, 64, 4), (16, 256, 4)] in changes
    assert len(changes) == 1 + 4 + 4


def test_only_keeps_other_kernels_but_for_shared_rows() -> None:
    found = list(list_neighbours(LINES[1:3], only="moe_int4.down"))
    assert all(lines[0] == LINES[1] or lines[0]["block_m"] == 32 for lines in found)
    assert len(found) == 1 + 4


def test_wide_blocks_without_a_matmul_may_grow() -> None:
    assert [lines[0]["block_n"] for lines in list_neighbours(LINES[3:])] == [256, 1024]


def test_rows_of_other_files_are_not_shared() -> None:
    lines = [{"kernel": "vision_attention", "max_tokens": None, "block_m": 128}, {**LINES[3], "block_m": 16}]
    assert [[line["block_m"] for line in some] for some in list_neighbours(lines)][:2] == [[64, 16], [256, 16]]


# --- search ---


def us_of(lines: Sequence[Line]) -> float:
    """Best at rows of 32, with 128 and 32 columns."""
    wanted = {"moe_int4.gate_up": 128, "moe_int4.down": 32}
    off = sum(abs(line["block_n"] / wanted[line["kernel"]] - 1) for line in lines)
    return 100.0 + 10 * off + abs(lines[0]["block_m"] - 32)


def test_the_search_finds_the_quickest_tiles() -> None:
    found = search(group_of(*LINES[1:3]), lambda lines: None, us_of, never)
    assert [(line["block_m"], line["block_n"]) for line in found.lines] == [(32, 128), (32, 32)]
    assert (found.us, found.before_us) == (100.0, us_of(LINES[1:3]))


def test_what_the_compiler_refuses_is_not_run() -> None:
    def judge(lines: Sequence[Line]) -> str | None:
        return "spills" if lines[0]["block_n"] > 64 else None

    def timer(lines: Sequence[Line]) -> float:
        assert lines[0]["block_n"] <= 64
        return us_of(lines)

    told: list[str] = []
    found = search(group_of(*LINES[1:3]), judge, timer, never, emit=told.append)
    assert [(line["block_m"], line["block_n"]) for line in found.lines] == [(32, 64), (32, 32)]
    assert any("moe_int4.gate_up block_n 64 -> 128: not tried, spills" in text for text in told)


def test_what_fails_is_told_and_left() -> None:
    def timer(lines: Sequence[Line]) -> float:
        if lines[0]["block_m"] == 32:
            raise measurement.WrongResultError("0.3 from float64")
        return us_of(lines)

    told: list[str] = []
    found = search(group_of(*LINES[1:3]), lambda lines: None, timer, never, emit=told.append)
    assert found.lines[0]["block_m"] == 16
    assert any("WrongResultError: 0.3 from float64" in text for text in told)


def test_noise_changes_nothing() -> None:
    found = search(group_of(LINES[3]), lambda lines: None, lambda lines: 100 - lines[0]["block_n"] / 1e5, never)
    assert found.lines == (LINES[3],)
    assert found.num_timed == 3


def test_the_search_ends_with_its_time() -> None:
    left = iter([1.0, 1.0, 0.0])
    found = search(group_of(*LINES[1:3]), lambda lines: None, us_of, lambda: next(left))
    assert found.num_timed == 3


def test_no_tiles_are_timed_twice() -> None:
    seen: list[str] = []

    def timer(lines: Sequence[Line]) -> float:
        seen.append(json.dumps(lines))
        return us_of(lines)

    search(group_of(*LINES[1:3]), lambda lines: None, timer, never)
    assert len(seen) == len(set(seen))


def test_marks_are_for_what_was_searched_or_changed() -> None:
    group = replace(group_of(*LINES[1:3]), size={"tokens": 512})
    now = ({**LINES[1], "block_n": 128}, LINES[2])
    lines = mark(group, Found(lines=now, before_us=2.0, us=1.004, num_timed=9), {"machine": "H"}, "moe_int4.gate")
    assert [line["kernel"] for line in lines] == ["moe_int4.gate_up"]
    assert lines[0]["measured"] == {"machine": "H", "size": {"tokens": 512}, "us": 1.0, "before_us": 2.0}
    both = Found(lines=tuple({**line, "block_m": 32} for line in group.lines), before_us=2.0, us=1.0, num_timed=9)
    assert len(mark(group, both, {}, "moe_int4.gate")) == 2


# --- the table ---


@pytest.fixture
def own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tiles.json"
    path.write_text(table.as_text(LINES))
    monkeypatch.setattr(tiles, "TABLE", path)
    tiles.lines_of.cache_clear()
    return path


@pytest.fixture(autouse=True)
def _fresh_lines() -> Any:
    yield
    tiles.lines_of.cache_clear()


def test_the_shipped_table_is_written_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tiles.json"
    shutil.copy(tiles.TABLE, path)
    lines = table.read_lines(path)
    table.write_lines(path, lines[:1])
    assert table.read_lines(path) == lines
    assert tiles.read_table(path) == tiles.read_table(tiles.TABLE)
    assert len(path.read_text().splitlines()) == len(lines) + 2


def test_writing_changes_only_its_lines(own_table: Path) -> None:
    table.write_lines(own_table, [{**LINES[2], "block_n": 32, "measured": {"us": 1.0}}])
    found = table.read_lines(own_table)
    assert found[2]["block_n"] == 32
    assert [*found[:2], found[3]] == [*LINES[:2], LINES[3]]
    assert list(own_table.parent.iterdir()) == [own_table]


def test_a_broken_table_is_not_written(own_table: Path) -> None:
    own_table.write_text("[")
    with pytest.raises(ConfigError, match="not a table of tiles"):
        table.write_lines(own_table, [])
    assert own_table.read_text() == "["


def test_kernels_find_lines_that_are_tried(own_table: Path) -> None:
    assert tiles.find_tile("norm", 1).block_n == 512
    with table.use_lines([{**LINES[3], "block_n": 64}]):
        assert tiles.find_tile("norm", 1).block_n == 64
        assert tiles.find_tile("moe_int4.down", 512).block_n == 128
    assert tiles.find_tile("norm", 1).block_n == 512
    assert own_table == tiles.TABLE


def test_lines_that_are_taken_are_known(own_table: Path) -> None:
    with table.watch_lines() as taken:
        tiles.find_tile("moe_int4.gate_up", 513)
    assert taken == {("moe_int4.gate_up", None)}


# --- a real kernel in the interpreter ---


@pytest.fixture
def bench() -> Bench:
    return Bench(
        device=CpuDevice(),
        sizes=toy_sizes(torch.float32),
        reference=find_ops("cpu", "torch"),
        candidates=find_candidates(torch.device("cpu"), with_interpreter=True),
        peaks=None,
        seconds_left=lambda: 1.0,
        row_seconds=0.0,
    )


def test_a_try_times_the_launches_of_its_file(bench: Bench) -> None:
    case = norm.make_case(bench, "rms_norm", 64, 3)
    one = measurement.Measurement("norm", case, bench)
    group = group_of(*[line for line in table.read_lines(tiles.TABLE) if line["kernel"] == "norm"])
    group = measurement.keep_used(group, one)
    assert [line["max_tokens"] for line in group.lines] == [256]
    assert group.size == {"tokens": 3}
    assert one(group.lines) > 0
    with pytest.raises(ConfigError, match="nothing of router is started here"):
        measurement.Measurement("router", case, bench)(group.lines)
    with pytest.raises(ConfigError, match="no line of router, 512 tokens is taken here"):
        measurement.keep_used(Group(file="router", tokens=512, lines=({**LINES[3], "kernel": "router"},)), one)


def test_a_wrong_result_is_not_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one = measurement.Measurement("norm", norm.make_case(bench, "rms_norm", 64, 3), bench)
    monkeypatch.setattr(measurement, "MAX_ERROR", 0.0)
    with pytest.raises(measurement.WrongResultError, match="from float64"):
        one([])


def test_only_what_differs_from_the_shipped_is_compiled() -> None:
    asked: list[str] = []

    def find_fault(case: Any) -> str | None:
        asked.append(case.name)
        return "too slow"

    judge = measurement.make_judge("moe_int4", find_fault)
    lines = [line for line in table.read_lines(tiles.TABLE) if line["kernel"] == "moe_int4.down"]
    assert judge(lines) is None
    changed = [{**lines[0], "num_warps": lines[0]["num_warps"] * 2}]
    assert "too slow" in str(judge(changed))
    assert judge(changed) == judge(changed)
    assert len(asked) == 1


# --- the command ---


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    before = tiles.TABLE.read_bytes()
    assert tune.main([]) == 2
    assert "torch finds no GPU here. Nothing was measured" in capsys.readouterr().err
    assert tiles.TABLE.read_bytes() == before


def test_groups_are_written_one_by_one_and_a_broken_one_is_left(
    own_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares: list[float] = []

    def run(group: Group, share: float) -> tuple[Group, Found]:
        shares.append(share)
        if group.file == "norm":
            raise RuntimeError("out of memory")
        lines = tuple({**line, "num_warps": 8} for line in group.lines)
        return group, Found(lines=lines, before_us=3.0, us=2.0, num_timed=5)

    assert tune.tune(find_groups(LINES, "", 16384), run, {"machine": "Fake"}) == 2
    assert shares == [1 / 3, 1 / 2, 1.0]
    found = table.read_lines(own_table)
    assert [line.get("num_warps") for line in found] == [8, 8, 8, None]
    assert found[0]["measured"]["machine"] == "Fake"
    assert found[3] == LINES[3]
    assert "norm, 256 tokens: left as it is: RuntimeError: out of memory" in capsys.readouterr().out


def test_every_file_of_the_table_has_a_case(bench: Bench) -> None:
    workloads = tune.Workloads(bench)
    for group in find_groups(table.read_lines(tiles.TABLE), "", tune.MOST_TOKENS):
        assert workloads(group).peers[0].name == "ours"
    with pytest.raises(ConfigError, match="no case for kernels of other"):
        workloads(Group(file="other", tokens=1, lines=()))
