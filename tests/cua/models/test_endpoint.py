import pytest

from cua.errors import ConfigError
from cua.models.endpoint import NO_KEY, OPENAI_URL, Endpoint, find_endpoint

LOCAL = "http://localhost:8000/v1"


@pytest.mark.parametrize(
    ("base_url", "api_key", "environ", "found"),
    [
        (LOCAL, None, {}, (LOCAL, NO_KEY, "no key was given")),
        (LOCAL + "//", " k ", {}, (LOCAL, "k", "the api_key setting")),
        (None, None, {"OPENAI_API_KEY": "k\n"}, (OPENAI_URL, "k", "OPENAI_API_KEY")),
        (None, None, {"OPENAI_BASE_URL": LOCAL, "OPENAI_API_KEY": ""}, (LOCAL, NO_KEY, "no key was given")),
        (LOCAL, "k", {"OPENAI_BASE_URL": "http://x/v1", "OPENAI_API_KEY": "y"}, (LOCAL, "k", "the api_key setting")),
        ("http://[::1]:9/v1", None, {}, ("http://[::1]:9/v1", NO_KEY, "no key was given")),
    ],
)
def test_settings_win_over_the_environment(
    base_url: str | None, api_key: str | None, environ: dict[str, str], found: tuple[str, str, str]
) -> None:
    endpoint = find_endpoint(base_url, api_key, environ)
    assert (endpoint.base_url, endpoint.api_key, endpoint.key_source) == found


def test_nothing_configured_says_both_ways_out() -> None:
    with pytest.raises(ConfigError) as caught:
        find_endpoint(environ={})
    assert str(caught.value) == (
        "no model endpoint is configured: set OPENAI_BASE_URL (and OPENAI_API_KEY where the server wants a key), "
        "or a model that runs on this machine: --model literal or --model nano"
    )


@pytest.mark.parametrize("host", ["api.openai.com", "api.moonshot.ai", "api.moonshot.cn", "openrouter.ai"])
def test_vendors_need_a_key(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_endpoint(f"https://{host}/v1", environ={})
    assert str(caught.value) == f"{host} needs a key: set OPENAI_API_KEY, or use --model literal"


def test_lookalike_of_a_vendor_is_no_vendor() -> None:
    assert find_endpoint("http://notmoonshot.ai/v1", environ={}).is_moonshot is False


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://x/v1", "http://", "http:///v1", "http://x:99999/v1", "/v1"]
)
def test_bad_urls(url: str) -> None:
    with pytest.raises(ConfigError, match=r"is not an http\(s\) URL; expected something like"):
        find_endpoint(url, environ={})


def test_url_without_scheme_gets_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'http://127.0.0.1:8000/v1'\?$"):
        find_endpoint("127.0.0.1:8000/v1", environ={})


@pytest.mark.parametrize("key", ["two words", "sk-é", "a\nb", "sk-\x7f", "“sk”"])
def test_keys_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_endpoint(LOCAL, key, environ={})
    assert str(caught.value) == (
        "the API key from the api_key setting holds spaces, line breaks or non-ASCII characters: copy it again"
    )


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("http://localhost/v1", True),
        ("http://LOCALHOST:1/v1", True),
        ("http://model.localhost/v1", True),
        ("http://127.8.9.1:80/v1", True),
        ("http://[::1]/v1", True),
        ("http://0.0.0.0:8000/v1", True),
        ("http://192.168.1.5/v1", False),
        ("http://localhost.example.com/v1", False),
        ("http://127.0.0.1.example.com/v1", False),
    ],
)
def test_loopback(url: str, is_loopback: bool) -> None:
    assert find_endpoint(url, environ={}).is_loopback is is_loopback


def test_secrets_are_not_shown() -> None:
    endpoint = Endpoint(base_url="https://me:hunter2@host/v1?token=abc", api_key="sk-secret")
    assert endpoint.shown_url == "https://host/v1"
    assert "secret" not in repr(endpoint)
    assert "hunter2" not in repr(endpoint)
    assert endpoint.redact("key sk-secret, password hunter2") == "key ***, password ***"
    assert Endpoint(base_url="http://h/v1", api_key=NO_KEY).redact("none of it") == "none of it"
