"""Events, citations, spans, the merge at borders, and what plain words ask for."""

from dataclasses import replace
from itertools import pairwise

import pytest

from apps.video_showcase.answer import answer, matching_events
from apps.video_showcase.events import (
    VideoEvent,
    event_from_json,
    find_citations,
    format_clock,
    parse_clock,
    text_similarity,
)
from apps.video_showcase.request import parse_request
from apps.video_showcase.sources import VideoSource
from apps.video_showcase.spans import VideoSpan, split
from apps.video_showcase.tools import merge
from apps.video_showcase.watch import belongs
from cua.errors import ConfigError


def make_source(name: str = "a.mp4", seconds: float = 600.0) -> VideoSource:
    return VideoSource(
        name=name,
        path=f"/videos/{name}",
        size_bytes=1,
        mtime_ns=1,
        digest=name,
        duration_s=seconds,
        width_px=320,
        height_px=180,
        fps=10,
    )


def make_event(start_s: float, end_s: float, kind: str = "text", text: str = "LEVEL UP", **more: object) -> VideoEvent:
    return replace(VideoEvent(file="a.mp4", start_s=start_s, end_s=end_s, kind=kind, text=text, source="text"), **more)


def test_times_are_read_as_they_are_written() -> None:
    assert [format_clock(time_s) for time_s in (0, 59.99, 3600, 359_999)] == [
        "00:00:00",
        "00:00:59",
        "01:00:00",
        "99:59:59",
    ]
    assert [parse_clock(text) for text in ("01:02:03", "2:03", "12.5")] == [3723.0, 123.0, 12.5]


def test_an_event_survives_its_json() -> None:
    event = make_event(1.25, 4.5, evidence_s=(2.0, 3.0), is_open=True)
    assert event_from_json(event.to_json()) == event


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"file": "a", "kind": "x", "start_s": 5, "end_s": 4},
        {"file": "a", "kind": "x", "start_s": "b", "end_s": 4},
        {"file": "a", "kind": "x", "start_s": 0, "end_s": float("nan")},
    ],
)
def test_what_is_no_event_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="invalid event"):
        event_from_json(wrong)


def test_citations_name_the_nearest_event() -> None:
    events = [make_event(10, 12), make_event(14, 20), make_event(300, 301)]
    names = ["a.mp4", "odd <b>@name.mp4"]
    text = "At a.mp4@00:00:14 and a.mp4@05:00, not a.mp4@00:09:00; odd <b>@name.mp4@00:00:01."
    found = find_citations(text, names, events)
    assert [(text[one.start : one.end], one.event) for one in found] == [
        ("a.mp4@00:00:14", 1),
        ("a.mp4@05:00", 2),
        ("a.mp4@00:09:00", None),
        ("odd <b>@name.mp4@00:00:01", None),
    ]


def test_text_that_was_misread_a_little_is_alike() -> None:
    assert text_similarity("RED 1: 0 BLUE", "RED 1:O BLUE") == 1.0
    assert text_similarity("LEVEL UP 26", "CHECKPOINT 11") < 0.5


def test_files_are_split_into_equal_pieces_without_gaps() -> None:
    sources = [make_source("a.mp4", 1000), make_source("b.mp4", 50)]
    spans = split(sources, num_workers=1, span_s=300)
    assert [(one.number, one.source.name, one.start_s, one.end_s) for one in spans] == [
        (1, "a.mp4", 0, 250),
        (2, "a.mp4", 250, 500),
        (3, "a.mp4", 500, 750),
        (4, "a.mp4", 750, 1000),
        (5, "b.mp4", 0, 50),
    ]
    assert (spans[1].read_start_s, spans[1].read_end_s) == (240, 515)
    day = [make_source(f"{number}.mp4", 2700) for number in range(32)]
    assert len(split(day, num_workers=2)) == 96
    assert len(split(day, num_workers=2, span_s=300)) == 32 * 9
    assert 900 < len(split(day, num_workers=2, span_s=5)) <= 1000


def spans_of(*borders: float) -> list[VideoSpan]:
    source = make_source(seconds=borders[-1])
    return [VideoSpan(number=at, source=source, start_s=a, end_s=b) for at, (a, b) in enumerate(pairwise(borders), 1)]


