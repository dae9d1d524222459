"""`cua eval`: evaluate a model on a suite of tasks."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings
from apps.cli.doctor import examine_suite
from apps.cli.help_page import App, DefaultGroup

if TYPE_CHECKING:
    from apps.evals.request import EvalRequest, PreparedEvaluation
    from apps.evals.results import Evaluation
    from apps.evals.run import EvaluationProgress, Listener
    from cua.batch.episode import EpisodeResult
    from cua.run.control import Control

HELP = """Evaluate a model on a suite of tasks.

    cua eval miniwob --model literal --tasks 'click-*' --seeds 5
    cua eval my_suite.py --model kimi-k2.5 --parallel 4
    cua eval compare A B

`cua eval SUITE` is short for `cua eval run SUITE`; `cua eval run --help` lists the options.

Exit codes: 0 every episode is over, whatever its score; 1 no episode could be scored, or a task's code ended the
evaluation; 2 wrong usage; 3 a limit of the whole evaluation was reached; 130 stopped."""

EXPORTS = ("inspect", "csv", "atif", "osworld", "verified")
_SUITE_FLAGS = ("provider", "guest", "sites", "parity", "judge", "judge_url")
_PRINT_S, _REFRESH_S = 10.0, 0.5  # interval of lines in a log, and of the redrawn line on a terminal

Flag = typer.Option
TaskFlag = partial(typer.Option, rich_help_panel="Tasks and seeds")
SuiteFlag = partial(typer.Option, rich_help_panel="Options of suites")
FolderArgument = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Folder of an evaluation or unique beginning of its name, or last.")
]

app = App(cls=DefaultGroup, help=HELP)


@app.command()
def run(
    given: typer.Context,
    suite: Annotated[
        str | None, typer.Argument(metavar="SUITE", help="Suite: a name of `cua eval list`, or FILE.py[:FUNCTION].")
    ] = None,
    out: Annotated[
        Path | None, Flag("--out", "-o", metavar="FOLDER", help="Folder of the results.", show_default="a new folder")
    ] = None,
    resume: Annotated[
        str | None, Flag(metavar="FOLDER", help="Continue the evaluation in this folder, or last.")
    ] = None,
    parallel: Annotated[
        int, Flag("--parallel", "-p", metavar="NUMBER", min=1, max=10_000, help="Episodes at the same time.")
    ] = 1,
    executor: Annotated[str, Flag(metavar="KIND", help="Where environments run: local, process or ray.")] = "local",
    ray_address: common.RayAddress = None,
    doctor: Annotated[
        bool, Flag("--doctor", help="Only check what osworld, webarena or webarena-verified need.")
    ] = False,
    other: common.Other = None,
    tasks: Annotated[
        list[str] | None, TaskFlag(metavar="GLOB", help="Tasks whose id matches, such as 'click-*'; repeatable.")
    ] = None,
    limit: Annotated[int | None, TaskFlag(metavar="NUMBER", min=1, help="Only the first tasks.")] = None,
    sample: Annotated[int | None, TaskFlag(metavar="NUMBER", min=1, help="Only a random sample of tasks.")] = None,
    seed: Annotated[int, TaskFlag(metavar="SEED", help="Seed of --sample and of the random baseline.")] = 0,
    seeds: Annotated[
        int | None,
        TaskFlag(metavar="NUMBER", min=1, max=100_000, help="Seeds of each task.", show_default="that of the suite"),
    ] = None,
    repeats: Annotated[
        int | None,
        TaskFlag(metavar="NUMBER", min=1, max=100_000, help="Episodes of each task and seed.", show_default="1"),
    ] = None,
    skip_unavailable: Annotated[
        bool, TaskFlag("--skip-unavailable", help="Leave out tasks that cannot be evaluated on this machine.")
    ] = False,
    model: common.EmbeddedModel = None,
    base_url: common.BaseUrl = None,
    agent: Annotated[
        str | None, common.ModelFlag(metavar="AGENT", help="gui, tools or swarm.", show_default="that of the suite")
    ] = None,
    baseline: Annotated[
        str | None,
        common.ModelFlag(
            metavar="NAME", help="Baseline in place of a model: null, fail or random; video2web: null, image or text."
        ),
    ] = None,
    preset: common.Preset = None,
    temperature: common.Temperature = None,
    prices: common.Prices = None,
    max_steps: Annotated[
        int | None,
        common.LimitFlag(metavar="STEPS", min=1, help="Steps of an episode.", show_default="that of the suite"),
    ] = None,
    max_time: Annotated[
        float | None,
        common.LimitFlag(metavar="SECONDS", min=0.1, help="Time of an episode.", show_default="that of the suite"),
    ] = None,
    max_tokens: Annotated[
        int | None,
        common.LimitFlag(metavar="TOKENS", min=1, help="Tokens of all episodes.", show_default=common.NO_LIMIT),
    ] = None,
    max_cost: Annotated[
        float | None,
        common.LimitFlag(metavar="USD", min=1e-6, help="Cost of all episodes.", show_default=common.NO_LIMIT),
    ] = None,
    max_calls: Annotated[
        int | None,
        common.LimitFlag(metavar="CALLS", min=1, help="Tool calls of all episodes.", show_default=common.NO_LIMIT),
    ] = None,
    max_total_time: Annotated[
        float | None,
        common.LimitFlag(metavar="SECONDS", min=0.1, help="Time of the evaluation.", show_default=common.NO_LIMIT),
    ] = None,
    approve: Annotated[
        str | None,
        common.SafetyFlag(
            metavar="MODE", help="ask, auto or yolo, as for `cua task`.", show_default="yolo for most suites"
        ),
    ] = None,
    suite_option: Annotated[
        list[str] | None, SuiteFlag(metavar="NAME=VALUE", help="Option of the suite; repeatable.")
    ] = None,
    list_name: Annotated[
        str | None, SuiteFlag("--list", metavar="LIST", help="osworld: list of tasks, by name or file.")
    ] = None,
    provider: Annotated[
        str | None, SuiteFlag(metavar="KIND", help="osworld: source of guests: address, local, docker or vmware.")
    ] = None,
    guest: Annotated[str | None, SuiteFlag(metavar="HOST:PORT", help="osworld: guest that runs already.")] = None,
    allow_net: Annotated[bool, SuiteFlag("--allow-net", help="osworld: let a local guest reach the network.")] = False,
    sites: Annotated[
        str | None, SuiteFlag(metavar="FILE", help="webarena, webarena-verified: TOML file with your sites.")
    ] = None,
    parity: Annotated[
        str | None, SuiteFlag(metavar="MODE", help="webarena: upstream evaluates as published, without corrections.")
    ] = None,
    reset_command: Annotated[
        list[str] | None,
        SuiteFlag(
            metavar="SITE=COMMAND",
            help="webarena: command that resets a site that an earlier task changed; repeatable.",
        ),
    ] = None,
    judge: Annotated[str | None, SuiteFlag(metavar="MODEL", help="widesearch: model that compares free text.")] = None,
    judge_url: Annotated[
        str | None,
        SuiteFlag(metavar="URL", help="widesearch: endpoint of that model.", show_default="$OPENAI_BASE_URL"),
    ] = None,
    output_format: common.StreamFormat = "text",
    report: Annotated[bool, common.OutputFlag("--report/--no-report", help="Write the report of each run.")] = True,
    export: Annotated[
        str | None, common.OutputFlag(metavar="FORMAT", help="Also export as inspect, csv, atif, osworld or verified.")
    ] = None,
) -> None:
    """Run a suite; `cua eval SUITE` for short.

    Runs each task, evaluates the result, and writes statistics and a page into the folder of the results.

        cua eval miniwob --model literal --tasks 'click-*' --seeds 5
        cua eval --resume last
    """
    from apps.evals.request import prepare
    from apps.evals.text import resume_command

    form = choice("--output-format", output_format, ("text", "json", "stream-json"))
    kind = choice("--executor", executor, ("local", "process", "ray"))
    if export is not None:
        choice("--export", export, EXPORTS)
    if doctor:
        examine_suite(_request(given), form)
    prepared = prepare(_request(given), partial(_may_leave_out, is_agreed=skip_unavailable))
    if prepared.loaded.left_out:
        terminal.echo(f"left out: {prepared.loaded.left_out}", err=True)
    if prepared.hint:
        terminal.echo(f"hint: {prepared.hint}", err=True)
    restore_stdout = terminal.keep_stdout()
    evaluation, code = _evaluate(prepared, given.params | {"executor": kind}, form)
    restore_stdout()
    files = {"page": str(evaluation.folder / "index.html"), "folder": str(evaluation.folder)}
    if export is not None:
        files["export"] = str(_export(evaluation, export, None))
    _print(evaluation, form, files)
    if evaluation.num_unfinished and form == "text":
        terminal.echo(f"continue with: {resume_command(sys.argv[1:], evaluation.folder)}", err=True)
    sys.exit(code)


@app.command("list")
def list_suites(as_json: Annotated[bool, Flag("--json", help="Print one JSON object a line.")] = False) -> None:
    """List the available suites, including those of other packages."""
    from apps.evals.request import EXAMPLES
    from envs import EnvError
    from envs.registry import load_suite, suite_names

    paths = {name: name for name in suite_names()} | ({"examples": str(EXAMPLES)} if EXAMPLES.is_file() else {})
    for name, path in paths.items():
        try:
            suite = load_suite(path)
        except EnvError as error:
            row: dict[str, object] = {"name": name, "error": str(error)}
        else:
            row = {"name": name, "tasks": len(suite.task_ids), "revision": suite.revision, "about": suite.about}
        if as_json:
            terminal.echo_json(row)
        elif "error" in row:
            terminal.echo(f"{name:<16} not ready: {row['error']}")
        else:
            terminal.echo(f"{name:<16} {row['tasks']:>5} tasks  {row['about']}")
    if not paths and not as_json:
        terminal.echo("no suites are installed; your own suite is a Python file: cua eval my_suite.py", err=True)


@app.command()
def show(
    folder: FolderArgument,
    as_json: Annotated[bool, Flag("--json", help="Print the contents of results.json.")] = False,
    report: Annotated[bool, Flag("--report/--no-report", help="Write the reports of runs that have none.")] = True,
) -> None:
    """Print the table of an evaluation and rewrite its page."""
    from apps.evals.results import find_evaluation, load_evaluation
    from apps.evals.run import finish, write_missing_reports

    evaluation = load_evaluation(find_evaluation(folder))
    if report:
        write_missing_reports(evaluation)
    evaluation = finish(evaluation, evaluation.why_stopped)
    _print(evaluation, "json" if as_json else "text", {"page": str(evaluation.folder / "index.html")})


@app.command()
def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="Folder of the first evaluation.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Folder of the second evaluation.")],
    html: Annotated[Path | None, Flag("--html", metavar="FILE", help="Also write the comparison as a page.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Compare two evaluations, with the certainty of the difference.

    Episodes of the same task and seed are compared in pairs.
    """
    from apps.evals.compare import compare as compare_results
    from apps.evals.compare import describe_comparison, write_comparison
    from apps.evals.results import find_evaluation, load_evaluation

    first, second = (load_evaluation(find_evaluation(folder)) for folder in (before, after))
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


