from pathlib import Path

import pytest

from cua.errors import CodeError, ConfigError
from cua.secrets import Secret, Secrets, load_secrets
from envs import Click, TypeText

SECRETS = Secrets({"password": Secret(value="hunter2"), "card": Secret(value="4242", domains=("shop.example.com",))})


def test_placeholders_are_filled_below_the_model_and_nothing_else_changes() -> None:
    click = Click(x_px=1, y_px=2)
    actions = (click, TypeText(text="my {{password}}!", interval_s=0.1))
    assert SECRETS.fill(actions, None) == (click, TypeText(text="my hunter2!", interval_s=0.1))


def test_a_secret_is_bound_to_its_domains() -> None:
    card = [TypeText(text="{{card}}")]
    assert SECRETS.fill(card, "https://pay.shop.example.com/x") == (TypeText(text="4242"),)
    for url in ("https://evil.example.org/", "https://shop.example.com.evil.org/", "https://notshop.example.com", None):
        with pytest.raises(CodeError, match=r"may only be typed on shop\.example\.com"):
            SECRETS.fill(card, url)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CodeError, match="known: card, password"):
        SECRETS.fill([TypeText(text="{{pasword}}")], None)


def test_without_secrets_braces_are_ordinary_text() -> None:
    text = TypeText(text="{{ name }}")
    assert Secrets().fill([text], None) == (text,)


def test_values_are_redacted_from_text_and_never_shown() -> None:
    assert SECRETS.redact("typed hunter2 and 4242") == "typed {{password}} and {{card}}"
    assert "hunter2" not in repr(SECRETS)


def test_a_secrets_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "secrets.toml"
    path.write_text('password = "hunter2"\ncard = { value = "4242", domains = ["shop.example.com"] }\n')
    assert load_secrets(path) == SECRETS


@pytest.mark.parametrize("content", ["password = 5", 'password = ""', 'card = { valeu = "sekrit" }', "nonsense sekrit"])
def test_a_wrong_secrets_file_is_refused_without_showing_values(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secrets.toml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_secrets(path)
    assert "sekrit" not in str(caught.value)


def test_a_missing_secrets_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the secrets file"):
        load_secrets(tmp_path / "nothing.toml")
