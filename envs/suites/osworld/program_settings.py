"""Stored settings of programs, for evaluation: Chrome, VLC, GIMP, LibreOffice, Thunderbird, GNOME.

Parsers of files from the guest, and comparisons with expected values; `evaluators` looks both up by name.

Source: `evaluators` of xlang-ai/OSWorld, for the location and default of each setting, and the meaning of each
function; reimplemented.
"""

import ast
import json
import operator
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from envs.errors import EvaluationError
from envs.json_fields import Json, JsonMapping

_TIMEOUT_S = 10.0
_SCRIPT = """
import json, re, sys
asked = json.load(sys.stdin)
patterns = [re.compile(pattern, asked["flags"]) for pattern in asked["patterns"]]
print(json.dumps([any(pattern.search(text) for text in asked["texts"]) for pattern in patterns]))
"""
Rules = JsonMapping

CHROME_PROFILE = "~/.config/google-chrome/Default"
VLC_CONFIG = "~/.config/vlc/vlcrc"
GIMP_FOLDER = "~/.config/GIMP/2.10"
VIDEO_TYPES = (
    "3gp 3gpp 3gpp2 avi divx dv fli flv mp2t mp4 mp4v-es mpeg mpeg-system msvideo ogg quicktime vnd.divx vnd.mpegurl "
    "vnd.rn-realvideo webm x-anim x-avi x-flc x-fli x-flv x-m4v x-matroska x-mpeg x-mpeg-system x-mpeg2 x-ms-asf "
    "x-ms-asf-plugin x-ms-asx x-ms-wm x-ms-wmv x-ms-wmx x-ms-wvx x-msvideo x-nsv x-ogm x-ogm+ogg x-theora x-theora+ogg"
).split()
_REGISTRY = "{http://openoffice.org/2001/registry}"
_PREF = re.compile(r'user_pref\("(?P<key>(?:[^"\\]|\\.)+)", (?P<value>.+)\);')
_CONDITION = re.compile(r"\b(?:AND|OR) \([\w ]{1,200},[\w ']{1,200},(?:\"[^\"]{1,500}\"|[^)]{1,500})\)|\bALL\b")
_MAX_BLACKISH = 100


def find_patterns(patterns: Sequence[str], texts: Sequence[str], flags: int = 0) -> list[bool]:
    """Search for each pattern in the texts; return True for each one found. Blocks for a few seconds at most.

    Raises:
        EvaluationError: If a pattern is not a regular expression, or the search takes too long.
    """
    asked = json.dumps({"patterns": list(patterns), "texts": list(texts), "flags": int(flags)})
    command = [sys.executable, "-I", "-S", "-c", _SCRIPT]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise EvaluationError(
            f"the search for {str(list(patterns))[:200]} took longer than {_TIMEOUT_S:g} s and was ended"
        ) from error
    if done.returncode != 0:
        last_line = (done.stderr.strip().splitlines() or ["no error output"])[-1]
        raise EvaluationError(f"{str(list(patterns))[:200]} cannot be searched for: {last_line[:300]}")
    return [is_match is True for is_match in json.loads(done.stdout)]


def chrome_setting(preferences: Mapping[str, object] | None, kind: str) -> Any:
    """Return one setting of Chrome from its file `Preferences`; None if the file is missing.

    Args:
        preferences: Content of the file.
        kind: Type of the result in a task file.
    """
    if preferences is None:
        return None
    settings = preferences
    profile, safe, session = (_part(settings, name) for name in ("profile", "safebrowsing", "session"))
    match kind:
        case "enable_do_not_track":
            return _bool_text(settings.get("enable_do_not_track"))
        case "profile_name":
            return profile.get("name")
        case "new_startup_page":
            return _bool_text("session" not in settings or session.get("restore_on_startup") == 5)
        case "enable_safe_browsing":
            return _bool_text(safe.get("enhanced") or safe.get("enabled"))
        case "data_delete_automacally":
            return _bool_text(profile.get("default_content_setting_values") is not None)
        case "chrome_font_size":
            return _part(_part(settings, "webkit"), "webprefs")
        case "default_search_engine":
            data = _part(_part(settings, "default_search_provider_data"), "template_url_data")
            return data.get("short_name", "Google")
    raise KeyError(kind)


