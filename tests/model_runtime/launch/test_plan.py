"""Arithmetic against numbers that were worked out elsewhere: the release's sizes and the floors on H200."""

import json
from dataclasses import replace

import pytest

from model_runtime.config import K25Config, TextConfig, VisionConfig
from model_runtime.errors import RuntimeFault
from model_runtime.launch.plan import (
    GIB,
    Gpu,
    Layout,
    PlanRequest,
    columns,
    find_gpu,
    find_layouts,
    find_num_nodes,
    make_floor,
    make_plan,
    place,
    plan_json,
    show_plan,
    stage_bytes,
    stage_layers,
)
from model_runtime.launch.sizes import (
    RELEASE,
    cache_bytes_per_token,
    count_bytes,
    count_parameters,
    distinct_experts,
    step_bytes,
)

H200 = PlanRequest()
H100 = PlanRequest(gpu=find_gpu("H100"))


def test_parameters_of_the_release() -> None:
    count = count_parameters(RELEASE)
    assert round(count.language_model / 1e12, 3) == 1.026
    assert round(count.vision / 1e9, 2) == 0.47
    active = count.total - count.routed_experts * 376 // 384 - count.embedding - count.vision
    assert round(active / 1e9, 1) == 31.7
    # by tensors of the release, in another way: shapes of one MoE layer and of one attention block
    text = RELEASE.text
    attention = 1536 * 7168 + 12288 * 1536 + 576 * 7168 + 16384 * 512 + 7168 * 8192
    assert count.attention == 61 * attention
    assert count.routed_experts == 60 * 384 * (2 * 2048 * 7168 + 7168 * 2048)
    assert count.norms == 61 * (2 * 7168 + 1536 + 512) + 7168
    assert count.router == 60 * (384 * 7168 + 384)
    assert count.dense_layers == 3 * 18432 * 7168
    assert text.num_hidden_layers == 61


def test_parameters_of_the_vision_tower_by_its_tensors() -> None:
    block = (
        2 * (1152 + 1152) + (3456 * 1152 + 3456) + (1152 * 1152 + 1152) + (4304 * 1152 + 4304) + (1152 * 4304 + 1152)
    )
    tower = 1152 * 3 * 14 * 14 + 1152 + 64 * 64 * 1152 + 27 * block + 2 * 1152
    projector = 2 * 1152 + 4608 * 4608 + 4608 + 7168 * 4608 + 7168
    assert count_parameters(RELEASE).vision == tower + projector


def test_bytes_of_the_release() -> None:
    stored = count_bytes(RELEASE)
    assert round(stored.total / GIB) == 554
    assert round(stored.total / 1e9) == 595
    assert round(stored.routed_experts / GIB, 1) == 531.6
    assert round((stored.total - stored.routed_experts - stored.vision) / GIB, 1) == 21.8
    assert stored.routed_experts / (60 * 384) / 2**20 == pytest.approx(23.6, abs=0.05)
    assert count_bytes(replace(RELEASE, quantization=None)).total == pytest.approx(
        2 * count_parameters(RELEASE).total, rel=1e-6
    )


def test_cache_of_the_release() -> None:
    assert cache_bytes_per_token(RELEASE.text) == 70_272
    assert round(262_144 * 70_272 / GIB, 1) == 17.2


@pytest.mark.parametrize(("tokens", "experts"), [(1, 8.0), (8, 59.5), (64, 284.2), (512, 384.0)])
def test_distinct_experts_of_a_layer(tokens: int, experts: float) -> None:
    assert distinct_experts(RELEASE.text, tokens) == pytest.approx(experts, abs=0.05)


@pytest.mark.parametrize(
    ("batch", "read_gb", "step_ms", "tokens_s"),
    [(1, 33.0, 1.40, 713), (4, 67, 2.40, 1669), (16, 184, 5.8, 2758), (64, 444, 13.3, 4799)],
)
def test_floors_of_the_whole_model_on_eight_h200(batch: int, read_gb: float, step_ms: float, tokens_s: float) -> None:
    floor = make_floor(H200, Layout(tp=8), batch)
    assert floor.read_gb == pytest.approx(read_gb, rel=0.003)
    assert floor.step_ms == pytest.approx(step_ms, rel=0.008)
    assert floor.tokens_s == pytest.approx(tokens_s, rel=0.001)
    assert floor.published_ms == {1: 9.0, 4: 10.97, 16: 21.4, 64: 60.0}[batch]


