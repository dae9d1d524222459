"""Estimate of GPU layouts that fit a model and their maximum speed, as text or JSON. Nothing is measured or started.

The GPUs are common ones for K2.5; figures are from the manufacturers' data sheets.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from model_runtime.config import K25Config
from model_runtime.errors import RuntimeFault, nearest
from model_runtime.launch.sizes import (
    BF16_BYTES,
    RELEASE,
    attention_parameters,
    cache_bytes_per_token,
    count_bytes,
    count_moe_layers,
    count_parameters,
    expert_parameters,
    expert_weight_bytes,
    step_bytes,
)

MEASURED_SHARE = 4.3 / 4.8
"""Achievable share of the data sheet's bandwidth: a copy on an H200 reaches 4.3 of 4.8 TB/s. Assumed for other GPUs
too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One kind of GPU: memory as reported by its driver, bandwidth from the data sheet.

    `max_tp` is the largest tensor-parallel size at which K2.5's attention runs on it.
    """

    name: str
    memory_gib: float
    bandwidth_tb_s: float
    max_tp: int = 64

    @property
    def copy_tb_s(self) -> float:
        """Achievable bandwidth, used for floors."""
        return self.bandwidth_tb_s * MEASURED_SHARE


GPUS = (
    Gpu(name="H200", memory_gib=139.8, bandwidth_tb_s=4.8),
    Gpu(name="H100", memory_gib=79.1, bandwidth_tb_s=3.35),
    Gpu(name="H20", memory_gib=95.1, bandwidth_tb_s=4.0),
    Gpu(name="B200", memory_gib=178.4, bandwidth_tb_s=8.0),
    Gpu(name="B300", memory_gib=267.7, bandwidth_tb_s=8.0),
    Gpu(name="A100", memory_gib=79.1, bandwidth_tb_s=2.04),
    Gpu(name="MI300X", memory_gib=191.5, bandwidth_tb_s=5.3, max_tp=4),
    Gpu(name="MI325X", memory_gib=255.5, bandwidth_tb_s=6.0, max_tp=4),
    Gpu(name="MI355X", memory_gib=287.5, bandwidth_tb_s=8.0, max_tp=4),
    Gpu(name="L40S", memory_gib=44.4, bandwidth_tb_s=0.864),
    Gpu(name="RTX4090", memory_gib=23.5, bandwidth_tb_s=1.008),
)
"""Known GPUs. AMD: attention kernels need a multiple of 16 of the 64 heads on each GPU, so at most 4 (SGLang's guide
for K2.5).
"""


def find_gpu(name: str, *, memory_gib: float | None = None, bandwidth_tb_s: float | None = None) -> Gpu:
    """Return a GPU by name, optionally with another memory or bandwidth; with both, the name may be unknown.

    Raises:
        RuntimeFault: If it is unknown and one of the two numbers is missing, or a number is not positive.
    """
    for noun, value in (("memory", memory_gib), ("bandwidth", bandwidth_tb_s)):
        if value is not None and value <= 0:
            raise RuntimeFault(f"the GPU's {noun} is {value}, expected a positive number")
    listed = {_key(gpu.name): gpu for gpu in GPUS}
    gpu = listed.get(_key(name))
    if gpu is not None:
        return replace(
            gpu, memory_gib=memory_gib or gpu.memory_gib, bandwidth_tb_s=bandwidth_tb_s or gpu.bandwidth_tb_s
        )
    if memory_gib is not None and bandwidth_tb_s is not None:
        return Gpu(name=name, memory_gib=memory_gib, bandwidth_tb_s=bandwidth_tb_s)
    near = nearest(_key(name), listed)
    hint = f"; did you mean {listed[near].name}?" if near else ""
    known = ", ".join(gpu.name for gpu in GPUS)
    raise RuntimeFault(f"no GPU {name!r} among {known}{hint} Others need --gpu-memory GIB and --bandwidth TB/S")


def _key(name: str) -> str:
    return "".join(character for character in name.upper() if character.isalnum())


GIB = 2**30
BATCHES = (1, 4, 16, 64)  # from one user to the usual load of a server
PUBLISHED_MS = {1: (9.0, "SGLang 0.5.6"), 4: (10.97, "vLLM 0.21"), 16: (21.4, "vLLM 0.21"), 64: (60.0, "vLLM 0.21")}
"""Published milliseconds per step on 8 x H200 with tensor parallel 8; at 64 they include prefill."""
MAX_NODES = 64  # search for the smallest fitting cluster ends here


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Input of a plan.

    Attributes:
        gpu: Kind of all GPUs.
        gpus_per_node: GPUs per node.
        num_nodes: Number of nodes.
        config: Configuration of the model.
        utilization: Share of memory for the engine; 0.9 is vLLM's usual value.
        reserve_gib: Part of it reserved for activations, CUDA graphs and communication. An assumption: it grows with
            `max_num_batched_tokens`.
        context_len: Required tokens per sequence; at most the model's limit.
    """

    gpu: Gpu = field(default_factory=lambda: find_gpu("H200"))
    gpus_per_node: int = 8
    num_nodes: int = 1
    config: K25Config = RELEASE
    utilization: float = 0.9
    reserve_gib: float = 5.0
    context_len: int = 32_768

    @property
    def num_gpus(self) -> int:
        """Total number of GPUs."""
        return self.gpus_per_node * self.num_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Distribution of a model over GPUs. `replicas` are separate servers; data parallel shares the experts."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    replicas: int = 1

    @property
    def name(self) -> str:
        """Name such as `TP8`, `TP8 PP2`, `DP8 EP8`, `2 x TP8`."""
        parts = [f"{kind}{size}" for kind, size in (("TP", self.tp), ("PP", self.pp), ("DP", self.dp)) if size > 1]
        parts += [f"EP{self.tp * self.dp}"] if self.dp > 1 else []
        text = " ".join(parts) or "one GPU"
        return f"{self.replicas} x {text}" if self.replicas > 1 else text

    @property
    def flags(self) -> str:
        """Flags of `cua serve --engine vllm` for one replica."""
        pairs = (("--tp", self.tp, 0), ("--pp", self.pp, 1), ("--dp", self.dp, 1))
        shown = [f"{flag} {size}" for flag, size, usual in pairs if size > usual]
        return " ".join(shown + (["--ep"] if self.dp > 1 else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLowerBound:
    """Lower bound of one replica's decode step, which only reads memory.

    Attributes:
        batch: Sequences in the step.
        read_gb: Weights read by all GPUs together, each counted once.
        step_ms: Time for the weights alone.
        step_with_cache_ms: Time including the cache of sequences at `context_len`.
        tokens_s: Tokens per second at `step_ms`.
        published_ms: Published time for these GPUs and this layout.
        published_by: Engine of the published time.
    """

    batch: int
    read_gb: float
    step_ms: float
    step_with_cache_ms: float
    tokens_s: float
    published_ms: float | None = None
    published_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutEstimate:
    """Evaluation of a layout on the given GPUs.

    Attributes:
        layout: The layout.
        weights_gib: Weights on the fullest GPU.
        free_gib: Memory left there for the cache; negative if the weights do not fit.
        cache_tokens: Total tokens in one replica's caches.
        max_context: Longest sequence it can serve.
        sequences: (context, concurrent sequences over all replicas).
        floors: Steps of one replica.
        fits: True if `context_len` tokens can be served.
    """

    layout: Layout
    weights_gib: float
    free_gib: float
    cache_tokens: int
    max_context: int
    sequences: tuple[tuple[int, int], ...]
    floors: tuple[StepLowerBound, ...]
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """Content of `cua serve --plan`. Fitting `placements` come first, fastest step first."""

    request: PlanRequest
    placements: tuple[LayoutEstimate, ...]
    advice: tuple[str, ...]

    @property
    def fitting(self) -> tuple[LayoutEstimate, ...]:
        """Placements that fit."""
        return tuple(placement for placement in self.placements if placement.fits)


def make_plan(request: PlanRequest) -> DeploymentPlan:
    """Evaluate all useful layouts.

    Raises:
        RuntimeFault: If a number is invalid.
    """
    _check(request)
    placements = [place(request, layout) for layout in find_layouts(request)]
    placements.sort(
        key=lambda estimate: (not estimate.fits, estimate.floors[0].step_ms if estimate.fits else -estimate.free_gib)
    )
    fits = any(placement.fits for placement in placements)
    return DeploymentPlan(request=request, placements=tuple(placements), advice=() if fits else tuple(_advice(request)))


def _check(request: PlanRequest) -> None:
    if request.gpus_per_node < 1 or request.num_nodes < 1:
        raise RuntimeFault(f"{request.num_nodes} nodes of {request.gpus_per_node} GPUs, expected at least one of each")
    longest = request.config.text.max_position_embeddings
    if not 0 < request.context_len <= longest:
        raise RuntimeFault(f"the context is {request.context_len}, expected 1 to the model's {longest:,} tokens")


def find_layouts(request: PlanRequest) -> Iterator[Layout]:
    """Yield layouts that use all GPUs: tensor parallel in a node or over all, the rest by pipeline, data or
    replicas.
    """
    total, text = request.num_gpus, request.config.text
    for tp in _divisors(total):
        across_nodes = tp > request.gpus_per_node
        if text.num_attention_heads % tp or tp > request.gpu.max_tp or (across_nodes and tp != total):
            continue
        for group in (size for size in _divisors(total) if size % tp == 0):
            rest, replicas = group // tp, total // group
            if request.gpus_per_node % group and group % request.gpus_per_node:
                continue  # a server on a fractional number of nodes
            if rest <= text.num_hidden_layers:
                yield Layout(tp=tp, pp=rest, replicas=replicas)
            if rest > 1 and text.n_routed_experts % group == 0:
                yield Layout(tp=tp, dp=rest, replicas=replicas)


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def place(request: PlanRequest, layout: Layout) -> LayoutEstimate:
    """Evaluate one layout."""
    text = request.config.text
    room = request.gpu.memory_gib * request.utilization - request.reserve_gib
    weights = [sum(stage_bytes(request.config, layout, stage)) / GIB for stage in range(layout.pp)]
    layers = [len(stage_layers(text.num_hidden_layers, layout.pp, stage)) for stage in range(layout.pp)]
    held = [
        int(max(0.0, room - used) * GIB // cache_bytes_per_token(text, count))
        for used, count in zip(weights, layers, strict=True)
    ]
    one_sequence = min(held)  # each rank of data parallel has its own cache; ranks of tensor parallel hold the same
    max_context = min(one_sequence, text.max_position_embeddings)
    at_once = layout.dp * layout.replicas
    return LayoutEstimate(
        layout=layout,
        weights_gib=max(weights),
        free_gib=room - max(weights),
        cache_tokens=one_sequence * layout.dp,
        max_context=max_context,
        sequences=tuple(
            (context, one_sequence // context * at_once)
            for context in _contexts(request.context_len, text.max_position_embeddings)
        ),
        floors=tuple(make_floor(request, layout, batch) for batch in BATCHES),
        fits=max_context >= request.context_len,
    )


def _contexts(context_len: int, longest: int) -> tuple[int, ...]:
    return tuple(sorted({min(size, longest) for size in (8192, context_len, 131_072, longest)}))


def stage_layers(num_layers: int, pp: int, stage: int) -> range:
    """Return the layers of a pipeline stage, evenly distributed; the first stages may have one more."""
    size, more = divmod(num_layers, pp)
    first = stage * size + min(stage, more)
    return range(first, first + size + (stage < more))


def stage_bytes(config: K25Config, layout: Layout, stage: int) -> tuple[int, int]:
    """Return bytes of weights on one GPU of a stage: (routed experts, everything else).

    Experts are split over all ranks of tensor and data parallel; heads, dense layers, shared experts, embedding and
    head over tensor parallel; every rank holds MLA's inner projections, router, norms and the vision tower entirely.
    """
    text, stored = config.text, count_bytes(config)
    layers = stage_layers(text.num_hidden_layers, layout.pp, stage)
    num_moe = count_moe_layers(text, layers)
    by_heads, whole = attention_parameters(text)
    experts = num_moe * text.n_routed_experts * expert_parameters(text) * expert_weight_bytes(config)
    cut = len(layers) * by_heads * BF16_BYTES
    cut += num_moe * text.n_shared_experts * expert_parameters(text) * BF16_BYTES
    cut += (len(layers) - num_moe) * 3 * text.hidden_size * text.intermediate_size * BF16_BYTES
    held = len(layers) * (whole * BF16_BYTES + (stored.router + stored.norms) // text.num_hidden_layers)
    if stage == 0:
        cut += stored.embedding
        held += stored.vision
    if stage == layout.pp - 1:
        cut += stored.head
    return round(experts / (layout.tp * layout.dp)), round(cut / layout.tp + held)


def make_floor(request: PlanRequest, layout: Layout, batch: int) -> StepLowerBound:
    """Return the lower bound of one replica's decode step.

    Pipeline stages run one after another and do not shorten a step. Every rank of tensor parallel reads the whole cache
    of its sequences, and all weights that it holds entirely (see `stage_bytes`): MLA's inner projections, router,
    norms.
    """
    read = step_bytes(request.config, batch, request.context_len)
    per_gpu = read.cut_weights / layout.tp + read.held_weights + read.routed_experts / (layout.tp * layout.dp)
    cache = read.cache / min(layout.dp, batch)
    bytes_per_ms = request.gpu.copy_tb_s * 1e9
    is_published = (request.gpu.name, layout, request.config) == ("H200", Layout(tp=8), RELEASE)
    published = PUBLISHED_MS.get(batch) if is_published else None
    return StepLowerBound(
        batch=batch,
        read_gb=read.weights / 1e9,
        step_ms=per_gpu / bytes_per_ms,
        step_with_cache_ms=(per_gpu + cache) / bytes_per_ms,
        tokens_s=batch * 1000 * bytes_per_ms / per_gpu,
        published_ms=published[0] if published else None,
        published_by=published[1] if published else None,
    )


def _advice(request: PlanRequest) -> Iterator[str]:
    """Yield alternatives that would fit."""
    best = max((place(request, layout) for layout in find_layouts(request)), key=lambda estimate: estimate.free_gib)
    gpus = f"{request.num_gpus} x {request.gpu.name} ({request.gpu.memory_gib:g} GiB)"
    if best.max_context > 0:
        yield f"{gpus}: {best.max_context:,} tokens of context fit ({best.layout.name}), not {request.context_len:,}"
    else:
        needed = f"{best.weights_gib:.1f} GiB of weights on a GPU ({best.layout.name})"
        yield f"{gpus}: too small by {-best.free_gib:.1f} GiB: {needed}"
    nodes = find_num_nodes(request)
    if nodes is not None:
        yield f"it fits on {nodes} nodes of {request.gpus_per_node} x {request.gpu.name} each"
    if not any(place(eight, layout).fits for eight in [_eight_h200(request)] for layout in find_layouts(eight)):
        return
    yield "it fits on one node of 8 x H200"
    if request.config == RELEASE:
        yield "with experts in main memory: KTransformers runs it on 2 x 48 GB of GPU with 600 GB of RAM, slowly"


def _eight_h200(request: PlanRequest) -> PlanRequest:
    return PlanRequest(config=request.config, context_len=request.context_len, reserve_gib=request.reserve_gib)


def find_num_nodes(request: PlanRequest) -> int | None:
    """Return the smallest fitting number of nodes of the same kind, up to 64; None if there is none."""
    for nodes in range(request.num_nodes + 1, MAX_NODES + 1):
        larger = PlanRequest(
            gpu=request.gpu,
            gpus_per_node=request.gpus_per_node,
            num_nodes=nodes,
            config=request.config,
            utilization=request.utilization,
            reserve_gib=request.reserve_gib,
            context_len=request.context_len,
        )
        if any(place(larger, layout).fits for layout in find_layouts(larger)):
            return nodes
    return None


SHOWN = 8  # rows that fit on a screen; --json has all


def show_plan(plan: DeploymentPlan) -> str:
    """Format the plan as text."""
    parts = [_model(plan), _gpus(plan), _placements(plan)]
    if plan.fitting:
        parts.append(_floors(plan, plan.fitting[0]))
    return "\n\n".join([*parts, *plan.advice]) + "\n"


def _model(plan: DeploymentPlan) -> str:
    config = plan.request.config
    count, stored, text = count_parameters(config), count_bytes(config), config.text
    kinds = ("routed_experts", "shared_experts", "attention", "dense_layers", "router", "embedding", "head", "vision")
    rows = [(name.replace("_", " "), *_sizes(getattr(count, name), getattr(stored, name))) for name in kinds]
    rows.append(("all", *_sizes(count.total, stored.total)))
    per_token = cache_bytes_per_token(text)
    longest = text.max_position_embeddings
    return "\n".join(
        [
            f"Model: {count.language_model / 1e12:.3f} T parameters in the language model",
            "",
            *columns(("weights", "parameters", "GB", "GiB"), rows),
            "",
            f"Cache: {per_token:,} B a token (bf16), {per_token * longest / GIB:.1f} GiB for {longest:,} tokens.",
            "MLA keeps one latent row for all heads: tensor-parallel ranks hold the same cache, they do not share it.",
        ]
    )


def _sizes(count: int, size_bytes: int) -> tuple[str, str, str]:
    return f"{count / 1e9:,.2f} B", f"{size_bytes / 1e9:,.1f}", f"{size_bytes / GIB:,.1f}"


def _gpus(plan: DeploymentPlan) -> str:
    request = plan.request
    gpu = request.gpu
    return (
        f"GPUs: {request.num_nodes} x {request.gpus_per_node} x {gpu.name}, {gpu.memory_gib:g} GiB, "
        f"{gpu.bandwidth_tb_s:g} TB/s by the data sheet, {gpu.copy_tb_s:.2f} TB/s reckoned with.\n"
        f"Of each GPU {request.utilization:.0%} is used, {request.reserve_gib:g} GiB of it assumed for activations."
    )


def _placements(plan: DeploymentPlan) -> str:
    shown = (plan.fitting or plan.placements)[:SHOWN]
    if not shown:
        return "No layout divides this model over these GPUs."
    contexts = [context for context, _ in shown[0].sequences]
    head = ("layout", "weights GiB/GPU", "left GiB/GPU", "max context", *(f"at {_k(size)}" for size in contexts))
    lines = columns((*head, "step ms", "flags"), [_placement(placement) for placement in shown])
    hidden = len(plan.fitting) - len(shown)
    title = "What fits (sequences at once by their length; step: one token of one sequence, at best):"
    if not plan.fitting:
        title = f"Nothing fits with {plan.request.context_len:,} tokens of context. The nearest:"
    return "\n".join([title, "", *lines, *([f"... and {hidden} slower ones"] if hidden > 0 else [])])


def _placement(placement: LayoutEstimate) -> tuple[str, ...]:
    return (
        placement.layout.name,
        f"{placement.weights_gib:.1f}",
        f"{placement.free_gib:.1f}",
        f"{placement.max_context:,}",
        *(f"{number:,}" for _, number in placement.sequences),
        f"{placement.floors[0].step_ms:.2f}",
        placement.layout.flags,
    )


def _k(size: int) -> str:
    return f"{size // 1024}k" if size % 1024 == 0 else f"{size:,}"


def _floors(plan: DeploymentPlan, placement: LayoutEstimate) -> str:
    head = (
        "batch",
        "reads GB",
        "floor ms/step",
        "tokens/s",
        f"with cache at {_k(plan.request.context_len)}",
        "published",
    )
    return "\n".join(
        [
            f"Floors of one replica of {placement.layout.name}: memory is read, nothing else takes time.",
            "",
            *columns(head, [_floor(floor) for floor in placement.floors]),
        ]
    )


def _floor(floor: StepLowerBound) -> tuple[str, ...]:
    published = "" if floor.published_ms is None else f"{floor.published_ms:g} ms ({floor.published_by})"
    numbers = (f"{floor.read_gb:.1f}", f"{floor.step_ms:.2f}", f"{floor.tokens_s:,.0f}")
    return (str(floor.batch), *numbers, f"{floor.step_with_cache_ms:.2f}", published)


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Format the lines of a table: first and last column left-aligned, the others right-aligned."""
    table = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    last = len(head) - 1

    def cell(index: int, text: str) -> str:
        return text.ljust(widths[index]) if index in (0, last) else text.rjust(widths[index])

    return ["  ".join(cell(index, text) for index, text in enumerate(row)).rstrip() for row in table]


def plan_json(plan: DeploymentPlan) -> str:
    """Format the plan as one line of JSON."""
    request = plan.request
    config = request.config
    return json.dumps(
        {
            "gpu": asdict(request.gpu),
            "num_nodes": request.num_nodes,
            "gpus_per_node": request.gpus_per_node,
            "context_len": request.context_len,
            "parameters": {**asdict(count_parameters(config)), "total": count_parameters(config).total},
            "weight_bytes": {**asdict(count_bytes(config)), "total": count_bytes(config).total},
            "cache_bytes_per_token": cache_bytes_per_token(config.text),
            "fits": bool(plan.fitting),
            "placements": [
                {"name": placement.layout.name, "flags": placement.layout.flags, **asdict(placement)}
                for placement in plan.placements
            ],
            "advice": plan.advice,
        }
    )
