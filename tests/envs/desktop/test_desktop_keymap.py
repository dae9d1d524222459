import pytest
from Xlib import XK

from envs import ActionError
from envs.actions import KEY_NAMES
from envs.desktop.x11.keyboard import NAMED_KEYSYMS, keysym_of_character, keysym_of_key
from tests.tables import table

XK.load_keysym_group("xf86")
_PAIRS = """
enter=Return esc=Escape backspace=BackSpace tab=Tab delete=Delete space=space ctrl=Control_L
ctrlright=Control_R alt=Alt_L altright=Alt_R shift=Shift_L shiftright=Shift_R win=Super_L
winright=Super_R apps=Menu capslock=Caps_Lock pageup=Page_Up pagedown=Page_Down home=Home end=End
insert=Insert up=Up down=Down left=Left right=Right printscreen=Print scrolllock=Scroll_Lock
numlock=Num_Lock pause=Pause f1=F1 f12=F12 f24=F24 num0=KP_0 num9=KP_9 add=KP_Add
subtract=KP_Subtract multiply=KP_Multiply divide=KP_Divide decimal=KP_Decimal separator=KP_Separator
help=Help select=Select yen=yen volumeup=XF86_AudioRaiseVolume browserback=XF86_Back
playpause=XF86_AudioPlay
"""
OWN_NAMES = dict(pair.split("=") for pair in _PAIRS.split())


def test_every_canonical_key_has_a_keysym() -> None:
    assert all(keysym_of_key(name) > 0 for name in KEY_NAMES)
    assert len(NAMED_KEYSYMS) > 80


@table(("key", "name"), OWN_NAMES.items())
def test_named_keys_are_those_of_the_x_headers(key: str, name: str) -> None:
    assert keysym_of_key(key) == getattr(XK, f"XK_{name}")


@pytest.mark.parametrize(
    ("character", "keysym"),
    [("a", 0x61), ("<", 0x3C), ("é", 0xE9), ("€", 0x010020AC), ("漢", 0x01006F22), ("😀", 0x0101F600), ("\n", 0xFF0D)],
)
def test_characters(character: str, keysym: int) -> None:
    assert keysym_of_character(character) == keysym


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x85", "\ud800"])
def test_characters_without_a_key_are_refused(character: str) -> None:
    with pytest.raises(ActionError, match=f"U\\+{ord(character):04X}"):
        keysym_of_character(character)


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ActionError, match="unknown key 'pagedwn'; did you mean 'pagedown'"):
        keysym_of_key("pagedwn")
