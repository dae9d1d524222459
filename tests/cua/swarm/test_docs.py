"""The limits that docs/swarm.md names are those of the code."""

import re
from pathlib import Path

from apps.literal.research import MAX_CHILDREN as LITERAL_CHILDREN
from cua.config import Settings
from cua.models.gate import MAX_PROBE_WAIT_S
from cua.research import engines, fetch, network
from cua.research.fetch import FetchLimits
from cua.run.budget import Caps
from cua.swarm import PRESETS, SwarmOptions
from cua.swarm.budget import CHILDREN_SHARE, WARN_SHARE, SwarmLimits
from cua.swarm.child import MESSAGE_CHARS, MESSAGES_SHARE, MIN_MESSAGE_CHARS
from cua.swarm.child_runner import MAX_FILE_BYTES
from cua.tools import research
from envs.suites.widesearch.corpus import SIZES
from envs.suites.widesearch.scoring import DAYS
from tests.tables import table

TEXT = (Path(__file__).parents[3] / "docs" / "swarm.md").read_text("utf-8")
ROWS = {
    cells[0].strip(): cells[1].strip()
    for line in TEXT.splitlines()
    if line.startswith("| ") and len(cells := line.strip("|").split(" | ")) >= 2
}
LIMITS, FETCH, USUAL = SwarmLimits(), FetchLimits(), PRESETS["standard"]
MB = 2**20


def _calls(name: str) -> str:
    """The limits of the presets that differ from the usual one, as the table says it."""
    usual = getattr(USUAL, name)
    others = [f"`{key}` {getattr(one, name):,}" for key, one in PRESETS.items() if getattr(one, name) != usual]
    return f"{usual:,}; {', '.join(others)}"


STANDS = {
    "sub-agents in a run": _calls("max_children"),
    "at work at the same time": f"{_calls('max_children')}, the rest",
    "depth": f"{LIMITS.max_depth}: ",
    "tool calls of all agents": _calls("max_calls"),
    "tool calls of the orchestrator": _calls("orchestrator_calls"),
    "tool calls of a child (steps, if it uses a browser or desktop)": _calls("child_calls"),
    "share of tokens, money and time for the children together": f"{100 * CHILDREN_SHARE:.0f} %",
    "time of a child": f"{(LIMITS.child_time_s or 0) / 3600:.0f} h",
    "further tries of a child": f"{LIMITS.num_retries}",
    "a child's message": f"{MESSAGE_CHARS:,} characters",
    "a prompt": f"{LIMITS.max_message_chars:,} characters",
    "children with a browser or desktop open": f"{SwarmOptions().num_envs}",
    "one file that is handed over": f"{MAX_FILE_BYTES // MB} MiB",
    "context of the orchestrator, of a child": (
        f"`{USUAL.context}`, `{USUAL.child_context}` (`browsecomp`: `{PRESETS['browsecomp'].child_context}`)"
    ),
    "tokens that start context management": "when the model refuses"
    if USUAL.max_context is None
    else f"{USUAL.max_context:,}",
    "warning to you, and to the orchestrator with the next message": f"from {100 * WARN_SHARE:.0f} % of a limit on",
    "another error that may pass (500, sandbox dead, browser not started)": f"up to {LIMITS.num_retries} more times",
    "429, overloaded": f"`--set retry_time={Settings().retry_time:.0f}` seconds",
    "redirects": f"{fetch.MAX_REDIRECTS}, each",
    "a page, a download": f"{FETCH.page_bytes // MB} MB, {FETCH.file_bytes // MB} MB",
    "one request": f"{FETCH.timeout_s:.0f} s; ",
    "a run": f"{FETCH.num_pages:,} addresses, {FETCH.total_bytes // MB} MB",
    "at a time": f"{FETCH.at_once} requests, {FETCH.per_host} a host",
    "addresses": "http and https, ports " + " and ".join(map(str, network.PORTS.values())),
}


@table("limit", STANDS)
def test_a_default_is_the_one_of_the_code(limit: str) -> None:
    assert ROWS[limit].startswith(STANDS[limit]) or STANDS[limit] in ROWS[limit], ROWS[limit]


def test_limits_that_stand_in_sentences() -> None:
    loops, both = Caps(), (fetch.MAX_WAIT_S, engines.MAX_WAIT_S)
    for sentence in (
        f"the same call {loops.loop_cap} times in a row",
        f"is tried {engines.TRIES} times when it asks for at most {both[0]:.0f} s",
        f"up to {research.MAX_QUERIES} queries at the same time",
        f"as Markdown, {research.SHOWN_CHARS:,} characters at a time",
        f"dates within {DAYS} days",
        f"share {100 * MESSAGES_SHARE:.0f} % of the context that their parent has left, at least {MIN_MESSAGE_CHARS} ",
        f"`SwarmLimits.context_tokens` ({LIMITS.context_tokens:,})",
        f"after waits of 1 to {MAX_PROBE_WAIT_S:.0f} s",
        f"up to {LITERAL_CHILDREN} sub-agents at the same time",
        f"`full` has {6 * sum(SIZES['full'][1]):,} things",
    ):
        assert sentence in TEXT, sentence
    assert both[0] == both[1] and loops.loop_nudge == 3 and "from the third time on" in TEXT
    assert SIZES["full"][0] == 6


def test_every_limit_of_the_tables_is_checked_here() -> None:
    """But for those that are no numbers, or depend on the machine."""
    section = TEXT.partition("## Limits and defaults")[2].partition("Fair shares")[0]
    named = re.findall(r"^\| ([^|]+?) \|", section, re.M)[1:]
    assert set(named) - set(STANDS) == {"steps, tokens, money, time of the run", "children with a sandbox at work"}
    run = LIMITS.run
    assert (run.max_tokens, run.max_cost_usd, run.max_time_s) == (None, None, None)
