"""Press, drag, count and name drawn figures."""

from apps.literal.colours import name_colours
from apps.literal.differences import find_changed_boxes
from apps.literal.find_figure import (
    Figure,
    find_figures,
    is_unsure,
    nearest_in_colour,
    pick_figures,
)
from apps.literal.find_text import find_text, name_nearest
from apps.literal.moves import Act, Already, Failed, Missing, Move, at
from apps.literal.progress import Progress
from apps.literal.screen import Screen, Sight
from apps.literal.targets import Looks
from apps.literal.text_match import WHOLE
from apps.literal.work_steps import DragFigures, PressFigures, TellFigures
from visual_tools.box import Box

_MAX_PRESSED = 60
_MAX_DRAGS = 30
_DRAG_SHARE = 0.15
_INSET_PX = 6


def plan_press_figures(step: PressFigures, screen: Screen, progress: Progress) -> Move:
    """Press the one that looks so, or the next of all of them."""
    if step.phrase and not progress.phases:
        named = [place for place in find_text(screen, step.phrase) if place.fit >= WHOLE]
        if named:
            return Act(code=(f"pyautogui.click({at(screen, named[0].point)})",), thought=f'I see "{step.phrase}".')
    figures = find_figures(screen)
    found = _pick(screen, figures, step.looks)
    if (step.is_all or not found) and is_unsure(figures, step.looks):
        return Failed(reason=f"there are signs that I cannot read, and one of them may be meant by: {step.looks}")
    if not found:
        return Missing(what=f"a figure that looks like: {step.looks}", nearest=tuple(name_nearest(screen, step.phrase)))
    if step.is_only and len(found) != 1:
        return Failed(reason=f"I see {len(found)} figures, and cannot tell which one is the {step.phrase}")
    if not step.is_all:
        chosen = nearest_in_colour(found, step.looks.colour)
        return Act(code=(_click(screen, chosen),), thought=f"I see {len(found)} that look so.")
    pressed = progress.count("part")
    if pressed >= len(found) or pressed >= _MAX_PRESSED:
        return Already(thought=f"I pressed all {pressed} of them.")
    return Act(code=(_click(screen, found[pressed]),), thought=f"I see {len(found)} that look so.", phase="part")


def _pick(screen: Screen, figures: list[Figure], looks: Looks) -> list[Figure]:
    exact = pick_figures(figures, looks)
    if exact or looks.kind not in ("box", "square", "rectangle"):
        return exact
    red, green, blue = (int(value) for value in screen.page_colour)
    return pick_figures(figures, looks, paper=name_colours((red, green, blue)))


def _click(screen: Screen, figure: Figure) -> str:
    return f"pyautogui.click({at(screen, figure.box_px.center)})"


def plan_drag_figures(step: DragFigures, sight: Sight, progress: Progress) -> Move:
    """Drag in a direction, once; or each one into the box, until none is outside of it."""
    screen = sight.now
    figures = find_figures(screen)
    drags = progress.count("part")
    if step.direction:
        return _drag_aside(step, sight, drags)
    if step.box == "larger":
        return _drag_into_larger(step, sight, drags)
    box = _find_box(figures, step.box)
    if box is None:
        return Missing(what=f"the {step.box} box", nearest=())
    frames = [figure.box_px for figure in figures if figure.kind == "frame"]
    loose = [
        figure
        for figure in figures
        if figure.kind != "frame" and not any(_is_inside(figure, frame) for frame in frames)
    ]
    meant = pick_figures(loose, step.looks)
    wanted = [figure for figure in loose if (figure in meant) != step.is_others]
    if not wanted:
        inside = [figure for figure in figures if figure.kind != "frame" and _is_inside(figure, box)]
        if not drags and not inside:
            return Missing(what=f"figures that look like: {step.looks}", nearest=())
        return Already(thought=f"None of them is outside of the box; I dragged {drags}.")
    has_moved = sight.before is None or bool(find_changed_boxes(sight.before, screen))
    if drags >= _MAX_DRAGS or (drags and not has_moved):
        return Failed(reason=f"{step}: they do not stay in the box")
    return _drag(screen, wanted[0], box.center, f"{len(wanted)} of them are outside of the box.")


def _is_inside(figure: Figure, box: Box) -> bool:
    return box.has_point(*figure.box_px.center)


def _find_box(figures: list[Figure], said: str) -> Box | None:
    frames = [figure for figure in figures if figure.kind == "frame"]
    if said in ("left", "right"):
        ordered = sorted(frames, key=lambda figure: figure.box_px.left)
        return ordered[0 if said == "left" else -1].box_px if len(ordered) > 1 else None
    if said:
        frames = [figure for figure in frames if said in name_colours(figure.colour)]
    return frames[0].box_px if len(frames) == 1 else None