@app.command("verified")
def score_verified(
    folder: FolderArgument,
    sites: Annotated[
        Path | None, Flag(metavar="FILE", help="TOML file with your sites.", show_default="as recorded in the runs")
    ] = None,
    as_json: Annotated[bool, Flag("--json", help="Print the contents of verified.json.")] = False,
) -> None:
    """Score recorded WebArena runs by WebArena-Verified's rules.

    Works offline, for finished evaluations of webarena and webarena-verified.
    """
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


@app.command("export")
def export_evaluation(
    folder: FolderArgument,
    to: Annotated[
        str,
        Flag(
            metavar="FORMAT",
            help="inspect (log of inspect_ai), csv (episodes), atif (trajectories), osworld, verified (result trees).",
        ),
    ] = "inspect",
    out: Annotated[
        Path | None,
        Flag("--out", "-o", metavar="PATH", help="File or folder to write.", show_default="in the evaluation's folder"),
    ] = None,
) -> None:
    """Export an evaluation for other programs."""
    from apps.evals.results import find_evaluation, load_evaluation

    kind = choice("--to", to, EXPORTS)
    terminal.echo(str(_export(load_evaluation(find_evaluation(folder)), kind, out)))


def _export(evaluation: "Evaluation", kind: str, out: Path | None) -> Path:
    """Export an evaluation in one of `EXPORTS`; print what is left out on stderr."""
    from apps.evals.export import export_csv, export_inspect, export_trajectories
    from apps.evals.osworld import export_result_tree
    from apps.evals.verified import export_verified

    files = {"inspect": export_inspect, "csv": export_csv}
    if kind in files:
        return files[kind](evaluation, out)
    kinds = {"atif": export_trajectories, "osworld": export_result_tree, "verified": export_verified}
    target, lost = kinds[kind](evaluation, out)
    for why in lost:
        terminal.echo(f"left out: {why}", err=True)
    return target


