"""What repeats in a page as templates with data, and their text as Vue components: one for each part and page."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
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
Data = dict[str, Any]
_HOST = "ShadowHost"
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_DYNAMIC = frozenset("component keep-alive script slot style suspense teleport transition transition-group".split())
_LEFT_OUT = frozenset(("noscript", "script"))
_NO_NAMES = frozenset(("is", "key", "ref"))
_LINE_CHARS = 118


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


@dataclass(slots=True)
class Components:
    """The components of a site, by name; two parts of one template are one component.

    Attributes:
        files: Their texts by name.
    """

    files: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def write_page(self, template: Part, data: Data) -> str:
        """A page's component. Its template is the contents of its body; those of `find_repeats`."""
        writer = _Writer(self)
        body = writer.children(template.children, "{}", 1)
        head = [f"import {name} from '../components/{name}.vue'" for name in sorted(writer.used)]
        values = [f"const {name} = {_script_value(value)}" for name, value in data.items()]
        setup = "\n".join([*head, *([""] if head and values else []), *values])
        shown = f"<script setup>\n{setup}\n</script>\n\n" if setup else ""
        return f"{shown}<template>{body}</template>\n"

    def name_of(self, loop: Loop) -> str:
        """The component of a loop's entries; it is written when it is new."""
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
    """What a component of the entries of a list is called: `cards` is `Card`."""
    single = plural[:-3] + "y" if plural.endswith("ies") else plural.removesuffix("s")
    name = (single or plural)[0].upper() + (single or plural)[1:]
    return f"{name}Part" if name == _HOST else name


class _Writer:
    """Writes one template; `used` are the components that it names."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._aliases: Counter[str] = Counter()
        self.used: set[str] = set()

    def children(self, children: Sequence[Child], scope: str, depth: int) -> str:
        """What stands in an element; `scope` is the place of slots, `{}` their name."""
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
        """An element; `more` are directives."""
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
    """An attribute; one whose name is a directive of Vue's or no name in HTML is left out."""
    if name in _NO_NAMES or not re.fullmatch(r"[A-Za-z_][\w.:-]*", name) or name.startswith("v-"):
        return ""
    if isinstance(value, Slot):
        return "" if "." in name else f' :{name}="{scope.format(value.name)}"'
    return f' {name}="{escape(value)}"' if value else f" {name}"


def _text(text: str) -> str:
    """Text that Vue takes for text, braces too."""
    return escape(text, quote=False).replace("{{", "&#123;&#123;")


def _script_value(value: Any) -> str:
    """A value as JavaScript, an entry a line, that cannot end the script that it stands in."""
    if isinstance(value, list):
        shown = "[\n" + "".join(f"  {_flat(entry, 2)},\n" for entry in value) + "]"
    else:
        shown = json.dumps(value, ensure_ascii=False)
    return shown.replace("</", "<\\/").replace("<!--", "<\\!--")


def _flat(value: Any, depth: int) -> str:
    """An entry of a list on one line, or a line for each of its values where that is too long."""
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