def test_an_event_over_a_border_is_one_with_its_whole_length() -> None:
    spans = spans_of(0, 300, 600)
    found = {
        1: [make_event(290, 314.8, is_open=True)],
        2: [make_event(290.2, 330, began_before=True), make_event(400, 404, text="PAUSE")],
    }
    assert [(one.start_s, one.end_s, one.text) for one in merge(found, spans)] == [
        (290, 330, "LEVEL UP"),
        (400, 404, "PAUSE"),
    ]


def test_an_event_over_two_borders_goes_on_and_on() -> None:
    found = {
        1: [make_event(90, 114, is_open=True)],
        2: [make_event(90, 214, began_before=True, is_open=True)],
        3: [make_event(190, 250, began_before=True)],
    }
    assert [(one.start_s, one.end_s) for one in merge(found, spans_of(0, 100, 200, 300))] == [(90, 250)]


def test_doubles_at_a_border_and_of_two_finders_are_one() -> None:
    found = {
        1: [make_event(299.5, 303, confidence=0.7), make_event(100, 105, kind="goal", text="A goal")],
        2: [make_event(300.1, 303, confidence=0.9)],
    }
    merged = merge(found, spans_of(0, 300, 600))
    assert [(one.start_s, one.end_s, one.confidence) for one in merged] == [(100, 105, 1.0), (299.5, 303, 0.9)]


@pytest.mark.parametrize("kind", ["text", "score", "flash", "beep"])
@pytest.mark.parametrize("late_s", [-0.2, 0.0, 0.2])
def test_events_at_a_border_are_counted_as_often_as_they_are(kind: str, late_s: float) -> None:
    """Both spans see three events in a row at their border, and one of them dates them a little differently."""
    spans = spans_of(0, 300, 600)
    texts = (
        ["RED 1 - 0 BLUE", "RED 1 - 1 BLUE", "RED 2 - 1 BLUE"] if kind in ("text", "score") else ["tone of 440 Hz"] * 3
    )
    times_s = (298.9, 300.0, 301.2)
    seen = [make_event(at_s, at_s + 0.6, kind=kind, text=text) for at_s, text in zip(times_s, texts, strict=True)]
    found = {1: seen, 2: [event.moved(late_s) for event in seen]}
    kept = {span.number: [event for event in found[span.number] if belongs(event, span)] for span in spans}
    merged = merge(kept, spans)
    assert [event.text for event in merged] == texts
    assert [event.start_s for event in merged] == pytest.approx(times_s, abs=0.2)
    assert [event.text for event in merge({**kept, 2: []}, spans)][:1] == texts[:1]


@pytest.mark.parametrize(("first_s", "second_s"), [(300.1, 299.9), (299.9, 300.1), (300.0, 299.8), (301.0, 299.2)])
def test_an_event_that_each_span_dates_beyond_the_border_is_one(first_s: float, second_s: float) -> None:
    spans = spans_of(0, 300, 600)
    found = {1: [make_event(first_s, first_s + 3)], 2: [make_event(second_s, second_s + 3)]}
    kept = {span.number: [event for event in found[span.number] if belongs(event, span)] for span in spans}
    assert len(merge(kept, spans)) == 1


def test_the_same_words_again_in_a_later_span_are_two_events() -> None:
    found = {
        1: [make_event(22, 115, text="$ git push", is_open=True)],
        2: [make_event(90, 200, text="$ git push", began_before=True), make_event(101, 200, text="$ git push")],
    }
    assert [(one.start_s, one.end_s) for one in merge(found, spans_of(0, 100, 200))] == [(22, 200), (101, 200)]


def test_two_flashes_of_one_span_stay_two() -> None:
    flashes = [
        make_event(10, 10.6, kind="flash", text="red flash"),
        make_event(11.5, 12, kind="flash", text="red flash"),
    ]
    assert len(merge({1: flashes}, spans_of(0, 300))) == 2


def test_what_stands_in_a_picture_from_the_first_frame_is_no_event() -> None:
    logo, title = make_event(0, 280, began_before=True), make_event(0, 6, text="The title", began_before=True)
    assert [one.text for one in merge({1: [logo, title]}, spans_of(0, 300))] == ["The title"]


