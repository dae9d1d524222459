"""Cases on pptx and pdf files: slides from an outline, equations, forms, merging, reading, and files of packages."""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from apps.office.check.pdf import count_tags
from apps.office.libraries import Presentation
from apps.office.markdown import Manuscript, write_pdf
from apps.office.merge import fill_form, merge_pdfs, read_form
from apps.office.pages import read_pages
from apps.office.slides import fill_body, new_slide, place_image, save_presentation
from apps.office.suite.case import Failures, OfficeCase, open_checked, prepare_nothing
from apps.office.suite.package_files import PackageFile, with_package_file
from envs.errors import require

_OUTLINES: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    "bees": (
        ("Why bees matter", ("They pollinate", "They make honey"), "Start with a question."),
        ("What they need", ("Flowers", "Quiet"), "Show the map."),
    ),
    "tides": (
        ("Two tides a day", ("The moon pulls", "The earth turns"), "Ask who has seen one."),
        ("Spring and neap", ("Sun and moon together", "Sun against moon"), "Draw it."),
        ("Power", ("Barrages", "Streams"), "End here."),
    ),
    "bread": (
        ("Four things", ("Flour", "Water", "Salt", "Yeast"), "Pass the bread round."),
        ("Time", ("Knead", "Rest", "Bake"), "Mention the oven."),
    ),
    "maps": (
        ("Flat and round", ("No map keeps all", "Choose what to keep"), "Peel the orange."),
        ("Mercator", ("Keeps angles", "Swells the north"), "Greenland."),
        ("Equal area", ("Keeps sizes", "Bends shapes"), "Africa."),
    ),
}
_EQUATIONS = {
    "cooling": ("$$\\frac{dT}{dt} = -k(T - T_r)$$", "$$T(t) = T_r + (T_0 - T_r)e^{-kt}$$"),
    "sums": (
        "$$\\sum_{k=1}^n k = \\frac{n(n+1)}{2}$$",
        "$$\\sum_{k=1}^n k^2 = \\frac{n(n+1)(2n+1)}{6}$$",
        "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$",
    ),
    "waves": ("$$\\frac{\\partial^2 u}{\\partial t^2} = c^2 \\frac{\\partial^2 u}{\\partial x^2}$$",),
}
_DECK = PackageFile(kind="python", package="python-pptx", path="templates/default.pptx")
_DOCUMENT = PackageFile(kind="python", package="python-docx", path="templates/default.docx")
_PEOPLE = (("Ada Lovelace", "London"), ("Niels Abel", "Oslo"), ("Emmy Noether", "Erlangen"))


def page_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    for name in _OUTLINES:
        yield _slides(name)
    for name in ("bees", "maps"):
        yield _rename(name)
    for name in _EQUATIONS:
        yield _equations(name)
    for number in range(len(_PEOPLE)):
        yield _form(number)
    for number in (2, 3):
        yield _merge(number)
    for seed in (1, 2, 3):
        yield _invoice(seed)
    yield with_package_file(_DECK, "default.pptx", _layouts())
    yield with_package_file(_DOCUMENT, "default.docx", _styles())


def _presentation(path: Path | None = None) -> Presentation:
    deck: Presentation = require("pptx", "office").Presentation(str(path) if path else None)
    return deck


def _draw(path: Path, width: int = 900, height: int = 300) -> None:
    require("PIL.Image", "office").new("RGB", (width, height), "teal").save(path)


