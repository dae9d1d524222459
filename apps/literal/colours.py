"""The names that people give to colours."""

import colorsys

COLOURS: dict[str, tuple[int, int, int]] = {
    "black": (0, 0, 0), "white": (255, 255, 255), "grey": (128, 128, 128), "gray": (128, 128, 128),
    "silver": (192, 192, 192), "red": (255, 0, 0), "maroon": (128, 0, 0), "green": (0, 128, 0), "lime": (0, 255, 0),
    "olive": (128, 128, 0), "yellow": (255, 255, 0), "orange": (255, 165, 0), "brown": (165, 42, 42),
    "blue": (0, 0, 255), "navy": (0, 0, 128), "teal": (0, 128, 128), "aqua": (0, 255, 255), "cyan": (0, 255, 255),
    "turquoise": (64, 224, 208), "purple": (128, 0, 128), "violet": (238, 130, 238), "magenta": (255, 0, 255),
    "fuchsia": (255, 0, 255), "pink": (255, 192, 203),
}  # fmt: skip
"""The colours of CSS by the names that people use."""


def name_colours(colour: tuple[int, int, int]) -> set[str]:
    """All names that a colour may be given; the basic one of its hue among them."""
    red, green, blue = (channel / 255 for channel in colour)
    hue, lightness, _ = colorsys.rgb_to_hls(red, green, blue)
    spread = max(red, green, blue) - min(red, green, blue)
    value, degrees = max(red, green, blue), hue * 360
    if value < 0.16:
        return {"black"}
    if spread < 0.07:
        return {"white"} if lightness > 0.93 else {"silver", "grey", "gray"} if lightness > 0.6 else {"grey", "gray"}
    is_dark = value < 0.66
    for limit, light, dark in (
        (16, {"red", "pink"} if spread < 0.5 * value else {"red"}, {"red", "maroon", "brown"}),
        (46, {"orange"}, {"brown"}),
        (70, {"yellow"}, {"olive"}),
        (165, {"green", "lime"}, {"green"}),
        (198, {"cyan", "aqua", "turquoise"}, {"teal"}),
        (262, {"blue"}, {"blue", "navy"}),
        (285, {"purple", "violet"}, {"purple"}),
        (330, {"magenta", "fuchsia", "violet"}, {"purple"}),
        (345, {"pink"}, {"maroon"}),
    ):
        if degrees < limit:
            return dark if is_dark else light
    return {"red", "maroon", "brown"} if is_dark else {"red", "pink"} if spread < 0.5 * value else {"red"}
