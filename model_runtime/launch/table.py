"""A plan as text for people and as JSON for programs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from model_runtime.launch.plan import GIB, Floor, Placement, Plan
from model_runtime.launch.sizes import cache_bytes_per_token, count_bytes, count_parameters

SHOWN = 8


def show_plan(plan: Plan) -> str:
    """The plan as text."""
    parts = [_model(plan), _gpus(plan), _placements(plan)]
    if plan.fitting:
        parts.append(_floors(plan, plan.fitting[0]))
    return "\n\n".join([*parts, *plan.advice]) + "\n"


def _model(plan: Plan) -> str:
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


def _gpus(plan: Plan) -> str:
    request = plan.request
    gpu = request.gpu
    return (
        f"GPUs: {request.num_nodes} x {request.gpus_per_node} x {gpu.name}, {gpu.memory_gib:g} GiB, "
        f"{gpu.bandwidth_tb_s:g} TB/s by the data sheet, {gpu.copy_tb_s:.2f} TB/s reckoned with.\n"
        f"Of each GPU {request.utilization:.0%} is used, {request.reserve_gib:g} GiB of it assumed for activations."
    )


def _placements(plan: Plan) -> str:
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


def _placement(placement: Placement) -> tuple[str, ...]:
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


def _floors(plan: Plan, placement: Placement) -> str:
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


def _floor(floor: Floor) -> tuple[str, ...]:
    published = "" if floor.published_ms is None else f"{floor.published_ms:g} ms ({floor.published_by})"
    numbers = (f"{floor.read_gb:.1f}", f"{floor.step_ms:.2f}", f"{floor.tokens_s:,.0f}")
    return (str(floor.batch), *numbers, f"{floor.step_with_cache_ms:.2f}", published)


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the last to the left, those between to the right."""
    table = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    last = len(head) - 1

    def cell(index: int, text: str) -> str:
        return text.ljust(widths[index]) if index in (0, last) else text.rjust(widths[index])

    return ["  ".join(cell(index, text) for index, text in enumerate(row)).rstrip() for row in table]


def plan_json(plan: Plan) -> str:
    """The plan as one line of JSON."""
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
