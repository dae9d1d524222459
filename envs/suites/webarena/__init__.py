"""WebArena: 812 tasks on a shop, its back office, a forum, a forge, a map and an encyclopedia.

Source: Zhou et al. 2023, arXiv:2307.13854. The task configs are from web-arena-x/webarena, the audited ones are from
ServiceNow/webarena-verified (both Apache-2.0, `data/LICENSE.upstream`), unmodified.
"""
