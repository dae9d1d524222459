"""What the numeric constants of `visual_tools` decide: scores with each a fifth smaller and a quarter larger.

    python -m benchmarks.visual.constants [--only diff] [--module diff.maps] [--output constants.md]

A constant is a number with a name at the top of a module. Each is changed by itself, everywhere its name was imported,
and the subject's scenes are judged again. A score is the share of answers that are right, or 1 minus the mean error;
"same answers" means that not one answer changed, so the scenes do not tell where the number lies. What is compiled by
numba, or stands as the default of an argument, keeps its value. Scenes and judges are those of the other benchmarks.
"""

import argparse
import ast
import asyncio
import atexit
import importlib
import pkgutil
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.visual import differences, mazes, ocr_boxes, ocr_turned, share_charts, shares
from tests.visual_tools.charts import test_axes
from tests.visual_tools.charts.plots import Plot, draw_plot
from tests.visual_tools.diff.pairs import any_spoil, judge, spoil
from tests.visual_tools.drawing import Canvas
from tests.visual_tools.regions.scenes import KINDS, make_scene
from tests.visual_tools.search import test_codes, test_templates
from tests.visual_tools.search.dom import PageText
from tests.visual_tools.video import test_cuts
from tests.visual_tools.video.making import make_video
from visual_tools.box import Box
from visual_tools.errors import VisualError

FACTORS = (0.8, 1.25)
Answers = list[tuple[float, object]]
"""For each scene its score from 0 to 1, and the answer itself."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number at the top of a module."""

    module: str
    name: str
    value: int | float

    def changed(self, factor: float) -> int | float:
        """Times `factor`; a whole number stays one, and differs by one at least."""
        if isinstance(self.value, float):
            return self.value * factor
        step = 1 if factor > 1 else -1
        return self.value + (round(self.value * factor) - self.value or step)


def find_constants(package: str) -> Iterator[Constant]:
    """All of a package, or of one module."""
    top = importlib.import_module(package)
    names = [package] if not hasattr(top, "__path__") else []
    names += [info.name for info in pkgutil.walk_packages(getattr(top, "__path__", []), package + ".")]
    for module in names:
        loaded = importlib.import_module(module)
        for node in ast.parse(Path(str(loaded.__file__)).read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for name in (one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)):
                value = getattr(loaded, name.id)
                if type(value) in (int, float) and value:
                    yield Constant(module, name.id, value)


def put(constant: Constant, value: int | float) -> None:
    """Set it in its module and wherever its name was imported from there."""
    for name, module in list(sys.modules.items()):
        if name == constant.module or (name.startswith("visual_tools") and _imports(module, constant)):
            setattr(module, constant.name, value)


def _imports(module: Any, constant: Constant) -> bool:
    if not hasattr(module, constant.name):
        return False
    text = Path(str(module.__file__)).read_text("utf-8")
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == constant.module
        and any(alias.name == constant.name for alias in node.names)
        for node in ast.walk(ast.parse(text))
    )


def regions() -> Callable[[], Answers]:
    from visual_tools.regions.counting import count_objects
    from visual_tools.regions.measuring import measure_objects

    settings: tuple[dict[str, float], ...] = ({"overlap": 0.1, "light": 0.5, "noise": 10}, {"overlap": 0.2})
    scenes = [make_scene(kind, 1000 + turn, **more) for kind in KINDS for turn, more in enumerate(settings)]

    def run() -> Answers:
        answers: Answers = []
        for scene in scenes:
            count, true = count_objects(scene.image).count, len(scene.shapes)
            areas = tuple(round(one.area, 1) for one in measure_objects(scene.image))
            answers.append((max(0.0, 1 - abs(count - true) / true), (count, areas)))
        return answers

    return run


def colors() -> Callable[[], Answers]:
    from visual_tools.colors.measure import color_share

    charts = [share_charts.make_chart(family, seed) for family in share_charts.FAMILIES for seed in (3000,)]

    def run() -> Answers:
        answers: Answers = []
        for chart in charts:
            found = color_share(chart.image, read_labels=False)
            told = tuple((share.color_rgb, round(share.share, 6)) for share in found.shares)
            answers.append((1 - shares.error_of(chart.truth, found), told))
        return answers

    return run


def paths() -> Callable[[], Answers]:
    from visual_tools.paths.shortest import shortest_path

    cases = [case for case in mazes.make_cases(1) if case.kind != "large"]

    def run() -> Answers:
        answers: Answers = []
        for case in cases:
            try:
                found = shortest_path(case.image, start=case.start, goal=case.goal, connectivity=4)
                told: object = (found.found, found.num_steps, found.start_px, found.goal_px)
            except VisualError as error:
                told = str(error)
            answers.append((float(not mazes.judge(case)), told))
        return answers

    return run


def diff() -> Callable[[], Answers]:
    from visual_tools.diff.compare import pixel_diff

    pairs = [spoil(differences.pair_of(number)[1], any_spoil(number)) for number in range(300, 309)]

    def run() -> Answers:
        answers: Answers = []
        for pair in pairs:
            result = pixel_diff(pair.first, pair.second)
            score = judge(result, pair.changes)
            harmony = 2 * score.found / max(1, score.planted + score.found + score.false)
            answers.append((harmony, repr(result.differences)))
        return answers

    return run


