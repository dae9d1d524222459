"""Cases on pptx files like OSWorld's LibreOffice Impress tasks, with original files and instructions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from apps.office.libraries import Presentation, Shape
from apps.office.slides import fill_body, new_slide
from apps.office.suite.case import Case, Check, Faults, opened
from envs.errors import require

NAME = "deck.pptx"
_SLIDES = (
    ("The heron", ("Fishes alone", "Nests in colonies")),
    ("Where it lives", ("Rivers and ponds", "Low coasts")),
    ("What it eats", ("Fish", "Frogs", "Mice in winter")),
    ("What to do", ("Count nests in April", "Mend the fence", "Ask the mill")),
)
Change = Callable[[Any], None]


def impress_cases() -> Iterator[Case]:
    """Yield all cases."""
    yield _background()
    yield _note()
    yield _done()
    yield _table()
    yield _align()
    yield _portrait()
    yield _fill_slide()


def load_deck(folder: Path, name: str = NAME) -> Any:
    """Load a presentation of a folder after opening it safely."""
    return require("pptx", "office").Presentation(str(opened(folder / name)))


def _case(name: str, instruction: str, check: Check, solve: Change, miss: Change) -> Case:
    """Return a case on one presentation: four slides, the second with an image."""

    def prepare(folder: Path) -> None:
        presentation = require("pptx", "office").Presentation()
        require("PIL.Image", "office").new("RGB", (300, 200), "slategray").save(folder / "heron.png")
        for title, points in _SLIDES:
            fill_body(new_slide(presentation, "Title and Content", title), list(points))
        presentation.slides[1].shapes.add_picture(str(folder / "heron.png"), 6_000_000, 3_000_000, 1_500_000, 1_000_000)
        presentation.save(str(folder / NAME))

    def changed(change: Change, folder: Path) -> None:
        presentation = load_deck(folder)
        change(presentation)
        presentation.save(str(folder / NAME))

    def whole_check(folder: Path, answer: str) -> list[str]:
        presentation = load_deck(folder)
        titles = [one.shapes.title.text_frame.text for one in presentation.slides]
        faults = [] if titles == [title for title, _ in _SLIDES] else [f"the titles are {titles}"]
        bodies = [[p.text for p in one.placeholders[1].text_frame.paragraphs] for one in presentation.slides]
        if bodies != [list(points) for _, points in _SLIDES]:
            faults.append(f"the points are {bodies}")
        return faults + check(folder, answer)

    return Case(
        name=name,
        family="edit",
        instruction=f"In {NAME}, {instruction}",
        prepare=prepare,
        check=whole_check,
        solve=lambda folder: changed(solve, folder),
        miss=lambda folder: changed(miss, folder),
    )


def _color(name: str) -> Any:
    return require("pptx.dml.color", "office").RGBColor.from_string(name)


def _background() -> Case:
    def paint(presentation: Presentation, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            fill = presentation.slides[number].background.fill
            fill.solid()
            fill.fore_color.rgb = _color("FFFF00")

    def check(folder: Path, answer: str) -> list[str]:
        faults = []
        for number, slide in enumerate(load_deck(folder).slides, 1):
            fill = None if slide.follow_master_background else slide.background.fill
            is_yellow = fill is not None and fill.type == 1 and str(fill.fore_color.rgb) == "FFFF00"
            if is_yellow != (number == 2):
                faults.append(f"slide {number} is {'' if is_yellow else 'not '}yellow")
        return faults

    return _case(
        "yellow-where-an-image-is",
        "give each slide that has an image a plain yellow background (FFFF00). The other slides stay as they are.",
        check,
        lambda one: paint(one, (1,)),
        lambda one: paint(one, (0, 1, 2, 3)),
    )


def _note() -> Case:
    def note(presentation: Presentation, *, is_bold: bool) -> None:
        slide = presentation.slides[2]
        slide.notes_slide.notes_text_frame.text = slide.shapes.title.text_frame.text
        for run in slide.shapes.title.text_frame.paragraphs[0].runs if is_bold else ():
            run.font.bold = True

    def check(folder: Path, answer: str) -> list[str]:
        slides, faults = list(load_deck(folder).slides), Faults()
        notes = [one.notes_slide.notes_text_frame.text.strip() if one.has_notes_slide else "" for one in slides]
        faults.expect(notes == ["", "", _SLIDES[2][0], ""], f"the notes are {notes}")
        bold = [all(run.font.bold for run in _runs(one.shapes.title)) for one in slides]
        faults.expect(bold == [False, False, True, False], f"bold titles: {bold}")
        return faults.found

    return _case(
        "note-like-title",
        "give slide 3 a speaker note that is the same as its title, and make that title bold.",
        check,
        lambda one: note(one, is_bold=True),
        lambda one: note(one, is_bold=False),
    )


def _runs(shape: Shape) -> list[Any]:
    return [run for paragraph in shape.text_frame.paragraphs for run in paragraph.runs]


def _struck(shape: Shape) -> list[bool]:
    found = []
    for paragraph in shape.text_frame.paragraphs:
        marks = [run.font._element.get("strike") in ("sngStrike", "dblStrike") for run in paragraph.runs]
        found.append(bool(marks) and all(marks))
    return found


def _done() -> Case:
    def strike(presentation: Presentation, numbers: tuple[int, ...]) -> None:
        paragraphs = presentation.slides[3].placeholders[1].text_frame.paragraphs
        for number in numbers:
            for run in paragraphs[number].runs:
                run.font._element.set("strike", "sngStrike")

    def check(folder: Path, answer: str) -> list[str]:
        slides = list(load_deck(folder).slides)
        found = [_struck(one.placeholders[1]) for one in slides]
        wanted = [[False, False], [False, False], [False, False, False], [True, True, False]]
        return [] if found == wanted else [f"struck through: {found}"]

    return _case(
        "strike-what-is-done",
        "on the slide What to do, strike through the first two points: they are done.",
        check,
        lambda one: strike(one, (0, 1)),
        lambda one: strike(one, (0,)),
    )


def _table() -> Case:
    def add(presentation: Presentation, rows: int, columns: int) -> None:
        presentation.slides[1].shapes.add_table(rows, columns, 500_000, 4_500_000, 5_000_000, 1_500_000)

    def check(folder: Path, answer: str) -> list[str]:
        faults, presentation = Faults(), load_deck(folder)
        for number, slide in enumerate(presentation.slides, 1):
            tables = [(len(one.table.rows), len(one.table.columns)) for one in slide.shapes if one.has_table]
            faults.expect(tables == ([(5, 2)] if number == 2 else []), f"the tables of slide {number} are {tables}")
            inside = all(
                one.top + one.height <= presentation.slide_height and one.left + one.width <= presentation.slide_width
                for one in slide.shapes
                if one.has_table
            )
            faults.expect(inside, f"the table of slide {number} leaves it")
        return faults.found

    return _case(
        "table-on-a-slide",
        'put an empty table of 5 rows and 2 columns on the slide "Where it lives", within the slide.',
        check,
        lambda one: add(one, 5, 2),
        lambda one: add(one, 2, 5),
    )


def _align() -> Case:
    def align(presentation: Presentation, sides: tuple[str, ...]) -> None:
        names = require("pptx.enum.text", "office").PP_ALIGN
        for slide, side in zip(list(presentation.slides)[1:], sides, strict=True):
            for paragraph in slide.shapes.title.text_frame.paragraphs:
                paragraph.alignment = getattr(names, side)

    def check(folder: Path, answer: str) -> list[str]:
        slides = list(load_deck(folder).slides)
        found = [[str(p.alignment).partition(" ")[0] for p in one.shapes.title.text_frame.paragraphs] for one in slides]
        return [] if found[1:] == [["RIGHT"], ["CENTER"], ["LEFT"]] else [f"the titles stand {found}"]

    return _case(
        "align-titles",
        "align the title of slide 2 to the right, of slide 3 in the centre, and of slide 4 to the left.",
        check,
        lambda one: align(one, ("RIGHT", "CENTER", "LEFT")),
        lambda one: align(one, ("LEFT", "CENTER", "RIGHT")),
    )


def _portrait() -> Case:
    def turn(presentation: Presentation, *, keeps_inside: bool) -> None:
        presentation.slide_width, presentation.slide_height = presentation.slide_height, presentation.slide_width
        for slide in presentation.slides if keeps_inside else ():
            for shape in slide.shapes:
                width = min(shape.width, presentation.slide_width - 400_000)
                left = min(shape.left, presentation.slide_width - 200_000 - width)
                shape.left, shape.top, shape.width, shape.height = left, shape.top, width, shape.height

    def check(folder: Path, answer: str) -> list[str]:
        faults, presentation = Faults(), load_deck(folder)
        wide, high = presentation.slide_width, presentation.slide_height
        faults.expect((wide, high) == (6_858_000, 9_144_000), f"a slide is {wide} x {high}")
        for number, slide in enumerate(presentation.slides, 1):
            for one in slide.shapes:
                is_inside = one.left >= 0 and one.left + one.width <= wide and one.top + one.height <= high
                faults.expect(is_inside, f"{one.name} leaves slide {number}")
        return faults.found[:8]

    return _case(
        "slides-upright",
        "set the slides upright: 19.05 cm wide and 25.4 cm high. Titles, points and the image stay within them.",
        check,
        lambda one: turn(one, keeps_inside=True),
        lambda one: turn(one, keeps_inside=False),
    )


def _fill_slide() -> Case:
    def enlarge(presentation: Presentation, *, keeps_shape: bool) -> None:
        wide, high = presentation.slide_width, presentation.slide_height
        image = next(one for one in presentation.slides[1].shapes if one.shape_type == 13)
        image.width = int(high * 1.5) if keeps_shape else wide
        image.height, image.top = high, 0
        image.left = (wide - image.width) // 2

    def check(folder: Path, answer: str) -> list[str]:
        faults, presentation = Faults(), load_deck(folder)
        images = [one for one in presentation.slides[1].shapes if one.shape_type == 13]
        faults.expect(len(images) == 1, f"{len(images)} images")
        for one in images:
            shown = (one.width / (1 - one.crop_left - one.crop_right)) / (
                one.height / (1 - one.crop_top - one.crop_bottom)
            )
            faults.expect(abs(shown - 1.5) < 0.02, f"the image is stretched: {shown:.2f} times as wide as high")
            wide, high = presentation.slide_width, presentation.slide_height
            slack = 20_000
            covers = one.left <= slack and one.top <= slack
            covers = covers and one.left + one.width >= wide - slack and one.top + one.height >= high - slack
            faults.expect(covers, "the image does not cover the slide")
            middle = abs(one.left + one.width / 2 - wide / 2) + abs(one.top + one.height / 2 - high / 2)
            faults.expect(middle < 4 * slack, "the image is not in the middle")
        return faults.found

    return _case(
        "image-fills-slide",
        "enlarge the image on slide 2 until it covers the whole slide, in the middle and without being stretched; what "
        "does not fit may reach beyond the slide or be cropped.",
        check,
        lambda one: enlarge(one, keeps_shape=True),
        lambda one: enlarge(one, keeps_shape=False),
    )
