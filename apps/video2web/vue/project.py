"""Vue project made from the files of a site, and its build by npm into pages that open from disk."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from apps.setup.command import CommandResult, run_command
from apps.video2web.build import SiteEvaluator
from apps.video2web.render import Renderer, SitePages, open_page
from apps.video2web.rounds import BuildRequest
from apps.video2web.site_files import Files, read_site, write_site
from apps.video2web.vue.components import Element, VueComponents, find_repeats
from cua.errors import ConfigError, CuaError

DIST = "dist"
PACKAGES = {"vue": "3.5.45"}
BUILD_PACKAGES = {"@vitejs/plugin-vue": "5.2.4", "vite": "6.4.6"}
"""Newest versions that run on the Node.js of Debian 12."""

MIN_NODE = 18
_INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1")
_BUILD = ("npm", "run", "build", "--silent")
_TIMEOUT_S = 300.0
_GET_NODE = f"install Node.js {MIN_NODE} or newer, on Debian with: sudo apt-get install nodejs npm"
_CODE_TYPES = ("", "text/javascript", "application/javascript", "module")
_PAGE = """{doctype}<html{html}>
<head>{head}</head>
<body{body}>
<div id="app" data-page="{name}" style="display: contents"></div>
<script type="module" src="./src/main.js"></script>
{scripts}</body>
</html>
"""
_MAIN = """import {{ createApp }} from 'vue'
{imports}

const pages = {{
{pages}
}}
const place = document.getElementById('app')
createApp(pages[place.dataset.page]).mount(place)
"""


@dataclass(frozen=True, slots=True)
class _Page:
    """Parsed page: whether it declares a doctype, and its tree."""

    has_doctype: bool
    root: Element

    def part(self, tag: str) -> Element:
        """Return the head or the body."""
        return next((part for part in self.root.parts if part.tag == tag), Element(tag))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Built Vue project of a site.

    Attributes:
        folder: Folder of the project; the pages are in its `dist`.
        score: Score of the built pages against the order.
        num_components: Number of components for repeated parts.
    """

    folder: Path
    score: float
    num_components: int


async def export_site(site: Files, folder: Path, request: BuildRequest, evaluator: SiteEvaluator) -> Exported:
    """Convert a site to a Vue project, build it, and score the result.

    Args:
        site: Files of the site.
        folder: Folder of the project, replaced if it exists.
        request: Order that the built pages are scored against.
        evaluator: Scores the pages.

    Raises:
        ConfigError: If npm or Node.js is missing or too old.
        CuaError: If a page cannot be parsed, the packages cannot be installed, or the build fails.
    """
    project = await make_project(site, evaluator.renderer)
    built = await build_project(project, folder)
    score, _, _ = await evaluator.score_site(request, built)
    num_components = sum(name.startswith("src/components/") for name in project)
    return Exported(folder=folder, score=score.score, num_components=num_components)


async def make_project(site: Files, renderer: Renderer) -> dict[str, bytes]:
    """Convert the files of a site to those of a Vue project.

    Pages become components, and repeated parts become components with data. All other files (styles, images,
    scripts) are copied to `public/` unchanged.

    Args:
        site: Files of the site, including `index.html`.
        renderer: Parses the pages.

    Raises:
        CuaError: If a page cannot be parsed.
    """
    names = [name for name in site if name.endswith(".html") and "/" not in name]
    trees = {name: _read_tree(tree) for name, tree in (await _parse(site, names, renderer)).items()}
    components, project = VueComponents(), dict[str, bytes]()
    for name, page in trees.items():
        scripts: list[Element] = []
        cleared = [_without_scripts(page.part(tag), scripts) for tag in ("head", "body")]
        project |= {f"public/{file}": text.encode() for file, text in _inline_scripts(name, scripts)}
        project[f"src/pages/{_page_component(name)}.vue"] = components.write_page(*find_repeats(cleared[1])).encode()
        project[name] = _write_page(name, page, cleared, scripts).encode()
    project |= {f"src/components/{name}.vue": text.encode() for name, text in components.files.items()}
    project |= {f"public/{name}": content for name, content in site.items() if name not in trees}
    if any(b"<ShadowHost" in content for content in project.values()):
        project["src/components/ShadowHost.vue"] = _own_file("ShadowHost.vue")
    project["src/main.js"] = _write_main(list(trees)).encode()
    project["vite.config.js"] = _own_file("vite.config.js")
    project["package.json"] = _write_package().encode()
    project[".gitignore"] = b"node_modules/\n"
    return project


def check_npm() -> None:
    """Check early whether a project can be built here.

    Raises:
        ConfigError: If npm or Node.js is missing.
    """
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} not found; a Vue project is built by npm: {_GET_NODE}")


