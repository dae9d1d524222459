import pytest

from cua.trajectory.report.view import ScreenMarker, markers
from envs import Action, Click, Drag, Hotkey, MouseDown, MouseUp, Move, Observation, ScreenGeometry, Scroll, TypeText

HERE = ScreenGeometry(native_px=(1000, 500), sent_px=(2000, 1000), offset_px=(100, 50))


def seen(pointer_px: tuple[int, int] | None = None) -> Observation:
    return Observation(screenshot=b"", geometry=HERE, pointer_px=pointer_px)


@pytest.mark.parametrize(
    ("actions", "pointer_px", "expected"),
    [
        ([Click(x_px=600, y_px=300)], None, [ScreenMarker(number=1, kind="click", x=0.5, y=0.5)]),
        ([TypeText(text="a"), Click(x_px=100, y_px=50)], None, [ScreenMarker(number=2, kind="click", x=0.0, y=0.0)]),
        ([Click()], (350, 175), [ScreenMarker(number=1, kind="click", x=0.25, y=0.25)]),
        ([Click()], None, []),
        ([Hotkey(keys=("ctrl", "a"))], (350, 175), []),
        ([Click(x_px=0, y_px=9999)], None, [ScreenMarker(number=1, kind="click", x=0.0, y=1.0)]),
        (
            [Move(x_px=350, y_px=175), Drag(x_px=600, y_px=300)],
            None,
            [
                ScreenMarker(number=1, kind="move", x=0.25, y=0.25),
                ScreenMarker(number=2, kind="drag", x=0.5, y=0.5, x_from=0.25, y_from=0.25),
            ],
        ),
        (
            [Drag(x_px=600, y_px=300)],
            (350, 175),
            [ScreenMarker(number=1, kind="drag", x=0.5, y=0.5, x_from=0.25, y_from=0.25)],
        ),
        ([Drag(x_px=600, y_px=300)], None, [ScreenMarker(number=1, kind="click", x=0.5, y=0.5)]),
        (
            [MouseDown(x_px=350, y_px=175), Move(x_px=400, y_px=200), MouseUp(x_px=600, y_px=300)],
            None,
            [
                ScreenMarker(number=1, kind="click", x=0.25, y=0.25),
                ScreenMarker(number=3, kind="drag", x=0.5, y=0.5, x_from=0.25, y_from=0.25),
            ],
        ),
        (
            [Scroll(dy=-5, x_px=600, y_px=300), Scroll(dy=5), Scroll(dx=2), Scroll(dx=-2)],
            None,
            [
                ScreenMarker(number=1, kind="scroll", x=0.5, y=0.5, turn_deg=0),
                ScreenMarker(number=2, kind="scroll", x=0.5, y=0.5, turn_deg=180),
                ScreenMarker(number=3, kind="scroll", x=0.5, y=0.5, turn_deg=270),
                ScreenMarker(number=4, kind="scroll", x=0.5, y=0.5, turn_deg=90),
            ],
        ),
    ],
)
def test_where_shapes_stand(
    actions: list[Action], pointer_px: tuple[int, int] | None, expected: list[ScreenMarker]
) -> None:
    assert list(markers(actions, seen(pointer_px))) == expected
