"""CSS declarations of looks, lengths and colours."""

import re
from collections import Counter
from html import escape

from apps.video2web.layout.gradients import Gradient, Rgb
from apps.video2web.layout.primitives import BoxStyle, Primitive

Style = dict[str, str]
_BASE = (
    "*, *::before, *::after { box-sizing: border-box; }",
    "h1, h2, h3, p, ul, figure { margin: 0; padding: 0; font-size: inherit; font-weight: inherit; }",
    "a { color: inherit; text-decoration: none; }",
    "nav > a { display: block; }",
    "pre, code { font: inherit; }",
    "img { display: block; }",
    "button, input { font: inherit; color: inherit; border: 0; margin: 0; }",
    "table { border-collapse: collapse; table-layout: fixed; }",
    "th, td { padding: 0; font-weight: inherit; vertical-align: top; }",
)
_NARROW = (
    "body { overflow-wrap: break-word; }",
    "table { width: 100%; table-layout: auto; display: block; overflow-x: auto; }",
    "col { width: auto !important; }",
)
_NARROW_PX = 120  # widths up to it fit any window
_NARROW_SPACE_PX, _CELL_SPACE_PX = 16, 12  # in a narrow window, largest side margin and least space between columns


class StyleSheet:
    """Tags with classes and their rules; equal styles of one kind share a class."""

    def __init__(self) -> None:
        self._rules: dict[str, Style] = {}
        self._names: Counter[str] = Counter()

    def tag(self, tag: str, name: str, style: Style, inner: str | None, *, inline: bool = False) -> str:
        """Return an element as HTML.

        Args:
            tag: Tag name and further attributes.
            name: Role, used as the class name.
            style: CSS declarations.
            inner: Inner HTML; None for void elements.
            inline: True to write it on one line.
        """
        start = f'<{tag} class="{self._name(name, style)}">' if style else f"<{tag}>"
        if inner is None:
            return start
        end = f"</{tag.split()[0]}>"
        return f"{start}{inner}{end}" if inline or not inner else f"{start}\n{indent(inner)}\n{end}"

    def line(self, line: Primitive) -> str:
        """Return the text of a line as HTML; words in another colour or weight than the rest are spans."""
        parts, at = [], 0
        for run in line.runs:
            style: Style = {} if run.rgb is None else {"color": css_color(run.rgb)}
            if line.font is not None and run.face.weight != line.font.face.weight:
                style["font-weight"] = str(run.face.weight)
            written = escape(line.text[run.start : run.end])
            parts.append(escape(line.text[at : run.start]))
            parts.append(self.tag("span", "ink", style, written, inline=True) if style else written)
            at = run.end
        return "".join(parts) + escape(line.text[at:])

    def text(self, body: Style, width_px: int) -> str:
        """Return the text of the style sheet; in windows narrower than `width_px`, the page is reflowed."""
        own = (f".{name} {{ {declare(style)} }}" for name, style in self._rules.items())
        narrow: dict[str, list[str]] = {}
        for name, style in self._rules.items():
            if changed := narrowed(name, style):
                narrow.setdefault(declare(changed), []).append(f".{name}")
        reflowed = (f"  {', '.join(names)} {{ {changed} }}" for changed, names in narrow.items())
        media = [f"@media (max-width: {width_px - 1}px) {{", *(f"  {rule}" for rule in _NARROW), *reflowed, "}"]
        return "\n".join([_BASE[0], f"body {{ {declare(body)} }}", *_BASE[1:], *own, *media]) + "\n"

    def _name(self, base: str, style: Style) -> str:
        for name, known in self._rules.items():
            if known == style and re.fullmatch(rf"{re.escape(base)}(-[a-z]\d*)?", name):
                return name
        self._names[base] += 1
        number = self._names[base]
        name = base if number == 1 else f"{base}-{letters(number)}"
        self._rules[name] = dict(style)
        return name


