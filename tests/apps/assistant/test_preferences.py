"""Settings of the app: where they are kept, where keys are kept, what never comes out."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from apps.assistant.page import describe_probes
from apps.assistant.preferences import Preferences, SystemKeyring, choices_of, find_keyring
from apps.assistant.wording import SHOWN, label_of, phrase
from cua.config import FIELDS
from cua.errors import ConfigError


class Backend:
    """A keyring's backend in memory."""

    name = "memory"

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class Locked(Backend):
    def get_password(self, service: str, name: str) -> str | None:
        raise RuntimeError("locked: sk-secret")


def row(preferences: Preferences, name: str) -> Any:
    return next(row for row in preferences.rows() if row["name"] == name)


def test_keys_are_kept_in_the_keyring_and_nowhere_else(tmp_path: Path) -> None:
    backend, file = Backend(), tmp_path / "assistant.json"
    preferences = Preferences(file, store=SystemKeyring(backend))
    preferences.change("api_key", "sk-secret")
    preferences.change("max_steps", "7")
    assert "system keyring (memory)" in preferences.about_secrets
    assert "sk-secret" not in file.read_text()
    later = Preferences(file, store=SystemKeyring(backend))
    assert later.values == {"api_key": "sk-secret", "max_steps": "7"}
    shown = row(later, "api_key")
    assert (shown["value"], shown["source"]) == ("(set)", "system keyring")
    assert row(later, "max_steps")["source"] == "this app"
    later.change("api_key", "")
    later.change("api_key", "")
    assert backend.kept == {} and row(later, "api_key")["value"] == ""


def test_without_a_keyring_keys_are_forgotten_with_the_app_and_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "assistant.json"
    preferences = Preferences(file)
    preferences.change("api_key", "sk-secret")
    assert (
        row(preferences, "api_key")["source"] == "this app" and "deleted when the app ends" in preferences.about_secrets
    )
    assert Preferences(file).values == {}


def test_a_keyring_that_does_not_open_is_told_without_what_it_holds(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "assistant.json", store=SystemKeyring(Locked()))
    assert "(memory) does not work: RuntimeError. Is it unlocked?" in preferences.about_secrets
    assert "sk-secret" not in preferences.about_secrets
    preferences.change("api_key", "sk-other")
    assert preferences.values == {"api_key": "sk-other"}
    with pytest.raises(ConfigError, match="does not work"):
        SystemKeyring(Locked()).get("api_key")


def test_the_packages_own_choice_of_a_backend_is_respected() -> None:
    keyring = pytest.importorskip("keyring")
    backend = importlib.import_module("keyring.backends.fail").Keyring()
    before = keyring.get_keyring()
    try:
        keyring.set_keyring(backend)
        assert find_keyring() is None
    finally:
        keyring.set_keyring(before)


def test_named_secrets_are_kept_in_the_keyring_and_shown_by_name_alone(tmp_path: Path) -> None:
    backend, file = Backend(), tmp_path / "assistant.json"
    preferences = Preferences(file, store=SystemKeyring(backend))
    preferences.change_secret("shop_password", "hunter2!", ["Shop.example.com", " "])
    preferences.change_secret("pin", "4711")
    later = Preferences(file, store=SystemKeyring(backend))
    assert later.secret_rows() == [
        {"name": "pin", "domains": []},
        {"name": "shop_password", "domains": ["shop.example.com"]},
    ]
    assert set(later.secrets.by_name) == {"pin", "shop_password"}
    assert later.secrets.by_name["shop_password"].value == "hunter2!"
    assert not file.exists() or "hunter2" not in file.read_text()
    for name in ("pin", "pin", "shop_password"):
        later.change_secret(name, "")
    assert backend.kept == {} and later.secret_rows() == []
    assert Preferences(file).secrets.by_name == {}


@pytest.mark.parametrize(
    ("name", "domains", "found"),
    [
        ("", [], "letters"),
        ("a b", [], "letters"),
        ("a" * 61, [], "letters"),
        ("ok", ["http://"], "cannot be meant"),
        ("ok", ["x.example/y"], "cannot be meant"),
    ],
)
def test_a_wrong_secret_is_refused_without_its_value(name: str, domains: list[str], found: str) -> None:
    with pytest.raises(ConfigError, match=found) as error:
        Preferences().change_secret(name, "hunter2!", domains)
    assert "hunter2" not in str(error.value)


def test_what_is_no_list_of_secrets_counts_as_none() -> None:
    backend = Backend()
    for kept in ("[1]", "{", '{"a": 1}', '{"a": {"value": "x"}}'):
        backend.kept["cua-k25 assistant", "secrets"] = kept
        assert Preferences(store=SystemKeyring(backend)).secret_rows() == []


def test_models_that_run_here_are_offered_and_others_may_be_named(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "settings.json")
    assert row(preferences, "model")["choices"][:2] == ["literal", "nano"]
    assert row(preferences, "model")["is_open"]
    preferences.change("model", "kimi-k2.5")
    assert row(preferences, "model")["value"] == "kimi-k2.5"


