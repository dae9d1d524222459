"""What a trained nano-K2.5 can do: one-step questions by kind, honest ends, INT4 beside bf16, on screens of what size,
asked in which words, on pages in Chromium, how fast it answers, and how fast screens are drawn.

    python -m benchmarks.nano exam FOLDER [FOLDER ...] [--count 200]
    python -m benchmarks.nano pages FOLDER [FOLDER ...]
    python -m benchmarks.nano sizes FOLDER [FOLDER ...] [--count 40]
    python -m benchmarks.nano words FOLDER [FOLDER ...] [--count 40]
    python -m benchmarks.nano speed FOLDER
    python -m benchmarks.nano draw

FOLDER is a model in the release's layout, such as `nano/model` (INT4) and `nano/model-bf16`. Each row of the exam asks
one question on each of so many screens whose names (and fonts or layouts, where the row says so) no training has seen;
all folders get the same ones. An answer counts when its click lies in what was asked for and what it types is right, or
when it gives up where there is nothing.
"""

import argparse
import asyncio
import io
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from apps.evals.statistics import mean_interval
from apps.nano.model import NanoModel
from apps.train.course import make_course
from apps.train.exam import ExamResult, ExamSheet, examine
from apps.train.screens.screen import DrawnScreen, ScreenOptions, make_screen
from apps.train.screens.widgets import Kind
from apps.train.skills import ScreenQuestion, ask_for, ask_strange
from apps.train.suite import ALL_KINDS, BUTTONS, TASK_KINDS
from benchmarks.nano_pages import make_page_sheets
from cua.errors import TruncatedReplyError
from cua.gui_agent.protocol.history import to_messages
from cua.gui_agent.protocol.prompts import ProtocolOptions
from envs import Observation, ScreenGeometry

ONE_STEP = tuple(name for name in TASK_KINDS if name != "three-steps")
SEED = 1000
NEW = ('Double-click "{}".', 'Hover over "{}".', 'Rename "{}".', "Zoom in twice.", "What time is it?", 'Copy "{}".')
"""What training never asks for, nor anything like it: the right answer is to give up."""
WORDINGS = (
    'Click the button "{}".',
    'Please click the button "{}".',
    'Click the button labeled "{}".',
    'Click the button called "{}".',
    'Click the button in the dialog box labeled "{}".',
    'Click the button "{}" at the bottom of the page.',
)
"""Of one request: the first is one of training's, the others have words that its vocabulary does not."""
SIZE_PX = (1280, 720)
SIZES = ((280, 224), (400, 300), (480, 320), (640, 480), (1280, 720))
MORE: tuple[tuple[str, ScreenOptions, tuple[Kind, ...]], ...] = (
    ("link", BUTTONS, ("link",)),
    ("link-in-text", replace(ALL_KINDS, families=("article",)), ("link",)),
    ("640-x-480", replace(ALL_KINDS, sizes_px=((640, 480),)), ("button", "link", "field", "checkbox")),
)
"""Further rows of the exam: name, screens, kinds of elements."""
STEPS = 8
DRAWN, WARM_UP = 300, 600


def make_sheets(count: int) -> list[ExamSheet]:
    """A sheet for each kind, the same each time."""
    sheets = []
    for name in ONE_STEP:
        paper = TASK_KINDS[name]
        items: list[tuple[DrawnScreen, tuple[ScreenQuestion, ...]]] = []
        rng = random.Random(f"exam {name} {SEED}")
        while len(items) < count:
            screen = make_screen(rng, paper.options)
            asked = paper.ask(rng, screen)
            if asked:
                items.append((screen, (asked[0],)))
        sheets.append(ExamSheet(name=name, items=tuple(items)))
    return [*sheets, *(_make_more(name, paper, kinds, count) for name, paper, kinds in MORE), _make_new_sheet(count)]


