"""WebArena: 812 tasks on a shop, its back office, a forum, a forge, a map and an encyclopedia.

Source: Zhou et al. 2023, arXiv:2307.13854. The task configs are those of web-arena-x/webarena, the audited ones those
of ServiceNow/webarena-verified (both Apache-2.0, `data/LICENSE.upstream`), unmodified.
"""
