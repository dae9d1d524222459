"""Draw detected objects: outlines in varying colours, each with its number."""

import colorsys
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.components import Components, Outline, trace_outline
from visual_tools.regions.counting import Count
from visual_tools.regions.inputs import RgbImage, to_image
from visual_tools.regions.measuring import Measurements, ScaleBar
from visual_tools.regions.outlines import Contours, Polygons

_HUE_STEP = 0.381966
"""Golden section, so that consecutive numbers get very different colours."""

_LINE_PER_SIDE = 1 / 500  # line and text in shares of the image's side: readable on small and large images
_TEXT_PER_SIDE = 1 / 45
_MIN_TEXT_PX = 10
_TEXT_PER_OBJECT = 0.45  # a label leaves most of its object visible


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    outlines_px: tuple[Outline, ...]
    text: str
    at_px: tuple[float, float]
    room_px: float


def draw_objects(
    image: ImageSource,
    result: Count | Measurements | Components | Contours | Polygons | ScaleBar,
    *,
    show_numbers: bool = True,
) -> RgbImage:
    """Return a copy of the image with every detected object outlined and numbered.

    Args:
        image: Image in which `result` was found; it is not changed.
        result: Result of one of the functions of this package.
        show_numbers: True to write numbers (kinds for polygons), except where an object is too small.

    Raises:
        ImageError: If it is not an image.
    """
    drawn = np.ascontiguousarray(to_image(image)).copy()
    side = max(drawn.shape[:2])
    line_px = max(round(side * _LINE_PER_SIDE), 1)
    marks = _make_marks(result)
    for index, mark in enumerate(marks):
        color = _color(index)
        for outline in mark.outlines_px:
            cv2.polylines(drawn, [outline], True, color, line_px, cv2.LINE_AA if line_px > 1 else cv2.LINE_8)
    return _write(drawn, marks, side) if show_numbers else drawn


def _make_marks(result: Count | Measurements | Components | Contours | Polygons | ScaleBar) -> list[_Mark]:
    match result:
        case Count() | Measurements():
            return [
                _Mark(
                    outlines_px=(item.outline_px,),
                    text=str(item.number),
                    at_px=item.centroid_px,
                    room_px=min(item.box_px.width, item.box_px.height),
                )
                for item in result.objects
            ]
        case Components():
            return [_mark_component(result, index) for index in range(len(result))]
        case Contours():
            return [
                _Mark(
                    outlines_px=(contour.points_px,),
                    text=str(contour.number),
                    at_px=contour.center_px,
                    room_px=contour.box_px.height,
                )
                for contour in result.contours
            ]
        case Polygons():
            return [
                _Mark(
                    outlines_px=(np.rint(polygon.shape_px).astype(np.int32),),
                    text=f"{polygon.number} {polygon.kind}",
                    at_px=polygon.center_px,
                    room_px=min(polygon.box_px.width, polygon.box_px.height),
                )
                for polygon in result.polygons
            ]
        case ScaleBar():
            text = f"{result.length_px:g} px = {result.value:g} {result.unit}"
            bar = result.bar_px
            corners = np.array(
                [(bar.left, bar.top), (bar.right, bar.top), (bar.right, bar.bottom), (bar.left, bar.bottom)]
            )
            return [
                _Mark(
                    outlines_px=(corners.astype(np.int32),), text=text, at_px=(bar.center[0], bar.top - 14), room_px=60
                )
            ]


def _mark_component(result: Components, index: int) -> _Mark:
    component = result[index]
    box = component.box_px
    region = np.asarray(result.labels[box.top : box.bottom, box.left : box.right] == component.label)
    outline = trace_outline(region, box.left, box.top)
    room = min(box.width, box.height)
    return _Mark(outlines_px=(outline,), text=str(component.label), at_px=component.centroid_px, room_px=room)


def _color(index: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(index * _HUE_STEP % 1, 0.9, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def _write(drawn: RgbImage, marks: list[_Mark], side: int) -> RgbImage:
    image = Image.fromarray(drawn)
    draw = ImageDraw.Draw(image)
    fonts: dict[int, ImageFont.FreeTypeFont | ImageFont.ImageFont] = {}
    for mark in marks:
        size = round(min(max(side * _TEXT_PER_SIDE, _MIN_TEXT_PX), mark.room_px * _TEXT_PER_OBJECT))
        if size < _MIN_TEXT_PX * 0.8:
            continue
        font = fonts.setdefault(size, ImageFont.load_default(size))
        draw.text(
            mark.at_px,
            mark.text,
            font=font,
            anchor="mm",
            fill="white",
            stroke_width=max(size // 8, 1),
            stroke_fill="black",
        )
    return np.asarray(image)