def narrowed(name: str, style: Style) -> Style:
    """Return the declarations that differ in a narrow window: no fixed widths, no large side margins, lines wrap."""
    kind = re.sub(r"-[a-z]\d*$", "", name)
    is_layer = style.get("position") == "absolute"
    changed: Style = {}
    if kind == "image":  # small ones keep their size
        if "grid-area" in style:
            changed |= {"width": "100%", "height": "100%", "object-fit": "cover"}
        elif _px(style.get("width")) > _NARROW_PX:
            changed |= {"max-width": "100%", "height": "auto", "flex": "0 1 auto"}
            changed |= {"margin-left": "0"} if "margin-left" in style else {}
    elif _px(style.get("width")) > _NARROW_PX or kind == "pair":
        changed |= {"max-width": "100%"} if kind in ("button", "field") else {"width": "auto"}
    if style.get("display") == "flex" and kind not in ("item", "pair"):
        changed["flex-wrap"] = "wrap"
    if style.get("flex") == "none" and kind != "image":
        changed |= {"flex": "0 1 auto", "min-width": "0"}
    if style.get("display") == "grid":
        changed["grid-template-columns"] = "repeat(auto-fit, minmax(min(100%, 240px), 1fr))"
    if kind == "layers":
        changed |= {"display": "grid", "height": "auto"}
    elif style.get("position") == "relative":
        changed["height"] = "auto"
    if is_layer:
        changed |= {"position": "static"}
    if style.get("white-space") == "nowrap":
        changed |= {"white-space": "normal"} | ({"width": "auto"} if "width" in style else {})
    if "flex-wrap" in changed and _px(style.get("gap")) > _NARROW_SPACE_PX:
        changed["gap"] = css_px(_NARROW_SPACE_PX)
    if _px(style.get("min-height")) > 2 * _NARROW_PX:
        changed["min-height"] = "0"
    sides = style.get("padding", "").split()
    if len(sides) == 4 and max(_px(sides[1]), _px(sides[3])) > _NARROW_SPACE_PX:
        changed["padding"] = " ".join(
            css_px(min(_px(side), _NARROW_SPACE_PX if at % 2 else 3 * _NARROW_SPACE_PX))
            for at, side in enumerate(sides)
        )
    for side in ("left", "right"):
        for space in (f"padding-{side}", f"margin-{side}"):
            if space in changed:
                continue
            if _px(style.get(space)) > _NARROW_SPACE_PX or style.get(space) == "auto":
                changed[space] = css_px(_NARROW_SPACE_PX)
    if "margin-left" in changed and (style.get("flex") != "none" or _px(style.get("width")) > _NARROW_PX):
        changed["margin-right"] = css_px(_NARROW_SPACE_PX)
    if style.get("margin-left") == "auto" and style.get("width") == "fit-content":
        changed |= {"width": "auto", "text-align": "center"}
    if kind == "cell":
        changed["padding-right"] = css_px(min(max(_px(style.get("padding-right")), _CELL_SPACE_PX), _NARROW_SPACE_PX))
        changed["padding-bottom"] = css_px(min(_px(sides[0]) if sides else 0, _CELL_SPACE_PX))
    return changed


def _px(value: str | None) -> float:
    """Return a length in pixels; 0 for anything else."""
    return float(value.removesuffix("px")) if value and re.fullmatch(r"-?[\d.]+(px)?", value) else 0.0


def box_style(look: BoxStyle) -> Style:
    """Return the style of a frame."""
    style: Style = {}
    if look.fill is not None:
        style["background"] = css_background(look.fill, look.gradient)
    if look.border is not None:
        style["border"] = f"{look.border_px}px solid {css_color(look.border)}"
    if look.radius_px:
        style["border-radius"] = css_px(look.radius_px)
    return style


def font_style(line: Primitive, body: Primitive | None) -> Style:
    """Return the differences of a line's font and colour from the body text."""
    style: Style = {}
    font = line.font
    if font is None or body is None or body.font is None:
        return style
    if font.face.family != body.font.face.family:
        style["font-family"] = font.face.css_family
    if font.size_px != body.font.size_px:
        style["font-size"] = css_px(font.size_px)
    if font.face.weight != body.font.face.weight:
        style["font-weight"] = str(font.face.weight)
    if max(abs(a - b) for a, b in zip(line.rgb, body.rgb, strict=True)) > 6:
        style["color"] = css_color(line.rgb)
    return style


def add_margin(style: Style, name: str, px: float) -> None:
    """Increase a margin; a negative value reduces it."""
    if not px or style.get(name) == "auto":
        return
    style[name] = css_px(float(style.get(name, "0px").removesuffix("px")) + px)


def css_color(rgb: Rgb) -> str:
    """Return a colour in CSS notation."""
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def css_background(fill: Rgb, gradient: Gradient | None) -> str:
    """Return the background: a colour, or a gradient if there is one."""
    if gradient is None:
        return css_color(fill)
    return f"linear-gradient({gradient.angle_deg}deg, {css_color(gradient.start)}, {css_color(gradient.end)})"


def css_px(value: float) -> str:
    """Return a length in CSS pixels."""
    return f"{value:g}px" if value else "0"


def declare(style: Style) -> str:
    """Return declarations as text."""
    return " ".join(f"{name}: {value};" for name, value in style.items())


def indent(text: str) -> str:
    """Indent lines by one level, except within `pre`, where white space is shown."""
    lines = []
    is_shown = False
    for line in text.split("\n"):
        lines.append(f"  {line}" if line and not is_shown else line)
        is_shown = (is_shown or "<pre" in line) and "</pre>" not in line
    return "\n".join(lines)


def letters(number: int) -> str:
    """Return a short suffix for the second and later names."""
    return chr(ord("a") + (number - 2) % 26) + (str((number - 2) // 26) if number > 27 else "")