def test_settings_are_named_in_the_words_of_the_page() -> None:
    for shown in Preferences().rows():
        assert re.search(r"--|`|\bcua\b|K25|[a-z]_[a-z]", f"{shown['label']} {shown['about']}") is None, shown
        assert shown["about"].endswith(".") and len(shown["about"].split()) <= 12, shown
        assert set(SHOWN[shown["name"]].choices) <= set(shown["choices"])
    with pytest.raises(ConfigError, match=r"^Most steps is 'x', expected a whole number"):
        Preferences().change("max_steps", "x")


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ({"chat": "ok", "image-count": "ok", "tool-call": "warning"}, ("works, with pictures and tools; 1 note", True)),
        ({"chat": "failed", "stream": "ok", "image-count": "failed"}, ("works; 2 faults", True)),
        ({"chat": "failed", "tool-call": "ok", "video": "not supported"}, ("does not work; 1 fault; 1 note", False)),
    ],
)
def test_the_verdict_on_an_endpoint_is_one_line(statuses: dict[str, str], verdict: tuple[str, bool]) -> None:
    assert describe_probes([{"name": name, "status": status} for name, status in statuses.items()]) == verdict


def write_files(folder: Path) -> None:
    """Files of settings: `bad` has the wrong content for each of them."""
    (folder / "bad").write_text('{"a": [1')
    (folder / "list.json").write_text("[1]")
    (folder / "text.json").write_text('{"m": {"input": "cheap", "output": 1}}')
    (folder / "rules.toml").write_text('[[rule]]\ndecision = "perhaps"')


WRONG = {
    "base_url": ["ftp://x", "localhost:8000", "http://"],
    "api_key": ["a b"],
    "model": ["scripted:{folder}/none.jsonl", "scripted:", "llamacpp:{folder}/none.gguf"],
    "fallback_model": ["scripted:{folder}/none.jsonl"],
    "page_judge": ["scripted:{folder}/none.jsonl"],
    "preset": ["kimi", "none at all"],
    "temperature": ["hot", "3"],
    "request_timeout": ["100000"],
    "image_format": ["bmp", "webp:900"],
    "viewport": ["big", "1280", "1x1", "1280x72000", "1280x720x3"],
    "device_scale": ["0"],
    "screen": ["big", "20x20"],
    "display": ["here", ":x", "0"],
    "monitor": ["-1", "first"],
    "locale": ["de_DE!", "x"],
    "timezone": ["Europe/Nowhere", "../etc"],
    "geolocation": ["here", "100,0"],
    "proxy": ["nowhere", "ftp://x:1"],
    "storage_state": ["{folder}/bad", "{folder}/list.json", "{folder}/none/state.json", "{folder}"],
    "uploads": ["{folder}/none", "{folder}/bad"],
    "har": ["{folder}/none/x.har", "{folder}"],
    "allow_domains": ["http://", "a.example/b"],
    "deny_domains": ["a b"],
    "policy": ["{folder}/none", "{folder}/bad", "{folder}/rules.toml", "{folder}"],
    "prices": ["{folder}/none", "{folder}/bad", "{folder}/list.json", "{folder}/text.json", "{folder}"],
    "secrets": ["{folder}/none", "{folder}/bad"],
    "http_auth": ["{folder}/none", "{folder}/bad"],
    "mcp": ["{folder}/none", "{folder}/bad", "{folder}/list.json"],
    "search": ["bing", "searxng", "searxng:ftp://x", "local:{folder}/none", "local:world:x"],
    "search_allow": ["a b:1"],
    "tools": ["no_such_tool"],
    "env_options": ["colour"],
    "env": ["moon"],
    "runs_dir": ["{folder}/bad", "{folder}/bad/runs"],
    "max_steps": ["0", "many"],
    "max_cost": ["nan"],
    "approve": ["maybe"],
    "headed": ["perhaps"],
}
RIGHT = {
    "base_url": "http://127.0.0.1:8000/v1",
    "model": "any model: 7b",
    "preset": "kimi-k2.5-instant",
    "viewport": "1280x720",
    "screen": "1920x1080",
    "display": ":0",
    "monitor": "1",
    "locale": "de-DE",
    "timezone": "Europe/Berlin",
    "geolocation": "52.5,13.4",
    "proxy": "socks5://127.0.0.1:1080",
    "storage_state": "{folder}/later.json",
    "allow_domains": "a.example, *.b.example, 10.0.0.0/8",
    "runs_dir": "{folder}/new/runs",
    "search": "searxng:http://127.0.0.1:8888",
    "max_time": "60",
}
FREE = {"password", "max_output_tokens", "max_retries", "retry_time", "cell_timeout", "max_context", "max_images"}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_when_it_is_saved(name: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    preferences = Preferences(tmp_path / "assistant.json")
    for value in WRONG[name]:
        with pytest.raises(ConfigError) as error:
            preferences.change(name, value.format(folder=tmp_path))
        text = phrase(error.value)
        assert label_of(name).lower() in text.lower() and len(text) < 400, text
        assert re.search(r"--\w|\bK25_|Errno|Error:|\b(options|settings)\.\w|Input should|`", text) is None, text
    assert preferences.values == {} and not (tmp_path / "assistant.json").exists()


def test_right_values_are_saved_and_spaces_around_them_dropped(tmp_path: Path) -> None:
    preferences = Preferences(tmp_path / "assistant.json")
    for name, value in RIGHT.items():
        preferences.change(name, f" {value.format(folder=tmp_path)} ")
        preferences.change(name, "  ")
    assert preferences.values == {} and not (tmp_path / "new").exists()


def test_each_setting_with_a_value_of_its_own_is_checked() -> None:
    """A setting that is added without a check of its value fails here."""
    numbers = {name for name, field in FIELDS.items() if field.metadata["least"] is not None}
    switches = {name for name in FIELDS if choices_of(name)}
    assert set(FIELDS) - numbers - switches - set(WRONG) - FREE == set()
