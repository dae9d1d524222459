"""`cua train`: train nano-K2.5, a small model with the release's architecture, on this machine."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from apps.cli import terminal

HELP = """Train nano-K2.5: screens that are drawn here, on the processors of this machine, from nothing to a folder
in the release's layout. Interrupted, the same command goes on where it was.

\b
    cua train nano                    the whole course: about two hours on two cores
    cua train smoke --smoke           three minutes: does it begin to read?
    cua train large --size large --device cuda    a larger one, on screens up to 1280 x 720, on a GPU
    K25_NANO=nano/model cua task "Click the button OK" --url ... --model nano"""

Flag = typer.Option


def train(
    folder: Annotated[Path, typer.Argument(help="For logs, saved states, and the model in FOLDER/model.")],
    scale: Annotated[float, Flag(min=0.0, help="Of the number of steps; 1 is the whole course.")] = 1.0,
    seed: Annotated[int, Flag(help="Of weights and screens.")] = 0,
    processes: Annotated[int, Flag(min=0, help="That learn together; 0 takes one for each processor.")] = 0,
    size: Annotated[Literal["small", "large"], Flag(help="Of the model: 3.4 or 15.4 million parameters.")] = "small",
    device: Annotated[
        str, Flag(help="cpu, or a GPU as torch names it, such as cuda: there one process learns.")
    ] = "cpu",
    smoke: Annotated[bool, Flag("--smoke", help="A short course; fails when its losses do not come down.")] = False,
) -> None:
    """Train, or resume training: see `HELP`."""
    from envs.errors import require

    torch = require("torch", "train")
    count = processes or torch.get_num_threads()
    torch.set_num_threads(max(torch.get_num_threads() // count, 1))
    from apps.train.course import SMOKE_LOSSES, make_course, make_smoke_course
    from apps.train.run import TrainingRun, read_losses
    from apps.train.run import train as run

    course = make_smoke_course() if smoke else make_course(scale, has_large_screens=size == "large")
    order = TrainingRun(folder=folder, course=course, seed=seed, processes=count, size=size, device=device)
    model = run(order, terminal.echo_err)
    terminal.echo(str(model))
    if not smoke:
        return
    losses = read_losses(folder)
    for name, most in SMOKE_LOSSES.items():
        is_low = losses[name] <= most
        colour = typer.colors.GREEN if is_low else typer.colors.RED
        terminal.secho(f"{name} {losses[name]:.3f}, expected at most {most}", err=True, fg=colour)
    sys.exit(any(losses[name] > most for name, most in SMOKE_LOSSES.items()))
