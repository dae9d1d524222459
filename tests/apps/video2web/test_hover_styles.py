"""Styles read off two images of one element."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.interactions import Interaction, PageAction
from apps.video2web.recording.states import clean_frame, find_grounds
from apps.video2web.rules_interactions import find_header, find_hover_style
from visual_tools.box import Box

Pixels = NDArray[np.uint8]


def draw_card(ground: str = "#ffffff", ink: str = "#222222", down: int = 0, shadow: int = 0) -> Pixels:
    image = Image.new("RGB", (240, 140), "#f4f4f4")
    draw = ImageDraw.Draw(image)
    if shadow:
        draw.rectangle((10, 24, 230, 138), (shadow, shadow, shadow))
    draw.rectangle((16, 20 - down, 224, 118 - down), ground)
    draw.text((40, 50 - down), "Meadow, light", ink, ImageFont.load_default(18))
    return np.asarray(image)


def style_of(before: Pixels, after: Pixels) -> tuple[dict[str, str], dict[str, str]]:
    act = PageAction(trigger="hover", x_px=100, y_px=60)
    return find_hover_style(
        Interaction(kind="hover", page=0, acts=(act,), box_px=Box(0, 0, 240, 140), before=before, after=after)
    )


def test_colours_a_lift_and_a_shadow_are_read_off() -> None:
    card = draw_card()[20:118, 16:224]
    style, inner = style_of(card, draw_card("#3b2a20", "#ffffff")[20:118, 16:224])
    assert style["background"] == "rgb(59, 42, 32)"
    assert inner["color"] == style["color"]
    assert "transform" not in style
    style, _ = style_of(draw_card(), draw_card(down=8, shadow=150))
    assert style["transform"] == "translate(0px, -8px)"
    assert style["box-shadow"].startswith("0 12px 24px rgba(0, 0, 0, 0.")


def test_what_grows_is_scaled() -> None:
    card = draw_card()
    grown = Image.fromarray(card).resize((252, 147), Image.Resampling.BILINEAR).crop((6, 3, 246, 143))
    style, _ = style_of(card, np.asarray(grown))
    assert style["transform"] in ("scale(1.04)", "scale(1.05)", "scale(1.06)")
    assert "transform" not in style_of(card, card)[0]


def test_a_header_that_stays_is_found() -> None:
    rng = np.random.default_rng(3)
    page = rng.integers(0, 255, (800, 300, 3), np.uint8)
    windows = [page[top : top + 400].copy() for top in (0, 120)]
    assert find_header(*windows) == 0
    for window in windows:
        window[:50] = (30, 40, 60)
        window[20:30, 40:90] = 255
    assert find_header(*windows) == 50


def test_noise_is_taken_from_flat_grounds_and_gradients_stay() -> None:
    rng = np.random.default_rng(4)
    noisy = np.full((200, 300, 3), (250, 246, 238), np.int16) + rng.integers(-4, 5, (200, 300, 3))
    noisy[60:120, 60:160] = (40, 60, 120)
    noisy[130:190] = np.linspace(0, 250, 300).round()[None, :, None]
    frame = noisy.clip(0, 255).astype(np.uint8)
    cleaned = clean_frame(frame)
    assert len(np.unique(cleaned[5:50, 5:290].reshape(-1, 3), axis=0)) == 1
    assert np.abs(cleaned[80:100, 80:140].astype(int) - (40, 60, 120)).max() <= 1
    assert np.abs(cleaned[140:180].astype(int) - frame[140:180]).max() <= 4
    assert len(find_grounds(frame)) == 2
