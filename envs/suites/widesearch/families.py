"""What a generated world is about: families of things, their columns, and the words that pages use for them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Metric = Literal["exact", "in", "number", "date", "url", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        name: As a task asks for it.
        labels: What pages call it.
        metric: How a cell is compared with the truth.
        draw: Makes a true value.
        unit: Written behind the value on pages; the task's name has it in brackets.
        is_on_person: Whether it stands on the page of the person that the thing's page names, not on its own.
    """

    name: str
    labels: tuple[str, ...]
    metric: Metric
    draw: Callable[[random.Random], str]
    unit: str = ""
    is_on_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of thing.

    Attributes:
        one: "bridge".
        many: "bridges".
        key: Name of the key column.
        ending: Behind a drawn name.
        columns: Besides the key; the second is the person.
    """

    one: str
    many: str
    key: str
    ending: tuple[str, ...]
    columns: tuple[Column, ...]


SYLLABLES = "ar bel cor dan el fen gar hol ir jor kel lun mar nor ost pel qua rin sal tor und vel wes yar zan".split()
COUNTRIES = "Ostland Velmark Tarsia Norrone Quelia Pelgard Undria Marrow".split()
FIRST = "Ada Bela Cora Dario Edda Falk Gesa Hugo Ines Jaro Kira Leif Mona Nils Olga Pavel Rosa Sven Tilda Uwe".split()
MONTHS = "January February March April May June July August September October November December".split()


def name_of(random: random.Random, num_syllables: int) -> str:
    """A made-up name."""
    return "".join(random.choice(SYLLABLES) for _ in range(num_syllables)).capitalize()


def person_of(random: random.Random) -> str:
    """A made-up person."""
    return f"{random.choice(FIRST)} {name_of(random, 3)}"


def _number(low: int, high: int) -> Callable[[random.Random], str]:
    return lambda random: str(random.randint(low, high))


def _date(random: random.Random) -> str:
    return f"{random.randint(1850, 2015)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def _one_of(*choices: str) -> Callable[[random.Random], str]:
    return lambda random: random.choice(choices)


def _site(random: random.Random) -> str:
    return f"https://www.{name_of(random, 4).lower()}.example/"


def _person(name: str, *labels: str) -> Column:
    return Column(name=name, labels=(name, *labels), metric="exact", draw=person_of)


def _born(name: str) -> Column:
    labels = ("Year of birth", "Born", "Birth year")
    return Column(name=name, labels=labels, metric="number", draw=_number(1820, 1985), is_on_person=True)


def _opened(name: str, *labels: str) -> Column:
    return Column(name=name, labels=(name, *labels), metric="date", draw=_date)


def _measure(name: str, unit: str, low: int, high: int, *labels: str) -> Column:
    return Column(name=f"{name} ({unit})", labels=(name, *labels), metric="number", draw=_number(low, high), unit=unit)


def _kind(name: str, labels: tuple[str, ...], *choices: str) -> Column:
    return Column(name=name, labels=(name, *labels), metric="judge", draw=_one_of(*choices))


FAMILIES = (
    Family(
        one="bridge",
        many="bridges",
        key="Bridge",
        ending=("Bridge", "Viaduct"),
        columns=(
            _opened("Opened", "Opening date", "Open since"),
            _person("Designer", "Designed by", "Architect"),
            _measure("Length", "m", 80, 4000, "Total length", "Overall length"),
            _born("Designer born"),
        ),
    ),
    Family(
        one="university",
        many="universities",
        key="University",
        ending=("University", "Institute"),
        columns=(
            _opened("Founded", "Foundation date", "Established"),
            _person("Founder", "Founded by", "Established by"),
            _measure("Students", "persons", 500, 60000, "Number of students", "Enrolment"),
            Column(name="Website", labels=("Website", "Homepage", "Web"), metric="url", draw=_site),
            _born("Founder born"),
        ),
    ),
    Family(
        one="film",
        many="films",
        key="Film",
        ending=("Nights", "Harbour", "Road", "Winter"),
        columns=(
            _opened("Released", "Release date", "Premiere"),
            _person("Director", "Directed by", "Film director"),
            _measure("Running time", "min", 60, 220, "Duration", "Runtime"),
            _kind("Genre", ("Kind",), "drama", "comedy", "thriller", "western"),
        ),
    ),
    Family(
        one="satellite",
        many="satellites",
        key="Satellite",
        ending=("1", "2", "3", "4"),
        columns=(
            _opened("Launched", "Launch date", "Lift-off"),
            _person("Chief engineer", "Engineer in charge", "Lead engineer"),
            _measure("Mass", "kg", 4, 9000, "Launch mass", "Weight"),
            _kind("Orbit", ("Type of orbit",), "low Earth orbit", "polar orbit", "geostationary orbit"),
        ),
    ),
    Family(
        one="company",
        many="companies",
        key="Company",
        ending=("Works", "Group", "Lines"),
        columns=(
            _opened("Registered", "Date of registration", "Incorporated"),
            _person("Chairman", "Chairperson", "Chair"),
            _measure("Employees", "persons", 10, 90000, "Number of employees", "Staff"),
            Column(name="Website", labels=("Website", "Homepage", "Web"), metric="url", draw=_site),
        ),
    ),
    Family(
        one="lighthouse",
        many="lighthouses",
        key="Lighthouse",
        ending=("Light", "Lighthouse"),
        columns=(
            _opened("First lit", "Lit on", "In service since"),
            _person("Builder", "Built by", "Master builder"),
            _measure("Height", "m", 9, 90, "Tower height", "Height of the tower"),
            _born("Builder born"),
        ),
    ),
)
