import dataclasses
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from cua.step import Step, Turn
from cua.trajectory import RunHeader, TrajectoryWriter, load_run
from cua.trajectory.codec import encode, from_line, to_line
from cua.trajectory.events import ActingEvent, NoteEvent, ObservedEvent, RunEvent
from envs import Click, MouseDown
from tests.cua.trajectory import samples


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples.steps)
@pytest.mark.long
def test_a_step_comes_back_as_it_was_written(step: Step) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with TrajectoryWriter.create(Path(folder), RunHeader(instruction="x"), is_durable=False) as writer:
            samples.write_step(writer, step)
        assert load_run(writer.run_dir, images=None).steps == (step,)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples.steps)
def test_a_step_that_no_event_announced_comes_back_too(step: Step) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with TrajectoryWriter.create(Path(folder), RunHeader(instruction="x"), is_durable=False) as writer:
            writer.acted(step)
        record = load_run(writer.run_dir, images=None)
        assert record.steps == (step,)
        assert not record.outcomes[0].carried_out


def test_a_line_is_one_line_of_standard_json() -> None:
    event = NoteEvent(
        at=1.5, kind="info", text="a\nb\u2028c ü 漢 🙂", index=3, data={"ratio": math.inf, "n": np.int64(4)}
    )
    line = to_line(event)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line, parse_constant=pytest.fail) == {
        "event": "note",
        "at": 1.5,
        "agent": "main",
        "parent": "",
        "kind": "info",
        "text": "a\nb\u2028c ü 漢 🙂",
        "index": 3,
        "data": {"ratio": "inf", "n": 4},
    }


def test_actions_of_equal_fields_keep_their_class() -> None:
    actions = (Click(x_px=1, y_px=2), MouseDown(x_px=1, y_px=2))
    event = ActingEvent(at=0.0, index=1, turn=Turn(thought="", action_text="", code=""), actions=actions)
    assert from_line(to_line(event)) == event


def test_half_of_a_surrogate_pair_is_replaced_and_a_whole_pair_joined() -> None:
    assert encode({"a": "x\ud83dy", "b": "\ud83d\ude42"}) == {"a": "x\ufffdy", "b": "🙂"}


def test_what_has_no_json_form_is_told_in_words() -> None:
    assert encode([b"abc", Path("/a/b"), {3}, math.nan]) == ["<3 bytes>", "/a/b", [3], "nan"]


def test_a_picture_never_stands_in_a_line() -> None:
    observation = samples.make_observation(1)
    line = to_line(ObservedEvent(at=0.0, index=1, observation=observation, image="0" * 64))
    assert b"screenshot" not in line
    assert from_line(line) == ObservedEvent(
        at=0.0, index=1, observation=dataclasses.replace(observation, screenshot=b""), image="0" * 64
    )


def test_a_secret_that_is_one_of_our_words_does_not_break_the_format() -> None:
    step = samples.make_step(1)
    acting = ActingEvent(at=0.0, index=1, turn=step.turn, actions=step.actions)
    for word in ("left", "click", "acting"):
        line = to_line(acting, lambda text, word=word: text.replace(word, "{{pin}}"))
        assert from_line(line).event == "acting"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "Expecting"),
        (b"[]", "valid dictionary"),
        (b'{"event":"dance","at":1}', "dance"),
        (b'{"event":"note","at":1,"kind":"x"}', "note.text"),
        (b'{"event":"observed","at":1,"index":1,"image":"../../etc","observation":{}}', "observed"),
        (
            b'{"event":"acting","at":1,"index":1,"turn":{"thought":"","action_text":"","code":""},"actions":[{"kind":"fly"}]}',
            "fly",
        ),
    ],
)
def test_foreign_lines_are_refused_in_words(line: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_line(line)


def test_unknown_keys_of_a_later_minor_format_are_let_pass() -> None:
    data = json.loads(to_line(RunEvent(at=1.0, header=samples.HEADER)))
    data["header"]["mood"] = data["weather"] = "sunny"
    assert from_line(json.dumps(data).encode()) == RunEvent(at=1.0, header=samples.HEADER)