async def build_project(project: Files, folder: Path) -> dict[str, bytes]:
    """Write a project, install its packages with npm, and build it.

    Args:
        project: Files of the project.
        folder: Folder of the project, replaced if it exists.

    Returns:
        Files of the built site, which are in `folder/dist`.

    Raises:
        ConfigError: If npm or Node.js is missing or too old.
        CuaError: If the packages cannot be installed, or the build fails.
    """
    check_npm()
    version = await run_command(("node", "--version"), timeout_s=_TIMEOUT_S, say=_drop)
    major = re.search(r"v(\d+)", "\n".join(version.tail))
    if major is None or int(major[1]) < MIN_NODE:
        found_version = version.tail[-1] if version.tail else "none that runs"
        raise ConfigError(f"Node.js is {found_version}; a Vue project needs {MIN_NODE} or newer: {_GET_NODE}")
    write_site(project, folder)
    for argv in (_INSTALL, _BUILD):
        done = await run_command(argv, timeout_s=_TIMEOUT_S, say=_drop, folder=folder)
        if done.code != 0:
            raise CuaError(_why_failed(argv, done, folder))
    return read_site(folder / DIST)


def _why_failed(argv: tuple[str, ...], done: CommandResult, folder: Path) -> str:
    failure = "the packages cannot be had from npm" if argv is _INSTALL else "the Vue project does not build"
    return f"{failure}: {done.why}; to try again: cd {folder} && npm install && npm run build"


def _drop(line: str) -> None:
    """Discard a line of npm output; it is included in the error if npm fails."""


# ------------------------------------------------------------------ pages


async def _parse(site: Files, names: list[str], renderer: Renderer) -> dict[str, Any]:
    script = _own_file("read_page.js").decode()
    async with renderer.context(SitePages({"index.html": b""}), (640, 480)) as context:
        opened = await open_page(context)
        return {name: await opened.look(script, site[name].decode("utf-8", "replace")) for name in names}


def _read_tree(tree: Any) -> _Page:
    return _Page(bool(tree["hasDoctype"]), _read_element(tree["root"]))


def _read_element(tree: Any) -> Element:
    tag, attributes, children = tree
    inner = tuple(child if isinstance(child, str) else _read_element(child) for child in children)
    return Element(tag, dict(attributes), inner)


def _without_scripts(element: Element, scripts: list[Element]) -> Element:
    """Return an element without its scripts, which are appended to `scripts` in order."""
    kept: list[Element | str] = []
    for child in element.children:
        if isinstance(child, str):
            kept.append(child)
        elif child.tag == "script" and child.attributes.get("type", "").lower() in _CODE_TYPES:
            scripts.append(child)
        else:
            kept.append(_without_scripts(child, scripts))
    return replace(element, children=tuple(_joined(kept)))


def _joined(children: list[Element | str]) -> Iterator[Element | str]:
    """Yield the children with adjacent texts joined."""
    text = ""
    for child in children:
        if isinstance(child, str):
            text += child
            continue
        if text:
            yield text
        text = ""
        yield child
    if text:
        yield text


def _inline_name(page: str, number: int) -> str:
    return f"{page.removesuffix('.html')}-inline-{number}.js"


def _inline_scripts(page: str, scripts: list[Element]) -> Iterator[tuple[str, str]]:
    """Yield the inline scripts of a page as files, since only files can wait until the components are mounted."""
    for number, script in enumerate(scripts, 1):
        if "src" not in script.attributes:
            yield _inline_name(page, number), "".join(text for text in script.children if isinstance(text, str))


def _write_page(name: str, page: _Page, cleared: list[Element], scripts: list[Element]) -> str:
    tags = []
    for number, script in enumerate(scripts, 1):
        kind = ' type="module"' if script.attributes.get("type", "").lower() == "module" else " defer"
        source = script.attributes.get("src", _inline_name(name, number))
        tags.append(f'<script{kind} src="{escape(source)}"></script>\n')
    return _PAGE.format(
        doctype="<!doctype html>\n" if page.has_doctype else "",
        html=_attributes(page.root),
        head="".join(_serialized(child) for child in cleared[0].children),
        body=_attributes(cleared[1]),
        name=name.removesuffix(".html"),
        scripts="".join(tags),
    )


def _attributes(element: Element) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in element.attributes.items())


def _serialized(child: Element | str) -> str:
    """Return an element of a page's head as HTML."""
    if isinstance(child, str):
        return escape(child, quote=False)
    start = f"<{child.tag}{_attributes(child)}>"
    if child.tag in ("meta", "link", "base"):
        return start
    is_raw = child.tag in ("style", "script", "noscript")
    inner = "".join(each if is_raw and isinstance(each, str) else _serialized(each) for each in child.children)
    return f"{start}{inner}</{child.tag}>"


def _page_component(page: str) -> str:
    words = re.findall("[A-Za-z0-9]+", page.removesuffix(".html"))
    return "Page" + "".join(word[0].upper() + word[1:] for word in words)


def _write_main(pages: list[str]) -> str:
    names = {page: _page_component(page) for page in pages}
    imports = "\n".join(f"import {name} from './pages/{name}.vue'" for name in names.values())
    known = "\n".join(f"  {json.dumps(page.removesuffix('.html'))}: {name}," for page, name in names.items())
    return _MAIN.format(imports=imports, pages=known)


def _write_package() -> str:
    package = {
        "name": "site",
        "private": True,
        "version": "0.0.0",
        "type": "module",
        "scripts": {"dev": "vite", "build": "vite build"},
        "dependencies": PACKAGES,
        "devDependencies": BUILD_PACKAGES,
    }
    return json.dumps(package, indent=2) + "\n"


def _own_file(name: str) -> bytes:
    return package_files("apps.video2web.vue").joinpath(name).read_bytes()