CHROME_SETTINGS = (
    "enable_do_not_track",
    "profile_name",
    "new_startup_page",
    "enable_safe_browsing",
    "data_delete_automacally",
    "chrome_font_size",
    "default_search_engine",
)
"""Types of results that `chrome_setting` supports; the spelling is upstream's."""


def _part(settings: Mapping[str, object], name: str) -> JsonMapping:
    part = settings.get(name)
    return part if isinstance(part, dict) else {}


def _bool_text(value: object) -> str:
    return "true" if value else "false"


def commonest(names: Iterable[str]) -> str:
    """Return the program that is named most often; `unknown` for an empty list."""
    counts = Counter(name for name in names if name)
    return counts.most_common(1)[0][0] if counts else "unknown"


def check_font_size(settings: Mapping[str, object] | None, rules: Rules) -> float:
    """Return 1 if Chrome's default font size is `value`, or between `min` and `max`."""
    if settings is None:
        return 0.0
    size = settings.get("default_font_size", 16)
    return float(size == rules["value"] if rules["type"] == "value" else rules["min"] < size < rules["max"])


def is_expected_bookmarks(roots: Mapping[str, object] | None, rules: Rules) -> float:
    """Return 1 if the bookmark bar has exactly these folders, or exactly these addresses."""
    if not roots:
        return 0.0
    children = _part(roots, "bookmark_bar").get("children", [])
    match rules["type"]:
        case "bookmark_bar_folders_names":
            return float({entry["name"] for entry in children if entry["type"] == "folder"} == set(rules["names"]))
        case "bookmark_bar_websites_urls":
            return float({entry["url"] for entry in children if entry["type"] == "url"} == set(rules["urls"]))
        case "liked_authors_websites_urls":
            return float(_has_one_of_each(children, rules))
    raise EvaluationError(f"bookmarks are compared by {rules['type']!r}, which is not known")


def _has_one_of_each(children: Sequence[JsonMapping], rules: Rules) -> bool:
    folder = next((entry for entry in children if entry["type"] == "folder" and entry["name"] in rules["names"]), None)
    present = {entry["url"] for entry in folder.get("children", []) if entry["type"] == "url"} if folder else set()
    wanted = [{urls} if isinstance(urls, str) else set(urls) for urls in rules["urls"]]
    return all(present & urls for urls in wanted) and present <= set().union(*wanted) and len(present) <= len(wanted)


def _check_vlc(key: str, default: str, config: str | None, rules: Rules) -> float:
    """Return 1 if a setting of VLC has the value of the rule named after it."""
    wanted = rules[f"expected_{key.replace('-', '_')}"]
    return float(config is not None and _vlc_value(config, key, default) == str(wanted))


def _vlc_value(config: str, key: str, default: str) -> str:
    """Return the last value of a key; a commented one is the program's default."""
    lines = Path(config).read_text("utf-8", "replace").splitlines()
    return next((line.split("=", 1)[1].strip() for line in reversed(lines) if line.startswith(f"{key}=")), default)


def is_vlc_recordings_folder(config: str | None, rules: Rules) -> float:
    """Return 1 if VLC stores recordings in the expected folder."""
    return float(config is not None and _vlc_value(config, "input-record-path", "") == rules["recording_file_path"])


def check_qt_slider_colours(config: str | None, rules: Rules) -> float:
    """Return 1 if VLC's volume slider has these colours, or only nearly black ones."""
    if config is None:
        return 0.0
    colours = _vlc_value(config, "qt-slider-colours", "153;210;153;20;210;20;255;199;15;245;39;29")
    if rules["type"] == "match":
        return float(colours == rules["expected_qt_slider_colours"])
    values = colours.split(";")
    return float(all(value.strip().isdigit() and int(value) < _MAX_BLACKISH for value in values))