def _make_more(name: str, options: ScreenOptions, kinds: Sequence[Kind], count: int) -> ExamSheet:
    """Questions about kinds of elements that the suite has no task for."""
    rng, items = random.Random(f"exam {name} {SEED}"), []
    while len(items) < count:
        screen = make_screen(rng, options)
        fitting = [target for target in screen.targets if target.kind in kinds and not target.is_on]
        if fitting:
            items.append((screen, (ask_for(rng, rng.choice(fitting)),)))
    return ExamSheet(name=name, items=tuple(items))


def _make_new_sheet(count: int) -> ExamSheet:
    """Asked for what it never learnt."""
    rng, items = random.Random(f"exam new {SEED}"), []
    for _ in range(count):
        screen = make_screen(rng, TASK_KINDS["absent"].options)
        items.append((screen, (ask_strange(rng, rng.choice(screen.targets), NEW),)))
    return ExamSheet(name="never learnt", items=tuple(items))


def make_sheets_of_sizes(count: int) -> list[ExamSheet]:
    """Buttons and links, as the exam asks for them, on screens of one size each."""
    sheets = []
    for width, height in SIZES:
        options = replace(TASK_KINDS["button"].options, sizes_px=((width, height),))
        rng, items = random.Random(f"exam {width} {SEED}"), []
        for _ in range(count):
            screen = make_screen(rng, options)
            items.append((screen, tuple(TASK_KINDS["button"].ask(rng, screen)[:1])))
        sheets.append(ExamSheet(name=f"button, {width} x {height}", items=tuple(items)))
    return sheets


def make_sheets_of_wordings(count: int) -> list[ExamSheet]:
    """The same buttons on the same screens, asked for in other words."""
    rng, items = random.Random(f"exam words {SEED}"), []
    while len(items) < count:
        screen = make_screen(rng, TASK_KINDS["button"].options)
        asked = TASK_KINDS["button"].ask(rng, screen)[0]
        if asked.kind == "button":
            items.append((screen, asked))
    return [
        ExamSheet(
            name=form.format("..."),
            items=tuple((screen, (_reword(asked, form),)) for screen, asked in items),
        )
        for form in WORDINGS
    ]


def _reword(asked: ScreenQuestion, form: str) -> ScreenQuestion:
    assert asked.subject is not None
    return replace(asked, instruction=form.format(asked.subject.name))


def describe(marks: ExamResult) -> str:
    """Share right with its interval, and what the others were."""
    verdicts = [verdict for of_kind in marks.of_kind.values() for verdict in of_kind]
    share, interval = verdicts.count("right") / len(verdicts), marks.share()
    assert interval is not None
    others = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts) if verdict != "right"}
    told = ", ".join(f"{verdict} {number}" for verdict, number in sorted(others.items(), key=lambda pair: -pair[1]))
    return f"{share:.1%} ({interval.low:.1%} to {interval.high:.1%}) | {told}"


def take_exam(folders: Sequence[Path], sheets: Sequence[ExamSheet], count: int) -> None:
    """Print a table for each model."""
    for folder in folders:
        started = time.process_time()
        print(f"\n{folder.name}: {count} questions a row\n\n| kind | right, at 95 % | else |\n|---|---|---|")
        marks = examine(folder, sheets)
        for each in marks:
            print(f"| {each.name} | {describe(each)} |")
        counted = [each for each in marks if each.name not in {name for name, *_ in MORE}]  # as in earlier figures
        right = sum(v == "right" for each in counted for of_kind in each.of_kind.values() for v in of_kind)
        total = sum(each.count() for each in counted)
        print(f"| all | {right / total:.1%} | |\n\n{time.process_time() - started:.0f} s of processor")