def _slides(name: str) -> OfficeCase:
    outline = _OUTLINES[name]

    def prepare(folder: Path) -> None:
        lines = []
        for title, points, notes in outline:
            lines += [f"# {title}", *(f"- {point}" for point in points), f"Notes: {notes}", ""]
        (folder / "outline.md").write_text("\n".join(lines), "utf-8")
        _draw(folder / "wide.png")

    def act(folder: Path, *, with_notes: bool) -> None:
        presentation = _presentation()
        for title, points, notes in outline:
            fill_body(new_slide(presentation, "Title and Content", title, notes if with_notes else ""), list(points))
        place_image(new_slide(presentation, "Title Only", "In pictures"), folder / "wide.png")
        save_presentation(presentation, folder / "slides.pptx")

    def check(folder: Path, answer: str) -> list[str]:
        presentation, failures = _presentation(open_checked(folder / "slides.pptx")), Failures()
        slides = list(presentation.slides)
        titles = [slide.shapes.title.text_frame.text.strip() for slide in slides if slide.shapes.title is not None]
        failures.expect(titles == [*(entry[0] for entry in outline), "In pictures"], f"the titles are {titles}")
        for slide, (title, points, notes) in zip(slides, outline, strict=False):
            texts = [p.text.strip() for s in slide.shapes if s.has_text_frame for p in s.text_frame.paragraphs]
            failures.expect(all(point in texts for point in points), f"points of {title!r} are missing")
            noted = slide.notes_slide.notes_text_frame.text.strip() if slide.has_notes_slide else ""
            failures.expect(noted == notes, f"the notes of {title!r} are {noted!r}")
        placed = [shape for shape in slides[-1].shapes if shape.shape_type == 13]
        failures.expect(len(placed) == 1, "the last slide has not one image")
        for image in placed:
            failures.expect(abs(image.width / image.height - 3) < 0.1, "the image is stretched")
            right, bottom = image.left + image.width, image.top + image.height
            is_inside = image.left >= 0 and right <= presentation.slide_width and bottom <= presentation.slide_height
            failures.expect(is_inside, "the image leaves the slide")
        return failures.messages

    return OfficeCase(
        name=f"slides-{name}",
        family="make",
        instruction="Make slides.pptx of outline.md: a slide for each heading with its points in the body and its notes as "
        'speaker notes, and a last slide "In pictures" with wide.png as large as fits, unstretched.',
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, with_notes=True),
        miss=lambda folder: act(folder, with_notes=False),
    )


def _rename(name: str) -> OfficeCase:
    old, new = _OUTLINES[name][1][0], "A better title"

    def prepare(folder: Path) -> None:
        presentation = _presentation()
        for title, points, notes in _OUTLINES[name]:
            fill_body(new_slide(presentation, "Title and Content", title, f"{notes} ({title})"), list(points))
        save_presentation(presentation, folder / "slides.pptx")

    def act(folder: Path, *, notes_too: bool) -> None:
        presentation = _presentation(folder / "slides.pptx")
        slide = presentation.slides[1]
        slide.shapes.title.text_frame.text = new
        if notes_too:
            frame = slide.notes_slide.notes_text_frame
            frame.text = frame.text.replace(old, new)
        presentation.save(str(folder / "slides.pptx"))

    def check(folder: Path, answer: str) -> list[str]:
        presentation, failures = _presentation(open_checked(folder / "slides.pptx")), Failures()
        texts = [s.text_frame.text for slide in presentation.slides for s in slide.shapes if s.has_text_frame]
        texts += [slide.notes_slide.notes_text_frame.text for slide in presentation.slides if slide.has_notes_slide]
        failures.expect(not any(old in text for text in texts), f"{old!r} is left somewhere")
        failures.expect(
            sum(new in text for text in texts) == 2, f"{new!r} does not stand in the title and in the notes"
        )
        points = [point for _, points, _ in _OUTLINES[name] for point in points]
        failures.expect(all(any(point in text for text in texts) for point in points), "points are missing")
        return failures.messages

    return OfficeCase(
        name=f"rename-{name}",
        family="edit",
        instruction=f'In slides.pptx, replace "{old}" by "{new}" wherever it occurs, speaker notes included.',
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, notes_too=True),
        miss=lambda folder: act(folder, notes_too=False),
    )


