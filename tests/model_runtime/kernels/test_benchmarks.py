"""The benchmark of the kernels: its logic with fake clocks and devices."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.kernels import __main__ as command
from benchmarks.kernels import candidates, exact, moe_peers, roofline
from benchmarks.kernels.bench import Bench, LostDeviceError, run_case, run_cases
from benchmarks.kernels.candidates import Candidates, find_candidates
from benchmarks.kernels.case import OURS, Case, Inputs, Peer
from benchmarks.kernels.cost.hardware import Hardware, Work
from benchmarks.kernels.cost.moe import combine_work, dispatch_work, routed_work, router_work
from benchmarks.kernels.cost.vision import attention_work
from benchmarks.kernels.device import Call, CpuDevice, CudaDevice
from benchmarks.kernels.moe_weights import Weights
from benchmarks.kernels.roofline import measure_peaks
from benchmarks.kernels.sizes import Sizes, toy_sizes
from benchmarks.kernels.timing import count_copies, is_cold, measure
from model_runtime.errors import ConfigError
from model_runtime.ops.registry import DenseExperts, find_ops


class FakeDevice(CpuDevice):
    """A GPU whose calls take as long as they say; host time goes to calls that are not recorded."""

    is_gpu = True
    l2_bytes = 1000
    host_s = 1.0

    def __init__(self, free: int | None = None) -> None:
        super().__init__(lambda: self.now)
        self.now, self.free, self.is_lost = 0.0, free, False

    def name(self) -> str:
        return "Fake H200"

    def free_bytes(self) -> int | None:
        return self.free

    def spend(self, seconds: float) -> Callable[..., float]:
        def call(*_: Any) -> float:
            self.now += seconds
            return seconds

        return call

    def wait(self) -> None:
        if self.is_lost:
            raise RuntimeError("an illegal memory access was encountered")


def make_bench(device: FakeDevice | None = None, **more: Any) -> Bench:
    values: dict[str, Any] = {
        "device": device or FakeDevice(),
        "sizes": toy_sizes(),
        "reference": find_ops("cpu", "torch"),
        "candidates": Candidates(None),
        "peaks": Hardware(copy_tb_s=4.0, matmul_tflop_s=800.0),
        "seconds_left": lambda: 1.0,
        "row_seconds": 0.01,
    }
    return Bench(**{**values, **more})


def make_case(*some: Peer, **more: Any) -> Case:
    def setup() -> Inputs:
        return Inputs(copies=[(1,), (2,)], work=Work(bytes=4e6, flops=8e8), error=lambda call: 0.25)

    values: dict[str, Any] = {"kernel": "k", "variant": "v", "size": {"tokens": 8}, "peers": some, "setup": setup}
    return Case(**{**values, **more})


# --- timing ---


def test_the_median_of_one_call_counts() -> None:
    device = FakeDevice()
    times = iter([1e-3] * 4 + [2e-3] + [2e-3, 3e-3, 4e-3] * 50)

    def call() -> None:
        device.now += next(times)

    timing = measure(device, [call], seconds=0.02)
    assert timing.us == pytest.approx(3e3)
    assert timing.num_samples == 10, "20 ms over a pass of 2 ms"
    assert timing.is_recorded


def test_short_calls_are_repeated_within_a_pass_and_rotated() -> None:
    device, seen = FakeDevice(), []

    def make(index: int) -> Call:
        def call() -> None:
            device.now += 1e-6
            seen.append(index)

        return call

    timing = measure(device, [make(index) for index in range(4)], seconds=1e-3)
    assert timing.us == pytest.approx(1.0)
    assert len(seen) > 4 * 64, "a pass of four microseconds cannot be timed"
    assert seen[-8:] == [0, 1, 2, 3] * 2


def test_a_call_slower_than_all_repetitions_is_timed_once() -> None:
    device = FakeDevice()
    slow, never = device.spend(10.0), pytest.fail
    timing = measure(device, [slow, lambda: never("a copy too many")], seconds=0.3)
    assert timing.us == pytest.approx(10e6)
    assert (timing.num_samples, timing.is_recorded) == (1, False)
    assert device.now == pytest.approx(20.0), "once to warm up, once by the clock"


def test_what_cannot_be_recorded_is_called() -> None:
    device = FakeDevice()
    device.record = lambda calls: pytest.fail("recorded")  # type: ignore[method-assign]
    assert not measure(device, [device.spend(1e-3)], seconds=0.01, is_recorded=False).is_recorded

    def refuse(calls: Sequence[Call]) -> Call:
        raise RuntimeError("operation not permitted when stream is capturing")

    device.record = refuse  # type: ignore[method-assign]
    timing = measure(device, [device.spend(1e-3)], seconds=0.01)
    assert (timing.is_recorded, timing.us) == (False, pytest.approx(1e3))


@pytest.mark.parametrize(("call_bytes", "copies"), [(4e6, 1), (1e6, 4), (999_999, 5), (1, 256)])
def test_copies_exceed_the_cache(call_bytes: float, copies: int) -> None:
    assert count_copies(call_bytes, 10**6) == copies
    assert is_cold(call_bytes, 10**6) == (copies < 256)


def test_a_device_without_a_cache_gets_one_copy() -> None:
    assert count_copies(100, 0) == 1
    assert is_cold(100, 0)


def test_ceilings_are_speeds() -> None:
    found = measure_peaks(CpuDevice(), seconds=0.0, copy_bytes=1 << 16, size=32)
    assert 0 < found.copy_tb_s < 10
    assert 0 < found.matmul_tflop_s < 100


@pytest.mark.gpu
def test_a_gpu_records_what_can_be_recorded() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    device = CudaDevice()
    x = torch.ones(512, 512, device="cuda")
    assert measure(device, [lambda: x @ x], seconds=0.01).is_recorded
    assert not measure(device, [lambda: x.sum().item()], seconds=0.01).is_recorded
    timing = measure(device, [lambda: x @ x], seconds=0.01)
    assert timing.is_recorded
    assert 0 < timing.us < 1e4
    assert device.free_bytes()
    assert device.l2_bytes > 1e6


# --- floors ---


def test_floors_of_the_release() -> None:
    sizes = Sizes()
    screenshot = sizes.images["1 screenshot"]
    assert attention_work(sizes.vision, screenshot).flops * 27 == pytest.approx(14.4e12, rel=5e-3)
    assert router_work(sizes.text, 1).bytes == pytest.approx(384 * 7168 * 2, rel=5e-3)
    assert roofline.rms_norm(4096, 7168).bytes == pytest.approx(4096 * 7168 * 4, rel=1e-3)
    assert roofline.write_latent(sizes.text, 4096).bytes == pytest.approx(4096 * (2 * 1152 + 264), rel=1e-3)
    chunks = sizes.images["64 chunks"]
    assert roofline.merge_patches(sizes.vision, chunks).bytes == pytest.approx(64 * 5 * 1024 * 1152 * 2, rel=1e-3)


@pytest.mark.parametrize("variant", ["int4", "bf16"])
def test_both_halves_are_the_routed_experts(variant: str) -> None:
    sizes = Sizes()
    whole = routed_work(sizes.config, 16384, variant)
    halves = [roofline.expert_half(sizes.config, 16384, variant, half) for half in ("gate_up", "down")]
    assert sum(half.flops for half in halves) == pytest.approx(whole.flops)
    assert halves[0].flops == 2 * halves[1].flops
    between = 8 * 16384 * (2 * 2048 + 7168) * 2 - 16384 * 7168 * 2  # what goes through memory instead of the sums
    assert sum(half.bytes for half in halves) == pytest.approx(whole.bytes + between, rel=1e-6)


def test_floors_around_the_experts() -> None:
    config, text = Sizes().config, Sizes().text
    assert dispatch_work(text, 16384).bytes == pytest.approx(16384 * 8 * 12, rel=1e-3)
    assert combine_work(text, 16384).bytes == pytest.approx(16384 * 9 * 7168 * 2, rel=1e-2)
    assert roofline.repack(config, 384).bytes == pytest.approx(2 * 9.5e9, rel=5e-3)
    assert roofline.shared_expert(text, 1).bytes == pytest.approx(88e6, rel=5e-3)
    assert roofline.shared_expert(text, 1).flops == 2 * 3 * 7168 * 2048


def test_the_release_is_measured_at_the_sizes_that_were_promised() -> None:
    sizes = Sizes()
    assert sizes.tokens == (1, 8, 64, 512, 4096, 16384)
    assert (sizes.contexts[0], sizes.contexts[-1], sizes.batches) == (1024, 262144, (1, 32))
    assert sizes.images["1 screenshot"] == [(1, 78, 138)]
    assert len(sizes.images["64 chunks"]) == 64
    assert (sizes.text.n_routed_experts, sizes.group, sizes.dtype) == (384, 32, torch.bfloat16)


def test_weights_are_made_again_only_where_they_were_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    weights = Weights(make_bench())
    for name in ("_make_dense", "make_int4"):
        make = getattr(weights, name)
        monkeypatch.setattr(weights, name, lambda *count, name=name, make=make: made.append(name) or make(*count))
    assert weights.get("bf16") is weights.get("bf16", lambda experts: experts) is weights.get("bf16")
    assert made == ["_make_dense"]
    repacked = weights.get("int4", lambda experts: "repacked")
    assert weights.get("int4", lambda experts: "never asked") is repacked
    assert made == ["_make_dense", "make_int4"]
    loaded = weights.get("int4")
    assert weights.get("int4", lambda experts: (experts, "repacked")) == (loaded, "repacked")
    assert made == ["_make_dense", "make_int4", "make_int4"]
    weights.drop()
    assert not weights.is_made


# --- running cases ---


def test_a_row_has_all_figures() -> None:
    device = FakeDevice()
    case = make_case(Peer(name=OURS, make=lambda: device.spend(2e-6), note="quick"))
    [row] = run_case(case, make_bench(device))
    assert row.us == pytest.approx(2.0)
    assert row.gb_s == pytest.approx(2000)
    assert row.tflop_s is None
    assert row.floor_share == pytest.approx(0.5)  # both floors are 1 us
    assert (row.error, row.note) == (0.25, "quick")
    [row] = run_case(replace(case, shows_flops=True), make_bench(device))
    assert (row.gb_s, row.tflop_s) == (None, pytest.approx(400))


def test_without_ceilings_nothing_is_called_a_speed() -> None:
    device = FakeDevice()
    [row] = run_case(make_case(Peer(name=OURS, make=lambda: device.spend(1e-6))), make_bench(device, peaks=None))
    assert (row.gb_s, row.tflop_s, row.floor_share) == (None, None, None)


def test_a_peer_that_fails_says_why_and_the_others_go_on() -> None:
    def broken() -> Any:
        raise ImportError("no module named theirs\nin any folder")

    def fails(*_: Any) -> None:
        raise RuntimeError("x" * 500)

    device = FakeDevice()
    some = (
        Peer(name="a", make=broken),
        Peer(name="b", make=lambda: fails),
        Peer(name="c", make=lambda: device.spend(1e-6)),
    )
    first, second, third = run_case(make_case(*some), make_bench(device))
    assert (first.us, first.note) == (None, "ImportError: no module named theirs in any folder")
    assert second.us is None
    assert len(second.note) < 150
    assert third.us is not None


def test_a_result_that_is_not_finite_is_told() -> None:
    device = FakeDevice()

    def setup() -> Inputs:
        return Inputs(copies=[(1,)], work=Work(bytes=1.0), error=lambda call: float("nan"))

    [row] = run_case(make_case(Peer(name="a", make=lambda: device.spend(1e-6)), setup=setup), make_bench(device))
    assert (row.error, row.note, row.is_wrong) == (None, "the result is not finite", True)


def test_a_result_more_exact_than_its_precision_fails_its_row() -> None:
    torch.manual_seed(0)
    wanted = torch.randn(40, dtype=torch.float64)
    for dtype, equal in ((torch.bfloat16, wanted.bfloat16().double()), (torch.float32, wanted.float().double())):
        assert 0 < exact.relative_error(wanted.to(dtype), wanted) < torch.finfo(dtype).eps
        with pytest.raises(exact.EmptyCheckError, match=f"less than rounding to {str(dtype)[6:]} gives"):
            exact.relative_error(equal.to(dtype), equal)
    with pytest.raises(exact.EmptyCheckError):
        exact.relative_error(wanted, wanted + 1e-12, rounded_to=torch.bfloat16)
    assert exact.relative_error(wanted, wanted) == exact.relative_error(torch.arange(4), torch.arange(4)) == 0.0

    def setup() -> Inputs:
        return Inputs(
            copies=[(1,)],
            work=Work(bytes=1.0),
            error=lambda call: exact.relative_error(torch.ones(4).bfloat16(), torch.ones(4)),
        )

    [row] = run_case(make_case(Peer(name="a", make=lambda: lambda *_: None), setup=setup), make_bench())
    assert (row.us, row.is_wrong) == (None, True)
    assert "nothing was compared" in row.note


@pytest.mark.slow
def test_tensors_of_a_case_have_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    make = torch.Generator

    class Recorded:
        def __init__(self, device: Any = "cpu") -> None:
            self.device = device

        def manual_seed(self, seed: int) -> torch.Generator:
            seeds.append(seed)
            return make(self.device).manual_seed(seed)

    monkeypatch.setattr(torch, "Generator", Recorded)
    bench = make_bench()
    num_cases = 0
    for cases in command.FILES.values():
        for case in cases(bench):
            if case.kernel == "repack":  # draws an expert twice, once to know its shapes
                continue
            seeds.clear()
            case.setup()
            assert len(set(seeds)) == len(seeds) >= 1, case
            num_cases += 1
    assert num_cases > 40


def test_committed_errors_are_those_of_rounding() -> None:
    folder = Path(exact.__file__).parent
    for path in sorted(folder.glob("*.json")):
        for row in json.loads(path.read_text())["rows"]:
            dtype = torch.float32 if row["kernel"] == "router" else torch.bfloat16
            assert row["error"] is None or row["error"] >= exact.LEAST_ERRORS[dtype], row
            assert row["error"] is not None or row["note"], row


def test_cases_that_do_not_fit_are_left_out_with_a_reason() -> None:
    peer = Peer(name=OURS, make=lambda: pytest.fail("was run"))

    def no_memory() -> Inputs:
        raise torch.OutOfMemoryError("CUDA out of memory")

    def note(bench: Bench, **more: Any) -> str:
        [row] = run_case(make_case(peer, **more), bench)
        assert (row.peer, row.us) == ("all", None)
        return row.note

    bench = make_bench(FakeDevice(free=2 * 10**9))
    assert note(bench, needs_bytes=3e9) == "left out: needs 3.0 GB, 2.0 GB are free"
    assert note(make_bench(seconds_left=lambda: 0.0)) == "left out: the budget of time is spent"
    assert note(bench, setup=no_memory) == "inputs failed: OutOfMemoryError: CUDA out of memory"


def test_a_lost_device_ends_the_run_after_its_row() -> None:
    device = FakeDevice()

    def breaks(*_: Any) -> None:
        device.is_lost = True

    rows = []
    with pytest.raises(LostDeviceError, match="illegal memory access"):
        for row in run_cases([make_case(Peer(name="a", make=lambda: breaks))] * 2, make_bench(device)):
            rows.append(row)
    assert len(rows) == 1
    assert "illegal memory access" in rows[0].note


def test_notes_say_what_is_not_as_usual() -> None:
    device = FakeDevice()

    def setup() -> Inputs:
        return Inputs(copies=[(1,)], work=Work(bytes=1.0), is_cold=False)

    peer = Peer(name="a", make=lambda: device.spend(1e-6), is_recorded=False)
    [row] = run_case(make_case(peer, setup=setup), make_bench(device))
    assert row.note == "no CUDA graph; inputs in L2"


def test_ours_says_why_it_is_not_there() -> None:
    with pytest.raises(ConfigError, match="--interpreter"):
        find_candidates(torch.device("cpu"), with_interpreter=False)("route")
    with pytest.raises(ConfigError, match="no kernel of this operator"):
        Candidates(find_ops("cpu", "torch"))("no_such_operator")


# --- peers of a folder ---

ADAPTER = """
def make(name, shapes):
    if name == "rms_norm":
        return None
    def run(hidden, weights, ids, own):
        return own, shapes["tokens"]
    run.prepare = lambda experts: experts + 1
    run.graph = False
    return run