def take_exam_on_pages(folders: Sequence[Path]) -> None:
    """Print a table for each model: pages by what is asked, then by size."""
    sheets = asyncio.run(make_page_sheets())
    for folder in folders:
        by_size: dict[str, list[bool]] = defaultdict(list)
        results = examine(folder, sheets)
        print(f"\n{folder.name}\n\n| on pages | right, at 95 % | else |\n|---|---|---|")
        for sheet, result in zip(sheets, results, strict=True):
            print(f"| {sheet.name} ({len(sheet.items)}) | {describe(result)} |")
            (verdicts,) = result.of_kind.values()  # one kind a sheet, in the order of its screens
            for (screen, _), verdict in zip(sheet.items, verdicts, strict=True):
                by_size[screen.family].append(verdict == "right")
        for name, right in [*sorted(by_size.items()), ("all", [each for size in by_size.values() for each in size])]:
            interval = mean_interval([[float(each)] for each in right])
            assert interval is not None
            low, high = interval.low, interval.high
            print(f"| {name} ({len(right)}) | {sum(right) / len(right):.1%} ({low:.1%} to {high:.1%}) | |")


def _encode(screen: DrawnScreen) -> bytes:
    file = io.BytesIO()
    Image.fromarray(screen.pixels).save(file, "PNG")
    return file.getvalue()


def measure_drawing() -> None:
    """Print how many screens a second of one processor are drawn, stage by stage."""
    for stage in make_course():
        rng, times = random.Random(SEED), []
        for _ in range(DRAWN + WARM_UP):
            started = time.process_time()
            make_screen(rng, stage.options)
            times.append(time.process_time() - started)
        print(f"{stage.name}: {DRAWN / sum(times[WARM_UP:]):.0f} screens a second")


async def measure_speed(folder: Path) -> None:
    """Print how long the first answer and further steps take at 1280x720."""
    screens = [
        make_screen(random.Random(number), ScreenOptions(families=("toolbar", "form"), sizes_px=(SIZE_PX,)))
        for number in range(STEPS)
    ]
    started = time.monotonic()
    model = NanoModel(folder)
    times: list[float] = []
    num_cut = 0
    for screen in screens:
        geometry = ScreenGeometry(native_px=SIZE_PX, sent_px=SIZE_PX)
        seen = Observation(screenshot=_encode(screen), geometry=geometry)
        begun = time.monotonic()
        messages = to_messages(f'Click the button "{screen.targets[0].name}".', [], seen, ProtocolOptions())
        try:
            await model.generate(messages)
        except TruncatedReplyError:  # it takes the longest
            num_cut += 1
        times.append(time.monotonic() - (started if not times else begun))
    await model.close()
    median = statistics.median(times[1:])
    cut = f"{num_cut} of {STEPS} answers were cut at the limit"
    print(f"first answer {times[0]:.2f} s, then {median:.2f} s (median of {STEPS - 1}), {cut}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    exam = parts.add_parser("exam")
    exam.add_argument("folders", type=Path, nargs="+")
    exam.add_argument("--count", type=int, default=200)
    sizes = parts.add_parser("sizes")
    sizes.add_argument("folders", type=Path, nargs="+")
    sizes.add_argument("--count", type=int, default=40)
    words = parts.add_parser("words")
    words.add_argument("folders", type=Path, nargs="+")
    words.add_argument("--count", type=int, default=40)
    speed = parts.add_parser("speed")
    speed.add_argument("folder", type=Path)
    parts.add_parser("pages").add_argument("folders", type=Path, nargs="+")
    parts.add_parser("draw")
    given = parser.parse_args()
    if given.part == "exam":
        take_exam(given.folders, make_sheets(given.count), given.count)
    elif given.part == "pages":
        take_exam_on_pages(given.folders)
    elif given.part == "sizes":
        take_exam(given.folders, make_sheets_of_sizes(given.count), given.count)
    elif given.part == "words":
        take_exam(given.folders, make_sheets_of_wordings(given.count), given.count)
    elif given.part == "draw":
        measure_drawing()
    else:
        asyncio.run(measure_speed(given.folder))


if __name__ == "__main__":
    main()
