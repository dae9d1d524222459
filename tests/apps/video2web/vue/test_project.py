"""Vue projects of sites: the files as text, and one that npm really builds and Chromium opens from disk."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.cli.main import app
from apps.setup.command import run_command
from apps.video2web.build import SiteEvaluator
from apps.video2web.edit import request_for_site
from apps.video2web.inputs import find_demo, read_inputs
from apps.video2web.render import SitePages, open_page
from apps.video2web.rounds import BuildRequest
from apps.video2web.rules_author import LiteralAuthor
from apps.video2web.vue.project import build_project, export_site, make_project

pytestmark = pytest.mark.asyncio(loop_scope="session")
SIZE = (640, 400)
HOME = b"""<!doctype html><html lang="de"><head><title>Farne &amp; Moose</title><link rel="stylesheet" href="style.css">
<script src="first.js"></script><style>b > i { color: red }</style></head>
<body class="home"><script>window.order = ['inline']</script><main>
<ul><li>Farn<li>Moos<li>Schilf</ul><table><tr><td>1<td>2<td>3<tr><td>4<td>5<td>6</table>
<noscript>nothing</noscript></main><script src="last.js" defer></script></body></html>"""
SITE: Mapping[str, bytes] = {
    "index.html": HOME,
    "about-us.html": b"<title>About</title><p>{{ braces }} and <a href=index.html>home</a></p>",
    "style.css": b"main { padding: 20px } td { width: 60px }",
    "first.js": b"window.first = document.querySelectorAll('li').length",
    "last.js": b"document.title += ' ' + window.first + ' ' + document.querySelector('main').children.length",
    "images/a.png": b"png",
}


async def needs_npm() -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    done = await run_command(("npm", "view", "vue@3.5.45", "version"), timeout_s=60, say=lambda line: None)
    if done.code != 0:
        pytest.skip(f"npm reaches no registry: {done.why}")


async def test_the_files_of_a_project(evaluator: SiteEvaluator) -> None:
    project = await make_project(SITE, evaluator.renderer)
    text = {name: content.decode() for name, content in project.items()}
    assert {name for name in text if name.startswith("public/")} == {
        "public/style.css", "public/first.js", "public/last.js", "public/images/a.png", "public/index-inline-2.js",
    }  # fmt: skip
    assert "import PageAboutUs from './pages/PageAboutUs.vue'" in text["src/main.js"]
    assert '"about-us": PageAboutUs,' in text["src/main.js"]
    home = text["index.html"]
    assert home.startswith('<!doctype html>\n<html lang="de">') and '<body class="home">' in home
    assert "<title>Farne &amp; Moose</title>" in home and "<style>b > i { color: red }</style>" in home
    module = '<script type="module" src="./src/main.js"></script>'
    scripts = [f'<script defer src="{name}"></script>' for name in ("first.js", "index-inline-2.js", "last.js")]
    assert home.partition(module)[2].split() == " ".join([*scripts, "</body>", "</html>"]).split()
    assert not text["about-us.html"].startswith("<!doctype")
    page = text["src/pages/PageIndex.vue"]
    assert 'const entries = ["Farn", "Moos", "Schilf"]' in " ".join(page.split()).replace(", ]", "]").replace("[ ", "[")
    assert "<table><tbody>" in page.replace("\n", "").replace(" ", "") and "noscript" not in page
    package = json.loads(text["package.json"])
    versions = [*package["dependencies"].values(), *package["devDependencies"].values()]
    assert all(version.replace(".", "").isdigit() for version in versions)


async def test_without_npm_it_says_so_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for argv in (["export", str(tmp_path)], ["build", "page.png", "-o", str(tmp_path / "s"), "--framework", "vue"]):
        result = CliRunner().invoke(app, ["web", *argv])
        said = str(result.exception) + result.output
        assert result.exit_code != 0
        assert "node and npm not found" in said and "apt-get install nodejs npm" in said


@pytest.mark.long
async def test_packages_that_cannot_be_had_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, does in (("node", "echo v18.19.0"), ("npm", "echo npm error code ENOTFOUND; exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Exception, match=r"cannot be had from npm: .*ENOTFOUND.*npm install && npm run build"):
        await build_project({"package.json": b"{}"}, tmp_path / "project")
    (tmp_path / "node").write_text("#!/bin/sh\necho v16.20.2\n")
    with pytest.raises(Exception, match=r"Node\.js is v16\.20\.2; a Vue project needs 18 or newer"):
        await build_project({"package.json": b"{}"}, tmp_path / "project")


async def _title_from_disk(evaluator: SiteEvaluator, page: Path) -> Any:
    """What a page's title becomes where it is opened from disk, without any server."""
    launched = evaluator.renderer._launched
    assert launched is not None
    context = await launched.browser.new_context()
    try:
        opened = await context.new_page()
        await opened.goto(page.as_uri())
        return await opened.title()
    finally:
        await context.close()


@pytest.mark.slow
async def test_a_project_is_built_and_looks_and_does_the_same(evaluator: SiteEvaluator, tmp_path: Path) -> None:
    await needs_npm()
    build_request, shown = await request_for_site(SITE, evaluator, SIZE)
    made = await export_site(SITE, tmp_path / "project", build_request, evaluator)
    assert made.score > 0.999
    assert (tmp_path / "project" / "dist" / "vue-app.js").is_file()
    assert await _title_from_disk(evaluator, tmp_path / "project" / "dist" / "index.html") == "Farne & Moose 3 2"
    assert any("{{ braces }}" in block.text for block in shown[1].blocks)


@pytest.mark.slow
async def test_interactions_of_a_recording_replay_in_the_vue_build(evaluator: SiteEvaluator, tmp_path: Path) -> None:
    await needs_npm()
    given = read_inputs([find_demo()], None)
    build_request = BuildRequest(
        pages=given.pages, viewport_px=given.viewport_px, goal=1, max_rounds=1, interactions=given.interactions
    )
    site = (await LiteralAuthor().draft(build_request)).files
    plain, _, _ = await evaluator.score_site(build_request, site)
    built = await build_project(await make_project(site, evaluator.renderer), tmp_path / "project")
    vue, _, _ = await evaluator.score_site(build_request, built)
    assert plain.interactions is not None and plain.interactions > 0.5
    assert abs(vue.pages[0].static - plain.pages[0].static) < 0.01
    assert [one.is_present for one in vue.replays] == [one.is_present for one in plain.replays]
    async with evaluator.renderer.context(SitePages(built), given.viewport_px) as context:
        assert (await open_page(context)).problems == []
