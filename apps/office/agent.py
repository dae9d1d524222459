"""Agent that makes and edits documents: tools in the sandbox, a verifier out of its reach, rounds of fixes."""

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field

from apps.office.check.findings import CheckReport, Expectation
from apps.office.package import KINDS
from apps.office.safe_xml import OfficeError
from apps.office.sandbox import CELL_S, OfficeKernels, office_kernels
from apps.office.verify import verify_in_sandbox
from apps.setup.office import missing_requirements
from cua import ToolSession, Watch
from cua.answer_files import find_missing_files
from cua.assemble import make_caps
from cua.config import load_settings
from cua.errors import ConfigError
from cua.messages import ToolResult
from cua.model import Model, Tool
from cua.run.end import RunResult
from cua.tool_agent.profile import VISUAL_TOOLS, ContextOptions, Profile, ToolContext
from cua.tools.kernel_tools import SecondKernel, to_tool_result
from cua.tools.toolset import Arguments, read_arguments, schema_of
from cua.trajectory.chain import FILES
from visual_tools.sandbox.contract import KernelMaker

OUT = "out"
MAX_ROUNDS = 3  # more rounds cost tokens; findings that three do not fix are reported
_MAX_FILES, _MAX_BYTES = 200, 512 * 2**20  # of out/: bounds what a model's code leaves on this machine
CHECKS, _REPORT = "check", "report.json"

Emit = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeRequest:
    """Instruction, input files and options for the agent.

    Attributes:
        instruction: Instruction in words.
        files: Input files.
        output: Output folder; new or empty.
        expect: Requested counts such as `words>=100`, optionally for one file: `report.docx:words>=100`.
        rounds: Maximum number of times the verifier's findings are sent to the agent.
    """

    instruction: str
    output: Path
    files: tuple[Path, ...] = ()
    expect: tuple[str, ...] = ()
    rounds: int = MAX_ROUNDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", Path(self.output))
        object.__setattr__(self, "files", tuple(map(Path, self.files)))

    def expectations(self, name: str) -> list[str]:
        """Return the expectations for a file: `words>=100` is for every file, `report.docx:words>=100` for one."""
        expectations = []
        for expectation in self.expect:
            file, is_named, text = expectation.rpartition(":")
            Expectation.parse(text)
            if not is_named or file == name:
                expectations.append(text)
        return expectations


@dataclass(slots=True, kw_only=True)
class OfficeResult:
    """Documents that were made, with the verifier's reports.

    Attributes:
        run: Result of the agent's run.
        files: Files made, in the output folder.
        reports: Reports of the verifier, one per document.
        rounds: Number of times the agent was asked, or the chapters were merged.
        missing: Files that could not be verified, with the reason, and files that only the answer names.
    """

    run: RunResult
    files: list[Path] = field(default_factory=list)
    reports: list[CheckReport] = field(default_factory=list)
    rounds: int = 1
    missing: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """True if there are documents, all of them were checked, and none has an error."""
        return bool(self.reports) and not self.missing and all(report.is_clean for report in self.reports)

    def to_text(self) -> str:
        """Return the verifier's reports of all files as text."""
        lines = [report.to_text() for report in self.reports] + [f"error: {text}" for text in self.missing]
        return "\n\n".join(lines) or "error: there is no document in out/"


class CheckArguments(Arguments):
    """Arguments of `check_office`."""

    path: str = Field(description="The file, relative to the working folder, such as out/report.docx.")
    expect: list[str] = Field(default=[], description="Counts that were asked for, such as words>=10000, pages=100.")


