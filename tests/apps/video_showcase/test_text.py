"""Dates and evidence of text, on drawn frames with a reader that knows what is drawn."""

from collections.abc import Callable, Sequence

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from apps.video_showcase.answer import answer
from apps.video_showcase.detectors.text import OnScreenTextDetector
from apps.video_showcase.events import VideoEvent
from apps.video_showcase.request import parse_request
from apps.video_showcase.samples import RATE, Sample
from visual_tools.box import Box
from visual_tools.ocr import TextLine

Show = Callable[[float], tuple[str, str]]
"""Text and clock that are shown at a time."""


class Stage:
    """Frames with a text and a clock beside it; the ink's blue tells the reader which of the texts it is."""

    def __init__(
        self,
        show: Show,
        texts: Sequence[str],
        misread: dict[float, str] | None = None,
        *,
        is_visible: bool = True,
        confidence: float = 0.95,
    ) -> None:
        self._confidence = confidence
        self._show, self._texts, self._misread = show, list(texts), misread or {}
        self.time_s = 0.0
        self._is_visible = is_visible

    def frame(self, time_s: float) -> NDArray[np.uint8]:
        image = np.full((180, 320, 3), 40, np.uint8)
        text, clock = self._show(time_s)
        if text:
            ink = (255, 255, 255 - 30 * self._texts.index(text))
            cv2.putText(image, text, (12, 40), cv2.FONT_HERSHEY_SIMPLEX, 0.6, ink, 1)
        if clock:
            cv2.putText(image, clock, (135, 40), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (255, 250, 0), 1)
        return image

    def read(self, image: NDArray[np.uint8]) -> list[TextLine]:
        is_ink = (image[..., 0] > 250) & (image[..., 2] > 100)
        if not is_ink.any():
            return []
        rows, columns = np.nonzero(is_ink)
        box = Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
        text = self._texts[round((255 - float(np.median(image[is_ink][:, 2]))) / 30)]
        wrong = next((word for at, word in self._misread.items() if abs(at - self.time_s) < 0.05), text)
        return [TextLine(text=wrong, box_px=box, confidence=self._confidence)]

    def frame_at(self, time_s: float) -> NDArray[np.uint8]:
        return self.frame(time_s) if self._is_visible else np.zeros((180, 320, 3), np.uint8)

    def watch(self, until_s: float, *, is_checked: bool = False, dated_s: float | None = None) -> list[VideoEvent]:
        detector = OnScreenTextDetector(RATE, self.read, self.frame_at if is_checked else None)
        for number in range(round(until_s * RATE)):
            self.time_s = number / RATE
            image = self.frame(self.time_s)
            detector.feed(Sample(time_s=self.time_s, image=image, thumbnail=image[::4, ::4]))
        self.time_s = -1.0
        if dated_s is not None:
            detector._tracks[-1].start_s = dated_s
        return detector.finish("a.mp4")


def step(at_s: float, before: str, after: str, clock: Callable[[float], str] = lambda time_s: "") -> Show:
    return lambda time_s: (after if time_s >= at_s else before, clock(time_s))


def ticking(time_s: float) -> str:
    return f"00:{int(time_s):02}"


