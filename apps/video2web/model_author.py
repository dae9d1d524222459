"""Author with a model: an agent with tools in the sandbox that changes a site and compares it."""

import asyncio
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from apps.video2web.build import Author, SiteEvaluator
from apps.video2web.compare import side_by_side
from apps.video2web.interactions import Interaction
from apps.video2web.recording import tell_facts
from apps.video2web.rounds import BuildFolder, BuildRequest, Proposal, Round
from apps.video2web.rules_author import LiteralAuthor
from apps.video2web.score import PARTS
from apps.video2web.site_files import read_site, write_site
from cua import ToolSession, Watch
from cua.assemble import make_caps
from cua.config import load_settings
from cua.errors import CuaError
from cua.messages import ImagePart, TextPart, ToolResult, Usage
from cua.model import Model, Tool
from cua.run.end import RunResult
from cua.run.scope import RunScope
from cua.tool_agent.inputs import encode_for_model
from cua.tool_agent.profile import VISUAL_TOOLS, ContextOptions, Profile, ToolContext
from cua.tools.toolset import Arguments, failed, schema_of
from cua.trajectory.chain import FILES
from visual_tools.sandbox import KernelMaker

SITE = "site"
"""Folder of the site within the model's working folder."""

_MAX_SHOWN = 12  # images of interactions in one message: bounds the tokens
_MAX_FACTS = 200  # lines about a recording in one message: bounds the tokens


class CompareArguments(Arguments):
    """Arguments of `compare_site`: none."""


