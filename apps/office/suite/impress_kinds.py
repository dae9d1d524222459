"""Cases on pptx files like OSWorld's LibreOffice Impress tasks, with original files and instructions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from apps.office.libraries import PptxShape, Presentation
from apps.office.slides import fill_body, new_slide
from apps.office.suite.case import Check, Failures, OfficeCase, open_checked
from envs.errors import require

NAME = "deck.pptx"
_SLIDES = (
    ("The heron", ("Fishes alone", "Nests in colonies")),
    ("Where it lives", ("Rivers and ponds", "Low coasts")),
    ("What it eats", ("Fish", "Frogs", "Mice in winter")),
    ("What to do", ("Count nests in April", "Mend the fence", "Ask the mill")),
)
Change = Callable[[Presentation], None]


def impress_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    yield _background()
    yield _note()
    yield _done()
    yield _table()
    yield _align()
    yield _portrait()
    yield _fill_slide()


def load_deck(folder: Path, name: str = NAME) -> Presentation:
    """Load a presentation of a folder after opening it safely."""
    deck: Presentation = require("pptx", "office").Presentation(str(open_checked(folder / name)))
    return deck


def _case(name: str, instruction: str, check: Check, solve: Change, miss: Change) -> OfficeCase:
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
        titles = [slide.shapes.title.text_frame.text for slide in presentation.slides]
        failures = [] if titles == [title for title, _ in _SLIDES] else [f"the titles are {titles}"]
        bodies = [[p.text for p in slide.placeholders[1].text_frame.paragraphs] for slide in presentation.slides]
        if bodies != [list(points) for _, points in _SLIDES]:
            failures.append(f"the points are {bodies}")
        return failures + check(folder, answer)

    return OfficeCase(
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


def _background() -> OfficeCase:
    def paint(presentation: Presentation, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            fill = presentation.slides[number].background.fill
            fill.solid()
            fill.fore_color.rgb = _color("FFFF00")

    def check(folder: Path, answer: str) -> list[str]:
        failures = []
        for number, slide in enumerate(load_deck(folder).slides, 1):
            fill = None if slide.follow_master_background else slide.background.fill
            is_yellow = fill is not None and fill.type == 1 and str(fill.fore_color.rgb) == "FFFF00"
            if is_yellow != (number == 2):
                failures.append(f"slide {number} is {'' if is_yellow else 'not '}yellow")
        return failures

    return _case(
        "yellow-where-an-image-is",
        "give each slide that has an image a plain yellow background (FFFF00). The other slides stay as they are.",
        check,
        lambda deck: paint(deck, (1,)),
        lambda deck: paint(deck, (0, 1, 2, 3)),
    )


def _note() -> OfficeCase:
    def note(presentation: Presentation, *, is_bold: bool) -> None:
        slide = presentation.slides[2]
        slide.notes_slide.notes_text_frame.text = slide.shapes.title.text_frame.text
        for run in slide.shapes.title.text_frame.paragraphs[0].runs if is_bold else ():
            run.font.bold = True

    def check(folder: Path, answer: str) -> list[str]:
        slides, failures = list(load_deck(folder).slides), Failures()
        notes = [slide.notes_slide.notes_text_frame.text.strip() if slide.has_notes_slide else "" for slide in slides]
        failures.expect(notes == ["", "", _SLIDES[2][0], ""], f"the notes are {notes}")
        bold = [all(run.font.bold for run in _runs(slide.shapes.title)) for slide in slides]
        failures.expect(bold == [False, False, True, False], f"bold titles: {bold}")
        return failures.messages

    return _case(
        "note-like-title",
        "give slide 3 a speaker note that is the same as its title, and make that title bold.",
        check,
        lambda deck: note(deck, is_bold=True),
        lambda deck: note(deck, is_bold=False),
    )


def _runs(shape: PptxShape) -> list[Any]:
    return [run for paragraph in shape.text_frame.paragraphs for run in paragraph.runs]


def _struck(shape: PptxShape) -> list[bool]:
    struck = []
    for paragraph in shape.text_frame.paragraphs:
        marks = [run.font._element.get("strike") in ("sngStrike", "dblStrike") for run in paragraph.runs]
        struck.append(bool(marks) and all(marks))
    return struck


def _done() -> OfficeCase:
    def strike(presentation: Presentation, numbers: tuple[int, ...]) -> None:
        paragraphs = presentation.slides[3].placeholders[1].text_frame.paragraphs
        for number in numbers:
            for run in paragraphs[number].runs:
                run.font._element.set("strike", "sngStrike")

    def check(folder: Path, answer: str) -> list[str]:
        slides = list(load_deck(folder).slides)
        struck = [_struck(slide.placeholders[1]) for slide in slides]
        wanted = [[False, False], [False, False], [False, False, False], [True, True, False]]
        return [] if struck == wanted else [f"struck through: {struck}"]

    return _case(
        "strike-what-is-done",
        "on the slide What to do, strike through the first two points: they are done.",
        check,
        lambda deck: strike(deck, (0, 1)),
        lambda deck: strike(deck, (0,)),
    )


def _table() -> OfficeCase:
    def add(presentation: Presentation, rows: int, columns: int) -> None:
        presentation.slides[1].shapes.add_table(rows, columns, 500_000, 4_500_000, 5_000_000, 1_500_000)

    def check(folder: Path, answer: str) -> list[str]:
        failures, presentation = Failures(), load_deck(folder)
        for number, slide in enumerate(presentation.slides, 1):
            tables = [(len(shape.table.rows), len(shape.table.columns)) for shape in slide.shapes if shape.has_table]
            failures.expect(tables == ([(5, 2)] if number == 2 else []), f"the tables of slide {number} are {tables}")
            inside = all(
                shape.top + shape.height <= presentation.slide_height
                and shape.left + shape.width <= presentation.slide_width
                for shape in slide.shapes
                if shape.has_table
            )
            failures.expect(inside, f"the table of slide {number} leaves it")
        return failures.messages

    return _case(
        "table-on-a-slide",
        'put an empty table of 5 rows and 2 columns on the slide "Where it lives", within the slide.',
        check,
        lambda deck: add(deck, 5, 2),
        lambda deck: add(deck, 2, 5),
    )


def _align() -> OfficeCase:
    def align(presentation: Presentation, sides: tuple[str, ...]) -> None:
        names = require("pptx.enum.text", "office").PP_ALIGN
        for slide, side in zip(list(presentation.slides)[1:], sides, strict=True):
            for paragraph in slide.shapes.title.text_frame.paragraphs:
                paragraph.alignment = getattr(names, side)

    def check(folder: Path, answer: str) -> list[str]:
        slides = list(load_deck(folder).slides)
        alignments = [
            [str(p.alignment).partition(" ")[0] for p in slide.shapes.title.text_frame.paragraphs] for slide in slides
        ]
        return [] if alignments[1:] == [["RIGHT"], ["CENTER"], ["LEFT"]] else [f"the titles stand {alignments}"]

    return _case(
        "align-titles",
        "align the title of slide 2 to the right, of slide 3 in the centre, and of slide 4 to the left.",
        check,
        lambda deck: align(deck, ("RIGHT", "CENTER", "LEFT")),
        lambda deck: align(deck, ("LEFT", "CENTER", "RIGHT")),
    )


def _portrait() -> OfficeCase:
    def turn(presentation: Presentation, *, keeps_inside: bool) -> None:
        presentation.slide_width, presentation.slide_height = presentation.slide_height, presentation.slide_width
        for slide in presentation.slides if keeps_inside else ():
            for shape in slide.shapes:
                width = min(shape.width, presentation.slide_width - 400_000)
                left = min(shape.left, presentation.slide_width - 200_000 - width)
                shape.left, shape.top, shape.width, shape.height = left, shape.top, width, shape.height

    def check(folder: Path, answer: str) -> list[str]:
        failures, presentation = Failures(), load_deck(folder)
        wide, high = presentation.slide_width, presentation.slide_height
        failures.expect((wide, high) == (6_858_000, 9_144_000), f"a slide is {wide} x {high}")
        for number, slide in enumerate(presentation.slides, 1):
            for shape in slide.shapes:
                is_inside = shape.left >= 0 and shape.left + shape.width <= wide and shape.top + shape.height <= high
                failures.expect(is_inside, f"{shape.name} leaves slide {number}")
        return failures.messages[:8]

    return _case(
        "slides-upright",
        "set the slides upright: 19.05 cm wide and 25.4 cm high. Titles, points and the image stay within them.",
        check,
        lambda deck: turn(deck, keeps_inside=True),
        lambda deck: turn(deck, keeps_inside=False),
    )


def _fill_slide() -> OfficeCase:
    def enlarge(presentation: Presentation, *, keeps_shape: bool) -> None:
        wide, high = presentation.slide_width, presentation.slide_height
        image = next(shape for shape in presentation.slides[1].shapes if shape.shape_type == 13)
        image.width = int(high * 1.5) if keeps_shape else wide
        image.height, image.top = high, 0
        image.left = (wide - image.width) // 2

    def check(folder: Path, answer: str) -> list[str]:
        failures, presentation = Failures(), load_deck(folder)
        images = [shape for shape in presentation.slides[1].shapes if shape.shape_type == 13]
        failures.expect(len(images) == 1, f"{len(images)} images")
        for image in images:
            shown = (image.width / (1 - image.crop_left - image.crop_right)) / (
                image.height / (1 - image.crop_top - image.crop_bottom)
            )
            failures.expect(abs(shown - 1.5) < 0.02, f"the image is stretched: {shown:.2f} times as wide as high")
            wide, high = presentation.slide_width, presentation.slide_height
            slack = 20_000
            covers = image.left <= slack and image.top <= slack
            covers = covers and image.left + image.width >= wide - slack and image.top + image.height >= high - slack
            failures.expect(covers, "the image does not cover the slide")
            middle = abs(image.left + image.width / 2 - wide / 2) + abs(image.top + image.height / 2 - high / 2)
            failures.expect(middle < 4 * slack, "the image is not in the middle")
        return failures.messages

    return _case(
        "image-fills-slide",
        "enlarge the image on slide 2 until it covers the whole slide, in the middle and without being stretched; what "
        "does not fit may reach beyond the slide or be cropped.",
        check,
        lambda deck: enlarge(deck, keeps_shape=True),
        lambda deck: enlarge(deck, keeps_shape=False),
    )
