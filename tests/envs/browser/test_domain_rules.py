"""Domain rules as data: what they block."""

import pytest

from envs.browser.domains import DomainRules


@pytest.mark.parametrize(
    ("pattern", "url", "is_hit"),
    [
        ("example.com", "https://example.com/x", True),
        ("example.com", "https://www.example.com:8443/x", True),
        ("example.com", "https://EXAMPLE.com./", True),
        ("example.com", "https://badexample.com/", False),
        ("example.com", "https://example.com.evil.org/", False),
        ("example.com", "https://example.com@evil.org/", False),
        ("example.com", "https://evil.org/?u=example.com", False),
        ("example.com", "wss://example.com/socket", True),
        ("example.com", "blob:https://example.com/1-2", True),
        ("EXAMPLE.com", "https://example.com/", True),
        ("https://example.com/path", "https://example.com/other", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("shop*.example.*", "https://shop12.example.org/", True),
        ("*", "https://anything.at.all/", True),
        ("localhost:8000", "http://localhost:8000/", True),
        ("localhost:8000", "http://localhost:8001/", False),
        ("example.com:443", "https://example.com/", True),
        ("127.0.0.1", "http://127.0.0.1:99/", True),
        ("[::1]", "http://[::1]:99/", True),
        ("bücher.de", "https://xn--bcher-kva.de/", True),
        ("127.0.0.1", "http://[::ffff:7f00:1]/", True),
        ("[0:0::1]", "http://[::1]/", True),
    ],
)
def test_what_a_pattern_covers(pattern: str, url: str, is_hit: bool) -> None:
    assert (DomainRules(denied=(pattern,)).why_blocked(url) is not None) is is_hit
    assert (DomainRules(allowed=(pattern,)).why_blocked(url) is None) is is_hit


def test_reasons_name_domain_and_rule() -> None:
    rules = DomainRules(allowed=("example.com", "example.org"), denied=("ads.example.com",))
    assert rules.why_blocked("https://www.example.com/") is None
    assert rules.why_blocked("https://x.ads.example.com/") == (
        "the domain 'x.ads.example.com' is denied by the rule 'ads.example.com'"
    )
    assert rules.why_blocked("https://evil.test/") == (
        "the domain 'evil.test' is outside of the allowed domains (example.com, example.org)"
    )
    assert rules.why_blocked("file:///etc/passwd") is not None


@pytest.mark.parametrize("url", ["about:blank", "data:text/html,hi"])
def test_local_addresses_pass(url: str) -> None:
    assert DomainRules(allowed=("example.com",), denied=("*",)).why_blocked(url) is None


def test_no_rules_block_nothing() -> None:
    assert not DomainRules()
    assert DomainRules().why_blocked("https://example.com/") is None


@pytest.mark.parametrize(
    ("pattern", "address", "is_hit"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1:80", "10.0.0.1", True),
        ("10.0.0.1:81", "10.0.0.1", False),
        ("[::1]", "::1", True),
        ("localhost", "127.0.0.2", True),
        ("localhost", "10.0.0.1", False),
        ("example.com", "10.0.0.1", False),
    ],
)
def test_a_denied_address_is_denied_under_every_name(pattern: str, address: str, is_hit: bool) -> None:
    assert (DomainRules(denied=(pattern,)).why_blocked_address(address, 80) is not None) is is_hit