def _request(given: typer.Context) -> "EvalRequest":
    """Return the request that the command line specifies."""
    from apps.evals.plan import Selection
    from apps.evals.players import baseline_names
    from apps.evals.request import EvalRequest
    from cua.assemble import parse_env_options

    flags = given.params
    settings = chosen_settings(given)
    if flags["baseline"] is not None:
        name = choice("--baseline", flags["baseline"], baseline_names())
        if "model" in settings:
            raise typer.BadParameter("--baseline replaces the model; leave out --model")
        settings["model"] = f"baseline:{name}" + (f":{flags['seed']}" if name == "random" and flags["seed"] else "")
    if flags["out"] is not None and flags["resume"] is not None:
        raise typer.BadParameter("--resume continues in the folder that it names; leave out --out")
    wrong = [pair for pair in flags["suite_option"] or () if "=" not in pair]
    if wrong:
        raise typer.BadParameter(f"--suite-option {wrong[0]!r} is not NAME=VALUE")
    is_chosen = any(flags[name] for name in ("tasks", "limit", "sample", "seeds", "repeats"))
    selection = Selection(
        patterns=tuple(flags["tasks"] or ()),
        limit=flags["limit"],
        sample=flags["sample"],
        sample_seed=flags["seed"],
        num_seeds=flags["seeds"],
        repeats=flags["repeats"] or 1,
    )
    return EvalRequest(
        suite=flags["suite"],
        suite_options={**_suite_flags(flags), **parse_env_options(flags["suite_option"] or ())},
        selection=selection if is_chosen or flags["resume"] is None else None,
        settings=settings,
        agent=flags["agent"],
        out=flags["out"],
        resume=flags["resume"],
    )


