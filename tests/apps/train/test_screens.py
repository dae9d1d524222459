import random
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from apps.train.screens.canvas import DrawnLetter, PixelCanvas, find_cells, make_pointer
from apps.train.screens.fonts import SizedFont, find_fonts, is_held_out
from apps.train.screens.screen import (
    FAMILIES,
    HELD_OUT_FAMILIES,
    LATER_FAMILIES,
    READING,
    TRAINED_FAMILIES,
    DrawnScreen,
    ScreenOptions,
    make_screen,
    show_done,
)
from apps.train.screens.theme import MIN_CONTRAST, contrast, draw_theme
from apps.train.screens.widgets import ICONS, DrawnElement, make_icon
from apps.train.screens.words import DrawnTexts, change_letter
from apps.train.screens.words import is_held_out as is_held_out_name

ANY = ScreenOptions(families=TRAINED_FAMILIES)


def make(seed: int, options: ScreenOptions = ANY) -> DrawnScreen:
    return make_screen(random.Random(seed), options)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_elements_inside_the_image_that_can_be_told_apart(family: str) -> None:
    for seed in range(12):
        screen = make(seed, replace(ANY, families=(family,), sizes_px=((160, 210), (400, 300), (1280, 720))))
        height, width = screen.pixels.shape[:2]
        assert screen.family == family
        assert (width, height) in ((160, 210), (400, 300), (1280, 720))
        for target in screen.targets:
            left, top, right, bottom = target.box
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
        named = [target.name.lower() for target in screen.targets if target.kind != "icon"]
        assert len(named) == len(set(named))
        assert len({(target.kind, target.name) for target in screen.targets}) == len(screen.targets)


def test_a_seed_is_a_screen() -> None:
    first, second, other = make(5), make(5), make(6)
    assert np.array_equal(first.pixels, second.pixels)
    assert first.targets == second.targets
    assert first.targets != other.targets


def test_letters_stand_where_they_are_said_to_be() -> None:
    """A letter's ink lies around its middle: a small box there has two colours at least."""
    seen = 0
    for seed in range(20):
        screen = make(seed, replace(ANY, families=("grid", "list"), sizes_px=((400, 300),), text_px=(18, 20)))
        for letter in screen.letters:
            x, y = round(letter.x), round(letter.y)
            part = screen.pixels[max(y - 8, 0) : y + 8, max(x - 8, 0) : x + 8].astype(int)
            if letter.text not in ".-" and part.size:
                seen += 1
                assert np.ptp(part.reshape(-1, 3), axis=0).max() > 30, (seed, letter)
    assert seen > 300


def test_the_name_of_an_element_is_spelled_by_the_letters_in_it() -> None:
    for seed in range(10):
        screen = make(seed, replace(ANY, families=("grid",), sizes_px=((640, 480),), text_px=(12, 14)))
        for target in screen.targets:
            left, top, right, bottom = target.box
            inside = [letter for letter in screen.letters if left <= letter.x < right and top <= letter.y < bottom]
            spelled = "".join(letter.text for letter in sorted(inside, key=lambda letter: letter.x))
            assert spelled == target.name.replace(" ", ""), seed


def test_what_a_dialog_covers_is_not_there() -> None:
    for seed in range(10):
        screen = make(seed, replace(ANY, families=("dialog",), sizes_px=((400, 300),)))
        assert any(target.kind == "icon" and target.name == "close" for target in screen.targets)
        assert len(screen.targets) <= 4


def test_held_out_names_fonts_and_layouts_are_never_trained_on() -> None:
    for seed in range(20):
        for held in (False, True):
            screen = make(seed, replace(ANY, held_out_names=held))
            names = [target.name for target in screen.targets if target.kind != "icon"]
            assert all(is_held_out_name(name) is held for name in names)
    assert not set(find_fonts()) & set(find_fonts(held_out=True))
    assert all(is_held_out(path) for path in find_fonts(held_out=True))
    assert {READING, *HELD_OUT_FAMILIES, *LATER_FAMILIES, *TRAINED_FAMILIES} == set(FAMILIES)
    assert not set(HELD_OUT_FAMILIES) & set(TRAINED_FAMILIES)


