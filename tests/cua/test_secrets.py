from pathlib import Path

import pytest

from cua.errors import CodeError, ConfigError
from cua.secrets import Secret, Secrets, load_secrets
from envs import Click, TypeSecret, TypeText
from envs.actions import RECIPIENT_UNKNOWN
from envs.env import InstructionTask
from envs.errors import ActionError
from envs.fake import FakeEnv
from envs.secret_texts import BoundText
from envs.suites.osworld.pyautogui_code import make_program
from tests.tables import table

SECRETS = Secrets({"password": Secret(value="hunter2"), "card": Secret(value="4242", domains=("shop.example.com",))})


def test_placeholders_are_filled_below_the_model_and_nothing_else_changes() -> None:
    click = Click(x_px=1, y_px=2)
    actions = (click, TypeText(text="my {{password}}!", interval_s=0.1))
    assert SECRETS.fill(actions) == (click, TypeText(text="my hunter2!", interval_s=0.1))


def test_a_bound_secret_is_left_to_the_env_with_the_hosts_that_may_get_it() -> None:
    bound = BoundText(name="card", value="4242", domains=("shop.example.com",))
    (filled,) = SECRETS.fill([TypeText(text="{{password}}\t{{ card }}")])
    assert filled == TypeSecret(text="{{password}}\t{{ card }}", filled="hunter2\t4242", bound=(bound,))
    assert "4242" not in repr(filled) and "hunter2" not in repr(filled)


@table(
    ("domain", "origin", "is_for"),
    [
        ("shop.example.com", "https://shop.example.com", True),
        ("shop.example.com", "https://pay.shop.example.com:8443", True),
        ("shop.example.com", "http://SHOP.example.com.", True),
        ("shop.example.com", "https://evil.example.org", False),
        ("shop.example.com", "https://shop.example.com.evil.org", False),
        ("shop.example.com", "https://notshop.example.com", False),
        ("shop.example.com", "https://shop.example.com@evil.org", False),
        ("shop.example.com:8443", "https://shop.example.com", False),
        ("faß.de", "https://xn--fa-hia.de", True),
        ("faß.de", "https://fass.de", False),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://inner.example", False),
        ("*", "https://anything.example", True),
        *(
            ("*", origin, False)
            for origin in (None, "", "null", "about:blank", "data:text/html,x", "file:///x", "blob:x")
        ),
    ],
)
def test_which_origins_a_secret_is_for(domain: str, origin: str | None, is_for: bool) -> None:
    assert BoundText(name="x", value="y", domains=(domain,)).is_for(origin) is is_for


@pytest.mark.parametrize(
    ("text", "is_within"),
    [
        ("4929 1111 2222 3333", True),
        ("http://x/?4929%201111%202222%203333", True),
        ("4929111122223333", True),
        ("card 4929-1111-2222 of", True),
        ("2222 3333", True),
        ("NDkyOSAxMTExIDIyMjIgMzMzMw==", True),
        ("4929 1111", True),
        ("4929", False),
        ("plain words", False),
        ("http://ann:pw@example.com", False),
        ("", False),
    ],
)
def test_a_text_with_half_of_a_secret_holds_it(text: str, is_within: bool) -> None:
    assert BoundText(name="x", value="4929 1111 2222 3333", domains=("a.example",)).is_within(text) is is_within


def test_short_values_and_those_without_letters_are_found_whole() -> None:
    for value in ("7", "123", "?!", "é"):
        bound = BoundText(name="x", value=value, domains=("a.example",))
        assert (bound.is_within(f"a {value} b"), bound.is_within("plain")) == (True, False)


async def test_an_env_that_cannot_tell_who_gets_it_types_nothing() -> None:
    (filled,) = SECRETS.fill([TypeText(text="{{card}}")])
    env = FakeEnv()
    await env.reset(InstructionTask(instruction="x"))
    assert (await env.step([filled])).observation.last_action_error == RECIPIENT_UNKNOWN
    assert env.actions == []
    with pytest.raises(ActionError, match="cannot be determined here"):
        make_program([filled], "marker")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CodeError, match="known: card, password"):
        SECRETS.fill([TypeText(text="{{pasword}}")])


def test_without_secrets_braces_are_ordinary_text() -> None:
    text = TypeText(text="{{ name }}")
    assert Secrets().fill([text]) == (text,)


@pytest.mark.parametrize("domain", ["", "http://", "*.com*", "10.0.0.0/99", "shop.example.com/pay"])
def test_a_domain_that_cannot_be_meant_is_refused(tmp_path: Path, domain: str) -> None:
    path = tmp_path / "secrets.toml"
    path.write_text(f'card = {{ value = "sekrit", domains = ["{domain}"] }}\n')
    with pytest.raises(ConfigError, match="cannot be meant") as caught:
        load_secrets(path)
    assert "sekrit" not in str(caught.value)


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
