import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from cua.redaction import Masker, find_like, find_parts
from envs import Observation, ScreenGeometry

SECRET = "Sunflower-719"


def screen(text: str) -> Observation:
    image = Image.new("RGB", (900, 300), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=22)
    draw.text((30, 40), "user@host:~$ login admin", fill="black", font=font)
    draw.text((30, 120), text, fill="black", font=font)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return Observation(screenshot=buffer.getvalue(), geometry=ScreenGeometry(native_px=(900, 300), sent_px=(900, 300)))


def read(observation: Observation) -> str:
    from visual_tools.ocr import read_text

    image = Image.open(io.BytesIO(observation.screenshot)).convert("RGB")
    return " ".join(line.text for line in read_text(np.asarray(image)))


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("password: hunter2!", "hunter2", "hunter2"),
        ("password: hunterZ!", "hunter2", "hunterZ"),  # one character misread
        ("hun ter2", "hunter2", "hun ter2"),
        ("4242 4242 4242 4242", "4242424242424242", "4242 4242 4242 4242"),
        ("nothing here", "hunter2", None),
        ("", "hunter2", None),
    ],
)
def test_a_secret_is_found_in_a_line_although_read_badly(text: str, value: str, found: str | None) -> None:
    span = find_like(text, value)
    assert (text[slice(*span)] if span else None) == found


def test_a_typed_secret_cannot_be_read_from_the_picture_and_the_rest_can() -> None:
    pytest.importorskip("rapidocr")
    seen = screen(f"password {SECRET} accepted")
    assert SECRET[:6] in read(seen)
    masker = Masker()
    assert masker.mask(seen) is seen  # nothing typed yet: nothing is touched
    masker.add_typed([SECRET])
    masked = read(masker.mask(seen))
    assert SECRET[:4] not in masked
    assert "password" in masked
    assert "accepted" in masked
    assert "login admin" in masked


def test_a_screen_without_the_secret_is_left_as_it_is() -> None:
    pytest.importorskip("rapidocr")
    masker = Masker()
    masker.add_typed([SECRET])
    seen = screen("nothing to hide")
    assert masker.mask(seen) is seen


def test_nothing_is_read_before_a_secret_was_typed() -> None:
    geometry = ScreenGeometry(native_px=(900, 300), sent_px=(900, 300))
    seen = Observation(screenshot=b"reading this would fail", geometry=geometry)

    assert Masker().mask(seen) is seen


def test_values_of_three_characters_are_masked_and_shorter_ones_are_not() -> None:
    pytest.importorskip("rapidocr")
    seen, masker = screen("code QX7 accepted"), Masker()
    masker.add_typed(["QX", ""])
    assert masker.mask(seen) is seen
    masker.add_typed(["QX7"])
    masked = read(masker.mask(seen))
    assert "QX7" not in masked
    assert "accepted" in masked


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a Sunflower-719 b Sunflower-719 c", ["Sunflower-719", "Sunflower-719"]),
        ("the word Sunflo", ["Sunflo"]),  # the first line of two
        ("wer-719 and more", ["wer-719"]),
        ("Sunday flowers", []),
    ],
)
def test_each_place_and_each_half_is_found(text: str, found: list[str]) -> None:
    assert [text[slice(*span)] for span in find_parts(text, SECRET)] == found


def test_a_picture_that_did_not_change_is_not_read_again() -> None:
    pytest.importorskip("rapidocr")
    masker = Masker()
    masker.add_typed([SECRET])
    seen = screen(f"password {SECRET} accepted")
    assert masker.mask(seen).screenshot is masker.mask(seen).screenshot
