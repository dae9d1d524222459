"""`cua ask`: answer a question about files with code in a sandbox, and verify recorded evidence."""

import contextlib
import sys
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings
from apps.cli.task import command_of, own_run

if TYPE_CHECKING:
    from cua import RunResult, Watch
    from cua.config import Settings
    from cua.evidence import CellCheck, Verification

Flag = typer.Option
VerifyFlag = partial(typer.Option, rich_help_panel="Verification")


def ask(
    given: typer.Context,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="Question in words; - reads it from stdin.")
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Images, PDFs, videos or other files.")
    ] = None,
    chat: Annotated[bool, Flag("--chat", help="Read further questions from stdin, one a line.")] = False,
    resume: Annotated[
        str | None, Flag(metavar="RUN", help=f"Continue this run, or ask it the question: {common.RUN}")
    ] = None,
    tools: Annotated[
        list[str] | None,
        Flag("--tool", metavar="NAME", help="Your own tool: entry point of the group k25.tools; repeatable."),
    ] = None,
    mcp: Annotated[
        Path | None, Flag(metavar="FILE", help="mcp.json with the MCP servers whose tools may be called.")
    ] = None,
    other: common.Other = None,
    model: common.Model = None,
    base_url: common.BaseUrl = None,
    fallback_model: common.FallbackModel = None,
    context: Annotated[
        str | None,
        common.ModelFlag(
            metavar="METHOD",
            help="Shorten a long conversation by: none, hide-tool-result, discard-all or summary.",
            show_default="none",
        ),
    ] = None,
    max_context: Annotated[
        int | None,
        common.ModelFlag(
            metavar="TOKENS", help="Length at which --context applies.", show_default="when the model refuses"
        ),
    ] = None,
    max_steps: Annotated[
        int | None, common.LimitFlag(metavar="STEPS", help="Stop after this number of steps.", show_default="30")
    ] = None,
    max_time: common.MaxTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    sandbox: common.Sandbox = None,
    approve: common.ApproveCalls = None,
    yolo: common.Yolo = False,
    policy: common.Policy = None,
    verify: Annotated[
        bool, VerifyFlag("--verify", help="Run the code again in a fresh kernel and compare the results.")
    ] = False,
    run: Annotated[
        str | None, VerifyFlag(metavar="RUN", help=f"Without a question: {common.RUN}", show_default="last")
    ] = None,
    expect: Annotated[
        str | None, VerifyFlag(metavar="FINGERPRINT", help="Without a question: fingerprint that the run printed.")
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        VerifyFlag(
            "--input",
            metavar="FILE",
            help="Without a question: large input file that the run read in place; repeatable.",
        ),
    ] = None,
    output_format: common.StreamFormat = "text",
    schema: common.Schema = None,
    report: common.Report = True,
) -> None:
    """Answer a question about images, documents or videos.

    The model writes Python code, which runs in a sandbox without network, reads the output, and answers with the
    results that support its statements. The run folder keeps answer.json, notebook.ipynb and every image. With --verify
    the code is executed again; without a question, --verify checks an earlier run.

    With --chat the Python state and the conversation stay for further questions, until the input ends. --resume
    executes the cells of an earlier run again, and continues it after a crash, Ctrl-C or a limit, or with a further
    question.

        cua ask "How many coins are there?" coins.png --model kimi-k2.5
        cua ask --verify --run last
    """
    chosen = chosen_settings(given)
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))
    is_asking = question is not None or resume is not None or chat
    if not is_asking:
        _verify_and_exit(verify, run, inputs or [], expect, form, chosen)
    if run is not None or expect is not None:
        raise typer.BadParameter("--run and --expect are about an earlier run; leave the question out with them")
    if verify and question is not None and (Path(question) / "trajectory.jsonl").is_file():
        raise typer.BadParameter(
            f"{question!r} is a run, not a question; to verify it: cua ask --verify --run {question}"
        )
    if chat and question == "-":
        raise typer.BadParameter("--chat reads questions from standard input already; leave the - out")
    request = _Request(
        question=_words(question) if question is not None else None,
        files=files or [],
        resume=own_run(resume, chosen, "ask") if resume is not None else None,
        is_chat=chat,
        form=form,
    )
    _ask_and_exit(request, schema, verify=verify, report=report, flags=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """Question and output format; without a question, an earlier run is resumed."""

    question: str | None
    files: list[Path]
    resume: Path | None
    is_chat: bool
    form: str


def _ask_and_exit(
    request: _Request, schema: str | None, *, verify: bool, report: bool, flags: Mapping[str, object]
) -> NoReturn:
    import asyncio

    from apps.cli.running import fingerprint_of, print_outcome, run_watched, write_run_report

    def work(watch: "Watch") -> "Coroutine[object, object, RunResult]":
        return _answer(request, schema=schema, watch=watch, **flags)

    with asyncio.Runner() as runner:
        result = run_watched(work, runner, request.form, is_chat=request.is_chat)
    verification = None
    if verify and result.end.answer is not None and result.run_dir is not None:
        verification = _verified(Path(result.run_dir), request.files, None, flags)
    more: dict[str, object] = {"report": write_run_report(result) if report else None}
    if result.run_dir is not None:
        more["evidence"] = str(Path(result.run_dir) / "answer.json")
        more["fingerprint"] = fingerprint_of(result)
    if verification is not None and request.form != "text":
        more["verification"] = verification.to_json()
    print_outcome(result, request.form, more, is_printed=request.is_chat)
    sys.exit(result.end.exit_code or int(verification is not None and not verification.is_reproduced))


async def _answer(request: _Request, **settings: Any) -> "RunResult":
    """Return the result of the last question."""
    from apps.cli.running import print_outcome
    from cua import ToolSession
    from cua.errors import ConfigError

    async with ToolSession(resume=request.resume, **settings) as session:
        question, files, result = request.question, request.files, None
        if question is None and request.resume is not None and not request.is_chat:
            return await session.continue_question()
        while question is not None or (request.is_chat and (question := await _next_question())):
            try:
                result = await session.ask(question, files)
            except ConfigError as error:
                if result is None:
                    raise
                terminal.echo(f"cua: {error}", err=True)
            else:
                if request.is_chat:
                    print_outcome(result, request.form, {})
            question, files = None, []
        if result is None:
            raise ConfigError("standard input has no question")
        return result


async def _next_question() -> str | None:
    """Return the next line that is not empty; None at the end of the input.

    The reading thread is abandoned when the command ends: it cannot be interrupted, and as a daemon it does not block
    exit.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    if sys.stdin.isatty():
        terminal.echo("> ", err=True, nl=False)
    read: asyncio.Future[str] = loop.create_future()

    def take(line: str) -> None:
        if not read.done():
            read.set_result(line)

    def wait() -> None:
        line = "\n"
        while line and not line.strip():
            line = sys.stdin.readline()
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no result is expected
            loop.call_soon_threadsafe(take, line)

    threading.Thread(target=wait, name="k25-questions", daemon=True).start()
    return (await read).strip() or None


def _verify_and_exit(
    verify: bool, run: str | None, inputs: list[Path], expect: str | None, form: str, flags: Mapping[str, object]
) -> NoReturn:
    if not verify:
        raise typer.BadParameter('a question is needed, such as: cua ask "How many coins are there?" coins.png')

    from cua.config import load_settings
    from cua.trajectory.runs import find_run

    settings = load_settings(flags).settings
    _check_isolated(settings)
    run_dir = find_run(run or "last", settings.runs_dir, lambda *run: command_of(*run) == "ask")
    verification = _verified(run_dir, inputs, expect, flags)
    if form != "text":
        terminal.echo_json(verification.to_json())
    sys.exit(0 if verification.is_reproduced else 1)


def _check_isolated(settings: "Settings") -> None:
    """Check that recorded code runs in isolation, or that its absence is confirmed twice."""
    from cua.errors import ConfigError

    if settings.sandbox == "none" and settings.approve != "yolo":
        raise ConfigError(
            "--sandbox none would run the recorded code without any isolation. Leave it out, or add --yolo if you "
            "have read the code"
        )


def _verified(run_dir: Path, inputs: list[Path], expect: str | None, flags: Mapping[str, object]) -> "Verification":
    """Execute a run's cells again, add the result to its evidence, and print it."""
    from apps.cli.running import run_cancelled_by_signals
    from cua.config import load_settings
    from cua.evidence import verify_run, write_bundle
    from cua.tool_agent.assemble import start_sandbox

    def say(check: "CellCheck") -> None:
        colour = {"same": None, "differs": typer.colors.RED, "not repeated": typer.colors.YELLOW}[check.verdict]
        why = f": {check.why}" if check.why else ""
        terminal.secho(f"  [{check.number}] {check.verdict}{why}", err=True, fg=colour)

    async def again() -> "Verification":
        maker = await start_sandbox(load_settings(flags).settings)
        try:
            return await verify_run(run_dir, maker, inputs=inputs, expect=expect, say=say)
        finally:
            await maker.close()

    terminal.secho("running the cells again", err=True, dim=True)
    verification = run_cancelled_by_signals(again())
    if not verification.findings:  # otherwise a changed record would be overwritten
        write_bundle(run_dir, verification)
    for finding in verification.findings:
        terminal.secho(f"  {finding}", err=True, fg=typer.colors.RED)
    if verification.chain == "none":
        terminal.secho(
            "  the record has no hash chain: changes to it cannot be detected", err=True, fg=typer.colors.YELLOW
        )
    claims = f"{verification.num_reproduced} of {verification.num_claims} cited statements"
    verdict = "reproduced" if verification.is_reproduced else "not reproduced"
    colour = typer.colors.GREEN if verification.is_reproduced else typer.colors.RED
    terminal.secho(f"{verdict}: {len(verification.cells)} cells, {claims}", err=True, fg=colour)
    terminal.echo(f"fingerprint: {verification.fingerprint or 'lost'}", err=True)
    return verification


def _words(question: str) -> str:
    return sys.stdin.read() if question == "-" else question
