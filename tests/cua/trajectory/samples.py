"""Small whole runs to write down, and random ones."""

import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from PIL import Image, ImageDraw

from cua.messages import Reply, ToolCall, Usage
from cua.run.end import End, RunResult
from cua.step import Step, Turn
from cua.trajectory import RunHeader, TrajectoryWriter
from envs import (
    Action,
    Click,
    Dialog,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    PressKey,
    ScreenElement,
    ScreenGeometry,
    Scroll,
    Tab,
    Terminate,
    TypeText,
    Wait,
)

GEOMETRY = ScreenGeometry(native_px=(320, 200), sent_px=(320, 200))


@cache
def png(text: str, size_px: tuple[int, int] = (320, 200)) -> bytes:
    """An image that differs for each text."""
    image = Image.new("RGB", size_px, "white")
    ImageDraw.Draw(image).text((10, 10), text, fill="black")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def make_observation(number: int, **changes: Any) -> Observation:
    return Observation(
        **{"screenshot": png(f"screen {number}"), "geometry": GEOMETRY, "url": f"http://x/{number}", **changes}
    )


def make_step(number: int, **changes: Any) -> Step:
    step = Step(
        index=number,
        observation=make_observation(number),
        reply=Reply(content=f"reply {number}", usage=Usage(input_tokens=100, output_tokens=10, cost_usd=0.5)),
        turn=Turn(thought=f"thought {number}", action_text=f"Act {number}", code=f"pyautogui.click({number}, 5)"),
        actions=(Click(x_px=number, y_px=5),),
        started_at=1000.0 + number,
        timings={"model": 0.5, "act": 0.25},
    )
    return replace(step, **changes)


def write_step(writer: TrajectoryWriter, step: Step, *, until: str = "acted") -> None:
    """The events of a step in the loop's order, up to and including `until`."""
    events: dict[str, Callable[[], None]] = {
        "observed": lambda: writer.observed(step.index, step.observation),
        "replied": lambda: writer.replied(step.index, step.reply),
        "acting": lambda: writer.acting(step.index, step.turn, step.actions),
        "acted": lambda: writer.acted(step),
    }
    for name, write in events.items():
        write()
        if name == until:
            return


HEADER = RunHeader(instruction="Add two items", env="browser", model="literal", started_at=1_700_000_000.0)
ENDED = RunResult(
    end=End(status="succeeded", reason="the task's own check passed", score=1.0, answer="42"),
    num_steps=2,
    usage=Usage(input_tokens=200, output_tokens=20, cost_usd=1.0),
    duration_s=3.5,
)


def write_run(
    runs_dir: Path, num_steps: int = 2, *, header: RunHeader = HEADER, result: RunResult | None = ENDED
) -> Path:
    with TrajectoryWriter.create(runs_dir, header, is_durable=False) as writer:
        for number in range(1, num_steps + 1):
            write_step(writer, make_step(number))
        if result:
            writer.ended(result)
    return writer.run_dir


_texts = st.text(max_size=40)
_px = st.integers(-5, 5000)
_maybe_px = st.one_of(st.none(), _px)
_seconds = st.floats(0, 1e6, allow_nan=False)
_button = st.sampled_from(["left", "middle", "right"])

actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Click, x_px=_maybe_px, y_px=_maybe_px, button=_button, clicks=st.integers(1, 5), interval_s=_seconds),
    st.builds(Move, x_px=_px, y_px=_px, duration_s=_seconds),
    st.builds(Drag, x_px=_px, y_px=_px, button=_button, duration_s=_seconds),
    st.builds(Scroll, dy=_px, dx=_px, x_px=_maybe_px, y_px=_maybe_px),
    st.builds(TypeText, text=_texts, interval_s=_seconds),
    st.builds(PressKey, key=_texts, presses=st.integers(1, 9), interval_s=_seconds),
    st.builds(Hotkey, keys=st.lists(_texts, max_size=4).map(tuple)),
    st.builds(KeyDown, key=_texts),
    st.builds(KeyUp, key=_texts),
    st.builds(MouseDown, x_px=_maybe_px, y_px=_maybe_px, button=_button),
    st.builds(MouseUp, x_px=_maybe_px, y_px=_maybe_px, button=_button),
    st.builds(Wait, duration_s=_seconds),
    st.builds(Terminate, status=st.sampled_from(["success", "failure"]), answer=st.one_of(st.none(), _texts)),
)
_pair = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
_observations = st.builds(
    Observation,
    screenshot=st.binary(max_size=30),
    geometry=st.builds(ScreenGeometry, native_px=_pair, sent_px=_pair, offset_px=st.tuples(_px, _px)),
    pointer_px=st.one_of(st.none(), st.tuples(_px, _px)),
    url=st.one_of(st.none(), _texts),
    title=st.one_of(st.none(), _texts),
    tabs=st.lists(st.builds(Tab, title=_texts, url=_texts, is_active=st.booleans()), max_size=3).map(tuple),
    dialog=st.one_of(
        st.none(),
        st.builds(
            Dialog,
            kind=st.sampled_from(["alert", "confirm", "prompt", "beforeunload"]),
            message=_texts,
            default_text=_texts,
        ),
    ),
    last_action_error=st.one_of(st.none(), _texts),
    notes=st.lists(_texts, max_size=3).map(tuple),
    a11y_tree=st.one_of(st.none(), _texts),
    elements=st.lists(
        st.builds(
            ScreenElement,
            number=st.integers(1, 200),
            role=_texts,
            name=_texts,
            value=_texts,
            states=st.lists(_texts, max_size=2).map(tuple),
            box=st.tuples(*[st.floats(0, 1)] * 4),
        ),
        max_size=2,
    ).map(tuple),
)
_usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**9),
    output_tokens=st.integers(0, 10**9),
    cached_tokens=st.integers(0, 10**9),
    cost_usd=st.one_of(st.none(), _seconds),
)
_replies = st.builds(
    Reply,
    content=_texts,
    reasoning=_texts,
    tool_calls=st.lists(st.builds(ToolCall, id=_texts, name=_texts, arguments=_texts), max_size=2).map(tuple),
    usage=_usages,
    finish_reason=st.sampled_from(["stop", "length", "tool_calls", "content_filter", "unknown"]),
    model=_texts,
    duration_s=_seconds,
)
steps: st.SearchStrategy[Step] = st.builds(
    Step,
    index=st.integers(1, 10**6),
    observation=_observations,
    reply=_replies,
    turn=st.builds(Turn, thought=_texts, action_text=_texts, code=_texts),
    actions=st.lists(actions, max_size=4).map(tuple),
    error=st.one_of(st.none(), _texts),
    started_at=_seconds,
    timings=st.dictionaries(_texts, _seconds, max_size=3),
)