def test_a_scene_lasts_until_the_next_one_of_another_span() -> None:
    one = make_event(100, 299, kind="scene", source="scene", text="another scene", is_open=True)
    other = make_event(450, 599, kind="scene", source="scene", text="another scene")
    merged = merge({1: [one], 2: [other]}, spans_of(0, 300, 600))
    assert [(event.start_s, event.end_s) for event in merged] == [(100, 450), (450, 600)]


@pytest.mark.parametrize(
    ("question", "detectors", "kinds", "ask"),
    [
        ("When does the score change?", ("text",), ("score",), "list"),
        ("How many loud beeps are there?", ("sound",), ("beep",), "count"),
        ("the longest loud noise", ("sound",), ("sound", "beep"), "longest"),
        ("When is the first red flash?", ("flash",), ("flash",), "first"),
        ('When does it say "LEVEL UP"?', ("text",), ("text",), "list"),
        ("What moves, and when do banners appear?", ("text", "motion"), ("text", "motion"), "list"),
        ("When do the slides change?", ("scene",), ("scene",), "list"),
        ("What happens?", ("scene", "text", "motion", "flash", "sound"), (), "list"),
    ],
)
def test_plain_words_choose_detectors(
    question: str, detectors: tuple[str, ...], kinds: tuple[str, ...], ask: str
) -> None:
    request = parse_request(question)
    assert (request.detectors, set(request.kinds), request.ask) == (detectors, set(kinds), ask)


def test_a_showcase_is_wished_for_in_words() -> None:
    assert parse_request("Make a showcase of the best goals").is_showcase
    assert not parse_request("Who shows up?").is_showcase


@pytest.mark.parametrize(
    ("question", "given", "said"),
    [
        (" ", {}, "the question is empty"),
        ("x", {"detectors": ["flsh"]}, "'flash'"),
        ("x", {"detectors": ["template"]}, "--template"),
    ],
)
def test_a_wish_that_cannot_be_read_is_refused(question: str, given: dict[str, list[str]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_request(question, **given)


def test_an_answer_cites_each_event_and_says_what_is_missing() -> None:
    events = [
        make_event(10, 15),
        make_event(70, 71, kind="score", text="RED 1:0 BLUE"),
        make_event(90, 95, text="PAUSE"),
    ]
    request = parse_request('How often does it say "pause"?')
    assert matching_events(events, request) == events[2:]
    text = answer(events, request, seconds=600, num_files=1, missing=["a.mp4, 00:05:00 to 00:10:00"])
    assert text.splitlines() == [
        '1 with "pause", in 1 file of 00:10:00 together: 1 text.',
        "- a.mp4@00:01:30 text: PAUSE (5 s)",
        "Not watched:",
        "- a.mp4, 00:05:00 to 00:10:00",
    ]


def test_the_colour_of_a_flash_counts() -> None:
    events = [make_event(at, at + 1, kind="flash", text=f"{color} flash") for at, color in enumerate(("red", "blue"))]
    chosen = matching_events(events, parse_request("How many blue flashes are there?"))
    assert [event.text for event in chosen] == ["blue flash"]
    assert len(matching_events(events, parse_request("Any flashes of the blue team's lamp?"))) == 1
    assert len(matching_events(events, parse_request("Any flashes?"))) == 2


def test_nothing_found_is_said_as_such() -> None:
    assert answer([], parse_request("Any flash?"), seconds=60, num_files=1).startswith("Nothing was found")


def test_what_another_detector_found_is_said_where_the_chosen_one_found_nothing() -> None:
    events = [make_event(10, 15, text="Question 1"), make_event(20, 25, text="Question 2")]
    text = answer(events, parse_request("When do the slides change?"), seconds=60, num_files=1)
    assert answer(events, parse_request("When?", detectors=["scene"]), seconds=60, num_files=1) == text
    assert text.splitlines() == [
        "Nothing was found in 1 file of 00:01:00 together (looked for: scene).",
        "Something else was found, 2 text:",
        "- a.mp4@00:00:10 text: Question 1 (5 s)",
        "- a.mp4@00:00:20 text: Question 2 (5 s)",
    ]


def test_a_count_of_scenes_includes_the_first_of_each_file() -> None:
    events = [make_event(at_s, at_s + 10, kind="scene", text="another scene") for at_s in (10, 20)]
    said = answer(events, parse_request("How many slides are there?"), seconds=30, num_files=1).splitlines()[0]
    assert "2 scene, which makes 3 with the first of each file" in said