@pytest.mark.parametrize("at_s", [9.0, 9.4, 12.0, 21.0])
@pytest.mark.parametrize("every_s", [1, 3])
def test_a_change_does_not_begin_before_the_old_text_was_last_read(at_s: float, every_s: int) -> None:
    """A clock beside the board has it read at any moment, also right after the change."""
    show = step(at_s, "NOR 0 - 0 BAS", "NOR 1 - 0 BAS", lambda time_s: ticking(time_s // every_s * every_s))
    (event,) = Stage(show, ["NOR 0 - 0 BAS", "NOR 1 - 0 BAS"]).watch(28)
    assert (event.kind, event.text) == ("score", "NOR 1 - 0 BAS")
    assert event.start_s == pytest.approx(at_s, abs=0.4)


def test_lines_that_differ_in_a_number_alone_are_different_texts() -> None:
    texts = ["", "Question 1", "Question 2", "Question 3"]
    events = Stage(lambda time_s: (texts[min(int(time_s / 5), 3)], ""), texts).watch(22)
    assert [(event.text, round(event.start_s)) for event in events] == [
        ("Question 1", 5),
        ("Question 2", 10),
        ("Question 3", 15),
    ]


def test_another_reading_of_the_same_pixels_is_no_change() -> None:
    stage = Stage(
        lambda time_s: ("NOR 0 - 0 BAS", ticking(time_s)),
        ["NOR 0 - 0 BAS"],
        {9.0: "NOR 8 - 0 BAS", 21.0: "NOR 6 - 0 BAS"},
    )
    assert [event.kind for event in stage.watch(28)] == ["text"]


BOARD = ("NOR 0 - 0 BAS", "NOR 1 - 0 BAS")


@pytest.mark.parametrize("wrong", ["NOR 7 - 0 BAS", "NOR 1 - 8 BAS"])
def test_a_misreading_is_corrected_by_the_frame_that_is_cited(wrong: str) -> None:
    stage = Stage(step(9.0, *BOARD), BOARD, {at / 10: wrong for at in range(90, 140)})
    assert [(event.kind, event.text) for event in stage.watch(28, is_checked=True)] == [("score", BOARD[1])]


@pytest.mark.parametrize("shown_s", [0.9, 1.2])
@pytest.mark.parametrize("clock", [ticking, lambda time_s: ""])
def test_scores_that_follow_each_other_within_seconds_are_all_found(
    shown_s: float, clock: Callable[[float], str]
) -> None:
    texts = ["NOR 0 - 0 BAS", "NOR 1 - 0 BAS", "NOR 1 - 1 BAS", "NOR 2 - 1 BAS"]
    stage = Stage(lambda time_s: (texts[min(max(int((time_s - 9) / shown_s + 1), 0), 3)], clock(time_s)), texts)
    events = [event for event in stage.watch(28, is_checked=True) if event.kind == "score"]
    assert [event.text for event in events] == texts[1:]
    assert [event.start_s for event in events] == pytest.approx([9 + shown_s * at for at in range(3)], abs=0.3)


def test_a_score_without_words_that_is_read_with_some_doubt_is_kept_and_a_clock_is_none() -> None:
    texts = ["2 - 1", "2 - 2", "0:14", "0:15"]
    (event,) = Stage(step(9.0, *texts[:2]), texts, confidence=0.87).watch(28, is_checked=True)
    assert (event.kind, event.text, event.is_unsure) == ("score", "2 - 2", False)
    assert Stage(step(9.0, *texts[2:]), texts, confidence=0.87).watch(28, is_checked=True) == []


def test_a_word_that_hides_the_board_for_a_moment_is_no_score() -> None:
    texts = [*BOARD, "GOAL!"]

    def show(time_s: float) -> tuple[str, str]:
        return (texts[2] if 9 <= time_s < 10 else texts[time_s >= 10], "")

    events = Stage(show, texts).watch(28, is_checked=True)
    assert [event.text for event in events if event.kind == "score"] == [BOARD[1]]


def test_a_change_that_was_only_misread_is_none() -> None:
    """The board is hidden for a moment and misread when it is seen again."""

    def show(time_s: float) -> tuple[str, str]:
        return ("" if 9 <= time_s < 11 else BOARD[0], "")

    stage = Stage(show, ["", *BOARD], {at / 10: BOARD[1] for at in range(100, 150)})
    assert [event.kind for event in stage.watch(28, is_checked=True)] == ["text"]


@pytest.mark.parametrize("dated_s", [2.0, 7.6, 8.4, 9.8, 11.0])
def test_a_change_is_dated_by_the_frames_that_are_read_again(dated_s: float) -> None:
    (event,) = Stage(step(9.0, *BOARD), BOARD).watch(28, is_checked=True, dated_s=dated_s)
    assert (event.text, event.start_s) == (BOARD[1], pytest.approx(9.0, abs=0.25))
    assert event.start_s <= event.evidence_s[0] <= event.end_s


def test_what_no_frame_shows_again_is_unsure() -> None:
    (event,) = Stage(step(9.0, *BOARD), BOARD, is_visible=False).watch(28, is_checked=True)
    assert event.is_unsure
    assert "unsure" in answer([event], parse_request("When does the score change?"), seconds=28, num_files=1)
    (sure,) = Stage(step(9.0, *BOARD), BOARD).watch(28, is_checked=True)
    assert not sure.is_unsure


def test_a_score_has_no_length_in_the_answer() -> None:
    """Its clip ends after three seconds; the score itself remains."""
    (event,) = Stage(step(9.0, *BOARD), BOARD).watch(28, is_checked=True)
    text = answer([event], parse_request("When does the score change?"), seconds=28, num_files=1)
    assert text.splitlines()[1] == "- a.mp4@00:00:09 score: NOR 1 - 0 BAS"
