"""Domain rules as data: what they block."""

import pytest

from envs.domain_rules import DomainRules
from envs.env import EnvSpec
from envs.errors import EnvSetupError
from envs.registry import make_env
from tests.tables import table


@table(
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
        ("https://example.com/", "https://example.com/other", True),
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
        ("::1", "http://[::1]/", True),
        ("[::1]:80", "http://[::1]:81/", False),
        ("0x7f.1", "http://127.0.0.1/", True),
        ("10.0.0.0/8", "http://10.255.0.1:99/", True),
        ("10.0.0.0/8", "http://11.0.0.1/", False),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/", True),
        ("::ffff:10.0.0.0/104", "http://10.1.2.3/", True),
        ("[fd00::]/8", "http://[fd12::1]/", True),
        ("fd00::/8", "http://[fe80::1]/", False),
        ("::/0", "http://10.0.0.1/", False),
        ("localhost", "http://127.9.9.9/", True),
        ("localhost", "http://[::1]/", True),
        ("localhost", "http://0.0.0.0/", True),
        ("localhost", "http://10.0.0.1/", False),
        ("localhost", "http://a.b.localhost/", True),
        ("faß.de", "https://xn--fa-hia.de/", True),
        ("faß.de", "https://fass.de/", False),
        ("ＥＸＡＭＰＬＥ。com", "https://example.com/", True),
        ("☕.example", "https://xn--53h.example/", True),
        ("*.bücher.de", "https://www.xn--bcher-kva.de/", True),
        ("*", "http://[::1]/", True),
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


LOOPBACK_FORMS = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "0177.0.0.1",
    "2130706433",
    "0",
    "0.0.0.0",
    "127.0.0.1.",
    "１２７.0.0.1",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::FFFF:7F00:1]",
    "[::ffff:7f00:1%25lo]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::0.0.0.0]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:1:2:3:4:80ff:fffe]",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
]


@table("rule", ["localhost", "127.0.0.1", "0x7f000001", "127.0.0.0/8", "[::ffff:7f00:1]"])
@table("host", LOOPBACK_FORMS)
def test_a_denied_address_is_denied_in_every_spelling(rule: str, host: str) -> None:
    rules = DomainRules(denied=(rule,))
    assert rules.why_blocked(f"http://{host}:8000/x") is not None
    assert rules.why_blocked(f"blob:http://{host}/x") is not None


def test_an_allowed_address_does_not_allow_what_merely_leads_to_it() -> None:
    rules = DomainRules(allowed=("127.0.0.1", "10.0.0.0/8"))
    for host in ("localhost", "evil.localhost", "[64:ff9b::7f00:1]", "[2002:a00:1::]", "0.0.0.0", "[::]"):
        assert rules.why_blocked(f"http://{host}/") is not None, host
    for host in ("127.1", "[::ffff:127.0.0.1]", "10.9.9.9"):
        assert rules.why_blocked(f"http://{host}/") is None, host


@pytest.mark.parametrize("url", ["http://[::1", "http://256.1.1.1/", "http://a..b/", "http://1.2.3.4.5/"])
def test_what_cannot_be_judged_is_blocked(url: str) -> None:
    assert DomainRules(denied=("example.com",)).why_blocked(url) is not None


@table(
    ("rule", "why"),
    [
        ("", "names no host"),
        (" ", "names no host"),
        ("http://", "names no host"),
        (":80", "names no host"),
        ("10.0.0.0/99", "10.0.0.0/99"),
        ("10.1.2.3/8", "write 10.0.0.0/8"),
        ("10.0.0.0/8:80", "10.0.0.0/8:80"),
        ("::1/200", "::1/200"),
        ("*.com*", "'com*' at its end"),
        ("example*", "'example*' at its end"),
        ("192.168.*", "write a network"),
        ("10.*.*.*:80", "write a network"),
        ("büch*.de", "not ASCII"),
        ("example.com/path", "leave '/path' out"),
        ("https://example.com/path", "leave '/path' out"),
        ("https://10.0.0.0/8", "leave '/8' out"),
        ("ftp://example.com", "leave it out"),
        ("file:///etc", "leave it out"),
        ("example.com:", "not a port"),
        ("example.com:http", "not a port"),
        ("example.com:0", "not a port"),
        ("example.com:99999", "not a port"),
        ("[::1", "[::1"),
        ("[::g]", "::g"),
        ("256.1.1.1", "not an IPv4 address"),
        ("1.2.3.4.5", "not an IPv4 address"),
        (".example.com", "not a host"),
        ("a..b", "not a host"),
        ("a.com, b.com", "not a host"),
        ("a.com,b.com", "not a host"),
        ("user@example.com", "not a host"),
        ("example.com?x", "not a host"),
        ("exa mple.com", "not a host"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_at_start(rule: str, why: str) -> None:
    for given in ({"allowed": ("example.org", rule)}, {"denied": (rule,)}):
        with pytest.raises(EnvSetupError) as caught:
            DomainRules(**given)
        told = str(caught.value)
        assert repr(rule) in told and why in told and "Expected a host" in told


def test_a_browser_with_such_a_rule_is_not_made() -> None:
    for options in ({"deny_domains": ["10.0.0.0/99"]}, {"allow_domains": ["http://"]}):
        with pytest.raises(EnvSetupError, match="cannot be meant"):
            make_env(EnvSpec(name="browser", options=options))


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
        ("10.0.0.0/8", "10.0.0.1", True),
        ("10.0.0.0/8", "64:ff9b::a00:1", True),
        ("10.0.0.0/8", "fe80::1%eth0", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "::", True),
    ],
)
def test_a_denied_address_is_denied_under_every_name(pattern: str, address: str, is_hit: bool) -> None:
    assert (DomainRules(denied=(pattern,)).why_blocked_address(address, 80) is not None) is is_hit