def test_some_names_are_one_letter_apart() -> None:
    rng = random.Random(0)
    words = DrawnTexts(rng, held_out=False, near_share=1.0)
    names = [words.name() for _ in range(8)]
    near = [sum(a != b for a, b in zip(one, two, strict=True)) for one, two in pairwise(names) if len(one) == len(two)]
    assert near.count(1) >= 2
    assert all(re.fullmatch(r"Sav[a-z]|Sa[a-z]e|S[a-z]ve|[A-Z]ave", change_letter(rng, "Save")) for _ in range(50))
    assert all(change_letter(rng, "Save") != "Save" for _ in range(50))


def test_text_can_be_read_on_its_ground() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    rng, low = random.Random(0), 0
    for _ in range(300):
        theme = draw_theme(rng, sizes_px=(12, 20), held_out_fonts=False)
        assert contrast(theme.on_accent, theme.accent) >= MIN_CONTRAST
        worst = {
            ink: min(contrast(ink, ground) for ground in (theme.ground, theme.panel))
            for ink in (theme.ink, (0, 0, 0), (255, 255, 255))
        }
        if worst[theme.ink] < MIN_CONTRAST:  # neither black nor white stands out from two wild grounds
            assert worst[theme.ink] == max(worst.values())
            low += 1
    assert 0 < low <= 45


def test_a_held_out_theme_has_relief_that_training_never_draws() -> None:
    flat, raised = replace(ANY, families=("scatter",)), replace(ANY, families=("scatter",), held_out_theme=True)
    for seed in range(20):
        assert make(seed, flat).pen.theme.relief_px == 0
        screen = make(seed, raised)
        theme = screen.pen.theme
        assert contrast(theme.ink, theme.ground) >= MIN_CONTRAST
        for left, top, right, bottom in (target.box for target in screen.targets if target.kind == "button"):
            assert screen.pixels[top, left].sum() > screen.pixels[bottom - 1, right - 1].sum()


def test_forms_begin_elsewhere_where_asked() -> None:
    corner = ScreenOptions(families=("form",), sizes_px=((400, 300),))
    inset = replace(corner, inset_share=1.0)
    starts = {
        name: [min(target.box[0] for target in make(seed, options).targets) for seed in range(40)]
        for name, options in (("corner", corner), ("inset", inset))
    }
    assert max(starts["corner"]) < 120  # right of a label
    assert sum(start > 120 for start in starts["inset"]) > 10
    for seed in range(40):
        for left, top, right, bottom in (target.box for target in make(seed, inset).targets):
            assert 0 <= left < right <= 400
            assert 0 <= top < bottom <= 300


def test_drawing_is_cut_at_the_edges() -> None:
    canvas = PixelCanvas(20, 10, (0, 0, 0))
    canvas.fill((-5, -5, 3, 3), (9, 9, 9))
    canvas.fill((15, 8, 99, 99), (7, 7, 7))
    canvas.fill((30, 0, 40, 5), (1, 1, 1))
    assert canvas.pixels[..., 0].tolist() == [
        [9 * (x < 3 and y < 3) + 7 * (x >= 15 and y >= 8) for x in range(20)] for y in range(10)
    ]
    canvas.round_box((-6, -6, 40, 40), (50, 60, 70), 8)
    assert (canvas.pixels[5, 10] == (50, 60, 70)).all()
    edge, inside = make_pointer()
    canvas.stamp(18, 8, edge, (255, 0, 0))
    assert (canvas.pixels[8, 18] == (255, 0, 0)).all()
    assert not (edge & inside).any()
    face = SizedFont(find_fonts()[0], 14)
    assert canvas.text(-100, 5, "far away", face, (255, 255, 255))[0] < 0
    assert canvas.letters == []


def test_letters_know_where_their_text_is_read_and_how_many_follow() -> None:
    canvas, face = PixelCanvas(200, 40, (0, 0, 0)), SizedFont(find_fonts()[0], 14)
    read_at = canvas.text(10, 20, "ab c", face, (255, 255, 255))
    assert read_at == ((10 + round(10 + face.width_px("ab c"))) / 2, 20.0)
    assert [(letter.text, letter.from_end) for letter in canvas.letters] == [("a", 3), ("b", 2), ("c", 0)]
    assert {letter.read_at for letter in canvas.letters} == {read_at}