"""


def test_adapters_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(ADAPTER)
    (tmp_path / "_shared.py").write_text("raise SystemExit")
    files = candidates.find_files(tmp_path)
    assert [path.name for path in files] == ["theirs.py"]
    function = candidates.with_prepared(candidates.load(files[0], "experts.int4", {"tokens": 3}), 41)
    assert function(0, 0, 0, None) == (42, 3)
    assert function.graph is False  # type: ignore[attr-defined]


def test_an_adapter_with_nothing_for_a_case_has_no_row(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(ADAPTER)
    (tmp_path / "broken.py").write_text("import no_such_module_anywhere")
    some = candidates.file_peers(candidates.find_files(tmp_path), "rms_norm", {})
    [row] = run_case(make_case(*some), make_bench())
    assert row.peer == "broken"
    assert "no_such_module_anywhere" in row.note


def test_a_folder_of_adapters_must_be_there(tmp_path: Path) -> None:
    assert candidates.find_files(None) == ()
    with pytest.raises(ConfigError, match="no such folder"):
        candidates.find_files(tmp_path / "none")


# --- others' MoE layers, and what is exact ---


def test_peers_compute_what_the_operator_means() -> None:
    torch.manual_seed(0)
    hidden, ids = torch.randn(7, 32), torch.stack([torch.randperm(5)[:2] for _ in range(7)])
    weights = torch.rand(7, 2)
    held = DenseExperts(gate_up=torch.randn(5, 32, 32) / 6, down=torch.randn(5, 32, 16) / 4)
    wanted = exact.experts(hidden, weights, ids, lambda index: (held.gate_up[index], held.down[index]))
    found = find_ops("cpu", "torch").experts(hidden, weights, ids, held)
    assert exact.relative_error(found, wanted) < 1e-6
    assert exact.relative_error(moe_peers.grouped_mm(hidden, weights, ids, held), wanted) < 1e-6
    rows = moe_peers.loop(*moe_peers.sort_rows(hidden, weights, ids, held))
    order = ids.flatten().argsort()
    total = torch.zeros(7, 32).index_add_(0, order // 2, rows * weights.flatten()[order].unsqueeze(1))
    assert exact.relative_error(total, wanted) < 1e-6
    x, weight = moe_peers.equal_flops(hidden, weights, ids, held)
    assert 2 * x.shape[0] * weight.shape[0] * weight.shape[1] == 2 * 7 * 2 * 3 * 32 * 16


def test_sampled_rows_have_both_ends() -> None:
    assert exact.sample_rows(1) == [0]
    assert exact.sample_rows(16384) == [0, 5461, 10922, 16383]