def test_a_floor_reads_whole_what_each_rank_holds() -> None:
    inner = 61 * 7168 * (1536 + 576) * 2  # q_a and kv_a, held by each
    router = 60 * (384 * 7168 * 2 + 384 * 4)
    norms = 2 * (61 * (2 * 7168 + 1536 + 512) + 7168)
    read = step_bytes(RELEASE, 1)
    assert read.held_weights == inner + router + norms
    eighth = (read.weights - read.held_weights) / 8
    floor = make_floor(H200, Layout(tp=8), 1)
    assert floor.step_ms == pytest.approx((eighth + inner + router + norms) / (H200.gpu.copy_tb_s * 1e9))


@pytest.mark.parametrize("layout", [Layout(tp=8), Layout(tp=2, dp=4), Layout(dp=8), Layout(tp=4)])
def test_a_step_that_reaches_all_experts_reads_what_a_rank_holds(layout: Layout) -> None:
    stored = count_bytes(RELEASE)
    read_bytes = make_floor(H200, layout, 100_000).step_ms * H200.gpu.copy_tb_s * 1e9
    unread = stored.embedding / layout.tp + stored.vision
    assert read_bytes == pytest.approx(sum(stage_bytes(RELEASE, layout, 0)) - unread, rel=1e-6)


def test_what_one_token_reads_by_kind() -> None:
    stored, read = count_bytes(RELEASE), step_bytes(RELEASE, 1)
    gb = [stored.attention, stored.shared_experts, stored.head, stored.dense_layers, stored.router]
    assert [round(size / 1e9, 1) for size in gb] == [12.3, 5.3, 2.3, 0.8, 0.3]
    assert round(read.routed_experts / 1e9, 1) == 11.9
    assert step_bytes(RELEASE, 3, 1000).cache == 3 * 1000 * 70_272


@pytest.mark.parametrize(("context", "all_layers_ms"), [(4096, 0.07), (32_768, 0.54), (262_144, 4.28)])
def test_the_cache_is_read_whole_by_each_tensor_parallel_rank(context: int, all_layers_ms: float) -> None:
    floor = make_floor(replace(H200, context_len=context), Layout(tp=8), 1)
    assert floor.step_with_cache_ms - floor.step_ms == pytest.approx(all_layers_ms, abs=0.006)


def test_layers_and_weights_over_pipeline_stages_add_up() -> None:
    assert [len(stage_layers(61, 4, stage)) for stage in range(4)] == [16, 15, 15, 15]
    assert [layer for stage in range(4) for layer in stage_layers(61, 4, stage)] == list(range(61))
    whole = count_bytes(RELEASE).total
    for pp in (1, 3, 61):
        spread = sum(sum(stage_bytes(RELEASE, Layout(pp=pp), stage)) for stage in range(pp))
        assert spread == pytest.approx(whole, rel=1e-6)
    eight = 8 * sum(stage_bytes(RELEASE, Layout(tp=8), 0))
    stored = count_bytes(RELEASE)
    copies = 7 * (stored.vision + stored.router + stored.norms + 61 * 2 * 7168 * (1536 + 576))
    assert eight == pytest.approx(whole + copies, rel=1e-6)


