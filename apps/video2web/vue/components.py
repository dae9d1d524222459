"""Templates with data for the repeated parts of a page, and their source as Vue components, one per part and page."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Any

MIN_SIZE = 3
"""Minimum number of elements of a part with its own component; a smaller part is written inline."""

MIN_ENTRIES = 3
"""Minimum number of repeated elements without children, such as links of a menu; larger parts need only two."""

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
Data = dict[str, Any]
_HOST = "ShadowHost"
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_DYNAMIC = frozenset("component keep-alive script slot style suspense teleport transition transition-group".split())
_LEFT_OUT = frozenset(("noscript", "script"))
_NO_NAMES = frozenset(("is", "key", "ref"))
_LINE_CHARS = 118


@dataclass(frozen=True, slots=True)
class Element:
    """Element of a page as parsed by the browser: attributes by name, children in order."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: "tuple[Element | str, ...]" = ()

    @property
    def parts(self) -> "tuple[Element, ...]":
        """Child elements."""
        return tuple(child for child in self.children if isinstance(child, Element))

    def walk(self) -> "Iterator[Element]":
        """Yield the element and all its descendants."""
        yield self
        for child in self.parts:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Slot:
    """Reference to a named value in the data of an instance."""

    name: str


@dataclass(frozen=True, slots=True)
class Space:
    """White space of any length between elements."""


@dataclass(frozen=True, slots=True)
class Part:
    """Element of a template: values of attributes and texts are constants or slots."""

    tag: str
    attributes: "tuple[tuple[str, str | Slot], ...]"
    children: "tuple[Child, ...]"

    @property
    def size(self) -> int:
        """Number of elements in the part, including itself."""
        return 1 + sum(child.size for child in self.children if isinstance(child, Part | Loop))


@dataclass(frozen=True, slots=True)
class Loop:
    """Part that is repeated for each entry of a list in the data.

    Attributes:
        name: Name of the list. It is a number if the entries do not differ.
        item: Repeated part.
        slots: Names of the values that differ between entries.
        is_flat: True if an entry is the value of its only slot.
        has_space: True if white space separates the entries.
    """

    name: str
    item: Part
    slots: tuple[str, ...]
    is_flat: bool
    has_space: bool

    @property
    def size(self) -> int:
        """Number of elements of one entry."""
        return self.item.size


Child = Part | Loop | Slot | Space | str


@dataclass(frozen=True, slots=True)
class _Scope:
    """Data of all instances of one template, and the names used in it."""

    rows: list[Data]
    names: Counter[str] = field(default_factory=Counter)

    def slot(self, base: str, values: Sequence[Any]) -> Slot:
        """Return a named slot for a value of each instance; None marks instances without one."""
        name = prop_name(base)
        self.names[name] += 1
        if self.names[name] > 1:
            name = f"{name}{self.names[name]}"
        for row, value in zip(self.rows, values, strict=True):
            if value is not None:
                row[name] = value
        return Slot(name)


def find_repeats(root: Element) -> tuple[Part, Data]:
    """Convert a page into a template with its repeated parts as loops, and their data.

    Args:
        root: Root element, such as the page's body.
    """
    data: list[Data] = [{}]
    return _merged((root,), _Scope(data)), data[0]


@dataclass(frozen=True, slots=True)
class _Group:
    """Adjacent children of one shape, or a text; `is_spaced`: space before them, `has_space`: space between them."""

    members: tuple[Element | str, ...]
    is_spaced: bool
    has_space: bool


def _merged(instances: Sequence[Element], scope: _Scope) -> Part:
    """Merge elements of one shape into one template."""
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
    """Yield the merged groups at one position of all instances: a text, single elements, or a loop over them."""
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
    """Return whether elements of one shape form a loop: parts of some size, or entries of a list."""
    first = members[0]
    if first.tag in _ENTRIES and not any(_SHADOW in part.attributes for part in first.parts):
        return len(members) >= MIN_ENTRIES or (len(members) > 1 and bool(first.parts))
    return len(members) > 1 and len(first.parts) > 0 and first.tag != "template"


def _groups_of(element: Element) -> list[_Group]:
    groups: list[_Group] = []
    for _, beside in groupby(
        _spaced_children(element), key=lambda each: each[2] if isinstance(each[0], str) else shape_of(each[0])
    ):
        members = list(beside)
        has_space = any(is_spaced for _, is_spaced, _ in members[1:])
        groups.append(_Group(tuple(child for child, _, _ in members), members[0][1], has_space))
    return groups


