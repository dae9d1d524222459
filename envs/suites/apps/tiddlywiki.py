"""TiddlyWiki: notes on one page that saves each note ("tiddler") on its server."""

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from envs.errors import EnvDiedError
from envs.suites.apps.app import AppResponse, Command, Facts, Packages, RunningApp, WebApp, run_tool

_FIRST: dict[str, tuple[str, str]] = {
    "Boats": ("travel", "The ferry leaves at nine. See [[Harbours]]."),
    "Harbours": ("travel", "Bergen, Kiel and Gdynia."),
    "Packing list": ("travel", "Rain coat, boots, charts."),
    "Shopping list": ("home", "Bread, milk, 12 eggs."),
    "Meeting notes": ("work", "Budget of 2031: 4200 euro."),
    "Phone numbers": ("work", "* Anna: 555-0101\n* Bjarne: 555-0102\n* Dora: 555-0104"),
    "Old draft": ("work", "Nobody needs this."),
    "$:/SiteTitle": ("", "Harbour notes"),
    "$:/SiteSubtitle": ("", "what we should not forget"),
    "$:/config/Toolbar/Text": ("", "yes"),
    "$:/DefaultTiddlers": ("", "[[Shopping list]] [[Meeting notes]] Boats"),
}
"""Tags and text by title."""
_WRITTEN = "20310101120000000"
_NOISE = ("$:/StoryList", "$:/HistoryList", "$:/state/", "$:/temp/", "$:/status/", "$:/Import")
_UNCOUNTED = frozenset({"title", "type", "revision", "bag", "created", "modified", "modifier", "creator"})
_API = "/recipes/default/tiddlers"
_HEADERS = {"X-Requested-With": "TiddlyWiki", "Content-Type": "application/json"}


class TiddlyWiki(WebApp):
    """Notes without accounts; every visitor may write.

    The server takes seconds to start and keeps everything in memory, so its own API is used for the reset.
    """

    name = "tiddlywiki"
    role = "notes"
    packages = Packages(npm=("tiddlywiki@5.4.1",), apt=("nodejs", "npm"), needs=("node",))
    start_path = "/status"
    is_pending = "() => Boolean(window.$tw && $tw.syncer && $tw.syncer.isDirty())"

    @property
    def _program(self) -> tuple[str | Path, ...]:
        return ("node", self.home / "node_modules" / "tiddlywiki" / "tiddlywiki.js")

    def make_state(self, folder: Path) -> None:
        """Make a wiki with `--init server`, and add the notes."""
        run_tool(Command(argv=(*self._program, ".", "--init", "server")), folder)
        (folder / "tiddlers").mkdir()
        for title in _FIRST:
            fields = _first_fields(title)
            head = "".join(f"{name}: {value}\n" for name, value in fields.items() if name != "text")
            (folder / "tiddlers" / f"{re.sub(r'[^A-Za-z0-9]', '_', title)}.tid").write_text(
                f"{head}\n{fields['text']}", "utf-8"
            )

    def command(self, folder: Path, port: int) -> Command:
        """Return the command of Node, the only process."""
        return Command(argv=(*self._program, ".", "--listen", f"port={port}", "host=127.0.0.1"))

    def reset_state(self, app: RunningApp) -> None:
        """Restore changed notes and delete new ones."""
        held, files = _read_all(app), _system_files(app.folder)
        for title in held.keys() - _FIRST.keys():
            _write(app, title, None)
            if title in files:  # the server deletes it later; until then it would count as a user's tiddler
                files[title].unlink(missing_ok=True)
        for title in _FIRST:
            wanted = _first_fields(title)
            if {
                name: value for name, value in held.get(title, {}).items() if name in wanted or _counts(name)
            } != wanted:
                _write(app, title, wanted)

    def facts(self, app: RunningApp) -> Facts:
        """Return `TITLE/FIELD` for each tiddler that is not a draft and not part of the user interface."""
        return {
            f"{title}/{name}": value.strip()
            for title, fields in _read_all(app).items()
            if "draft.of" not in fields and not title.startswith(_NOISE)
            for name, value in fields.items()
            if _counts(name) and value.strip()
        }


def _counts(name: str) -> bool:
    return name not in _UNCOUNTED


def _first_fields(title: str) -> dict[str, str]:
    tags, text = _FIRST[title]
    held = {"title": title, "created": _WRITTEN, "modified": _WRITTEN, "text": text}
    return held | ({"tags": tags} if tags else {})


def _read_all(app: RunningApp) -> dict[str, dict[str, str]]:
    """Return the fields of all tiddlers on the server; system tiddlers are included only if saved to files."""
    listed = _read_json(app.ask("GET", f"{_API}.json?exclude=none", headers=_HEADERS))
    tiddlers = {held["title"]: {name: str(value) for name, value in held.items()} for held in listed}
    for title in sorted(_system_files(app.folder).keys() | {title for title in _FIRST if title.startswith("$:/")}):
        answer = app.ask("GET", f"{_API}/{quote(title, safe='')}", headers=_HEADERS)
        if answer.status != 404:
            held = _read_json(answer)
            tiddlers[title] = {name: str(value) for name, value in {**held, **held.pop("fields", {})}.items()}
    return tiddlers


def _read_json(answer: AppResponse) -> Any:
    """Return the JSON value of a response.

    Raises:
        EnvDiedError: If the server answers with an error, or not in JSON.
    """
    try:
        if answer.status == 200:
            return json.loads(answer.body)
    except ValueError:
        pass
    raise EnvDiedError(f"TiddlyWiki answers {answer.status} with {answer.body[:80]!r} to a question about its notes")


def _system_files(folder: Path) -> dict[str, Path]:
    """Return the files of system tiddlers, by title."""
    files: dict[str, Path] = {}
    for file in (folder / "tiddlers").glob("$__*.tid"):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            title = re.search(r"^title: (\$:/.*)$", file.read_text("utf-8", "replace"), re.MULTILINE)
            files |= {title[1]: file} if title else {}
    return files


def _write(app: RunningApp, title: str, fields: Mapping[str, object] | None) -> None:
    """Save a tiddler, or delete it if `fields` is None."""
    path = (
        f"{_API}/{quote(title, safe='')}" if fields is not None else f"/bags/default/tiddlers/{quote(title, safe='')}"
    )
    body = None if fields is None else json.dumps(fields).encode()
    answer = app.ask("DELETE" if fields is None else "PUT", path, body=body, headers=_HEADERS)
    if answer.status != 204 and (fields is not None or answer.status != 404):
        raise EnvDiedError(f"TiddlyWiki answers {answer.status} to a note that is put back")
