"""Templates as the text of Vue components: a file for each part that repeats, and one for each page."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from apps.video2web.vue.repeats import MIN_SIZE, Child, Data, Loop, Part, Slot, Space, prop_name

_HOST = "ShadowHost"
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_DYNAMIC = frozenset("component keep-alive script slot style suspense teleport transition transition-group".split())
_LEFT_OUT = frozenset(("noscript", "script"))
_NO_NAMES = frozenset(("is", "key", "ref"))
_LINE_CHARS = 118


@dataclass(slots=True)
class Components:
    """The components of a site, by name; two parts of one template are one component.

    Attributes:
        files: Their texts by name.
    """

    files: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def write_page(self, template: Part, data: Data) -> str:
        """A page's component. Its template is the contents of its body; those of `repeats.find_repeats`."""
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