def _spaced_children(element: Element) -> Iterator[tuple[Element | str, bool, int]]:
    """Yield the children other than white space, each with whether space precedes it, and its number."""
    is_spaced = False
    for number, child in enumerate(element.children):
        if isinstance(child, str) and _is_space(child) and element.tag not in _VERBATIM:
            is_spaced = True
            continue
        yield child, is_spaced, number
        is_spaced = False


def shape_of(element: Element) -> tuple[Any, ...]:
    """Return a shape that is equal for elements that differ only in texts, attributes and numbers of repeated parts."""
    inner = [shape_of(child) if isinstance(child, Element) else "text" for child, _, _ in _spaced_children(element)]
    marks = tuple(element.attributes.get(name, "") for name in ("type", _SHADOW))
    return element.tag, *marks, tuple(shape for shape, _ in groupby(inner))


def _is_space(text: str) -> bool:
    return not text.strip(" \t\n\r\f")


def role_of(element: Element) -> str:
    """Return the role of an element: its class without the number of a variant, else its tag."""
    named = element.attributes.get("class", "").split()
    bare = re.sub(r"(-\d+)?(-[a-z]\d*)?$", "", named[0]) if named else ""
    if re.search("[a-zA-Z]", bare):
        return bare
    return "title" if re.fullmatch(r"h\d", element.tag) else _ROLES.get(element.tag, element.tag)


def _text_name(parent: Element) -> str:
    return "text" if parent.tag in _ENTRIES or parent.tag == "p" else role_of(parent)


def prop_name(base: str) -> str:
    """Return a valid name for JavaScript and Vue: letters and digits in camel case, not a reserved word."""
    words = re.findall("[A-Za-z0-9]+", base) or ["part"]
    name = words[0].lower() + "".join(word[0].upper() + word[1:].lower() for word in words[1:])
    name = f"x{name}" if name[0].isdigit() else name
    return f"{name}Value" if name in _RESERVED else name


@dataclass(slots=True)
class VueComponents:
    """Components of a site, by name; parts with the same template share one component.

    Attributes:
        files: Source texts by name.
    """

    files: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def write_page(self, template: Part, data: Data) -> str:
        """Return the component of a page from the template of its body and its data, as returned by `find_repeats`."""
        writer = _Writer(self)
        body = writer.children(template.children, "{}", 1)
        head = [f"import {name} from '../components/{name}.vue'" for name in sorted(writer.used)]
        values = [f"const {name} = {_script_value(value)}" for name, value in data.items()]
        setup = "\n".join([*head, *([""] if head and values else []), *values])
        shown = f"<script setup>\n{setup}\n</script>\n\n" if setup else ""
        return f"{shown}<template>{body}</template>\n"

    def name_of(self, loop: Loop) -> str:
        """Return the name of the component of a loop's entries; a new component is written."""
        writer = _Writer(self)
        template = writer.part(loop.item, "{}", 0)
        head = [f"import {name} from './{name}.vue'" for name in sorted(writer.used)]
        props = f"defineProps({json.dumps(list(loop.slots))})".replace('"', "'")
        text = "<script setup>\n" + "\n".join([*head, props]) + f"\n</script>\n\n<template>{template}</template>\n"
        if text not in self._known:
            base = component_name(loop.name.rstrip("0123456789"))
            number = 1 + sum(re.fullmatch(rf"{base}\d*", name) is not None for name in self.files)
            self._known[text] = base if number == 1 else f"{base}{number}"
            self.files[self._known[text]] = text
        return self._known[text]


def component_name(plural: str) -> str:
    """Return the component name for entries of a list: `cards` is `Card`."""
    single = plural[:-3] + "y" if plural.endswith("ies") else plural.removesuffix("s")
    name = (single or plural)[0].upper() + (single or plural)[1:]
    return f"{name}Part" if name == _HOST else name


