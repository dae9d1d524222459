"""Text arrives intact in real programs."""

import asyncio
import string
from pathlib import Path

import pytest
from Xlib.display import Display

from envs import Click, Hotkey, KeyDown, KeyUp, Observation, PressKey, TypeText
from envs.desktop import DesktopEnv
from tests.envs.desktop.conftest import MakeEnv, needs_display, needs_program, until

pytestmark = [*needs_display, needs_program("mousepad"), needs_program("xterm")]

SAMPLE = (
    "a < b > c & \"d\" 'e' ~^`|\\ @#$%*()[]{}\n"
    "äöüß ÉÈÊ çñ €£¥ – “quotes” …\n"
    "\ttab 漢字かなカナ 한국어 привет Ελληνικά עברית العربية\n"
    "😀🎉👍🏽 ½ Ω≈ç√ e\u0301"
)


async def open_mousepad(make_env: MakeEnv, text: str = "", **options: object) -> tuple[DesktopEnv, Path]:
    env = await make_env(**options)
    path = env.home / "note.txt"
    path.write_text(text)
    await env.launch(["mousepad", str(path)])
    await env.step([Click(x_px=400, y_px=300)])
    return env, path


async def save(env: DesktopEnv, path: Path) -> str:
    def stamp() -> int:
        return path.stat().st_mtime_ns

    before = stamp()
    await env.step([Hotkey(keys=("ctrl", "s"))])
    await until(lambda: stamp() != before, what="saving")
    return await asyncio.to_thread(path.read_text)


async def type_and_save(env: DesktopEnv, path: Path, text: str) -> Observation:
    result = await env.step([TypeText(text=text)])
    assert await save(env, path) == text
    return result.observation


@pytest.mark.long
async def test_any_unicode_arrives_in_a_text_editor(make_env: MakeEnv) -> None:
    env, path = await open_mousepad(make_env)
    observation = await type_and_save(env, path, SAMPLE)
    assert observation.last_action_error is None
    assert observation.title == f"*{path} - Mousepad"


@pytest.mark.slow
async def test_a_long_text_loses_nothing(make_env: MakeEnv) -> None:
    env, path = await open_mousepad(make_env)
    text = "".join(f"{number}: {string.printable[:94]}\n" for number in range(40))
    assert len(text) > 3000
    await type_and_save(env, path, text)


@pytest.mark.long
async def test_more_new_characters_than_free_keys(make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, path = await open_mousepad(make_env)
    monkeypatch.setenv("XAUTHORITY", owner.environment["XAUTHORITY"])
    guest = await make_env(display=owner.display)  # lends fewer keys than on a display of its own
    await type_and_save(guest, path, "".join(map(chr, range(0x4E00, 0x4E00 + 45))))


async def test_an_interval_between_characters(make_env: MakeEnv) -> None:
    env, path = await open_mousepad(make_env)
    result = await env.step([TypeText(text="slow é", interval_s=0.02)])
    assert result.info["timings"]["act"] >= 6 * 0.02
    assert await save(env, path) == "slow é"


@pytest.mark.long
async def test_caps_lock_does_not_change_the_text(make_env: MakeEnv) -> None:
    env, path = await open_mousepad(make_env)
    await env.step([PressKey(key="capslock"), TypeText(text="Case, ä Ä <1>"), PressKey(key="capslock")])
    assert await save(env, path) == "Case, ä Ä <1>"


async def test_a_held_shift_selects_and_typing_replaces(make_env: MakeEnv) -> None:
    env, path = await open_mousepad(make_env, "keep drop")
    await env.step([Hotkey(keys=("ctrl", "end")), KeyDown(key="shift")])
    await env.step([PressKey(key="left", presses=4)])
    await env.step([KeyUp(key="shift"), TypeText(text="this")])
    assert await save(env, path) == "keep this"


async def test_a_character_that_no_key_types_is_refused_before_anything_is_typed(make_env: MakeEnv) -> None:
    env, path = await open_mousepad(make_env)
    result = await env.step([TypeText(text="abc\x07")])
    assert result.observation.last_action_error == ("cannot type the character U+0007: no key writes it. Leave it out")
    await env.step([TypeText(text="x")])
    assert await save(env, path) == "x"


async def test_keys_lent_to_characters_are_given_back(make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = await make_env()
    monkeypatch.setenv("XAUTHORITY", owner.environment["XAUTHORITY"])
    before = read_mapping(owner.display)
    guest = await make_env(display=owner.display)
    await guest.step([TypeText(text="äöü漢字😀" * 5)])
    assert read_mapping(owner.display) != before
    await guest.close()
    assert read_mapping(owner.display) == before


def read_mapping(name: str) -> list[list[int]]:
    display = Display(name)
    mapping = [list(keysyms) for keysyms in display.get_keyboard_mapping(8, 248)]
    display.close()
    width = max(map(len, mapping))
    return [(keysyms + [0] * width)[:2] for keysyms in mapping]


async def test_a_terminal_runs_what_is_typed(make_env: MakeEnv) -> None:
    env = await make_env()
    path = env.home / "typed.txt"
    await env.launch(["xterm", "-u8", "-e", "sh"])
    text = "äöü € 漢字 <tag> привет"
    result = await env.step([TypeText(text=f"echo '{text}' > {path}; echo done >> {path}\n")])
    assert result.observation.last_action_error is None
    await until(lambda: path.exists() and path.read_text().endswith("done\n"), what="the shell's output")
    assert path.read_text() == f"{text}\ndone\n"