def check_config_status(config: str | None, rules: Rules) -> float:
    """Return 1 if a file of GIMP's has a line `(key value)`; for a key of two words, `(key word value)`."""
    if config is None:
        return 0.0
    key = [rules["key"]] if isinstance(rules["key"], str) else list(rules["key"])
    lines = Path(config).read_text("utf-8", "replace").splitlines()
    entries = (line.strip().lstrip("(").rstrip(")").split() for line in lines if not line.startswith("#"))
    return float(any(words[: len(key)] == key and words[-1] == rules["value"] for words in entries if words))


def _registry_values(config: str | None, path: str, name: str) -> list[str]:
    """Return values of a setting in LibreOffice's registry; empty if the file is missing or damaged."""
    try:
        root = ElementTree.parse(config or "").getroot()
    except (OSError, ElementTree.ParseError):
        return []
    items = (item for item in root.iter("item") if item.get(f"{_REGISTRY}path") == path)
    props = (prop for item in items for prop in item.iter("prop") if prop.get(f"{_REGISTRY}name") == name)
    return [value.text or "" for prop in props for value in prop.iter("value")]


def check_auto_saving_time(config: str | None, rules: Rules) -> float:
    """Return 1 if LibreOffice's auto-save interval in minutes is as expected."""
    values = _registry_values(config, "/org.openoffice.Office.Common/Save/Document", "AutoSaveTimeIntervall")
    return float(values[-1:] == [str(rules["minutes"])])


def check_presenter_console_disable(config: str | None, rules: None = None) -> float:
    """Return 1 if Impress shows a presentation on one screen only."""
    values = _registry_values(config, "/org.openoffice.Office.Impress/Misc/Start", "EnablePresenterScreen")
    return float(values[:1] == ["false"])


def find_default_font(config: str | None, rules: Rules) -> float:
    """Return 1 if Writer's default font is as expected."""
    values = _registry_values(config, "/org.openoffice.Office.Writer/DefaultFont", "Standard")
    return float(values[-1:] == [rules["font_name"]])


def check_left_panel(tree: str, rules: None = None) -> float:
    """Return 1 if the slide panel of Impress is visible in the accessibility tree."""
    root = ElementTree.fromstring(tree)
    return float(any(node.get("name") == "Slides View" for node in root.iter("document-frame")))


def check_thunderbird_prefs(config: str | None, rules: Rules) -> float:
    """Return 1 if preferences of Thunderbird match the rules; a missing preference does not match."""
    if config is None:
        return 0.0
    matches = (_PREF.match(line.strip()) for line in Path(config).read_text("utf-8", "replace").splitlines())
    prefs = {match["key"]: json.loads(match["value"]) for match in matches if match}
    is_wanted = all(key in prefs and fits(prefs[key], rule) for key, rule in rules.get("expect", {}).items())
    is_unwanted = any(key in prefs and fits(prefs[key], rule) for key, rule in rules.get("unexpect", {}).items())
    return float(is_wanted and not is_unwanted)


def check_thunderbird_filter(config: str | None, rules: Rules) -> float:
    """Return 1 if all expected filters of Thunderbird exist, and no unexpected ones."""
    if config is None:
        return 0.0
    filters: list[Json] = []
    for line in Path(config).read_text("utf-8", "replace").splitlines():
        key, _, quoted = line.partition("=")
        value = re.sub(r"\\(.)", r"\1", quoted.strip()[1:-1])
        if key == "name":
            filters.append({})
        if filters:
            filters[-1][key] = _CONDITION.findall(value) if key == "condition" else value

    def is_there(wanted: Mapping[str, object]) -> bool:
        return any(all(rule.get(key) == value for key, value in wanted.items()) for rule in filters)

    return float(all(map(is_there, rules.get("expect", []))) and not any(map(is_there, rules.get("unexpect", []))))