def test_what_fits_on_eight_h200() -> None:
    plan = make_plan(H200)
    names = [placement.layout.name for placement in plan.fitting]
    assert names == ["TP8", "TP4 DP2 EP8", "TP4 PP2", "TP2 DP4 EP8", "TP2 PP4", "DP8 EP8", "PP8"]
    best = plan.fitting[0]
    assert best.max_context == 262_144
    assert best.cache_tokens == int(best.free_gib * GIB // 70_272)
    # half the layers on a GPU: twice the tokens in about the same room
    two_stages = place(H200, Layout(tp=4, pp=2))
    assert two_stages.cache_tokens == pytest.approx(2 * best.cache_tokens, rel=0.05)
    # data parallel: each rank has a cache of its own
    assert dict(place(H200, Layout(tp=4, dp=2)).sequences)[262_144] == 4
    assert plan.advice == ()


def test_what_does_not_fit_is_told_with_what_would() -> None:
    plan = make_plan(H100)
    assert plan.fitting == ()
    assert plan.advice[0].startswith("8 x H100 (79.1 GiB): too small by")
    assert plan.advice[1:3] == ("it fits on 2 nodes of 8 x H100 each", "it fits on one node of 8 x H200")
    assert "KTransformers" in plan.advice[3]
    assert find_num_nodes(H100) == 2
    assert make_plan(replace(H100, num_nodes=2)).fitting[0].layout == Layout(tp=16)
    assert "Nothing fits with 32,768 tokens of context" in show_plan(plan)


def test_a_context_that_is_too_long_is_told() -> None:
    small = replace(H200, gpu=replace(H200.gpu, memory_gib=95.0), context_len=262_144)
    fitting = make_plan(small).fitting
    assert Layout(tp=8) not in [placement.layout for placement in fitting]
    assert fitting[0].layout == Layout(tp=4, pp=2)  # half the layers, half the cache on each GPU
    tight = make_plan(replace(small, gpu=replace(H200.gpu, memory_gib=86.0)))
    assert tight.fitting == ()
    assert "tokens of context fit" in tight.advice[0]
    assert "not 262,144" in tight.advice[0]


def test_layouts_use_all_gpus_and_keep_to_what_divides() -> None:
    for request in (H200, replace(H100, num_nodes=3), PlanRequest(gpu=find_gpu("MI300X"), num_nodes=2)):
        layouts = list(find_layouts(request))
        assert len(set(layouts)) == len(layouts)
        for layout in layouts:
            assert layout.tp * layout.pp * layout.dp * layout.replicas == request.num_gpus
            assert 64 % layout.tp == 0
            assert layout.tp <= request.gpu.max_tp
    assert max(layout.tp for layout in find_layouts(PlanRequest(gpu=find_gpu("MI300X")))) == 4


def test_names_and_flags_of_layouts() -> None:
    assert (Layout(tp=8).name, Layout(tp=8).flags) == ("TP8", "--tp 8")
    assert (Layout(tp=4, dp=2).name, Layout(tp=4, dp=2).flags) == ("TP4 DP2 EP8", "--tp 4 --dp 2 --ep")
    assert (Layout(tp=8, pp=2, replicas=2).name, Layout().name) == ("2 x TP8 PP2", "one GPU")


def test_a_tiny_model_fits_anywhere() -> None:
    text = TextConfig(vocab_size=1280, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, n_routed_experts=8)
    config = K25Config(text=text, vision=VisionConfig(num_hidden_layers=2, hidden_size=64), dtype="float32")
    plan = make_plan(PlanRequest(gpu=find_gpu("RTX 4090"), gpus_per_node=1, config=config))
    assert [placement.layout for placement in plan.fitting] == [Layout()]
    assert plan.fitting[0].floors[0].published_ms is None


def test_gpus_by_name() -> None:
    assert find_gpu("h-200") == Gpu(name="H200", memory_gib=139.8, bandwidth_tb_s=4.8)
    assert find_gpu("h200").copy_tb_s == pytest.approx(4.3)
    assert find_gpu("H100", memory_gib=94).memory_gib == 94
    assert find_gpu("X1", memory_gib=200, bandwidth_tb_s=6) == Gpu(name="X1", memory_gib=200, bandwidth_tb_s=6)
    for name, memory in (("H2000", None), ("X1", 200.0)):
        with pytest.raises(RuntimeFault, match="no GPU"):
            find_gpu(name, memory_gib=memory)
    with pytest.raises(RuntimeFault, match="memory is -1"):
        find_gpu("H200", memory_gib=-1)


@pytest.mark.parametrize("request_", [replace(H200, gpus_per_node=0), replace(H200, context_len=300_000)])
def test_requests_that_make_no_sense_are_refused(request_: PlanRequest) -> None:
    with pytest.raises(RuntimeFault, match="expected"):
        make_plan(request_)


def test_a_plan_is_a_table_and_json() -> None:
    plan = make_plan(H200)
    text = show_plan(plan)
    assert "routed experts  1,014.69 B  570.8  531.6" in text
    assert "70,272 B a token (bf16), 17.2 GiB for 262,144 tokens" in text
    assert "10.97 ms (vLLM 0.21)" in text
    assert max(map(len, text.splitlines())) <= 120
    value = json.loads(plan_json(plan))
    assert (value["fits"], value["cache_bytes_per_token"]) == (True, 70_272)
    assert value["placements"][0]["name"] == "TP8"
    assert value["placements"][0]["layout"] == {"tp": 8, "pp": 1, "dp": 1, "replicas": 1}


def test_columns_are_aligned() -> None:
    assert columns(("a", "number", "note"), [("long one", "3", "x"), ("b", "12", "")]) == [
        "a         number  note",
        "long one       3  x",
        "b             12",
    ]