def ocr() -> Callable[[], Answers]:
    from visual_tools.ocr import OcrEngine, TextLine

    sheets = [ocr_turned.draw_sheet(angle, 16) for angle in (0, 5, 30, 90, 180)] + [ocr_turned.draw_mixed(16)]
    screens = asyncio.run(ocr_boxes.take_screens(((800, 600),)))

    def is_read(text: PageText, lines: list[TextLine]) -> bool:
        return any(
            line.box_px.has_point(*text.center) and text.text.casefold() in line.text.casefold() for line in lines
        )

    def run() -> Answers:
        engine = OcrEngine(num_threads=1)
        answers: Answers = []
        for sheet in sheets:
            lines = [line.text for line in engine.read_text(sheet)]
            answers.append((float(np.mean([text in lines for text in ocr_turned.TEXTS])), tuple(lines)))
        for screen in screens:
            found = engine.read_text(screen.image)
            read = [is_read(text, found) for text in screen.texts]
            answers.append((float(np.mean(read)), tuple((line.text, line.box_px) for line in found)))
        return answers

    return run


def charts() -> Callable[[], Answers]:
    from visual_tools.charts.axes import find_axes

    plots = [draw_plot(draw) for draw in (*test_axes.ALL, test_axes.draw_downward)]
    plots += [draw_plot(test_axes.draw_growth, style=style) for style in ("dark_background", "ggplot", "classic")]
    plots += [draw_plot(test_axes.draw_points, dpi=dpi) for dpi in (60, 150)]

    def is_right(plot: Plot, found: Any) -> bool:
        try:
            return max(test_axes.errors_px(plot, found)) <= test_axes.TOLERANCE_PX
        except AssertionError:  # an axis that was not found, or of another kind
            return False

    def run() -> Answers:
        found = [find_axes(plot.image) for plot in plots]
        return [(float(is_right(plot, axes)), repr(axes)) for plot, axes in zip(plots, found, strict=True)]

    return run


def search() -> Callable[[], Answers]:
    from visual_tools.search.codes import read_codes
    from visual_tools.search.templates import match_template
    from visual_tools.search.texts import find_text

    rng = np.random.default_rng(0)
    icon = test_templates.draw_icon()
    icons = [(20 + 26 * column, 40 + 26 * row, 24, "navy") for column in range(8) for row in range(4)]
    images = [(test_templates.scene((100, 60, side, "navy")), 1) for side in (13, 17, 27, 33, 47)]
    images += [(test_templates.scene(*icons), len(icons)), (test_templates.scene((50, 50, 24, "red")), 0)]
    images += [(np.clip(one * 0.9 + rng.normal(0, 8, one.shape), 0, 255).astype(np.uint8), n) for one, n in images]
    codes = [test_codes.draw_code("Lot 4711", kind, scale) for kind in ("QRCode", "DataMatrix") for scale in (1, 2, 4)]
    page = Canvas(500, 300).text(20, 20, "Delele the old", size=16).text(20, 42, "account now", size=16)
    page = (
        page.text(20, 120, "Total: 1O0", size=16).text(260, 120, "Descripton", size=16).text(20, 200, "Save", size=16)
    )
    texts = ("Delete", "old account", "100", "Description", "Save", "Cancel")

    def run() -> Answers:
        answers: Answers = []
        for image, number in images:
            matches = match_template(image, icon)
            answers.append((float(len(matches) == number), repr([match.box for match in matches])))
        for code in codes:
            read = [one.text for one in read_codes(test_codes.place((200, 100, code)))]
            answers.append((float(read == ["Lot 4711"]), tuple(read)))
        for text in texts:
            spots = find_text(page.array, text)
            answers.append((float(bool(spots) == (text != "Cancel")), repr(list(spots))))
        return answers

    return run


