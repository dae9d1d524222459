"""`cua eval compare`, `verified`, `export`: what is done with evaluations that are over."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli import terminal
from apps.cli.config import choice

if TYPE_CHECKING:
    from apps.evals.results import Evaluation

EXPORTS = ("inspect", "csv", "atif", "osworld", "verified")
FolderArgument = Annotated[str, typer.Argument(help="Folder of an evaluation, unique beginning of its name, or last.")]
Flag = typer.Option


def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="Folder of the one evaluation.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Folder of the other one.")],
    html: Annotated[Path | None, Flag("--html", help="Write the comparison as a page, to this file.")] = None,
    as_json: Annotated[bool, Flag("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two evaluations, episode by episode, and say how sure the difference is."""
    from apps.evals.compare import compare as compare_results
    from apps.evals.compare_page import write_comparison
    from apps.evals.results import find_evaluation, load_evaluation
    from apps.evals.text import describe_comparison

    first, second = (load_evaluation(find_evaluation(what)) for what in (before, after))
    comparison = compare_results(first.results, second.results, {**first.clusters, **second.clusters})
    if html is not None:
        terminal.echo(f"page: {write_comparison(comparison, first, second, html)}", err=True)
    if as_json:
        terminal.echo_json(
            {
                "a": str(first.folder),
                "b": str(second.folder),
                "cluster_by": second.plan.cluster_by if second.clusters else "",
                **asdict(comparison),
            }
        )
        return
    for line in describe_comparison(comparison, first, second):
        terminal.echo(line)


def end_by_task(folder: Path, error: BaseException, *, is_local: bool) -> "Evaluation":
    """Say that code of a task ended an evaluation, and which episodes were running; the evaluation as it is now.

    Args:
        folder: Of the evaluation.
        error: What ended the event loop.
        is_local: The code ran in this process, and another executor would contain it.
    """
    import asyncio

    from apps.evals.episodes import load_interrupted
    from apps.evals.results import load_evaluation
    from apps.evals.run import finish
    from apps.evals.text import describe_key
    from envs.foreign import describe_defect

    cause = describe_defect(error)
    if isinstance(error, asyncio.CancelledError):
        cause = "it cancelled all tasks of the event loop"
    elif isinstance(error, RuntimeError):
        cause = "it stopped the event loop"
    why = f"code of a task ended the evaluation: {cause}"
    terminal.echo(why, err=True)
    evaluation = load_evaluation(folder)
    for key in load_interrupted(folder, evaluation.plan):
        terminal.echo(f"it was running: {describe_key(key)}", err=True)
    if is_local:
        terminal.echo("hint: --executor process runs the code of each task in a process of its own", err=True)
    return finish(evaluation, why)


def score_verified(
    folder: FolderArgument,
    sites: Annotated[Path | None, Flag(help="TOML file with the sites; left out, as the runs themselves say.")] = None,
    as_json: Annotated[bool, Flag("--json", help="Print what verified.json holds.")] = False,
) -> None:
    """Score a finished evaluation of webarena-verified, or webarena, by WebArena-Verified's rules, offline."""
    import json

    from apps.evals import verified
    from apps.evals.results import find_evaluation, load_evaluation
    from envs.suites.webarena.sites import read_sites

    evaluation = load_evaluation(find_evaluation(folder))
    scores = verified.score_verified(evaluation, read_sites(sites).urls if sites is not None else None)
    path = verified.save_scores(evaluation, scores)
    if as_json:
        terminal.echo_json(json.loads(path.read_text("utf-8")))
        return
    for line in verified.describe_scores(evaluation, scores):
        terminal.echo(line)
    terminal.echo(f"scores: {path}", err=True)


def export_evaluation(
    folder: FolderArgument,
    to: Annotated[
        str,
        Flag(help="inspect (inspect_ai's log), csv (episodes), atif (runs), osworld or verified (trees for them)."),
    ] = "inspect",
    out: Annotated[Path | None, Flag("--out", "-o", help="File or folder; in the evaluation's by default.")] = None,
) -> None:
    """Write an evaluation for other programs."""
    from apps.evals.results import find_evaluation, load_evaluation

    kind = choice("--to", to, EXPORTS)
    terminal.echo(str(export(load_evaluation(find_evaluation(folder)), kind, out)))


def export(evaluation: "Evaluation", kind: str, out: Path | None) -> Path:
    """Write an evaluation in one of `EXPORTS`; what is left out is told on stderr."""
    from apps.evals.export import export_inspect, export_trajectories
    from apps.evals.osworld import export_result_tree
    from apps.evals.table import export_csv
    from apps.evals.verified import export_verified

    files = {"inspect": export_inspect, "csv": export_csv}
    if kind in files:
        return files[kind](evaluation, out)
    kinds = {"atif": export_trajectories, "osworld": export_result_tree, "verified": export_verified}
    target, lost = kinds[kind](evaluation, out)
    for why in lost:
        terminal.echo(f"left out: {why}", err=True)
    return target
