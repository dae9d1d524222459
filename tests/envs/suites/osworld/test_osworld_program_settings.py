"""What programs have stored: set, not set, set to something else, missing and damaged."""

from pathlib import Path
from typing import Any

import pytest

from envs.errors import EvaluationError
from envs.suites.osworld.evaluators import METRICS
from envs.suites.osworld.program_settings import CHROME_SETTINGS, chrome_setting, commonest, fits

REGISTRY = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Save/Document"><prop oor:name="AutoSaveTimeIntervall" oor:op="fuse">
<value>3</value></prop></item>
<item oor:path="/org.openoffice.Office.Impress/Misc/Start"><prop oor:name="EnablePresenterScreen" oor:op="fuse">
<value>false</value></prop></item>
<item oor:path="/org.openoffice.Office.Writer/DefaultFont"><prop oor:name="Standard" oor:op="fuse">
<value>Times New Roman</value></prop></item></oor:items>"""
FILTERS = r"""version="9"
name="Move"
enabled="yes"
action="Move to folder"
actionValue="mailbox://nobody@Local%20Folders/Promotions"
condition="AND (subject,contains,discount)"
name="All"
enabled="no"
condition="ALL"
"""
MOVE = {"action": "Move to folder", "condition": ["AND (subject,contains,discount)"]}


@pytest.mark.parametrize(
    ("kind", "preferences", "value"),
    [
        ("enable_do_not_track", {"enable_do_not_track": True}, "true"),
        ("enable_do_not_track", {}, "false"),
        ("profile_name", {"profile": {"name": "Thomas"}}, "Thomas"),
        ("profile_name", {"profile": 3}, None),
        ("new_startup_page", {"session": {"restore_on_startup": 5}}, "true"),
        ("new_startup_page", {"session": {"restore_on_startup": 4}}, "false"),
        ("new_startup_page", {}, "true"),
        ("enable_safe_browsing", {"safebrowsing": {"enabled": True, "enhanced": False}}, "true"),
        ("enable_safe_browsing", {"safebrowsing": {"enabled": False, "enhanced": False}}, "false"),
        ("data_delete_automacally", {"profile": {"default_content_setting_values": {"cookies": 4}}}, "true"),
        ("data_delete_automacally", {"profile": {}}, "false"),
        ("chrome_font_size", {"webkit": {"webprefs": {"default_font_size": 24}}}, {"default_font_size": 24}),
        (
            "default_search_engine",
            {"default_search_provider_data": {"template_url_data": {"short_name": "Bing"}}},
            "Bing",
        ),
        ("default_search_engine", {}, "Google"),
    ],
)
def test_a_setting_of_chrome(kind: str, preferences: dict[str, Any], value: object) -> None:
    assert chrome_setting(preferences, kind) == value


@pytest.mark.parametrize("kind", CHROME_SETTINGS)
def test_a_browser_that_never_ran_has_no_settings(kind: str) -> None:
    assert chrome_setting(None, kind) is None


@pytest.mark.parametrize(
    ("function", "text", "rules", "score"),
    [
        ("check_qt_bgcone", "qt-bgcone=0\n", {"expected_qt_bgcone": 0}, 1),
        ("check_qt_bgcone", "#qt-bgcone=0\n", {"expected_qt_bgcone": 0}, 0),
        ("check_qt_max_volume", "qt-max-volume=150\nqt-max-volume=200\n", {"expected_qt_max_volume": 200}, 1),
        ("check_qt_max_volume", "", {"expected_qt_max_volume": 200}, 0),
        ("check_qt_minimal_view", "qt-minimal-view=1\n", {"expected_qt_minimal_view": 1}, 1),
        ("check_play_and_exit", "play-and-exit=1\n", {"expected_play_and_exit": 0}, 0),
        ("check_play_and_exit", "#play-and-exit=0\n", {"expected_play_and_exit": 0}, 1),
        (
            "check_one_instance_when_started_from_file",
            "one-instance-when-started-from-file=0",
            {"expected_one_instance_when_started_from_file": 0},
            1,
        ),
        ("is_vlc_recordings_folder", "input-record-path=/a\n", {"recording_file_path": "/a"}, 1),
        ("is_vlc_recordings_folder", "#input-record-path=/a\n", {"recording_file_path": "/a"}, 0),
        ("check_qt_slider_colours", "qt-slider-colours=1;2;3;4;5;99", {"type": "blackish"}, 1),
        ("check_qt_slider_colours", "qt-slider-colours=1;2;3;4;5;100", {"type": "blackish"}, 0),
        ("check_qt_slider_colours", "", {"type": "blackish"}, 0),
        ("check_config_status", '# x\n(theme "Light")\n', {"key": "theme", "value": '"Light"'}, 1),
        ("check_config_status", '(theme "Dark")\n', {"key": "theme", "value": '"Light"'}, 0),
        ("check_config_status", "(a b c)\n", {"key": ["a", "b"], "value": "c"}, 1),
        ("check_auto_saving_time", REGISTRY, {"minutes": 3}, 1),
        ("check_auto_saving_time", REGISTRY, {"minutes": 5}, 0),
        ("check_auto_saving_time", "<oor", {"minutes": 5}, 0),
        ("check_presenter_console_disable", REGISTRY, None, 1),
        ("check_presenter_console_disable", "<a/>", None, 0),
        ("find_default_font", REGISTRY, {"font_name": "Times New Roman"}, 1),
        ("find_default_font", REGISTRY, {"font_name": "Arial"}, 0),
        (
            "check_thunderbird_prefs",
            'user_pref("a.b", true);\nuser_pref("c", "dark \\"x\\"");\n',
            {"expect": {"a.b": {"method": "eq", "ref": True}, "c": {"method": "re", "ref": "dark"}}},
            1,
        ),
        ("check_thunderbird_prefs", "", {"expect": {"a": {"method": "eq", "ref": 1}}}, 0),
        ("check_thunderbird_prefs", 'user_pref("a", 1);', {"unexpect": {"a": {"method": "eq", "ref": 1}}}, 0),
        ("check_thunderbird_filter", FILTERS, {"expect": [MOVE, {"condition": ["ALL"]}]}, 1),
        ("check_thunderbird_filter", FILTERS, {"expect": [MOVE | {"enabled": "no"}]}, 0),
        ("check_thunderbird_filter", FILTERS, {"unexpect": [{"name": "All"}]}, 0),
        ("check_json", '{"a": {"b": "smart x"}}', {"expect": [{"key": ["a", "b"], "method": "re", "ref": "smart"}]}, 1),
        ("check_json", '{"a": 1}', {"expect": [{"key": ["a", "b"], "method": "re", "ref": "smart"}]}, 0),
        ("check_json", "{", {"expect": [{"key": [], "method": "eq", "ref": {}}]}, 0),
        ("file_contains", "one two", {"expected": ["one", "two"]}, 1),
        ("file_contains", "one", {"expected": ["one", "two"]}, 0),
        ("check_line_number", "10:00:01 a\nb\n23:59:60 c\n", {"expected": "2"}, 1),
    ],
)
def test_a_file_of_settings(tmp_path: Path, function: str, text: str, rules: Any, score: float) -> None:
    file = tmp_path / "settings"
    file.write_text(text)
    assert METRICS[function](str(file), rules) == score


@pytest.mark.parametrize(
    ("function", "rules"),
    [
        ("check_qt_bgcone", {"expected_qt_bgcone": 1}),
        ("is_vlc_recordings_folder", {"recording_file_path": "/a"}),
        ("check_qt_slider_colours", {"type": "blackish"}),
        ("check_config_status", {"key": "theme", "value": "x"}),
        ("check_auto_saving_time", {"minutes": 3}),
        ("check_presenter_console_disable", None),
        ("check_thunderbird_prefs", {"expect": {}}),
        ("check_thunderbird_filter", {"expect": []}),
        ("check_json", {"expect": []}),
        ("file_contains", {"expected": []}),
        ("check_line_number", {"expected": "0"}),
        ("check_font_size", {"type": "range", "min": 0, "max": 99}),
        ("is_expected_bookmarks", {"type": "bookmark_bar_folders_names", "names": []}),
    ],
)
def test_a_missing_file_is_never_right(function: str, rules: Any) -> None:
    assert METRICS[function](None, rules) == 0.0


def bar(*children: dict[str, Any]) -> dict[str, Any]:
    return {"bookmark_bar": {"children": list(children)}}


FOLDER = {"type": "folder", "name": "Favorites", "children": [{"type": "url", "url": "https://a.test/"}]}
AUTHORS = FOLDER | {"name": "Liked Authors"}


@pytest.mark.parametrize(
    ("roots", "rules", "score"),
    [
        (bar(FOLDER), {"type": "bookmark_bar_folders_names", "names": ["Favorites"]}, 1),
        (bar(FOLDER, AUTHORS), {"type": "bookmark_bar_folders_names", "names": ["Favorites"]}, 0),
        (bar({"type": "url", "url": "u"}), {"type": "bookmark_bar_websites_urls", "urls": ["u"]}, 1),
        (
            bar(AUTHORS),
            {
                "type": "liked_authors_websites_urls",
                "names": ["Liked Authors"],
                "urls": [["https://a.test/", "https://b.test/"]],
            },
            1,
        ),
        (
            bar(AUTHORS),
            {"type": "liked_authors_websites_urls", "names": ["Liked Authors"], "urls": ["https://b.test/"]},
            0,
        ),
        (bar(), {"type": "liked_authors_websites_urls", "names": ["Liked Authors"], "urls": ["https://b.test/"]}, 0),
    ],
)
def test_bookmarks(roots: dict[str, Any], rules: dict[str, Any], score: float) -> None:
    assert METRICS["is_expected_bookmarks"](roots, rules) == score


@pytest.mark.parametrize(
    ("function", "result", "rules", "score"),
    [
        ("check_gnome_favorite_apps", "['b', 'a']\n", {"expected": ["a", "b"]}, 1),
        ("check_gnome_favorite_apps", "@as []\n", {"expected": ["a"]}, 0),
        ("check_gnome_favorite_apps", "__import__('os')", {"expected": []}, 0),
        ("check_moved_jpgs", {"children": [{"name": "a"}, {"name": "b"}]}, {"expected": ["b", "a"]}, 1),
        ("check_moved_jpgs", {"children": [{"name": "a"}, {"name": "c"}]}, {"expected": ["a"]}, 0),
        ("is_in_vm_clickboard", {"expected": "/a/b"}, "/a/b\n", 1),
        ("is_in_vm_clickboard", {"expected": ["a", "c"]}, "a b", 0),
        ("is_utc_0", "a\nb\nc\n   Time zone: Etc/UTC (UTC, +0000)\n", None, 1),
        ("is_utc_0", "", None, 0),
        ("check_font_size", {"default_font_size": 24}, {"type": "range", "min": 16, "max": 99}, 1),
        ("check_font_size", {}, {"type": "range", "min": 16, "max": 99}, 0),
        ("check_left_panel", '<a><document-frame name="Slides View"/></a>', None, 1),
        ("check_left_panel", '<a><document-frame name="Notes"/></a>', None, 0),
    ],
)
def test_other_settings(function: str, result: Any, rules: Any, score: float) -> None:
    assert METRICS[function](result, rules) == score


def test_the_commonest_program() -> None:
    assert commonest(["vlc.desktop", "totem.desktop", "vlc.desktop", ""]) == "vlc.desktop"
    assert commonest([]) == "unknown"


def test_a_rule_that_is_not_known_is_no_zero() -> None:
    assert fits("A\nb", {"method": "re.S", "ref": "A.b"})
    with pytest.raises(EvaluationError, match="range"):
        fits(1, {"method": "range.te", "ref": [0, 2]})
