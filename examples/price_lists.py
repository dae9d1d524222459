"""Forty price lists on a loopback server, twenty for each of two years, and a model of a few rules that compares them.

What differs is known: `write_lists` says it for each shop. In place of one of the lists the server gives a page.
"""

import functools
import json
import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cua.messages import Message, Reply, Sampling, ToolCall
from cua.model import Tool

SHOPS = tuple(f"shop-{number:02}" for number in range(1, 21))
GOODS = ("apples", "bread", "candles", "dates", "eggs", "flour", "grapes", "honey")
GONE = "shop-13"
COMPARE = """
import csv
old, new = ({row["item"]: row["price"] for row in csv.DictReader(open(name))} for name in %r)
changed = [item for item in sorted({*old, *new}) if old.get(item) != new.get(item)]
told = [f"{item} {old.get(item, '-')} -> {new.get(item, '-')}" for item in changed]
print("; ".join(told) or "nothing changed")
"""
_URLS = re.compile(r"http://127\.0\.0\.1:\d+/\S+?\.csv")
_KEPT = re.compile(r": (downloads/[\w.-]+), ")
_CITED = re.compile(r"^\[\^\d+\^\]\s*")


def write_lists(folder: Path) -> dict[str, str]:
    """Write all lists and a page that names them; what changed, by shop, as a comparison should say it."""
    draw, changes = random.Random(7), {}
    for shop in SHOPS:
        old = {item: f"{draw.uniform(1, 9):.2f}" for item in GOODS}
        new = {**old, draw.choice(GOODS): f"{draw.uniform(10, 19):.2f}"} if draw.random() < 0.7 else old
        for year, prices in (("2025", old), ("2026", new)):
            rows = "".join(f"{item},{price}\n" for item, price in prices.items())
            (folder / f"{shop}-{year}.csv").write_text("item,price\n" + rows)
        changed = [f"{item} {old[item]} -> {new[item]}" for item in GOODS if old[item] != new[item]]
        changes[shop] = "; ".join(changed) or "nothing changed"
    (folder / f"{GONE}-2026.csv").write_text("<!doctype html><html><body>This list has moved.</body></html>")
    return {**changes, GONE: "no comparison"}


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder; gives its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


class Comparer:
    """Leads and works by rules; implements `cua.model.Model`. Any object with these methods is a model."""

    name = "comparer"

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """The next calls, or the answer."""
        question = next(message.text for message in messages if message.role == "user")
        results = [_CITED.sub("", message.text) for message in messages if message.role == "tool"]
        if "assign_task" in {tool.name for tool in tools}:
            return self._lead(results)
        return self._compare(_URLS.findall(question), results)

    def _lead(self, results: Sequence[str]) -> Reply:
        match len(results):
            case 0:
                return _reply(("search", {"queries": ["price lists of all shops"]}))
            case 1:
                return _reply(("browse", {"url": re.findall(r"http://folder\.invalid/\S+", results[0])[0]}))
            case 2:
                role = "You download two lists, compare them with code, and say what changed."
                return _reply(("create_subagent", {"name": "comparer", "system_prompt": role}))
            case 3:
                urls = sorted(set(_URLS.findall(results[1])))
                pairs = zip(urls[::2], urls[1::2], strict=True)
                assignments = [{"agent": "comparer", "prompt": f"Compare {old} with {new}"} for old, new in pairs]
                return _reply(*(("assign_task", arguments) for arguments in assignments))
        lines = [f"{shop}: {result}" for shop, result in zip(SHOPS, results[3:], strict=True)]
        return Reply(content="\n".join(lines), model=self.name)

    def _compare(self, urls: Sequence[str], results: Sequence[str]) -> Reply:
        if not results:
            return _reply(("download", {"urls": list(urls), "expect": "csv"}))
        kept = _KEPT.findall(results[0])
        if len(kept) < 2:
            why = next((line for line in results[0].splitlines() if "Error" in line), results[0])
            return Reply(content=f"no comparison: {why} [^0^]", model=self.name)
        if len(results) == 1:
            return _reply(("ipython", {"code": COMPARE % (kept,)}))
        return Reply(content=f"{results[1]} [^1^]", model=self.name)

    async def close(self) -> None:
        """Nothing to let go."""


def _reply(*calls: tuple[str, object]) -> Reply:
    calls_made = [
        ToolCall(id=f"x:{n}", name=name, arguments=json.dumps(arguments)) for n, (name, arguments) in enumerate(calls)
    ]
    return Reply(content="", tool_calls=tuple(calls_made), finish_reason="tool_calls", model="comparer")