def check_json(config: str | None, rules: Rules) -> float:
    """Return 1 if nested values in a JSON file match the rules."""
    try:
        root = json.loads(Path(config or "").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return 0.0

    def is_right(rule: Rules) -> bool:
        value = root
        for key in rule["key"]:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return False
        return fits(value, rule)

    try:
        return float(all(map(is_right, rules.get("expect", []))) and not any(map(is_right, rules.get("unexpect", []))))
    except TypeError:  # values of types without an order
        return 0.0


def fits(value: object, rule: Rules) -> bool:
    """Return True if a value meets a rule with `method` and `ref`: a comparison, or a pattern found in a text.

    Raises:
        EvaluationError: If the method is unknown.
    """
    name, _, flags = str(rule["method"]).partition(".")
    if name == "re":
        flag = re.RegexFlag(0)
        for letter in filter(None, flags.split(".")):
            flag |= re.RegexFlag[letter]
        return isinstance(value, str) and find_patterns([rule["ref"]], [value], flag) == [True]
    if name in ("eq", "ne", "le", "lt", "ge", "gt"):
        return bool(getattr(operator, name)(value, rule["ref"]))
    raise EvaluationError(f"values are compared by {rule['method']!r}, which is not known")


def check_gnome_favorite_apps(printed: str, rules: Rules) -> float:
    """Return 1 if GNOME's dock has exactly these programs, in any order."""
    try:
        favorites = ast.literal_eval(printed.strip().removeprefix("@as "))
    except (ValueError, SyntaxError):
        return 0.0
    return float(sorted(map(str, favorites)) == sorted(rules["expected"]))


def check_moved_jpgs(tree: JsonMapping, rules: Rules) -> float:
    """Return 1 if a folder has exactly these names."""
    return float(sorted(node["name"] for node in tree.get("children", ())) == sorted(rules["expected"]))


def is_in_vm_clickboard(rules: Rules, printed: str) -> float:
    """Return 1 if the clipboard contains all of these texts; the expected value comes first, as in upstream."""
    wanted = rules["expected"]
    return float(all(text in printed for text in ([wanted] if isinstance(wanted, str) else wanted)))


def is_utc_0(printed: str, rules: None = None) -> float:
    """Return 1 if `timedatectl` reports the time zone UTC."""
    lines = printed.split("\n")
    return float(len(lines) > 3 and lines[3].endswith("+0000)"))


def file_contains(path: str | None, rules: Rules) -> float:
    """Return 1 if a text file contains all expected texts."""
    if path is None:
        return 0.0
    content = Path(path).read_text("utf-8", "replace")
    return float(all(text in content for text in rules["expected"]))


def check_line_number(path: str | None, rules: Rules) -> float:
    """Return 1 if the number of lines of a file with a time of day is as expected."""
    if path is None:
        return 0.0
    lines = Path(path).read_text("utf-8", "replace").splitlines()
    pattern = re.compile(r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)")
    return float(sum(pattern.search(line) is not None for line in lines) == int(rules["expected"]))


SETTINGS_METRICS: Mapping[str, Callable[[Any, Any], float]] = {
    **{
        function.__name__: function
        for function in (
            check_font_size,
            is_expected_bookmarks,
            is_vlc_recordings_folder,
            check_qt_slider_colours,
            check_config_status,
            check_auto_saving_time,
            find_default_font,
            check_thunderbird_prefs,
            check_thunderbird_filter,
            check_json,
            check_gnome_favorite_apps,
            check_moved_jpgs,
            is_in_vm_clickboard,
            file_contains,
            check_line_number,
        )
    },
    "check_presenter_console_disable": check_presenter_console_disable,
    "check_left_panel": check_left_panel,
    "is_utc_0": is_utc_0,
    "check_qt_bgcone": partial(_check_vlc, "qt-bgcone", "1"),
    "check_qt_max_volume": partial(_check_vlc, "qt-max-volume", "125"),
    "check_qt_minimal_view": partial(_check_vlc, "qt-minimal-view", "0"),
    "check_play_and_exit": partial(_check_vlc, "play-and-exit", "0"),
    "check_one_instance_when_started_from_file": partial(_check_vlc, "one-instance-when-started-from-file", "1"),
}
"""Comparisons by name."""

ALONE = ("check_presenter_console_disable", "check_left_panel", "is_utc_0")
"""Comparisons without an expected value."""
