"""`cua web`: build a site from images of its pages, compare it with them in rounds, and export a Vue project."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings
from apps.cli.help_page import App

if TYPE_CHECKING:
    from apps.cli.running import StopSwitch
    from apps.video2web.build import Build
    from apps.video2web.render import Rendering
    from apps.video2web.rounds import BuildRequest
    from apps.video2web.score import PageScore, Reference
    from apps.video2web.vue.project import Exported
    from envs.domain_rules import DomainRules

Flag = typer.Option
_MAX_LOSS = 0.01
"""Largest score loss of a Vue build against the plain site that gives no warning."""

app = App(help="Build web pages from images or recordings, and score them.")


@app.command("build")
def build_command(
    given: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Images or http(s) addresses of the pages, or a screen recording."),
    ] = None,
    output: Annotated[
        Path, Flag("--output", "-o", metavar="FOLDER", help="Folder of the site; rounds go to FOLDER-build.")
    ] = Path("site"),
    requirements: Annotated[
        str, Flag("--wish", metavar="TEXT", help="Further requirements for a model, in words.")
    ] = "",
    rounds: Annotated[int, Flag(metavar="NUMBER", min=0, max=99, help="Rounds after the draft.")] = 8,
    goal: Annotated[float, Flag(metavar="SCORE", min=0, max=1, help="Stop at this score.")] = 0.98,
    viewport: Annotated[
        str | None,
        Flag(metavar="WIDTHxHEIGHT", help="Size of the window in CSS pixels.", show_default="size of the first image"),
    ] = None,
    framework: Annotated[
        str, Flag(metavar="NAME", help="plain, or vue: also a Vue project in FOLDER-vue, built by npm.")
    ] = "plain",
    resume: Annotated[bool, Flag("--resume", help="Continue the interrupted build of this folder.")] = False,
    other: common.Other = None,
    model: common.RulesModel = None,
    base_url: common.BaseUrl = None,
    max_steps: common.RoundSteps = None,
    max_time: common.MaxModelTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    sandbox: common.Sandbox = None,
    output_format: common.TextOrJson = "text",
) -> None:
    """Build a site from images, addresses or a screen recording.

    Rules write a draft, which is rendered, compared with the input and improved in rounds, by rules or by a model,
    until the goal is reached, two rounds bring no improvement, or all rounds are done. The site is that of the best
    round; FOLDER-build/report.html shows every round.

        cua web build page.png -o site
        cua web build demo.mp4 -o site --model kimi-k2.5
    """
    import asyncio

    from apps.cli.running import StopSwitch

    chosen = chosen_settings(given)
    form = choice("--output-format", output_format, ("text", "json"))
    switch = StopSwitch(is_for_agent=False)
    project = _project_folder(output, framework, is_new=not resume)

    async def work() -> "tuple[Build, Exported | None]":
        async def make_request() -> "BuildRequest":
            from apps.video2web.inputs import parse_viewport
            from cua.config import load_settings
            from envs.domain_rules import DomainRules

            size, known = parse_viewport(viewport) if viewport else None, load_settings(chosen).settings
            rules = DomainRules(allowed=known.allow_domains, denied=known.deny_domains)
            return await _make_request(
                inputs or [], size, rules, goal=goal, max_rounds=rounds, instruction=requirements
            )

        result = await _build(output, None if resume else make_request, chosen, switch)
        return result, await _export_build(result, output, project) if project is not None else None

    result, exported = asyncio.run(switch.guarded(work()))
    report = str(result.folder / "report.html")
    facts = {"score": round(result.score, 4), "best_round": result.best, "reason": result.reason}
    if form == "json":
        vue = {"vue": _facts_of(exported)} if exported is not None else {}
        terminal.echo_json({**facts, "site": str(output), "report": report, **vue})
        return
    terminal.echo(f"score {result.score:.4f}, that of round {result.best}: {result.reason}", err=True)
    terminal.echo(f"report: {report}", err=True)
    terminal.echo(str(output))
    if exported is not None:
        _print_exported(exported, result.score, "the plain site")


async def _make_request(
    inputs: list[str], viewport_px: tuple[int, int] | None, rules: "DomainRules", **more: Any
) -> "BuildRequest":
    from apps.video2web.inputs import take_inputs
    from apps.video2web.rounds import BuildRequest

    given = await take_inputs(inputs, viewport_px, rules, terminal.echo_err)
    for warning in given.warnings:
        terminal.echo(f"warning: {warning}", err=True)
    pages, size_px = given.pages, given.viewport_px
    return BuildRequest(
        pages=pages, viewport_px=size_px, interactions=given.interactions, recorded=given.recorded, **more
    )


async def _build(
    output: Path,
    make_request: "Callable[[], Awaitable[BuildRequest]] | None",
    chosen: dict[str, Any],
    switch: "StopSwitch",
) -> "Build":
    import asyncio

    from apps.cli.progress import terminal_listener
    from apps.video2web.build import SiteEvaluator, build
    from apps.video2web.model_author import make_author
    from apps.video2web.report import write_build_report
    from apps.video2web.rounds import BuildFolder
    from apps.video2web.site_files import write_site
    from cua import Watch
    from cua.errors import ConfigError

    folder = BuildFolder(output.with_name(f"{output.name}-build"))
    if make_request is None:
        if not folder.is_begun:
            raise ConfigError(f"{folder.path} has no build to resume; leave out --resume to start one")
        request = await asyncio.to_thread(folder.request)
        chosen = {**folder.facts().get("settings", {}), **chosen}
    else:
        for path in (output, folder.path):
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise ConfigError(
                    f"{path} already exists; choose another folder with -o, or resume its build with --resume"
                )
        request = await make_request()
        named = {name: chosen[name] for name in ("model", "base_url") if name in chosen}
        from cua.config import load_settings

        folder.begin(request, {"settings": named, "author": load_settings(chosen).settings.model})

    watch = Watch(listener=terminal_listener(), on_control=switch.connect)
    async with SiteEvaluator() as evaluator:
        author = make_author(evaluator, watch=watch, **{"model": None, **chosen})
        try:
            result = await build(folder, request, author, evaluator, terminal.echo_err)
        finally:
            await author.close()
    write_site(folder.site(result.best), output)
    await asyncio.to_thread(write_build_report, folder, result.reason)
    return result


@app.command("edit")
def edit_command(
    given: typer.Context,
    site: Annotated[Path, typer.Argument(metavar="SITE", help="Folder of the site.")],
    change: Annotated[str, typer.Argument(metavar="CHANGE", help="Change in words.")],
    viewport: Annotated[str, Flag(metavar="WIDTHxHEIGHT", help="Size of the window in CSS pixels.")] = "1280x720",
    other: common.Other = None,
    model: common.Model = None,
    base_url: common.BaseUrl = None,
    max_steps: common.RoundSteps = None,
    max_time: common.MaxModelTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    sandbox: common.Sandbox = None,
) -> None:
    """Change a site with a model, as described in a sentence.

    A change that breaks a page (it cannot be shown, scripts fail, it becomes wider than its window) is reverted and
    tried once more. SITE-edits keeps the previous site, the change and a report.

        cua web edit site "make the header sticky" --model kimi-k2.5
    """
    import asyncio

    from apps.cli.running import StopSwitch

    switch = StopSwitch(is_for_agent=False)
    result = asyncio.run(switch.guarded(_edit(site, change, viewport, chosen_settings(given), switch)))
    terminal.echo(result.reason, err=True)
    terminal.echo(f"report: {result.folder / 'report.html'}", err=True)
    terminal.echo(str(site))
    sys.exit(0 if result.is_goal_met else 1)


async def _edit(site: Path, change: str, viewport: str, chosen: dict[str, Any], switch: "StopSwitch") -> "Build":
    import asyncio

    from apps.cli.progress import terminal_listener
    from apps.video2web.build import SiteEvaluator
    from apps.video2web.edit import edit_site
    from apps.video2web.inputs import parse_viewport
    from apps.video2web.model_author import ModelAuthor
    from apps.video2web.report import write_build_report
    from apps.video2web.rounds import BuildFolder
    from cua import Watch
    from cua.config import load_settings
    from cua.errors import ConfigError

    if not change.strip():
        raise ConfigError('the change is empty; expected a sentence such as "make the header sticky"')
    known = load_settings(chosen).settings
    if known.has_embedded_model:
        raise ConfigError("the change needs a language model; name one with --model and its endpoint with --base-url")
    edits = site.with_name(f"{site.name}-edits")
    number = sum(1 for _ in edits.glob("edit-*")) + 1
    folder = BuildFolder(edits / f"edit-{number}")
    watch = Watch(listener=terminal_listener(), on_control=switch.connect)
    async with SiteEvaluator() as evaluator:
        author = ModelAuthor(evaluator, watch=watch, **{**chosen, "model": known.model})
        try:
            size = parse_viewport(viewport)
            result = await edit_site(site, change, folder, author, evaluator, viewport_px=size, say=terminal.echo_err)
        finally:
            await author.close()
    await asyncio.to_thread(write_build_report, folder, result.reason)
    return result


@app.command("export")
def export_command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="Folder of the site.")],
    output: Annotated[
        Path | None, Flag("--output", "-o", metavar="FOLDER", help="Folder of the project.", show_default="SITE-vue")
    ] = None,
    framework: Annotated[str, Flag(metavar="NAME", help="vue.")] = "vue",
    viewport: Annotated[
        str, Flag(metavar="WIDTHxHEIGHT", help="Size of the window for the comparison, in CSS pixels.")
    ] = "1280x720",
) -> None:
    """Export a site as a Vue project and build it.

    The project has components and data; the built pages in dist/ open from disk. Packages come from npm. The built
    pages are compared with the site; the printed score is their similarity.
    """
    from apps.cli.running import run_cancelled_by_signals
    from apps.video2web.inputs import parse_viewport
    from apps.video2web.vue.project import check_npm

    choice("--framework", framework, ("vue",))
    size = parse_viewport(viewport)
    check_npm()
    folder = output or site.with_name(f"{site.name}-vue")
    _check_free(folder)
    result = run_cancelled_by_signals(_export(site, folder, size))
    _print_exported(result, 1.0, "the site")


async def _export(site: Path, folder: Path, viewport_px: tuple[int, int]) -> "Exported":
    from apps.video2web.build import SiteEvaluator
    from apps.video2web.edit import request_for_site
    from apps.video2web.site_files import read_site
    from apps.video2web.vue.project import export_site

    files = read_site(site)
    async with SiteEvaluator() as evaluator:
        request, _ = await request_for_site(files, evaluator, viewport_px)
        return await export_site(files, folder, request, evaluator)


def _project_folder(output: Path, framework: str, *, is_new: bool) -> Path | None:
    """Return the folder of the Vue project; None for a plain site.

    Raises:
        ConfigError: If the folder is not empty, or npm is missing.
    """
    if choice("--framework", framework, ("plain", "vue")) == "plain":
        return None
    from apps.video2web.vue.project import check_npm

    check_npm()
    folder = output.with_name(f"{output.name}-vue")
    if is_new:
        _check_free(folder)
    return folder


def _check_free(folder: Path) -> None:
    from cua.errors import ConfigError

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} already exists; choose another folder with -o")


async def _export_build(result: "Build", output: Path, folder: Path) -> "Exported":
    """Export a built site as a Vue project, measured against the same request as the site."""
    import asyncio

    from apps.video2web.build import SiteEvaluator
    from apps.video2web.rounds import BuildFolder
    from apps.video2web.site_files import read_site
    from apps.video2web.vue.project import export_site

    terminal.echo(f"Vue project: {folder}; its packages come from npm", err=True)
    request = await asyncio.to_thread(BuildFolder(result.folder).request)
    async with SiteEvaluator() as evaluator:
        return await export_site(read_site(output), folder, request, evaluator)


def _facts_of(exported: "Exported") -> dict[str, object]:
    """Return the facts for `--output-format json`."""
    pages = str(exported.folder / "dist")
    return {"project": str(exported.folder), "site": pages, "score": round(exported.score, 4)}


def _print_exported(exported: "Exported", plain: float, reference_name: str) -> None:
    """Print the score of the built pages, and a warning if it is lower than `plain`, the score of `reference_name`."""
    terminal.echo(f"Vue build: score {exported.score:.4f}, {exported.num_components} components", err=True)
    if exported.score < plain - _MAX_LOSS:
        terminal.echo(
            f"warning: the Vue build differs from {reference_name}, whose score is {plain:.4f}; scripts and styles may "
            "depend on its markup",
            err=True,
        )
    terminal.echo(str(exported.folder / "dist"))


@app.command("demo")
def demo_command(
    output: Annotated[Path, Flag("--output", "-o", metavar="FOLDER", help="Folder for the demo.")] = Path("web-demo"),
) -> None:
    """Build a site from a bundled screen recording, without a key.

    Uses rules and no network, and prints the paths of site and report.
    """
    import asyncio

    from apps.cli.running import StopSwitch

    switch = StopSwitch(is_for_agent=False)
    result = asyncio.run(switch.guarded(_demo(output, switch)))
    terminal.echo(f"score {result.score:.4f}, that of round {result.best}: {result.reason}", err=True)
    terminal.echo(f"site: {output / 'site' / 'index.html'}")
    terminal.echo(f"report: {result.folder / 'report.html'}")


async def _demo(output: Path, switch: "StopSwitch") -> "Build":
    from apps.video2web.inputs import NO_RULES, find_demo

    source = find_demo()
    terminal.echo(f"building a site from the screen recording {source.name}", err=True)
    make_request = partial(_make_request, [str(source)], None, NO_RULES, goal=1, max_rounds=3)
    return await _build(output / "site", make_request, {"model": "literal"}, switch)


@app.command("score")
def score_command(
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="Reference: an image, an HTML file, or the folder of a site.")
    ],
    site: Annotated[Path, typer.Argument(metavar="SITE", help="Folder of the site, or an HTML file.")],
    viewport: Annotated[
        str | None,
        Flag(
            metavar="WIDTHxHEIGHT",
            help="Size of the window in CSS pixels.",
            show_default="that of the image, else 1280x720",
        ),
    ] = None,
    clip: Annotated[
        Path | None, Flag(metavar="FOLDER", help="CLIP model: adds its similarity and the score of Design2Code.")
    ] = None,
    output_format: common.TextOrJson = "text",
) -> None:
    """Measure how well a page matches a reference.

    Prints one score, its parts, and the differences.
    """
    from apps.cli.running import run_cancelled_by_signals

    form = choice("--output-format", output_format, ("text", "json"))
    score, lines = run_cancelled_by_signals(_score(reference, site, viewport, clip))
    if form == "json":
        terminal.echo_json({**score, "differences": lines})
        return
    for line in lines:
        terminal.echo(line, err=True)
    for name, value in score.items():
        if value is not None:
            terminal.echo(f"{name:<12} {value}")


async def _score(
    reference: Path, site: Path, viewport: str | None, clip: Path | None
) -> tuple[dict[str, object], list[str]]:
    from apps.video2web.build import SiteEvaluator
    from apps.video2web.compare import find_differences
    from apps.video2web.inputs import VIEWPORT_PX, find_page, is_html, parse_viewport, read_images, render_reference
    from apps.video2web.render import Renderer
    from apps.video2web.score import score_page
    from apps.video2web.site_files import code_bytes, read_site

    size = parse_viewport(viewport) if viewport else None
    folder, name = find_page(site)
    files = read_site(folder, page=name)
    if is_html(reference):
        window = size or VIEWPORT_PX
        async with Renderer() as renderer:
            page = await render_reference(reference, window, renderer)
    else:
        pages, (width, height) = read_images([reference], size)
        page, window = pages[0], (width, min(height, pages[0].image.shape[0]))
    async with SiteEvaluator() as evaluator:
        ours = await evaluator.render(files, name, window)
        violations = await evaluator.find_violations(files, name, window)
    score = score_page(page, ours)
    beside: dict[str, object] = {"code_bytes": code_bytes(files), "elements": ours.num_elements}
    beside["accessibility"] = None if violations is None else len(violations)
    if clip is not None:
        beside |= _clip_parts(page, ours, score, clip)
    lines = find_differences(page, ours, score).lines() + [f"accessibility: {line}" for line in violations or ()]
    return {**score.to_json(), **beside}, lines


def _clip_parts(page: "Reference", ours: "Rendering", score: "PageScore", folder: Path) -> dict[str, float]:
    """Return CLIP's similarity, and Design2Code's score, of which it is the fifth part."""
    from visual_tools.pages.similarity import clip_similarity

    blocks = page.blocks, score.page_blocks
    similarity = clip_similarity(page.image, ours.image, folder, reference_blocks=blocks[0], page_blocks=blocks[1])
    return {"clip": round(similarity, 4), "design2code": round((4 * score.blocks.d2c4 + similarity) / 5, 4)}


@app.command("preview")
def preview_command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="Folder of the site.")] = Path("site"),
    port: Annotated[int, Flag(metavar="PORT", min=0, max=65535, help="Port; 0 chooses a free one.")] = 0,
) -> None:
    """Serve a site on this machine only; Ctrl-C stops it.

    A content security policy blocks all other addresses.
    """
    from apps.video2web.preview import PreviewServer

    with PreviewServer(site, port) as server:
        terminal.echo(server.url)
        sys.stdout.flush()
        server.serve_forever()