class _Writer:
    """Writes one template; `used` are the components that it references."""

    def __init__(self, components: VueComponents) -> None:
        self._components = components
        self._aliases: Counter[str] = Counter()
        self.used: set[str] = set()

    def children(self, children: Sequence[Child], scope: str, depth: int) -> str:
        """Return the contents of an element; `scope` is the format of slot references, with `{}` for the name."""
        shown = []
        for number, child in enumerate(children):
            is_end = number == len(children) - 1
            match child:
                case Space():
                    shown.append("\n" + "  " * (depth - is_end))
                case str():
                    shown.append(_text(child))
                case Slot(name):
                    shown.append(f"{{{{ {scope.format(name)} }}}}")
                case Loop():
                    shown.append(self._loop(child, scope, depth))
                case Part() if child.tag not in _LEFT_OUT:
                    shown.append(self.part(child, scope, depth))
        return "".join(shown)

    def part(self, part: Part, scope: str, depth: int, more: str = "") -> str:
        """Return an element as HTML; `more` are directives."""
        attributes = more + "".join(_attribute(name, value, scope) for name, value in part.attributes)
        shadow = next((child for child in part.children if _is_shadow(child)), None)
        if isinstance(shadow, Part):
            return self._host(part, shadow, scope, depth, attributes)
        tag = end = part.tag
        if tag in _DYNAMIC or not re.fullmatch(r"[a-zA-Z][\w.-]*", tag):
            known = re.sub(r"[^\w.-]", "", tag) or "span"
            tag, end = f"component :is=\"'{known}'\"", "component"
        if end in _VOID:
            return f"<{tag}{attributes}>"
        return f"<{tag}{attributes}>{self.children(part.children, scope, depth + 1)}</{end}>"

    def _host(self, part: Part, shadow: Part, scope: str, depth: int, attributes: str) -> str:
        self.used.add(_HOST)
        mode = next((value for name, value in shadow.attributes if name == "shadowrootmode"), "open")
        light = self.children([child for child in part.children if child is not shadow], scope, depth + 1)
        light = f"<template #light>{light}</template>" if light.strip() else ""
        inner = self.children(shadow.children, scope, depth + 1)
        mode = mode if mode in ("open", "closed") else "open"
        return f'<{_HOST} as="{part.tag}" mode="{mode}"{attributes}>{light}{inner}</{_HOST}>'

    def _loop(self, loop: Loop, scope: str, depth: int) -> str:
        alias = prop_name(re.sub(r"s?(?<!\d)\d*$", "", loop.name) or "one")
        self._aliases[alias] += 1
        if alias == loop.name or (scope != "{}" and self._aliases[alias] > 1):
            alias += f"Entry{self._aliases[alias]}"
        each = f' v-for="({alias}, at) in {scope.format(loop.name)}" :key="at"'
        around, each = (each, "") if loop.has_space else ("", each)
        if loop.size >= MIN_SIZE:
            name = self._components.name_of(loop)
            self.used.add(name)
            shown = f'<{name}{each} v-bind="{alias}" />' if loop.slots else f"<{name}{each} />"
        else:
            inner = alias if loop.is_flat else f"{alias}.{{}}"
            shown = self.part(loop.item, inner, depth + loop.has_space, each)
        if not loop.has_space:
            return shown
        return f"<template{around}>\n{'  ' * (depth + 1)}{shown}\n{'  ' * depth}</template>"


def _is_shadow(child: Child) -> bool:
    return isinstance(child, Part) and any(name == "shadowrootmode" for name, _ in child.attributes)


def _attribute(name: str, value: str | Slot, scope: str) -> str:
    """Return an attribute; "" for a name that is a Vue directive or invalid in HTML."""
    if name in _NO_NAMES or not re.fullmatch(r"[A-Za-z_][\w.:-]*", name) or name.startswith("v-"):
        return ""
    if isinstance(value, Slot):
        return "" if "." in name else f' :{name}="{scope.format(value.name)}"'
    return f' {name}="{escape(value)}"' if value else f" {name}"


def _text(text: str) -> str:
    """Escape text so that Vue renders it literally, including braces."""
    return escape(text, quote=False).replace("{{", "&#123;&#123;")


def _script_value(value: Any) -> str:
    """Return a value as JavaScript, one entry per line, that cannot close the enclosing script element."""
    if isinstance(value, list):
        shown = "[\n" + "".join(f"  {_flat(entry, 2)},\n" for entry in value) + "]"
    else:
        shown = json.dumps(value, ensure_ascii=False)
    return shown.replace("</", "<\\/").replace("<!--", "<\\!--")


def _flat(value: Any, depth: int) -> str:
    """Return an entry of a list on one line, or one line per value if that is too long."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        parts = [f"{name}: {_flat(each, depth + 2)}" for name, each in value.items()]
        start, end = "{ ", " }"
    else:
        parts, start, end = [_flat(each, depth + 2) for each in value], "[", "]"
    line = start + ", ".join(parts) + end if parts else start.strip() + end.strip()
    if len(line) + depth <= _LINE_CHARS and "\n" not in line:
        return line
    pad = "\n" + " " * (depth + 2)
    return start.strip() + "".join(f"{pad}{part}," for part in parts) + "\n" + " " * depth + end.strip()