def video() -> Callable[[], Answers]:
    from visual_tools.video.cuts import scenes

    show, mix = test_cuts.show, test_cuts.mix
    black = [np.zeros_like(show(1, 1)[0])] * 12
    flash = show(6, 80, pan_px=1)
    flash[40:43] = [np.full_like(black[0], 255)] * 3
    one, other = show(9, 60), show(10, 60)
    clips: list[tuple[list[Any], list[tuple[int, str]]]] = [
        ([*show(1, 30), *show(2, 20, pan_px=2), *show(3, 45)], [(30, "cut"), (50, "cut")]),
        ([*show(7, 50, pan_px=5), *show(8, 50, pan_px=5)], [(50, "cut")]),
        (show(5, 100, pan_px=16, noise=6), []),
        (flash, []),
        ([*one[:50], *mix(one[:16], other[:16]), *other[:50]], [(58, "dissolve")]),
        ([*one[:40], *mix(one[:12], black), *black, *mix(black, other[:12]), *other[:40]], [(58, "fade")]),
        ([*show(1, 30), *test_cuts.tinted(1, 8, 0.4), *show(3, 30)], [(38, "cut")]),
    ]
    folder = Path(tempfile.mkdtemp(prefix="k25-constants-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = []
    for number, (frames, _) in enumerate(clips):
        (folder / str(number)).mkdir()
        files.append(make_video(folder / str(number), frames, test_cuts.RECIPE))

    def run() -> Answers:
        answers: Answers = []
        for path, (_, wanted) in zip(files, clips, strict=True):
            found = [(scene.start_frame, scene.transition) for scene in scenes(path)][1:]
            is_right = len(found) == len(wanted) and all(
                kind == its_kind and abs(frame - its_frame) <= (0 if kind == "cut" else 6)
                for (frame, kind), (its_frame, its_kind) in zip(found, wanted, strict=True)
            )
            answers.append((float(is_right), tuple(found)))
        return answers

    return run


def widgets() -> Callable[[], Answers]:
    from visual_tools.widgets import find_rectangles

    rng = np.random.default_rng(0)
    looks: tuple[dict[str, str], ...] = (
        {"outline": "#767676"},
        {"fill": "#2266aa"},
        {"fill": "white", "outline": "#d0d4d8"},
        {"fill": "#eceef0"},
    )
    forms: list[tuple[Canvas, list[Box]]] = []
    for colour in ("white", "#f8f9fa", "#eeeeee"):
        canvas, boxes = Canvas(640, 400, colour=colour), []
        for row in range(8):
            left, top = int(rng.integers(10, 300)), 10 + row * 48
            width, height = int(rng.integers(14, 300)), int(rng.integers(14, 40))
            canvas.box(left, top, left + width, top + height, **looks[row % len(looks)])
            if width > 80 and height > 20:
                canvas.text(left + 6, top + 3, "Some words", size=12)
            boxes.append(Box(left, top, left + width, top + height))
        forms.append((canvas, boxes))

    def is_near(one: Box, other: Box) -> bool:
        sides = zip(
            (one.left, one.top, one.right, one.bottom), (other.left, other.top, other.right, other.bottom), strict=True
        )
        return max(abs(mine - theirs) for mine, theirs in sides) <= 2

    def run() -> Answers:
        answers: Answers = []
        for canvas, boxes in forms:
            found = [rectangle.box_px for rectangle in find_rectangles(canvas.array)]
            answers.append((float(np.mean([any(is_near(box, one) for one in found) for box in boxes])), tuple(found)))
        return answers

    return run


SUBJECTS: dict[str, tuple[tuple[str, ...], Callable[[], Callable[[], Answers]]]] = {
    "regions": (("visual_tools.regions",), regions),
    "colors": (("visual_tools.colors",), colors),
    "paths": (("visual_tools.paths",), paths),
    "diff": (("visual_tools.diff",), diff),
    "ocr": (("visual_tools.ocr", "visual_tools.text_detection", "visual_tools.ink"), ocr),
    "charts": (("visual_tools.charts",), charts),
    "search": (("visual_tools.search",), search),
    "video": (("visual_tools.video.cuts",), video),
    "widgets": (("visual_tools.widgets",), widgets),
}


def measure(subject: str, module: str, say: Callable[[str], None]) -> list[str]:
    """Lines of a table: one for each constant of the modules whose name holds `module`."""
    packages, make = SUBJECTS[subject]
    run = make()
    run()  # what is compiled or kept is so from here on
    started = time.perf_counter()
    usual = run()
    constants = [found for package in packages for found in find_constants(package) if module in found.module]
    say(f"{subject}: {len(constants)} constants, {len(usual)} scenes, {time.perf_counter() - started:.1f} s a round")
    usual_score = statistics.mean(score for score, _ in usual)
    lines = [f"\n## {subject}: {len(usual)} scenes, score {usual_score:.4f}\n"]
    lines += ["| constant | value | times 0.8 | times 1.25 |", "|---|---|---|---|"]
    for constant in constants:
        cells = []
        for factor in FACTORS:
            put(constant, constant.changed(factor))
            try:
                answers = run()
                score = statistics.mean(score for score, _ in answers)
                changed = sum(mine != theirs for (_, mine), (_, theirs) in zip(answers, usual, strict=True))
                cells.append("same answers" if not changed else f"{score:.4f} ({changed} changed)")
            except Exception as error:  # a value that makes no sense any more is a finding
                cells.append(f"{type(error).__name__}")
            finally:
                put(constant, constant.value)
        where = constant.module.removeprefix("visual_tools.")
        lines.append(f"| `{where}.{constant.name}` | {constant.value:g} | {cells[0]} | {cells[1]} |")
        say(lines[-1])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=tuple(SUBJECTS), action="append")
    parser.add_argument("--module", default="", help="only modules whose name holds this, such as diff.maps")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    lines = [line for subject in arguments.only or SUBJECTS for line in measure(subject, arguments.module, print)]
    if arguments.output:
        intro = "# What the constants of `visual_tools` decide\n\n`python -m benchmarks.visual.constants` wrote this.\n"
        doc = (__doc__ or "").split("\n\n", 2)[2]
        arguments.output.write_text(f"{intro}\n{doc}" + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