class CompareTool(Tool):
    """Renders the site of a working folder, scores it and reports the differences."""

    name = "compare_site"
    is_repeatable = True

    def __init__(self, folder: Path, request: BuildRequest, evaluator: SiteEvaluator) -> None:
        self._folder, self._request, self._evaluator = folder, request, evaluator
        self.description = (
            "Render site/ in a browser without network and compare it with the reference: the score and its parts, "
            "what differs with its place in pixels, an image of each page, and the regions that differ most "
            "(reference on the left, yours on the right)."
        )
        self.parameters: Mapping[str, Any] = schema_of(CompareArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Render, score and compare the site."""
        try:
            files = await asyncio.to_thread(read_site, self._folder / SITE)
        except CuaError as error:
            return failed(f"The site cannot be read: {error}")
        score, findings, renderings = await self._evaluator.score_site(self._request, files)
        lines = [*score.missing(), *(line for differences in findings for line in differences.lines())]
        parts: list[TextPart | ImagePart] = [TextPart(text=describe_score(score.to_json(), lines))]
        for page, (reference, rendering) in enumerate(zip(self._request.pages, renderings, strict=True)):
            if rendering is None:
                continue
            parts.append(encode_for_model(rendering.image)[0])
            parts += [
                encode_for_model(side_by_side(reference.image, rendering.image, box))[0]
                for box in findings[page].regions[:2]
            ]
        return ToolResult(parts=tuple(parts), data={"score": score.to_json()["score"]})


def describe_score(score: Mapping[str, Any], lines: Sequence[str]) -> str:
    """Return a score and the differences as text."""
    shown = []
    for number, page in enumerate(score["pages"], 1):
        parts = ", ".join(f"{name} {page[name]}" for name in PARTS if page.get(name) is not None)
        shown.append(f"page {number}: {page['score']} ({parts})")
    return "\n".join([f"score {score['score']}", *shown, *(f"- {line}" for line in lines)])


class ModelAuthor:
    """Has a tool-calling model write a site in the sandbox; the rules write its draft.

    Args:
        evaluator: Scores sites for the model's own comparisons.
        model: A model object (the caller closes it), or a name as in the settings.
        sandbox: Creates the kernels (the caller closes it), or the kind of isolation as in the settings.
        watch: Observer of the run.
        scope: Scope of the parent run.
        settings: Individual settings by name.
    """

    def __init__(
        self,
        evaluator: SiteEvaluator,
        *,
        model: Model | str | None = None,
        sandbox: KernelMaker | str | None = None,
        watch: Watch | None = None,
        scope: RunScope | None = None,
        **settings: Any,
    ) -> None:
        self.name = model if isinstance(model, str) else model.name if model else str(settings.get("model", "model"))
        self._evaluator = evaluator
        self._given: dict[str, Any] = {"model": model, "sandbox": sandbox, "watch": watch, "scope": scope, **settings}
        self._settings = settings | ({"model": model} if isinstance(model, str) else {})
        self._rules = LiteralAuthor()
        self._session: ToolSession | None = None
        self._placed: Mapping[str, bytes] = {}
        self._result: RunResult | None = None

    async def draft(self, request: BuildRequest) -> Proposal:
        """Write the draft by rules, so that the model starts from an existing site."""
        return await self._rules.draft(request)

    async def revise(self, request: BuildRequest, best: Round, last: Round, folder: Path) -> Proposal:
        """Let the model change the best version, given the differences as text and images."""
        images = _images(folder, request, best, is_first=self._session is None)
        return await self.propose(request, best.proposal.files, _question(request, best, last, folder), images)

    async def propose(
        self, request: BuildRequest, files: Mapping[str, bytes], question: str, images: Sequence[Path]
    ) -> Proposal:
        """Ask the model for a change of a site.

        Args:
            request: The pages that `compare_site` compares with.
            files: The site, placed in the model's working folder.
            question: The task of the model.
            images: Shown before the question.
        """
        used = self._used
        if self._session is None:
            self._placed = files
            self._session = ToolSession(profile=self._profile(request), **self._given)
        elif self._is_changed(files):
            run_dir = self._run_dir()
            write_site(files, run_dir / FILES / SITE, staging=run_dir)
        self._result = await self._session.ask(question, images)
        return self._proposal(self._result, files, used)

    async def close(self) -> None:
        """End the session."""
        if self._session is not None:
            await self._session.close()

    @property
    def _used(self) -> Usage:
        return self._result.usage if self._result is not None else Usage()

    def _run_dir(self) -> Path:
        run_dir = self._session.run_dir if self._session is not None else None
        if run_dir is None:
            raise RuntimeError("the session has not begun")
        return run_dir

    def _is_changed(self, files: Mapping[str, bytes]) -> bool:
        try:
            return read_site(self._run_dir() / FILES / SITE) != dict(files)
        except CuaError:
            return True

    def _proposal(self, result: RunResult, before: Mapping[str, bytes], used: Usage) -> Proposal:
        end, stop = result.end, ""
        if end.status == "stopped" or (end.status == "capped" and end.cap != "steps") or end.status == "error":
            stop = f"{end.status}: {end.reason}"
        problem = ""
        try:
            files: Mapping[str, bytes] = read_site(self._run_dir() / FILES / SITE)
        except CuaError as error:
            files, problem = {}, f"the site is gone: {error}"
        summary = (end.answer or end.reason or "").strip().split("\n")[0][:300]
        if not problem and files == dict(before):
            problem = "nothing was changed"
        usage = result.usage
        spent = Usage(
            input_tokens=usage.input_tokens - used.input_tokens,
            output_tokens=usage.output_tokens - used.output_tokens,
            cached_tokens=usage.cached_tokens - used.cached_tokens,
            cost_usd=None
            if usage.cost_usd is None or used.cost_usd is None
            else max(usage.cost_usd - used.cost_usd, 0.0),
        )
        text = "; ".join(part for part in (problem, summary) if part)
        return Proposal(files=files, summary=text, usage=spent, stop=stop, run=str(result.run_dir or ""))

    def _profile(self, request: BuildRequest) -> Profile:
        settings = load_settings(self._settings).settings
        prompt = resources.files("apps.video2web").joinpath("prompt.md").read_text(encoding="utf-8").strip()

        def make_compare(place: ToolContext) -> Tool:
            write_site(self._placed, place.kernel.folder / SITE, staging=place.kernel.folder.parent)
            return CompareTool(place.kernel.folder, request, self._evaluator)

        return Profile(
            name="web",
            system_prompt=prompt,
            tools=(*VISUAL_TOOLS, make_compare),
            caps=make_caps(settings),
            context=ContextOptions(strategy=settings.context, max_tokens=settings.max_context),
            mark_untrusted=settings.mark_untrusted,
        )


def _question(request: BuildRequest, best: Round, last: Round, folder: Path) -> str:
    lines = []
    if last.number != best.number:
        lines.append(
            f"Your last change scored {last.score.score:.4f}, not more than {best.score.score:.4f}: it was taken back."
            + "".join(f" {page.problem}." for page in last.score.pages if page.problem)
        )
    names = ", ".join(f"{SITE}/{name}" for name in request.names)
    lines.append(
        f"{names} in the working folder hold the best version so far (round {best.number}). The window is "
        f"{request.viewport_px[0]}x{request.viewport_px[1]} px. The goal is a score of {request.goal:g}."
    )
    lines.append(describe_score(best.score.to_json(), best.lines()))
    if request.interactions and best.number == 0 and last.number == 0:
        lines.append("The recording shows these interactions (coordinates of the page):")
        lines += [f"- {_describe_interaction(interaction, request)}" for interaction in request.interactions]
    facts = BuildFolder(folder).recorded_facts() if best.number == 0 and last.number == 0 else None
    if facts is not None:
        lines.append("What code read off the recording, as in the storyboard (boxes: left, top, right, bottom):")
        lines += list(tell_facts(facts))[:_MAX_FACTS]
    if request.instruction:
        lines.append(f"The user also requires: {request.instruction}")
    lines.append("Change the files so that less differs, then say in one sentence what you changed.")
    return "\n".join(lines)


def _describe_interaction(interaction: Interaction, request: BuildRequest) -> str:
    box = interaction.box_px
    end = f"; it leads to {request.names[interaction.leads_to]}" if interaction.leads_to is not None else ""
    return (
        f"{request.names[interaction.page]}: {interaction.name}; x {box.left} to {box.right}, "
        f"y {box.top} to {box.bottom} of the window changes within {interaction.duration_s:.2f} s{end}"
    )


def _images(folder: Path, request: BuildRequest, best: Round, *, is_first: bool) -> list[Path]:
    build = BuildFolder(folder)
    paths = [build.reference(number) for number in range(1, len(request.pages) + 1)] if is_first else []
    paths += [build.storyboard] if is_first and build.storyboard.is_file() else []
    paths += sorted((folder / "reference").glob("interaction-*-after.png"))[:_MAX_SHOWN] if is_first else []
    shown = sorted(build.round_dir(best.number).glob("*.png"))
    return paths + [path for path in shown if "difference" not in path.name]


def make_author(
    evaluator: SiteEvaluator,
    *,
    model: Model | str | None,
    sandbox: KernelMaker | str | None = None,
    watch: Watch | None = None,
    scope: RunScope | None = None,
    **settings: Any,
) -> Author:
    """Return the author by rules for `literal`, else one with a model."""
    if model is None or isinstance(model, str):
        flags = settings | ({"model": model} if model is not None else {})
        if load_settings(flags).settings.has_embedded_model:
            return LiteralAuthor()
    return ModelAuthor(evaluator, model=model, sandbox=sandbox, watch=watch, scope=scope, **settings)