def _drag(screen: Screen, figure: Figure, end: tuple[float, float], thought: str) -> Act:
    code = (
        f"pyautogui.moveTo({at(screen, figure.box_px.center)})",
        f"pyautogui.dragTo({at(screen, end)}, duration=0.3, button='left')",
    )
    return Act(code=code, thought=thought, phase="part")


def _pick_movable(screen: Screen, looks: Looks) -> list[Figure]:
    """The figures that look so; "the item" is a frame where there is nothing else."""
    figures = find_figures(screen)
    return pick_figures(figures, looks) or (figures if looks == Looks(kind="item") else [])


def _drag_aside(step: DragFigures, sight: Sight, drags: int) -> Move:
    """One figure, in a direction, as far as there is room within reason; then see that it stands there."""
    screen = sight.now
    found = _pick_movable(screen, step.looks)
    if len(found) != 1:
        return Failed(reason=f"I see {len(found)} figures that look like: {step.looks}")
    x, y = found[0].box_px.center
    sign_x, sign_y = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}[step.direction]
    if drags:
        before = _pick_movable(sight.before, step.looks) if sight.before is not None else []
        was_x, was_y = before[0].box_px.center if before else (x, y)
        if (x - was_x) * sign_x + (y - was_y) * sign_y > 2:
            return Already(thought="It stands further there now.")
        return Failed(reason="the figure did not move")
    half_x, half_y = found[0].box_px.width / 2 + _INSET_PX, found[0].box_px.height / 2 + _INSET_PX
    reach = _DRAG_SHARE * min(screen.width, screen.height)
    end_x = min(max(x + sign_x * reach, half_x), screen.width - half_x)
    end_y = min(max(y + sign_y * reach, half_y), screen.height - half_y)
    return _drag(screen, found[0], (end_x, end_y), "I drag it.")


def _drag_into_larger(step: DragFigures, sight: Sight, drags: int) -> Move:
    """The smaller of two boxes to the middle of the larger one."""
    screen = sight.now
    boxes = sorted(pick_figures(find_figures(screen), Looks(kind="box")), key=lambda figure: figure.box_px.area)
    if drags:
        if len(boxes) == 2 and boxes[1].box_px.contains(boxes[0].box_px):
            return Already(thought="It lies inside.")
        return Failed(reason="the smaller box does not lie inside of the larger one")
    if len(boxes) != 2 or boxes[0].box_px.area >= 0.8 * boxes[1].box_px.area:
        return Failed(reason=f"I see {len(boxes)} boxes, and not a smaller and a larger one")
    return _drag(screen, boxes[0], boxes[1].box_px.center, "I drag the smaller one onto the larger one.")


def plan_tell_figures(step: TellFigures, screen: Screen, progress: Progress) -> Move:
    """Press the button that says the answer, or answer."""
    figures = find_figures(screen)
    if step.what == "count":
        if is_unsure(figures, step.looks):
            return Failed(reason="there are signs that I cannot read, so that I cannot count")
        answers = [str(len(_pick(screen, figures, step.looks)))]
    else:
        if step.what == "sides":
            figures = [figure for figure in figures if figure.kind != "glyph"]
        if len(figures) != 1:
            return Failed(reason=f"I see {len(figures)} figures, and one was spoken of")
        answers = _names_of(figures[0]) if step.what == "name" else [str(figures[0].num_sides)]
    if not answers or (answers == ["0"] and step.what == "sides"):
        return Failed(reason="I cannot tell what the figure is")
    for answer in answers:
        buttons = [place for place in find_text(screen, answer) if place.fit >= WHOLE and place.button is not None]
        if buttons:
            code = (f"pyautogui.click({at(screen, buttons[0].point)})",)
            return Act(code=code, thought=f"{step}: {answer}. There is a button that says so.")
    if step.what == "count":
        return Act(code=("time.sleep(0.1)",), thought=f"{step}: {answers[0]}", answer=answers[0])
    return Missing(what=f"a button that says {' or '.join(answers)}", nearest=tuple(name_nearest(screen, answers[0])))


def _names_of(figure: Figure) -> list[str]:
    match figure.kind:
        case "glyph":
            if not figure.text:
                return []
            return ["Number", "Digit"] if figure.text.isdigit() else ["Letter"]
        case "square":
            return ["Square", "Rectangle"]
        case "frame":
            return ["Rectangle", "Square"]
        case _:
            return [figure.kind.capitalize()]
