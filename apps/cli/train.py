"""`cua train`: train nano-K2.5, a small model with the release's architecture, on this machine."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from apps.cli import terminal

Flag = typer.Option


def train(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for logs and checkpoints; the model is in FOLDER/model.")
    ],
    scale: Annotated[float, Flag(metavar="FACTOR", min=0.0, help="Factor on the number of training steps.")] = 1.0,
    seed: Annotated[int, Flag(metavar="SEED", help="Seed of weights and screens.")] = 0,
    processes: Annotated[
        int, Flag(metavar="NUMBER", min=0, help="Training processes; 0 starts one for each CPU core.")
    ] = 0,
    size: Annotated[Literal["small", "large"], Flag(help="Model size: 3.4 or 15.4 million parameters.")] = "small",
    device: Annotated[
        str, Flag(metavar="DEVICE", help="cpu, or a torch device such as cuda; a GPU uses one process.")
    ] = "cpu",
    start: Annotated[
        Path | None,
        Flag(
            "--from",
            metavar="DIR",
            help="Trained nano-K2.5 to train further, such as apps/nano/weights: new auxiliary heads, then --stages.",
        ),
    ] = None,
    stages: Annotated[str, Flag(metavar="NAMES", help="With --from: stages to train, separated by commas.")] = "forms",
    smoke: Annotated[
        bool, Flag("--smoke", help="Run a short training; exit with 1 if its losses stay too high.")
    ] = False,
) -> None:
    """Train nano-K2.5, a small model with the K2.5 architecture.

    Training starts from random weights, on screens that are drawn on this machine, and writes a model folder in the
    layout of the K2.5 release. The same command resumes an interrupted training.

        cua train nano             complete training: two hours on two cores
        cua train smoke --smoke    three minutes: do the losses fall?
        cua train large --size large --device cuda
        cua train further --from apps/nano/weights --stages settle,forms
        K25_NANO=nano/model cua task "Click the button OK" --url ... --model nano
    """
    from envs.errors import require

    torch = require("torch", "train")
    count = processes or torch.get_num_threads()
    torch.set_num_threads(max(torch.get_num_threads() // count, 1))
    from apps.train.course import SMOKE_LOSSES, make_course, make_further_course, make_smoke_course
    from apps.train.run import TrainingRun, read_losses
    from apps.train.run import train as run

    course = make_smoke_course() if smoke else make_course(scale, has_large_screens=size == "large")
    if start is not None:
        course = make_further_course([name.strip() for name in stages.split(",")], scale)
    run_config = TrainingRun(
        folder=folder, course=course, seed=seed, processes=count, size=size, device=device, start=start
    )
    model = run(run_config, terminal.echo_err)
    terminal.echo(str(model))
    if not smoke:
        return
    losses = read_losses(folder)
    for name, most in SMOKE_LOSSES.items():
        is_low = losses[name] <= most
        colour = typer.colors.GREEN if is_low else typer.colors.RED
        terminal.secho(f"{name} {losses[name]:.3f}, expected at most {most}", err=True, fg=colour)
    sys.exit(any(losses[name] > most for name, most in SMOKE_LOSSES.items()))
