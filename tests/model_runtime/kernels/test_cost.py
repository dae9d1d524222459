"""The cost model: floors are the arithmetic that the documents state, predictions hold to what they say they assume."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.kernels.cost import mla, moe, vision
from benchmarks.kernels.cost.hardware import CONTEXTS, TOKENS, Hardware, Part, Work, grid_of, patches_of, vision_inputs
from benchmarks.kernels.cost.measured import key_of, measured_tables, read_measurements
from benchmarks.kernels.cost.predict import predict, predict_all
from benchmarks.kernels.cost.table import floor_tables, prediction_table
from model_runtime.errors import ConfigError
from model_runtime.kernels import mla_schedule, router, vision_attention
from model_runtime.kernels import moe as moe_kernels
from model_runtime.kernels.moe import make_combine
from model_runtime.launch.sizes import RELEASE, distinct_experts
from model_runtime.ops.registry import CuSeqlens

ROOT = Path(__file__).parents[3]
H200 = Hardware()
TEXT, SIGHT = RELEASE.text, RELEASE.vision


def near(value: float, *, share: float = 0.006) -> Any:
    """Documents have two or three figures."""
    return pytest.approx(value, rel=share)


# Floors


@pytest.mark.parametrize(
    ("tokens", "distinct", "gflop", "bf16_gb", "int4_gb", "bf16_us", "int4_us"),
    [
        (1, 8.0, 0.8, 0.80, 0.29, 186, 68),
        (8, 59.5, 6.4, 5.34, 1.57, 1_241, 365),
        (64, 284.2, 51, 25.1, 7.14, 5_844, 1_659),
        (512, 384, 409, 33.9, 9.62, 7_891, 2_237),
        (4096, 384, 3_270, 34.0, 9.72, 7_915, 4_139),
        (16384, 384, 13_078, 34.4, 10.1, 16_555, 16_555),
    ],
)
def test_a_moe_layer(
    tokens: int, distinct: float, gflop: float, bf16_gb: float, int4_gb: float, bf16_us: int, int4_us: int
) -> None:
    assert distinct_experts(TEXT, tokens) == near(distinct, share=0.001)
    bf16, int4 = (moe.layer_work(RELEASE, tokens, variant) for variant in ("bf16", "int4"))
    assert bf16.flops == int4.flops == near(gflop * 1e9)
    assert (bf16.bytes / 1e9, int4.bytes / 1e9) == (near(bf16_gb), near(int4_gb, share=0.01))
    assert (round(bf16.floor_us(H200)), round(int4.floor_us(H200))) == (bf16_us, int4_us)
    assert int4.bound(H200) == ("matmul" if tokens >= 4096 else "memory")


def test_parts_of_a_moe_layer() -> None:
    assert moe.routed_work(RELEASE, 1, "int4").floor_us(H200) == near(46)
    shared = moe.layer_work(RELEASE, 1, "int4").bytes - moe.routed_work(RELEASE, 1, "int4").bytes
    assert shared / 4.3e6 == near(20.5 + 1.3)  # the shared expert, and the router's weight
    for tokens, us in ((512, 57), (4096, 456), (16384, 1_826)):
        assert moe.unfused_bytes(TEXT, tokens) / 4.3e6 == near(us)


@pytest.mark.parametrize(
    ("block_m", "ratios"),
    [
        (16, (8.9, 1.56, 1.09, 1.02)),
        (32, (18, 3.0, 1.16, 1.05)),
        (64, (36, 6.0, 1.49, 1.10)),
        (128, (71, 12, 1.50, 1.13)),
    ],
)
def test_padded_rows(block_m: int, ratios: tuple[float, ...]) -> None:
    for tokens, ratio in zip((64, 512, 4096, 16384), ratios, strict=True):
        assert moe.padded_rows(TEXT, tokens, block_m) / (8 * tokens) == near(ratio, share=0.015)


def test_padded_rows_are_those_of_real_routings() -> None:
    generator = torch.Generator().manual_seed(1)
    for tokens, block_m in ((64, 16), (512, 16), (4096, 128)):
        ids = torch.rand(tokens, 384, generator=generator).topk(8).indices
        counts = torch.bincount(ids.flatten(), minlength=384)
        drawn = ((counts + block_m - 1) // block_m * block_m).sum().item()
        assert moe.padded_rows(TEXT, tokens, block_m) == near(drawn, share=0.03)


@pytest.mark.parametrize(
    ("context", "cache_mb", "memory_us", "gflop", "matmul_us", "layers_ms"),
    [
        (1, 1.2, 0.27, 0.14, 0.18, 0.02),
        (4, 4.7, 1.1, 0.57, 0.72, 0.07),
        (16, 18.9, 4.4, 2.3, 2.9, 0.27),
        (32, 37.7, 8.8, 4.6, 5.8, 0.54),
        (64, 75.5, 17.6, 9.1, 11.6, 1.07),
        (128, 151, 35.1, 18.3, 23.1, 2.14),
        (256, 302, 70.2, 36.5, 46.2, 4.28),
    ],
)
def test_decode(
    context: int, cache_mb: float, memory_us: float, gflop: float, matmul_us: float, layers_ms: float
) -> None:
    work = mla.cache_work(TEXT, context * 1024)
    assert (work.bytes / 1e6, work.flops / 1e9) == (near(cache_mb, share=0.02), near(gflop, share=0.02))
    assert (work.memory_us(H200), work.matmul_us(H200)) == (near(memory_us, share=0.02), near(matmul_us, share=0.02))
    assert round(61 * work.floor_us(H200) / 1e3, 2) == layers_ms
    assert mla.cache_work(TEXT, context * 1024, 32).floor_us(H200) == pytest.approx(32 * work.floor_us(H200))


def test_projections_and_prefill() -> None:
    assert mla.projections_work(TEXT).floor_us(H200) == near(47)
    for tokens, ms in ((4096, 0.43), (16384, 7.0), (65536, 111)):
        assert mla.prefill_work(TEXT, tokens).floor_us(H200) / 1e3 == near(ms, share=0.015)


@pytest.mark.parametrize(
    ("name", "patches", "tokens", "teraflops", "floors"),
    [
        ("448x448 image", 1_024, 256, (0.84, 0.13, 0.03), (1.3, 1.3, 1.3, 1.4)),
        ("1 screenshot", 10_764, 2_691, (8.9, 14.4, 0.29), (29.8, 31.9, 35.9, 44.0)),
        ("3 screenshots", 32_292, 8_073, (26.6, 43.3, 0.88), (89.5, 95.6, 108, 132)),
        ("16384 patches", 16_384, 4_096, (13.5, 33.4, 0.44), (59.9, 64.6, 74.0, 92.8)),
        ("512 chunks", 2_097_152, 131_072, (1_727, 1_069, 14.2), (3_557, 3_707, 4_008, 4_609)),
    ],
)
def test_vision(name: str, patches: int, tokens: int, teraflops: tuple[float, ...], floors: tuple[float, ...]) -> None:
    grids = vision_inputs(SIGHT)[name]
    assert (patches_of(grids), vision.tokens_of(SIGHT, grids)) == (patches, tokens)
    found = (
        vision.linear_flops(SIGHT, patches),
        vision.attention_flops(SIGHT, grids),
        vision.projector_flops(SIGHT, tokens),
    )
    assert [value / 1e12 for value in found] == [near(value, share=0.08) for value in teraflops]
    heads = (None, 80, 96, 128)
    times = [vision.encoder_work(SIGHT, grids, head).floor_us(H200) / 1e3 for head in heads]
    assert times == [near(value, share=0.003 if value > 20 else 0.04) for value in floors]


def test_a_screenshot_is_padded_to_what_merges() -> None:
    assert grid_of(1920, 1080, SIGHT) == (1, 78, 138)
    assert grid_of(28, 29, SIGHT) == (1, 4, 2)


def test_other_ceilings() -> None:
    work = Work(bytes=4.3e6, flops=790e6)
    assert work.floor_us(H200) == pytest.approx(1.0)
    assert work.floor_us(Hardware(copy_tb_s=2.15)) == pytest.approx(2.0)
    assert work.floor_us(Hardware(matmul_tflop_s=395)) == pytest.approx(2.0)
    assert (work * 3 + work).floor_us(H200) == pytest.approx(4.0)


# Predictions


def test_a_part_waits_for_its_last_wave() -> None:
    work = Work(bytes=4.3e6, flops=79e6)
    assert Part(name="a", work=work).predict_us(H200) == pytest.approx(3 + 1)
    for programs, us in ((132, 1), (66, 2), (133, 264 / 133), (264, 1), (0.5, 264)):
        part = Part(name="a", work=work, programs=programs)
        assert part.predict_us(H200) == pytest.approx(3 + us)
        assert part.predict_us(replace(H200, launch_us=0)) == pytest.approx(us)


def test_a_prediction_is_the_sum_of_its_launches() -> None:
    parts = [Part(name=name, work=Work(bytes=bytes * 4.3e6)) for name, bytes in (("a", 1), ("b", 5), ("a", 2))]
    found = predict(key_of("k", "", {"n": 1}), Work(bytes=4.3e6, flops=2 * 790e6), parts, H200)
    assert (found.floor_us, found.bound) == (pytest.approx(2), "matmul")
    assert (found.predicted_us, found.launches) == (pytest.approx(8 + 9), 3)
    assert found.longest == ("a", pytest.approx(9 / 17))


def test_nothing_is_predicted_below_its_floor() -> None:
    found = list(predict_all(RELEASE, H200))
    assert len({prediction.key for prediction in found}) == len(found) == 6 * 5 + 7 * 2 + 3 + 6
    assert [prediction.key for prediction in found if prediction.predicted_us < prediction.floor_us] == []


def test_cuts_are_those_of_the_kernels() -> None:
    for tokens in TOKENS:
        hidden, weight = (torch.empty(rows, 7168, dtype=torch.bfloat16, device="meta") for rows in (tokens, 384))
        tile = router.find_logits_tile(hidden, weight)
        parts = torch.empty(tile.split_k, tokens, 384, device="meta")
        launch = router.make_logits(hidden, weight, parts, tile)
        logits, select = moe.router_parts(TEXT, tokens)
        assert (logits.programs, select.programs) == (launch.grid[0] * launch.grid[1], tokens)
        ids = torch.empty(tokens, 8, dtype=torch.int64, device="meta")
        *_, combine = moe.expert_parts(RELEASE, tokens, "int4")
        launch = make_combine(torch.empty(8 * tokens, 7168, device="meta"), ids.float(), ids, hidden, 384)
        assert combine.programs == launch.grid[0] * launch.grid[1]
    for name in ("1 screenshot", "64 chunks"):
        grids = vision_inputs(SIGHT)[name]
        qkv = torch.empty(patches_of(grids), 48, 72, dtype=torch.bfloat16, device="meta")
        rotations = torch.empty(len(qkv), 36, dtype=torch.complex64, device="meta")
        bounds = CuSeqlens.of_lengths([patches_of([grid]) for grid in grids])
        launches = [
            vision_attention.make_rotation(qkv, rotations),
            vision_attention.make_attend(qkv, bounds, qkv.new_empty(len(qkv), 16, 72)),
        ]
        for part, launch in zip(vision.attention_parts(SIGHT, grids), launches, strict=True):
            assert part.programs == launch.grid[0] * launch.grid[1]
    assert sum(vision_attention.split_head(72)) == vision.padded_head(SIGHT) == 80


def test_numbers_repeated_here_are_those_of_the_kernels() -> None:
    assert moe.MAX_GEMV_TOKENS == moe_kernels.MAX_GEMV_TOKENS
    schedule = (mla_schedule.GRAIN, mla_schedule.LEAST, mla_schedule.PARTIAL_COST)
    assert schedule == (mla.GRAIN, mla.LEAST_GRAINS, mla.PARTIAL_GRAINS)
    assert H200.multiprocessors == mla_schedule.NUM_PROGRAMS


def test_contexts_are_cut_as_the_schedule_does_it() -> None:
    for batch in (1, 5, 32, 200):
        for context in (*CONTEXTS, 1000):
            items, joins = mla_schedule.cut(mla_schedule.decode_spans([context] * batch), 132)
            pieces = mla.count_pieces(context, batch, 132)
            assert len(items) == batch * pieces
            assert len(joins) == (batch if pieces > 1 else 0)


# Measurements


def measurement(**changes: Any) -> dict[str, Any]:
    row = {"kernel": "moe", "variant": "int4", "size": {"tokens": 64}, "tflop_s": None, "error": 0.004}
    rows = [
        {**row, "peer": "ours", "us": 2000.0, "gb_s": 3500.0, "floor_share": 0.83},
        {**row, "peer": "theirs", "us": 3000.0, "gb_s": 2400.0, "floor_share": 0.55},
        {**row, "peer": "broken", "us": None, "gb_s": None, "floor_share": None, "note": "did not build"},
    ]
    return {
        "machine": "NVIDIA H200",
        "versions": {"torch": "2.11", "triton": "3.6.0"},
        "commit": "abc",
        "command": "python -m benchmarks.kernels",
        "date": "2026-11-22",
        "ceilings": {"copy_gb_s": 4300.0, "matmul_tflop_s": 790.0},
        "rows": rows,
        **changes,
    }


def test_predictions_stand_beside_measurements(tmp_path: Path) -> None:
    (path := tmp_path / "h200.json").write_text(json.dumps(measurement()), "utf-8")
    run = read_measurements(path)
    assert len(run.rows) == 2 and run.ceilings == (4300, 790)
    found = predict(
        key_of("moe", "int4", {"tokens": 64}), Work(bytes=4.3e9), [Part(name="a", work=Work(bytes=4.3e9))], H200
    )
    table = prediction_table([found, replace(found, key=key_of("moe", "int4", {"tokens": 1}))], run)
    first, second = table.splitlines()[2:]
    assert first == "| moe | int4 | tokens 64 | 1,000 | memory | 1,003 | 100 % | 1 | a 100 % | 2,000 | 1.99 |"
    assert second.endswith("| not measured | - |")
    text = measured_tables([run])
    assert text.startswith("NVIDIA H200; torch 2.11, triton 3.6.0; commit abc; 2026-11-22.")
    assert "| moe | int4 | tokens 64 | 2,000 | 3,500 GB/s | 83 % | 4.0e-03 | theirs 3,000 |" in text


def test_without_measurements_it_says_so() -> None:
    assert measured_tables([]) == "not measured"
    assert "measured" not in prediction_table(predict_all(RELEASE, H200))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no measurements"),
        ("[]", "has no measurements"),
        (json.dumps(measurement(rows=[{"us": 1}])), "has no measurements"),
        (
            json.dumps(measurement(machine="toy sizes on a CPU", ceilings={"copy_gb_s": None, "matmul_tflop_s": None})),
            "has no measured ceilings: toy sizes on a CPU",
        ),
    ],
)
def test_what_is_no_measurement_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (path := tmp_path / "x.json").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=message):
        read_measurements(path)


def test_floor_tables_have_the_figures() -> None:
    text = floor_tables(RELEASE, H200)
    assert "| 1 | 8.0 | 1.0 | 0.798 | 0.798 | 0.292 | 186 | 68 | memory | 0.111 |" in text
    assert "| 64k | 75.5 | 17.6 | 9.13 | 11.6 | 1.07 |" in text
    assert "| 1 screenshot | 10,764 | 2,691 | 8.86 | 14.4 | 0.292 | 29.8 |" in text


COMMAND = """
import sys
from benchmarks.kernels.cost.__main__ import main
status = main()
print("loaded", [name for name in ("torch", "triton", "numpy") if name in sys.modules])
sys.exit(status)
"""


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    (path := tmp_path / "h200.json").write_text(json.dumps(measurement()), "utf-8")
    command = [sys.executable, "-c", COMMAND, "--measured", str(path), "--launch-us", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert "loaded []" in done.stdout
    assert "measured / predicted" in done.stdout