def _equations(name: str) -> OfficeCase:
    equations = _EQUATIONS[name]

    def prepare(folder: Path) -> None:
        (folder / "equations.tex").write_text("\n".join(equations) + "\n", "utf-8")

    def act(folder: Path, *, typeset: bool) -> None:
        body = "\n\n".join(equations) if typeset else "\n\n".join(f"`{equation}`" for equation in equations)
        text = f"# Equations of {name}\n\nSee [the source](https://example.com/{name}).\n\n{body}\n"
        write_pdf(Manuscript(text=text, title=name.title(), folder=folder), folder / "equations.pdf")

    def check(folder: Path, answer: str) -> list[str]:
        path, failures = folder / "equations.pdf", Failures()
        pypdf = require("pypdf", "office")
        reader = pypdf.PdfReader(str(path))
        text = "".join(page.text for page in read_pages(path, dpi=20))
        tags = count_tags(reader)["/Formula"]
        failures.expect(
            tags == len(equations), f"{tags} typeset equations by the file's tags, expected {len(equations)}"
        )
        failures.expect("\\frac" not in text and "$$" not in text, "LaTeX source is shown")
        links = [
            str(annotation.get_object().get("/A", {}).get("/URI", ""))
            for page in reader.pages
            for annotation in page.get("/Annots") or ()
        ]
        failures.expect(any(f"example.com/{name}" in link for link in links), f"the links are {links}")
        failures.expect(
            any(
                f"Equations of {name}" in str(bookmark.get("/Title", ""))
                for bookmark in reader.outline
                if not isinstance(bookmark, list)
            ),
            "no bookmark",
        )
        return failures.messages

    return OfficeCase(
        name=f"equations-{name}",
        family="make",
        instruction=f'Make equations.pdf (tagged, as typst does): a heading "Equations of {name}" with a bookmark, a link to '
        f"https://example.com/{name}, and the equations of equations.tex, typeset, each on a line of its own.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, typeset=True),
        miss=lambda folder: act(folder, typeset=False),
    )


def make_form(path: Path, names: Sequence[str]) -> None:
    """Write a PDF form with text fields."""
    generic, pypdf = require("pypdf.generic", "office"), require("pypdf", "office")
    name_of, text_of = generic.NameObject, generic.TextStringObject
    writer = pypdf.PdfWriter()
    page, references = writer.add_blank_page(400, 300), []
    for at, name in enumerate(names):
        box = [generic.FloatObject(edge) for edge in (40, 240 - 40 * at, 300, 264 - 40 * at)]
        field = {
            name_of("/Type"): name_of("/Annot"),
            name_of("/Subtype"): name_of("/Widget"),
            name_of("/FT"): name_of("/Tx"),
            name_of("/T"): text_of(name),
            name_of("/DA"): text_of("/Helv 12 Tf 0 g"),
            name_of("/Rect"): generic.ArrayObject(box),
        }
        references.append(writer._add_object(generic.DictionaryObject(field)))
    page[name_of("/Annots")] = generic.ArrayObject(references)
    form = generic.DictionaryObject({name_of("/Fields"): generic.ArrayObject(references)})
    writer._root_object[name_of("/AcroForm")] = writer._add_object(form)
    writer.write(str(path))


def _form(number: int) -> OfficeCase:
    name, town = _PEOPLE[number]
    first, _, last = name.partition(" ")
    fields = ("given_name", "family_name", "town", "office_use")

    def prepare(folder: Path) -> None:
        make_form(folder / "form.pdf", fields)
        (folder / "person.txt").write_text(f"{last}, {first} lives in {town}.\n", "utf-8")

    def act(folder: Path, given_name: str, family: str) -> None:
        values = {"given_name": given_name, "family_name": family, "town": town}
        fill_form(folder / "form.pdf", values, folder / "filled.pdf")

    def check(folder: Path, answer: str) -> list[str]:
        values = {field.name: field.value for field in read_form(folder / "filled.pdf")}
        wanted = {"given_name": first, "family_name": last, "town": town, "office_use": ""}
        return [] if values == wanted else [f"the fields are {values}"]

    return OfficeCase(
        name=f"form-{last.lower()}",
        family="edit",
        instruction="Fill form.pdf with what person.txt says and save it as filled.pdf. Leave office_use empty.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, first, last),
        miss=lambda folder: act(folder, last, first),
    )


