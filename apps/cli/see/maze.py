"""`cua see maze`: the shortest way through a maze."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli.flags import choice
from apps.cli.see.output import AsJson, FilesArgument, Finding, Force, Output, Sink
from apps.cli.see.values import parse_place

if TYPE_CHECKING:
    from visual_tools.paths import PathCheck

_PLACE = "X,Y, LEFT,TOP,RIGHT,BOTTOM, or a colour; found by itself when left out."


def maze(
    files: FilesArgument,
    start: Annotated[str | None, typer.Option(help=_PLACE)] = None,
    goal: Annotated[str | None, typer.Option(help=_PLACE)] = None,
    diagonal: Annotated[bool, typer.Option("--diagonal", help="Steps to diagonal neighbours too.")] = False,
    clearance: Annotated[float, typer.Option(help="Pixels to keep away from walls.")] = 0.0,
    method: Annotated[str, typer.Option(help="bfs, astar or centered.")] = "bfs",
    road: Annotated[str, typer.Option(help="Tones that are road: auto, light or dark.")] = "auto",
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the shortest way through a maze, prove it step by step, and draw it."""
    import visual_tools as vt

    chosen: Any = choice("--method", method, ("bfs", "astar", "centered"))
    tones: Any = choice("--road", road, ("auto", "light", "dark"))
    begin: Any = parse_place("--start", start)
    end: Any = parse_place("--goal", goal)

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        found = vt.shortest_path(
            image,
            start=begin,
            goal=end,
            connectivity=8 if diagonal else 4,
            clearance_px=clearance,
            method=chosen,
            road=tones,
        )
        if not found.found:
            return Finding(result=found, lines=[f"no way: {found.reason}"], is_found=False)
        check = vt.check_path(
            found.mask,
            found.points_px,
            start=found.start_px,
            goal=found.goal_px,
            connectivity=found.connectivity,
        )
        lines = [
            f"a way of {found.num_points} pixels from {_point(found.start_px)} to {_point(found.goal_px)}, "
            f"{found.length_px:.1f} px long",
            "checked step by step: " + _tell(check),
        ]
        return Finding(result=found, lines=lines, picture=vt.draw_path(image, found), is_found=check.is_valid)

    Sink(operation="maze", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _tell(check: "PathCheck") -> str:
    if not check.is_valid:
        return "; ".join(check.problems)
    return "no wall is touched, and no way is shorter" if check.is_shortest else "no wall is touched"


def _point(point: tuple[int, int]) -> str:
    return f"{point[0]},{point[1]}"
