"""Points, boxes and other values that are typed as text."""

from visual_tools.box import Box
from visual_tools.errors import ImageError


def parse_numbers(flag: str, text: str, count: int, example: str) -> tuple[float, ...]:
    """Numbers with commas between.

    Raises:
        ImageError: There are not `count` of them.
    """
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise ImageError(f"{flag} is {text!r}, expected {count} numbers such as {example}")
    return values


def parse_box(flag: str, text: str) -> Box:
    """LEFT,TOP,RIGHT,BOTTOM.

    Raises:
        ImageError: It is no box.
    """
    left, top, right, bottom = (round(value) for value in parse_numbers(flag, text, 4, "10,20,200,120"))
    if right <= left or bottom <= top:
        raise ImageError(f"{flag} is {text!r}, expected LEFT,TOP,RIGHT,BOTTOM with left < right and top < bottom")
    return Box(left, top, right, bottom)


def parse_place(flag: str, text: str | None) -> tuple[int, int] | Box | str | None:
    """X,Y, or LEFT,TOP,RIGHT,BOTTOM, or else a word such as a colour.

    Raises:
        ImageError: Numbers, but neither two nor four.
    """
    if text is None or not any(char.isdigit() for char in text) or text.startswith("#"):
        return text
    if text.count(",") == 3:
        return parse_box(flag, text)
    x_px, y_px = (round(value) for value in parse_numbers(flag, text, 2, "10,20"))
    return x_px, y_px


def tell_box(box: Box) -> str:
    """A box in words, as it can be typed back in."""
    return f"{box.left},{box.top},{box.right},{box.bottom}"


def tell_number(number: int, noun: str) -> str:
    """Like "1 object", "2 objects"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