def _merge(count: int) -> OfficeCase:
    names = [f"part-{number}" for number in range(1, count + 1)]

    def prepare(folder: Path) -> None:
        for name in names:
            write_pdf(
                Manuscript(text=f"# Title of {name}\n\nBody of {name}.\n", folder=folder),
                folder / f"{name}.pdf",
                contents=False,
            )

    def act(folder: Path, names: Sequence[str]) -> None:
        merge_pdfs([folder / f"{name}.pdf" for name in names], folder / "whole.pdf")

    def check(folder: Path, answer: str) -> list[str]:
        reader, failures = require("pypdf", "office").PdfReader(str(folder / "whole.pdf")), Failures()
        texts = [page.extract_text() for page in reader.pages]
        failures.expect(len(texts) == count, f"{len(texts)} pages, expected {count}")
        in_order = all(f"Body of {name}" in text for name, text in zip(names, texts, strict=False))
        failures.expect(in_order, "the parts are not in order")
        marks = [str(bookmark.get("/Title")) for bookmark in reader.outline if not isinstance(bookmark, list)]
        failures.expect(marks == names, f"the bookmarks are {marks}")
        return failures.messages

    return OfficeCase(
        name=f"merge-{count}",
        family="convert",
        instruction=f"Merge {', '.join(f'{name}.pdf' for name in names)} in this order into whole.pdf, with a bookmark on the "
        "first page of each that bears the file's name without its ending.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, names),
        miss=lambda folder: act(folder, names[::-1]),
    )


def _invoice(seed: int) -> OfficeCase:
    draw = random.Random(seed)
    lines = [(item, draw.randint(1, 9), draw.randint(100, 9900) / 100) for item in ("Desk", "Lamp", "Chair", "Shelf")]
    net = round(sum(count * price for _, count, price in lines), 2)
    gross = round(net * 1.19, 2)

    def prepare(folder: Path) -> None:
        rows = "\n".join(f"| {item} | {count} | {price:.2f} |" for item, count, price in lines)
        text = f"# Invoice {seed}0{seed}\n\nAll prices are net; 19 % VAT is added.\n\n| Item | Count | Price of one |\n|---|--:|--:|\n{rows}\n"
        write_pdf(Manuscript(text=text, folder=folder), folder / "invoice.pdf", contents=False)

    def check(folder: Path, answer: str) -> list[str]:
        amounts = re.findall(r"\d[\d,]{0,30}\.\d\d", answer)
        return (
            []
            if [amount.replace(",", "") for amount in amounts] == [f"{gross:.2f}"]
            else [f"the answer says {amounts}"]
        )

    return OfficeCase(
        name=f"invoice-{seed}",
        family="extract",
        instruction="What is the total of invoice.pdf with VAT? Answer with the amount only, with two decimals.",
        prepare=prepare,
        check=check,
        solve=lambda folder: f"{gross:,.2f}",
        miss=lambda folder: f"{net:,.2f}",
    )


def _layouts() -> OfficeCase:
    def names(folder: Path) -> list[str]:
        return [slide_layout.name for slide_layout in _presentation(folder / "default.pptx").slide_layouts]

    def act(folder: Path, step: int) -> None:
        (folder / "layouts.txt").write_text("\n".join(sorted(names(folder))[::step]) + "\n", "utf-8")

    def check(folder: Path, answer: str) -> list[str]:
        lines = [line.strip() for line in (folder / "layouts.txt").read_text("utf-8").splitlines() if line.strip()]
        return [] if lines == sorted(names(folder)) else [f"the lines are {lines}"]

    return OfficeCase(
        name="layouts-of-a-template",
        family="extract",
        instruction="List the names of the slide layouts of default.pptx in layouts.txt, one a line, in alphabetical order.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, 1),
        miss=lambda folder: act(folder, -1),
    )


def _styles() -> OfficeCase:
    def names(folder: Path, kind: int) -> list[str]:
        document = require("docx", "office").Document(str(folder / "default.docx"))
        return sorted(style.name for style in document.styles if style.type == kind)

    def act(folder: Path, kind: int) -> None:
        (folder / "styles.txt").write_text("\n".join(names(folder, kind)) + "\n", "utf-8")

    def check(folder: Path, answer: str) -> list[str]:
        lines = [line.strip() for line in (folder / "styles.txt").read_text("utf-8").splitlines() if line.strip()]
        return [] if lines == names(folder, 1) else [f"there are {len(lines)} lines"]

    return OfficeCase(
        name="styles-of-a-template",
        family="extract",
        instruction="List the names of the paragraph styles of default.docx in styles.txt, one a line, in alphabetical order "
        "(capitals first, as Python sorts).",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, 1),
        miss=lambda folder: act(folder, 2),
    )
