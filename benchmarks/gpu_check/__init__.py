"""Everything that has to be seen on a GPU, in order, within 40 minutes: `python -m benchmarks.gpu_check`.

Right before fast: tests, the memory checker, CUDA graphs against plain launches; then the machine's peaks, the kernels
of decoding beside their peers, the tuner for those that miss their targets, latent attention, long prompts, the whole
vision tower, and the whole engine. `--plan` lists the parts without running any.

Each part is a process of its own with a time limit of its own, and its output and figures are files in `--out`. A part
that fails or takes too long stops no other. A part that has ended is not run again for the same code on the same
device, so that a run that was cut off goes on where it stopped; `--again` repeats parts. Code that matters is
`model_runtime/`, its tests, and the benchmarks of kernels.

Without a GPU every part says that it was skipped. `--rehearse` then runs the parts' own programs at toy sizes on the
CPU, kernels in Triton's interpreter: it shows that they work and measures nothing.

Files: `gpu-check.json` (states, figures' files, versions), `gpu-check.md` (to read), `floors.svg`, `engine.svg`, a log
and the figures of each part. `tiles.json` is what the tuner found: put into `model_runtime/kernels/`, it is used.
"""
