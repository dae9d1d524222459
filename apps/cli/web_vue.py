"""`cua web export`, and `cua web build --framework vue`: a site as a Vue project, built by npm."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import terminal
from apps.cli.config import choice

if TYPE_CHECKING:
    from apps.video2web.build import Build
    from apps.video2web.vue.project import Exported

Flag = typer.Option
MAX_LOSS = 0.01
"""By so much a Vue build may score less than the plain site before a warning says so."""


def export_command(
    site: Annotated[Path, typer.Argument(help="The site's folder.")],
    output: Annotated[Path | None, Flag("--output", "-o", help="Folder of the project; SITE-vue.")] = None,
    framework: Annotated[str, Flag(help="vue.")] = "vue",
    viewport: Annotated[str, Flag(help="Size of the window, WIDTHxHEIGHT, to compare in.")] = "1280x720",
) -> None:
    """Make a Vue project of a site and build it: components and data, in dist/ pages that open from disk.

    Packages come from npm. The built pages are compared with those of the site, and the score tells how alike they are.
    """
    from apps.cli.running import run_cancelled_by_signals
    from apps.video2web.inputs import parse_viewport
    from apps.video2web.vue.project import check_npm

    choice("--framework", framework, ("vue",))
    size = parse_viewport(viewport)
    check_npm()
    folder = output or site.with_name(f"{site.name}-vue")
    _check_free(folder)
    made = run_cancelled_by_signals(_export(site, folder, size))
    tell_exported(made, 1.0, "the site")


async def _export(site: Path, folder: Path, viewport_px: tuple[int, int]) -> "Exported":
    from apps.video2web.build import Judge
    from apps.video2web.edit import order_of_site
    from apps.video2web.site_files import read_site
    from apps.video2web.vue.project import export_site

    files = read_site(site)
    async with Judge() as judge:
        order, _ = await order_of_site(files, judge, viewport_px)
        return await export_site(files, folder, order, judge)


def project_folder(output: Path, framework: str, *, is_new: bool) -> Path | None:
    """Where the Vue project goes; None for a plain site.

    Raises:
        ConfigError: The folder is taken, or npm is missing.
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
        raise ConfigError(f"{folder} is there already; choose another folder with -o")


async def export_build(made: "Build", output: Path, folder: Path) -> "Exported":
    """Make a Vue project of a site that was built, measured against the same order as the site."""
    import asyncio

    from apps.video2web.build import Judge
    from apps.video2web.rounds import BuildFolder
    from apps.video2web.site_files import read_site
    from apps.video2web.vue.project import export_site

    terminal.echo(f"Vue project: {folder}; its packages come from npm", err=True)
    order = await asyncio.to_thread(BuildFolder(made.folder).order)
    async with Judge() as judge:
        return await export_site(read_site(output), folder, order, judge)


def facts_of(exported: "Exported") -> dict[str, Any]:
    """What `--output-format json` says of it."""
    pages = str(exported.folder / "dist")
    return {"project": str(exported.folder), "site": pages, "score": round(exported.score, 4)}


def tell_exported(exported: "Exported", plain: float, what: str) -> None:
    """Say how the built pages score, and whether that is less than `what` has, which is `plain`."""
    terminal.echo(f"Vue build: score {exported.score:.4f}, {exported.num_components} components", err=True)
    if exported.score < plain - MAX_LOSS:
        terminal.echo(
            f"warning: the Vue build is unlike {what}, which has {plain:.4f}; what scripts and styles expect of a page "
            "may not hold there",
            err=True,
        )
    terminal.echo(str(exported.folder / "dist"))