def test_each_cell_shows_the_letter_that_is_nearest_to_its_middle() -> None:
    letters = [
        DrawnLetter("a", 3.0, 7.0),
        DrawnLetter("b", 9.0, 7.0),
        DrawnLetter("c", 20.0, 7.0),
        DrawnLetter("d", 20.0, 15.0),
    ]
    a, b, c, d = letters
    assert set(find_cells(letters, 14, 14)) == {(0, 0, b), (0, 1, c), (1, 1, d)}
    assert set(find_cells(letters, 7, 14)) == {(0, 0, a), (0, 1, b), (0, 2, c), (1, 2, d)}


def test_icons_differ() -> None:
    masks = {name: make_icon(name, 24) for name in ICONS}
    assert all(0.03 < (mask > 0).mean() < 0.75 for mask in masks.values())
    for one in ICONS:
        for two in ICONS:
            assert one == two or (masks[one] != masks[two]).mean() > 0.04, (one, two)


def test_a_page_is_full_of_letters() -> None:
    screen = make_screen(random.Random(4), ScreenOptions(families=(READING,), sizes_px=((280, 224),)))
    height, width = screen.pixels.shape[:2]
    assert len(screen.letters) > 40
    assert all(0 <= letter.x < width and 0 <= letter.y < height for letter in screen.letters)


def test_a_prompt_has_one_field_without_a_label_or_choices() -> None:
    seen = set()
    for seed in range(60):
        screen = make(seed, replace(ANY, families=("prompt",), sizes_px=((280, 224),), text_px=(10, 16)))
        unnamed = [target for target in screen.targets if not target.name]
        assert len(unnamed) <= 1 and all(target.kind == "field" for target in unnamed)
        for target in unnamed:
            left, top, right, bottom = target.box
            x, y = target.click_point
            assert left <= x < right and top <= y < bottom
        seen |= {target.kind for target in screen.targets}
    assert seen == {"field", "checkbox", "radio", "button"}


def test_an_article_has_links_among_other_words() -> None:
    screen = make(3, replace(ANY, families=("article",), sizes_px=((280, 224),), text_px=(10, 12)))
    assert {target.kind for target in screen.targets} == {"link"} and len(screen.targets) > 3
    names = sum(len(target.name.replace(" ", "")) for target in screen.targets)
    assert len(screen.letters) > 2 * names


@pytest.mark.long
def test_what_was_done_shows_and_the_screen_before_stays() -> None:
    rng, seen = random.Random(5), set()
    for _ in range(60):
        screen = make_screen(rng, replace(ANY, families=("form", "list", "toolbar")))
        for target in screen.targets:
            if target.is_on or target.value:
                continue
            before = screen.pixels.copy()
            after = show_done(screen, target, "hello" if target.kind == "field" else "")
            assert (screen.pixels == before).all()
            left, top, right, bottom = target.box
            changed = (after.pixels != before).any(-1)
            seen.add((target.kind, bool(changed.any())))
            changed[top:bottom, left:right] = False
            assert not changed.any(), target
            [new] = [one for one in after.targets if (one.kind, one.name) == (target.kind, target.name)]
            assert (new.is_on, new.value) == (changed_state(target), "hello"[: len(new.value)])
    assert {kind for kind, shows in seen if shows} == {"field", "checkbox", "radio", "item", "tab"}
    assert {kind for kind, shows in seen if not shows} >= {"button", "link", "menu", "icon"}


def changed_state(target: DrawnElement) -> bool:
    return target.kind in ("checkbox", "radio", "item", "tab")


def test_a_word_has_the_pixels_of_its_letters_one_by_one() -> None:
    """Also where their ink overlaps, as in slanted fonts, and where they leave the image."""
    num_overlaps = 0
    for path in find_fonts():
        face, text = SizedFont(path, 19), "fjord ffij TATA"
        whole, single = (PixelCanvas(90, 30, (240, 230, 220)) for _ in range(2))
        whole.text(-4, 15, text, face, (10, 60, 20))
        pen, end = -4.0, -100
        for glyph, letter in zip(face.glyphs(text), text, strict=True):
            single.text(round(pen), 15, letter, face, (10, 60, 20))
            num_overlaps += round(pen) + glyph.left < end
            end = round(pen) + glyph.left + glyph.alpha.shape[1]
            pen += glyph.advance
        assert (whole.pixels == single.pixels).all(), path
        assert [letter.text for letter in whole.letters] == [letter.text for letter in single.letters]
    assert num_overlaps
