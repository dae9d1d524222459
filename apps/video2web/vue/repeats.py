"""What repeats on a page: siblings of one shape become one template, and what differs between them its data.

Cards, rows of a table, entries of a menu: two of one shape beside each other are told apart by texts and attributes
alone. Shapes have repetition folded, so that rows of four and of five cells are of one shape.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

MIN_SIZE = 3
"""A part of so many elements has a component of its own; a smaller one is written where it stands."""

MIN_ENTRIES = 3
"""So many elements without anything in them, such as links of a menu, are a repetition; of larger parts, two are."""

_ENTRIES = frozenset("a button circle dd dt img label li line option path polygon rect span td text th".split())
_VERBATIM = frozenset(("pre", "textarea"))
_RESERVED = frozenset(
    "arguments as at await break case catch class const continue debugger default delete do else enum eval export "
    "extends false finally for function if implements import in instanceof interface is item key let light mode new "
    "null package private protected public ref return root slot static style super switch this throw true try typeof "
    "undefined var void while with yield".split()
)
_PLURALS = {"th": "cells", "td": "cells", "tr": "rows", "li": "entries", "a": "links", "img": "images"}
_ROLES = {"b": "text", "div": "part", "em": "text", "figcaption": "caption", "p": "text", "strong": "text"}
_SHADOW = "shadowrootmode"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a page as the browser parsed it: attributes by name, children in order."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: "tuple[Element | str, ...]" = ()

    @property
    def parts(self) -> "tuple[Element, ...]":
        """The elements among the children."""
        return tuple(child for child in self.children if isinstance(child, Element))

    def walk(self) -> "Iterator[Element]":
        """It and everything below it."""
        yield self
        for child in self.parts:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that an instance's data has under a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Space:
    """White space between elements, of any length."""


@dataclass(frozen=True, slots=True)
class Part:
    """An element of a template: values of attributes and texts are given, or slots."""

    tag: str
    attributes: "tuple[tuple[str, str | Slot], ...]"
    children: "tuple[Child, ...]"

    @property
    def size(self) -> int:
        """Elements in it, itself too."""
        return 1 + sum(child.size for child in self.children if isinstance(child, Part | Loop))


@dataclass(frozen=True, slots=True)
class Loop:
    """A part that stands as often as the data has an entry under a name.

    Attributes:
        name: That of the entries. They are a number where nothing differs between them.
        item: The part.
        slots: What differs between entries, by name.
        is_flat: Whether an entry is the value of its only slot.
        has_space: Whether white space stands between them.
    """

    name: str
    item: Part
    slots: tuple[str, ...]
    is_flat: bool
    has_space: bool

    @property
    def size(self) -> int:
        """Elements of one entry."""
        return self.item.size


Child = Part | Loop | Slot | Space | str
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Scope:
    """The data of all instances of one template, and the names that are given in it."""

    rows: list[Data]
    names: Counter[str] = field(default_factory=Counter)

    def slot(self, base: str, values: Sequence[Any]) -> Slot:
        """A name for a value of each instance; None where an instance has none."""
        name = prop_name(base)
        self.names[name] += 1
        if self.names[name] > 1:
            name = f"{name}{self.names[name]}"
        for row, value in zip(self.rows, values, strict=True):
            if value is not None:
                row[name] = value
        return Slot(name)


def find_repeats(root: Element) -> tuple[Part, Data]:
    """A page as a template: what repeats in it as loops, and their data.

    Args:
        root: An element, such as the page's body.
    """
    data: list[Data] = [{}]
    return _merged((root,), _Scope(data)), data[0]


@dataclass(frozen=True, slots=True)
class _Group:
    """Children of one shape beside each other, or a text; whether space stands before the first, and between them."""

    members: tuple[Element | str, ...]
    is_spaced: bool
    has_space: bool


def _merged(instances: Sequence[Element], scope: _Scope) -> Part:
    """One template of elements of one shape."""
    first, last = instances[0], instances[0].children[-1:]
    attributes = tuple(_merged_attributes(instances, scope))
    groups = [_groups_of(instance) for instance in instances]
    children: list[Child] = []
    for beside in zip(*groups, strict=True):
        children += [Space()] if beside[0].is_spaced else []
        children += _merged_groups(beside, first, scope)
    if first.tag not in _VERBATIM and last and isinstance(last[0], str) and _is_space(last[0]):
        children.append(Space())
    return Part(first.tag, attributes, tuple(children))


def _merged_attributes(instances: Sequence[Element], scope: _Scope) -> Iterator[tuple[str, str | Slot]]:
    first = instances[0]
    for name in dict.fromkeys(name for each in instances for name in each.attributes):
        values = [each.attributes.get(name) for each in instances]
        only = values[0]
        if only is not None and all(value == only for value in values):
            yield name, only
        else:
            base = {"src": "image", "class": f"{role_of(first)}-class", "style": f"{role_of(first)}-style"}
            yield name, scope.slot(base.get(name, name), values)


def _merged_groups(groups: Sequence[_Group], parent: Element, scope: _Scope) -> Iterator[Child]:
    """The groups at one place of all instances: a text, elements one by one, or a loop over them."""
    texts = [group.members[0] for group in groups if isinstance(group.members[0], str)]
    if texts:
        yield texts[0] if len(set(texts)) == 1 else scope.slot(_text_name(parent), texts)
        return
    lists = [[member for member in group.members if isinstance(member, Element)] for group in groups]
    counts = {len(members) for members in lists}
    if len(counts) == 1 and not _is_repetition(lists[0]):
        for number, together in enumerate(zip(*lists, strict=True)):
            if number and groups[0].has_space:
                yield Space()
            yield _merged(together, scope)
        return
    inner = _Scope([{} for members in lists for _ in members])
    item = _merged([member for members in lists for member in members], inner)
    slots = tuple(dict.fromkeys(name for row in inner.rows for name in row))
    is_flat = item.size < MIN_SIZE and len(slots) == 1 and all(slots[0] in row for row in inner.rows)
    rows = iter([row[slots[0]] for row in inner.rows] if is_flat else inner.rows)
    entries = [[next(rows) for _ in members] if slots else len(members) for members in lists]
    slot = scope.slot(_PLURALS.get(item.tag, f"{role_of(lists[0][0])}s"), entries)
    yield Loop(slot.name, item, slots, is_flat, any(group.has_space for group in groups))


def _is_repetition(members: Sequence[Element]) -> bool:
    """Whether elements of one shape are better told once: parts of some size, or entries of a list."""
    first = members[0]
    if first.tag in _ENTRIES and not any(_SHADOW in part.attributes for part in first.parts):
        return len(members) >= MIN_ENTRIES or (len(members) > 1 and bool(first.parts))
    return len(members) > 1 and len(first.parts) > 0 and first.tag != "template"


def _groups_of(element: Element) -> list[_Group]:
    groups: list[_Group] = []
    for _, beside in groupby(_spaced_children(element), key=lambda each: _group_key(each[0], each[2])):
        members = list(beside)
        has_space = any(is_spaced for _, is_spaced, _ in members[1:])
        groups.append(_Group(tuple(child for child, _, _ in members), members[0][1], has_space))
    return groups


def _spaced_children(element: Element) -> Iterator[tuple[Element | str, bool, int]]:
    """Children but white space, each with whether that stood before it, and its number."""
    is_spaced = False
    for number, child in enumerate(element.children):
        if isinstance(child, str) and _is_space(child) and element.tag not in _VERBATIM:
            is_spaced = True
            continue
        yield child, is_spaced, number
        is_spaced = False


def _group_key(child: Element | str, number: int) -> Any:
    return number if isinstance(child, str) else shape_of(child)


def shape_of(element: Element) -> tuple[Any, ...]:
    """What elements have in common that differ in texts, attributes and the number of what repeats in them."""
    inner = [shape_of(child) if isinstance(child, Element) else "text" for child, _, _ in _spaced_children(element)]
    marks = tuple(element.attributes.get(name, "") for name in ("type", _SHADOW))
    return element.tag, *marks, tuple(shape for shape, _ in groupby(inner))


def _is_space(text: str) -> bool:
    return not text.strip(" \t\n\r\f")


def role_of(element: Element) -> str:
    """What an element is called: its class without numbers of variants, else its tag."""
    named = element.attributes.get("class", "").split()
    bare = re.sub(r"(-\d+)?(-[a-z]\d*)?$", "", named[0]) if named else ""
    if re.search("[a-zA-Z]", bare):
        return bare
    return "title" if re.fullmatch(r"h\d", element.tag) else _ROLES.get(element.tag, element.tag)


def _text_name(parent: Element) -> str:
    return "text" if parent.tag in _ENTRIES or parent.tag == "p" else role_of(parent)


def prop_name(base: str) -> str:
    """A name that JavaScript and Vue take: words of letters and digits in camel case, no word of theirs."""
    words = re.findall("[A-Za-z0-9]+", base) or ["part"]
    name = words[0].lower() + "".join(word[0].upper() + word[1:].lower() for word in words[1:])
    name = f"x{name}" if name[0].isdigit() else name
    return f"{name}Value" if name in _RESERVED else name
