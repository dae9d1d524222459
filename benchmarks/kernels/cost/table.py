"""Floors and predictions as Markdown."""

from collections.abc import Iterable, Sequence

from benchmarks.kernels.cost import mla, moe, vision
from benchmarks.kernels.cost.hardware import CONTEXTS, PROMPTS, TOKENS, Hardware, patches_of, vision_inputs
from benchmarks.kernels.cost.measured import Measurements
from benchmarks.kernels.cost.predict import Prediction
from model_runtime.config import K25Config
from model_runtime.launch.sizes import distinct_experts

BLOCKS = (16, 32, 64, 128)
PADDED_HEADS = (80, 96, 128)


def prediction_table(predictions: Iterable[Prediction], measured: Measurements | None = None) -> str:
    """Predictions beside floors, and beside measurements where there are some."""
    heads = ["kernel", "variant", "size", "floor us", "bound", "predicted us", "of the floor", "launches", "longest"]
    rows = []
    for found in predictions:
        kernel, variant, size = found.key
        longest, share = found.longest
        row = [kernel, variant, " ".join(f"{name} {number:,}" for name, number in size), show(found.floor_us)]
        row += [found.bound, show(found.predicted_us), f"{100 * found.floor_us / found.predicted_us:.0f} %"]
        row += [f"{found.launches:,}", f"{longest} {100 * share:.0f} %"]
        if measured is not None:
            us = measured.find_us(found.key)
            row += ["not measured", "-"] if us is None else [show(us), f"{us / found.predicted_us:.2f}"]
        rows.append(row)
    return markdown([*heads, *(["measured us", "measured / predicted"] if measured is not None else [])], rows)


def floor_tables(config: K25Config, hardware: Hardware) -> str:
    """Every table of floors."""
    ceilings = f"copy {hardware.copy_tb_s:g} TB/s, bf16 matmul {hardware.matmul_tflop_s:g} TFLOP/s"
    return "\n\n".join(
        [
            f"Ceilings: {ceilings}. Arithmetic: each input once, each output once.",
            _moe_table(config, hardware),
            _padding_table(config),
            _decode_table(config, hardware),
            _prefill_table(config, hardware),
            _vision_table(config, hardware),
        ]
    )


def _moe_table(config: K25Config, hardware: Hardware) -> str:
    heads = ["MoE layer, tokens", "distinct experts", "rows / expert", "GFLOP", "bf16 GB", "INT4 GB"]
    rows = []
    for tokens in TOKENS:
        distinct = distinct_experts(config.text, tokens)
        bf16, int4 = (moe.layer_work(config, tokens, variant) for variant in moe.VARIANTS)
        per_expert = tokens * config.text.num_experts_per_tok / distinct
        row = [f"{tokens:,}", f"{distinct:.1f}", f"{per_expert:.1f}", show(bf16.flops / 1e9)]
        row += [f"{work.bytes / 1e9:.3g}" for work in (bf16, int4)]
        row += [f"{work.floor_us(hardware):,.0f}" for work in (bf16, int4)]
        rows.append(
            [*row, int4.bound(hardware), show(moe.unfused_bytes(config.text, tokens) / hardware.copy_tb_s / 1e6)]
        )
    return markdown([*heads, "floor bf16 us", "floor INT4 us", "INT4 bound", "unfused intermediates us"], rows)


def _padding_table(config: K25Config) -> str:
    rows = []
    for block_m in BLOCKS:
        real = config.text.num_experts_per_tok
        shares = [moe.padded_rows(config.text, tokens, block_m) / (tokens * real) for tokens in TOKENS]
        rows.append([f"{block_m}", *(f"{share:.3g}x" for share in shares)])
    return markdown(["rows padded to BLOCK_M", *(f"T={tokens:,}" for tokens in TOKENS)], rows)


def _decode_table(config: K25Config, hardware: Hardware) -> str:
    rows = []
    for context in CONTEXTS:
        work = mla.cache_work(config.text, context)
        whole = config.text.num_hidden_layers * work.floor_us(hardware) / 1e3
        memory, matmul = work.memory_us(hardware), work.matmul_us(hardware)
        cells = [f"{context // 1024}k", show(work.bytes / 1e6), show(memory), show(work.flops / 1e9), show(matmul)]
        rows.append([*cells, f"{whole:.2f}"])
    layers = f"all {config.text.num_hidden_layers} layers ms"
    return markdown(["MLA decode, context", "cache MB", "memory us", "GFLOP", "matmul us", layers], rows)


def _prefill_table(config: K25Config, hardware: Hardware) -> str:
    rows = [
        [f"{tokens // 1024}k", f"{mla.prefill_work(config.text, tokens).floor_us(hardware) / 1e3:.3g}"]
        for tokens in PROMPTS
    ]
    return markdown(["MLA prefill, tokens", "floor ms a layer"], rows)


def _vision_table(config: K25Config, hardware: Hardware) -> str:
    sight = config.vision
    padded = [f"head {head_dim} ms" for head_dim in PADDED_HEADS]
    heads = ["vision input", "patches", "LM tokens", "linear TF", "attention TF", "projector TF", "floor ms", *padded]
    rows = []
    for name, grids in vision_inputs(sight).items():
        patches, tokens = patches_of(grids), vision.tokens_of(sight, grids)
        flops = (
            vision.linear_flops(sight, patches),
            vision.attention_flops(sight, grids),
            vision.projector_flops(sight, tokens),
        )
        times = [vision.encoder_work(sight, grids, head).floor_us(hardware) / 1e3 for head in (None, *PADDED_HEADS)]
        cells = [f"{patches:,}", f"{tokens:,}", *(show(value / 1e12) for value in flops), *map(show, times)]
        rows.append([name, *cells])
    return markdown(heads, rows)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(value: float) -> str:
    """Three figures, all of them before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