def _may_leave_out(unavailable: Mapping[str, str], num_tasks: int, *, is_agreed: bool) -> bool:
    """List the tasks that cannot be evaluated, by reason; ask on a terminal unless the user already agreed."""
    from apps.evals.text import describe_unavailable

    terminal.echo(f"{len(unavailable)} of {num_tasks} tasks cannot be evaluated on this machine:", err=True)
    for line in describe_unavailable(unavailable):
        terminal.echo(f"  {line}", err=True)
    if is_agreed or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return is_agreed
    terminal.echo("Leave them out and continue? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _suite_flags(flags: dict[str, Any]) -> dict[str, str]:
    """Return the suite options that also have flags."""
    named = {"list": flags["list_name"], **{name: flags[name] for name in _SUITE_FLAGS}}
    named["reset_command"] = "\n".join(flags["reset_command"] or ()) or None
    named["allow_net"] = "yes" if flags["allow_net"] else None
    return {name: value for name, value in named.items() if value is not None}


def _end_by_task(folder: Path, error: BaseException, *, is_local: bool) -> "Evaluation":
    """Report that a task's code ended an evaluation and which episodes were running; return the evaluation so far.

    Args:
        folder: Folder of the evaluation.
        error: Exception that ended the event loop.
        is_local: True if the code ran in this process, where another executor would isolate it.
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


def _evaluate(prepared: "PreparedEvaluation", flags: dict[str, Any], form: str) -> tuple["Evaluation", int]:
    """Run the evaluation with signals and progress connected; return it with the exit code."""
    import asyncio
    from dataclasses import replace

    from apps.cli.running import StopSwitch
    from apps.evals.players import find_player_kind
    from apps.evals.run import EvalOptions, run_evaluation

    options = EvalOptions(
        num_parallel=flags["parallel"],
        executor=flags["executor"],
        ray_address=flags["ray_address"],
        caps=replace(prepared.caps, max_time_s=flags["max_total_time"]),
        with_reports=flags["report"],
    )
    switch, controls = StopSwitch(), []

    def connect(control: "Control") -> None:
        controls.append(control)
        switch.connect(control)

    with _progress(prepared.evaluation, form) as listener:
        work = run_evaluation(
            prepared.evaluation, prepared.suite, prepared.settings, options, listener=listener, on_control=connect
        )
        try:
            evaluation = asyncio.run(switch.guarded(work))
        except (SystemExit, KeyboardInterrupt, asyncio.CancelledError, RuntimeError) as error:
            if switch.is_pressed or (isinstance(error, RuntimeError) and "Event loop" not in str(error)):
                raise
            uses_envs = find_player_kind(prepared.evaluation.plan.agent).uses_envs
            is_local = flags["executor"] == "local" and uses_envs
            return _end_by_task(prepared.evaluation.folder, error, is_local=is_local), 1
    if any(control.is_stopped for control in controls):
        return evaluation, 130
    if evaluation.num_unfinished:
        return evaluation, 3
    return evaluation, 0 if evaluation.figures.all.num_scored else 1


@contextmanager
def _progress(evaluation: "Evaluation", form: str) -> "Iterator[Listener]":
    """Return a progress listener: a bar on a terminal, lines in a pipe, or JSON events on stdout."""
    terminal.echo(f"{evaluation.plan.num_episodes} episodes, in {evaluation.folder}", err=True)
    if form == "stream-json":
        yield _event_listener(evaluation)
    elif sys.stderr.isatty():
        with _Bar(evaluation) as bar:
            yield bar
    else:
        yield _line_listener()


def _event_listener(evaluation: "Evaluation") -> "Listener":
    plan = evaluation.plan
    started = {"suite": plan.suite_name, "model": plan.model, "episodes": plan.num_episodes}
    terminal.echo_json({"event": "eval_started", **started, "folder": str(evaluation.folder)})

    restore_stdout = terminal.keep_stdout()

    def listen(progress: "EvaluationProgress", result: "EpisodeResult | None") -> None:
        restore_stdout()
        if result is not None:
            is_over = bool(progress.results) and progress.results[-1] is result
            counts = {"done": len(progress.results), "running": progress.num_running}
            terminal.echo_json({"event": "episode", "is_over": is_over, **result.to_json(), **counts})
            sys.stdout.flush()

    return listen


def _line_listener() -> "Listener":
    """Return a listener that prints a line for each finished try, and the progress from time to time."""
    from apps.evals.text import describe_attempt

    printed_at = time.monotonic()

    def listen(progress: "EvaluationProgress", result: "EpisodeResult | None") -> None:
        nonlocal printed_at
        if result is None:
            return
        terminal.echo(f"[{len(progress.results)}/{progress.plan.num_episodes}] {describe_attempt(result)}", err=True)
        if time.monotonic() - printed_at > _PRINT_S:
            terminal.echo(progress.describe(), err=True)
            printed_at = time.monotonic()

    return listen


class _Bar:
    """Progress bar with a description, and a line for each failed try."""

    def __init__(self, evaluation: "Evaluation") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} {task.description}", markup=False),
            console=Console(file=sys.__stderr__),  # moves the cursor; foreign text is printed only through `terminal`
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=evaluation.plan.num_episodes)
        self._printed_at = 0.0

    def __enter__(self) -> "Listener":
        self._progress.start()
        return self._listen

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _listen(self, progress: "EvaluationProgress", result: "EpisodeResult | None") -> None:
        from rich.text import Text

        from apps.evals.text import describe_error

        if result is not None and result.score is None:
            self._progress.console.print(Text(terminal.safe_lines(describe_error(result)), style="yellow"))
        is_due = time.monotonic() - self._printed_at > _REFRESH_S
        description = progress.describe() if is_due else None
        self._printed_at = time.monotonic() if is_due else self._printed_at
        self._progress.update(self._task, completed=len(progress.results), description=description)


def _print(evaluation: "Evaluation", form: str, files: dict[str, str]) -> None:
    """Print the table as text, or the contents of `results.json` as JSON."""
    from apps.evals.results import results_object
    from apps.evals.text import describe_evaluation

    if form != "text":
        results = {**results_object(evaluation), **files}
        terminal.echo_json(results if form == "json" else {"event": "result", **results})
        return
    for line in describe_evaluation(evaluation):
        terminal.echo(line)
    if evaluation.plan.suite_name == "osworld" and evaluation.results:
        from apps.evals.osworld import describe_groups

        terminal.echo("\n".join(("", *describe_groups(evaluation))))
    for name, path in files.items():
        terminal.echo(f"{name}: {path}", err=True)
