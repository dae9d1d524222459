"""Addresses that are public, and those behind an address."""

from ipaddress import IPv4Address, ip_address, ip_network

from envs.hosts import REACHABLE, addresses_behind, is_globally_reachable
from tests.tables import table

ROWS = """
0.0.0.0/8            no   -   yes
0.0.0.0/32           no   -   no
10.0.0.0/8           no   yes yes
100.64.0.0/10        no   yes yes
127.0.0.0/8          no   yes yes
168.63.129.16/32     no   yes yes
169.254.0.0/16       no   yes yes
172.16.0.0/12        no   yes yes
192.0.0.0/24         no   yes yes
192.0.0.0/29         no   yes no
192.0.0.8/32         no   no  yes
192.0.0.9/32         yes  no  yes
192.0.0.10/32        yes  yes no
192.0.0.170/32       no   no  no
192.0.0.171/32       no   no  no
192.0.2.0/24         no   yes yes
192.31.196.0/24      yes  yes yes
192.52.193.0/24      yes  yes yes
192.88.99.0/24       no   yes yes
192.88.99.2/32       no   no  no
192.168.0.0/16       no   yes yes
192.175.48.0/24      yes  yes yes
198.18.0.0/15        no   yes yes
198.51.100.0/24      no   yes yes
203.0.113.0/24       no   yes yes
224.0.0.0/4          no   yes no
240.0.0.0/4          no   no  -
255.255.255.255/32   no   no  -
::/128               no   -   no
::1/128              no   no  no
::ffff:0:0/96        no   no  no
64:ff9b:1::/48       no   no  no
100::/64             no   no  no
100:0:0:1::/64       no   no  no
2001::/23            no   yes yes
2001::/32            no   yes no
2001:1::1/128        yes  no  yes
2001:1::2/128        yes  yes yes
2001:1::3/128        yes  yes no
2001:2::/48          no   no  no
2001:3::/32          yes  no  no
2001:4:112::/48      yes  no  no
2001:10::/28         no   no  yes
2001:20::/28         yes  no  yes
2001:30::/28         yes  yes no
2001:db8::/32        no   yes yes
2002::/16            no   yes yes
2620:4f:8000::/48    yes  yes yes
3fff::/20            no   yes yes
5f00::/16            no   no  no
fc00::/7             no   no  no
fe80::/10            no   no  no
2000::/3             yes  no  no
"""
"""Networks, whether they are globally reachable, and whether the addresses before and after them are."""
CELLS = [tuple(line.split()) for line in ROWS.strip().splitlines()]
OTHER = ("64:ff9b::/96", "0.0.0.0/0", "::/0")


def test_each_network_of_the_table_is_in_the_test() -> None:
    assert sorted(map(str, REACHABLE)) == sorted((*(row[0] for row in CELLS), *OTHER))


@table("network, here, before, after", CELLS)
def test_the_edges_of_each_special_network(network: str, here: str, before: str, after: str) -> None:
    inside = ip_network(network)
    first, last = inside[0], inside[-1]
    expected = {first: here, last: here}
    if network == "192.0.0.0/24":
        expected[inside[9]] = "yes"
    if before != "-":
        expected[first - 1] = before
    if after != "-":
        expected[last + 1] = after
    for address, wanted in expected.items():
        if network == "::ffff:0:0/96" and address in inside:
            continue  # it is the IPv4 address itself; see below
        assert is_globally_reachable(address) is (wanted == "yes"), address


@table(
    "address, expected",
    [
        *((text, True) for text in "1.1.1.1 8.8.8.8 2606:4700:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808".split()),
        *((text, True) for text in ("2606:4700::5efe:808:808", "2606:4700::200:5efe:808:808")),
        *((text, False) for text in ("224.0.0.1", "ff02::1", "fec0::1", "4000::1", "::8.8.8.8", "::ffff:10.0.0.1")),
        *((text, False) for text in ("64:ff9b::a00:1", "64:ff9b::a83f:8110", "64:ff9b:1::808:808")),
        *((text, False) for text in ("2002:808:808::1", "2002:7f00:1::", "2001:0:1::1", "2001::f7f7:f7f7")),
        *((text, False) for text in ("2606:4700::5efe:a00:1", "2606:4700::200:5efe:7f00:1", "fe80::5efe:808:808")),
        *((text, False) for text in "168.63.129.16 169.254.169.254 fd00:ec2::254 100.100.100.200 192.0.0.192".split()),
    ],
)
def test_public_addresses_and_what_they_embed(address: str, expected: bool) -> None:
    assert is_globally_reachable(ip_address(address)) is expected


@table(
    "address",
    "64:ff9b::7f00:1 64:ff9b:1::7f00:1 2002:7f00:1:: 2001:0:1::80ff:fffe 2606:4700::5efe:7f00:1 "
    "fe80::200:5efe:7f00:1 ::7f00:1 ::ffff:0:7f00:1".split(),
)
def test_the_address_behind_one_of_ipv6(address: str) -> None:
    assert addresses_behind(ip_address(address)) == (ip_address(address), IPv4Address("127.0.0.1"))
