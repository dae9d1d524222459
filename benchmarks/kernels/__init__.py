"""Every kernel at the release's sizes beside its peers, in one run: `python -m benchmarks.kernels`.

One GPU, less than ten minutes, one table. First the machine's own peaks are measured: a copy, and a matmul in bf16.
What an operator must at least move and compute, over those peaks, is its floor. Each row says which share of the
floor's speed was reached, how far the result is from float64, and how our time compares with the peer's of that run.

How it is timed: operators are recorded into a CUDA graph, as the engine replays them; what cannot be recorded is called
as it is, and its row says so. Inputs are rotated, so many that they do not fit the L2 cache together (experts: one set
of weights, several routings); where that would be too many, the row says "inputs in L2". Each figure is the median over
repetitions, after a warm-up.

Each file of `model_runtime/kernels/` has a file of its name here, and `--only` takes these names. Those of the experts
are in `expert_halves`, with gate_up and down by themselves; `moe` has the whole operator, and the layer around it.

Without a GPU, or with `--toy`, the same code runs at toy sizes on a CPU to show that the command works. Nothing of that
is a measurement, and every row says so. `--interpreter` runs our kernels too, in Triton's interpreter.

Peers from outside: `--peers DIR` loads each `DIR/*.py`. Such a file defines

    def make(name, shapes): -> callable | None

`name` is the operator, of `experts` with its variant: "experts.int4", "experts.bf16", "route", "mla_decode",
"mla_prefill", "vision_attention", "merge_patches", "rms_norm", "add_rms_norm", "write_latent". `shapes` has the case's
numbers by name (tokens, hidden, experts, top_k, intermediate, batch, context, ...). None means that the file has
nothing for the case. The callable takes the operator's arguments (model_runtime/ops/README.md): experts as they are
loaded, `DenseExperts` or `Int4Experts`, and for `mla_decode` (q, cache, block_tables, seq_lens, value_dim, scale). An
attribute `prepare` of it is called once with the experts, and its result is passed in their place. An attribute
`graph = False` keeps it out of a CUDA graph. What fails is told in its row. Files of other projects stay outside of
this repository: `peers/` is ignored by git.

`python -m benchmarks.kernels.tune` looks for faster tiles and writes `model_runtime/kernels/tiles.json`.
"""
