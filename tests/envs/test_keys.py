"""One canonical name for each key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.actions import KEY_NAMES, MODIFIERS, normalize_key
from tests.tables import table

# Source: pyautogui 0.9.54, `KEY_NAMES`: every name that model code may carry over.
PYAUTOGUI_WORDS = """
accept add alt altleft altright apps backspace browserback browserfavorites browserforward browserhome browserrefresh
browsersearch browserstop capslock clear convert ctrl ctrlleft ctrlright decimal del delete divide down end enter esc
escape execute f1 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f2 f20 f21 f22 f23 f24 f3 f4 f5 f6 f7 f8 f9 final fn hanguel
hangul hanja help home insert junja kana kanji launchapp1 launchapp2 launchmail launchmediaselect left modechange
multiply nexttrack nonconvert num0 num1 num2 num3 num4 num5 num6 num7 num8 num9 numlock pagedown pageup pause pgdn
pgup playpause prevtrack print printscreen prntscrn prtsc prtscr return right scrolllock select separator shift
shiftleft shiftright sleep space stop subtract tab up volumedown volumemute volumeup win winleft winright yen command
option optionleft optionright
""".split()


@table("name", PYAUTOGUI_WORDS)
def test_every_name_of_pyautogui_is_known(name):
    assert normalize_key(name) in KEY_NAMES
    assert normalize_key(name.upper()) == normalize_key(name)


@table("char", [chr(code) for code in range(0x21, 0x7F)])
def test_printable_characters_are_their_own_names(char):
    assert normalize_key(char) == char


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("\n", "enter"),
        ("\t", "tab"),
        (" ", "space"),
        ("Return", "enter"),
        ("ESCAPE", "esc"),
        ("PgDn", "pagedown"),
        ("page_down", "pagedown"),
        ("cmd", "win"),
        ("super", "win"),
        ("ArrowUp", "up"),
        (" enter ", "enter"),
        ("é", "é"),
        ("你", "你"),
        ("A", "A"),
        ("a", "a"),
    ],
)
def test_aliases(name, canonical):
    assert normalize_key(name) == canonical


@table("name", sorted(KEY_NAMES))
def test_canonical_names_stay(name):
    assert normalize_key(name) == name


def test_modifiers_are_keys():
    assert MODIFIERS < KEY_NAMES


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("entre", "did you mean 'enter'"),
        ("", "unknown key ''"),
        ("hello world", "unknown key"),
        ("\x08", "unknown key"),
    ],
)
def test_unknown_keys_name_the_nearest(name, hint):
    with pytest.raises(ValueError, match=hint):
        normalize_key(name)


@given(st.text(max_size=30))
def test_any_text_is_a_key_or_a_clear_error(name):
    try:
        canonical = normalize_key(name)
    except ValueError as error:
        assert "unknown key" in str(error)
    else:
        assert normalize_key(canonical) == canonical
