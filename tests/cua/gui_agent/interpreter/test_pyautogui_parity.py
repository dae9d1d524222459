"""Our reading of pyautogui calls against what the real pyautogui 0.9.54 did, recorded event by event."""

import json
from pathlib import Path

from cua.gui_agent.interpreter import run, to_pyautogui
from envs import ScreenGeometry
from tests.cua.gui_agent.interpreter.device_events import events_of, tidy
from tests.cua.gui_agent.interpreter.parity_cases import CODES
from tests.tables import table

START_PX = (100, 120)
GEOMETRY = ScreenGeometry(native_px=(1920, 1080), sent_px=(1920, 1080))
ROWS = json.loads(Path(__file__).with_name("pyautogui_events.json").read_text())


def test_every_case_was_recorded():
    assert [row["code"] for row in ROWS] == list(CODES)


@table("row", ROWS)
def test_same_events_as_pyautogui(row):
    actions = run(row["code"], GEOMETRY, mode="absolute", pointer_px=START_PX)
    assert tidy(events_of(actions), START_PX) == row["events"]


@table("row", ROWS)
def test_rendered_code_does_the_same_in_pyautogui(row):
    rendered = to_pyautogui(run(row["code"], GEOMETRY, mode="absolute", pointer_px=START_PX))
    assert rendered == row["rendered"]
    assert row["rendered_events"] == row["events"]