class CheckTool(Tool):
    """Verifier as a tool: counts, findings, images of the pages."""

    name = "check_office"
    is_repeatable = True
    description = (
        "Open a docx, xlsx, pptx or pdf file with a second library, render it, recalculate its formulas, and report "
        "counts and errors; shows images of its pages."
    )

    def __init__(self, second_kernel: SecondKernel) -> None:
        self._second_kernel = second_kernel
        self.parameters: Mapping[str, object] = schema_of(CheckArguments)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Run the check."""
        request = read_arguments(CheckArguments, arguments)
        code = (
            "from apps.office.sandbox_functions import show_check\n"
            f"print(show_check({request.path!r}, {list(request.expect)!r}))"
        )
        return to_tool_result(await self._second_kernel.run(code, timeout_s=CELL_S), kind="service", code=code)


def office_profile(settings: Mapping[str, object]) -> Profile:
    """Return the profile of the agent that makes documents."""
    chosen = load_settings(dict(settings)).settings
    return Profile(
        name="office",
        system_prompt=resources.files("apps.office").joinpath("prompt.md").read_text(encoding="utf-8").strip(),
        tools=(*VISUAL_TOOLS, lambda workplace: _make_check(workplace)),
        caps=make_caps(chosen),
        context=ContextOptions(strategy=chosen.context, max_tokens=chosen.max_context),
        mark_untrusted=chosen.mark_untrusted,
    )


def _make_check(workplace: ToolContext) -> CheckTool:
    return CheckTool(workplace.second_kernel)


async def make_documents(
    request: OfficeRequest,
    *,
    model: Model | str | None = None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    emit: Emit = lambda line: None,
    **settings: object,
) -> OfficeResult:
    """Make or edit documents with an agent; each file is verified outside of its control, findings are sent back to it.

    Args:
        request: Documents to make.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Creates the kernels (the caller closes it), or the kind of isolation as in the settings.
        watch: Observer of the run.
        emit: Callback for each line of progress.
        settings: Individual settings by name.

    Raises:
        ConfigError: If a setting or file is wrong; nothing was started.
    """
    check_request(request)
    named = {"model": model, "sandbox": sandbox}
    flags = {**settings, **{name: value for name, value in named.items() if isinstance(value, str)}}
    if not isinstance(sandbox, str) and sandbox is not None:
        maker = OfficeKernels(sandbox)
        return await _run_agent(request, maker, None if isinstance(model, str) else model, flags, watch, emit)
    async with office_kernels(flags) as maker:
        return await _run_agent(request, maker, None if isinstance(model, str) else model, flags, watch, emit)


def check_request(request: OfficeRequest) -> None:
    """Check that a request can be carried out.

    Raises:
        ConfigError: If the instruction is empty, the output folder is not empty, or packages are missing.
        OfficeError: If an expectation is invalid.
    """
    if not request.instruction.strip():
        raise ConfigError('the instruction is empty; expected a text such as "Summarise notes.docx on two slides"')
    if request.output.exists() and (not request.output.is_dir() or any(request.output.iterdir())):
        raise ConfigError(f"{request.output} exists and is not an empty folder; choose another one with -o")
    request.expectations("")
    missing = missing_requirements()
    if missing:
        raise ConfigError(
            f"these packages are not installed: {', '.join(missing)}. Install them with: cua setup office"
        )


async def _run_agent(
    request: OfficeRequest,
    maker: OfficeKernels,
    model: Model | None,
    flags: dict[str, Any],
    watch: Watch | None,
    emit: Emit,
) -> OfficeResult:
    flags.pop("sandbox", None)
    named: dict[str, Any] = {"model": model} if model is not None else {}
    async with ToolSession(profile=office_profile(flags), sandbox=maker, watch=watch, **named, **flags) as session:
        question, files = request.instruction + _expectations_text(request), list(request.files)
        rounds = 0
        while True:
            rounds += 1
            run = await session.ask(question, files)
            assert session.run_dir is not None
            result = OfficeResult(run=run, rounds=rounds)
            result.files = await asyncio.to_thread(_collect, session.run_dir / FILES / OUT, request.output)
            await verify_files(result, request, maker)
            folders = (request.output, session.run_dir / FILES / OUT)
            lost = await asyncio.to_thread(find_missing_files, run.end.answer or "", folders, request.files)
            result.missing += [f"the answer names {name}, which is neither in out/ nor an input" for name in lost]
            emit(result.to_text())
            is_over = run.end.status not in ("unverified", "succeeded")
            if result.is_clean or is_over or rounds > request.rounds:
                break
            question, files = _findings_prompt(result), []
        await asyncio.to_thread(write_reports, result, request.output)
    return result


def _expectations_text(request: OfficeRequest) -> str:
    return f"\n\nAsked for, and counted at the end: {', '.join(request.expect)}" if request.expect else ""


def _findings_prompt(result: OfficeResult) -> str:
    return (
        "The verifier looked at the files in out/ and found errors. Fix them, or state for each why it cannot be "
        f"fixed.\n\n{result.to_text()}"
    )


def _collect(source: Path, output: Path) -> list[Path]:
    """Copy the files that the agent delivers, except links and special files."""
    output.mkdir(parents=True, exist_ok=True)
    for old in output.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    copies: list[Path] = []
    total = 0
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        if (
            path.is_symlink()
            or not path.is_file()
            or any(part.startswith(".") for part in path.relative_to(source).parts)
        ):
            continue
        total += path.stat().st_size
        if len(copies) >= _MAX_FILES or total > _MAX_BYTES:
            raise OfficeError(f"out/ holds more than {_MAX_FILES} files or {_MAX_BYTES / 1e6:.0f} MB")
        target = output / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        copies.append(target)
    return copies


async def verify_files(result: OfficeResult, request: OfficeRequest, maker: OfficeKernels) -> None:
    """Check every document that was made, each in a fresh kernel."""
    for path in result.files:
        if path.suffix.lower().lstrip(".") not in KINDS:
            continue
        name = path.relative_to(request.output).as_posix()
        try:
            images = request.output / CHECKS / name.replace("/", "_")
            report = await verify_in_sandbox(maker, path, images, request.expectations(name))
        except OfficeError as error:
            result.missing.append(f"{name}: {error}")
            continue
        report.file = name
        result.reports.append(report)


def write_reports(result: OfficeResult, output: Path) -> None:
    """Write the verifier's reports next to its images."""
    folder = output / CHECKS
    folder.mkdir(parents=True, exist_ok=True)
    value = {
        "is_clean": result.is_clean,
        "rounds": result.rounds,
        "missing": result.missing,
        "files": [report.to_json() for report in result.reports],
    }
    (folder / _REPORT).write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
