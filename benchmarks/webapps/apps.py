"""Three foreign web apps on loopback, each with a state of its own that is put back before every task.

None of them is installed by this: TiddlyWiki comes from npm (`npm install tiddlywiki`), DokuWiki from Debian
(`apt install dokuwiki php8.2-cgi php8.2-cli`), Wagtail from PyPI (`pip install wagtail`
into an environment of its own).
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "sesame-77"
"""Of the user `admin` of DokuWiki and Wagtail."""

_START_LIMIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A running app: where it answers and where its state lies."""

    name: str
    folder: Path
    url: str

    def query(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        """The rows of Wagtail's database."""
        with contextlib.closing(sqlite3.connect(self.folder / "db.sqlite3")) as database:
            return database.execute(sql, values).fetchall()

    def page(self, name: str) -> str | None:
        """The text of a DokuWiki page, None when there is none."""
        file = self.folder / "data" / "pages" / f"{name.replace(':', '/')}.txt"
        return file.read_text("utf-8") if file.exists() else None

    def tiddler(self, title: str) -> dict[str, str] | None:
        """The fields of a tiddler that the server stored, its text as `text`."""
        for file in (self.folder / "tiddlers").rglob("*.tid"):
            head, _, text = file.read_text("utf-8").partition("\n\n")
            fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
            if fields.get("title") == title:
                return {**fields, "text": text.strip()}
        return None


class AppStarter:
    """Makes an app's first state once, and starts the app on a copy of it.

    Args:
        name: tiddlywiki, dokuwiki or wagtail.
        program: TiddlyWiki's `tiddlywiki.js`, DokuWiki's folder, or the Python that has Wagtail.
        work: Folder for the states.
    """

    def __init__(self, name: str, program: Path, work: Path) -> None:
        self.name = name
        self._program = program
        self._first, self._state = work / f"{name}-first", work / f"{name}-state"
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> App:
        """The app with its first state; ends the one before."""
        self.stop()
        if not self._first.exists():
            made = self._first.with_suffix(".new")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
            _MAKERS[self.name](self._program, made)
            made.rename(self._first)
        shutil.rmtree(self._state, ignore_errors=True)
        shutil.copytree(self._first, self._state)
        port = _free_port()
        command, extra = _COMMANDS[self.name](self._program, self._state, port)
        self._server = subprocess.Popen(
            command, cwd=self._state, env={**os.environ, **extra}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        app = App(name=self.name, folder=self._state, url=f"http://127.0.0.1:{port}")
        _wait_until_it_answers(app.url)
        return app

    def stop(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(20)
            self._server = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(url: str) -> None:
    end = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=10).read()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


# TiddlyWiki: tiddlers are files

_TIDDLERS = {
    "Boats": ("travel", "The ferry leaves at nine. See [[Harbours]]."),
    "Harbours": ("travel", "Bergen, Kiel and Gdynia."),
    "Shopping list": ("home", "Bread, milk, 12 eggs."),
    "Meeting notes": ("work", "Budget of 2031: 4200 euro."),
    "Old draft": ("work", "Nobody needs this."),
}


def _make_tiddlywiki(program: Path, folder: Path) -> None:
    subprocess.run(
        ["node", str(program), str(folder), "--init", "server"], check=True, stdout=subprocess.DEVNULL, timeout=60
    )
    (folder / "tiddlers").mkdir(exist_ok=True)
    for title, (tags, text) in {**_TIDDLERS, "$:/SiteTitle": ("", "Harbour notes")}.items():
        name = re.sub(r"\W", "_", title)
        head = f"created: 20310101120000000\nmodified: 20310101120000000\ntags: {tags}\ntitle: {title}\n"
        (folder / "tiddlers" / f"{name}.tid").write_text(f"{head}\n{text}", "utf-8")
    names = "[[Shopping list]] [[Meeting notes]] Boats"
    (folder / "tiddlers" / "default.tid").write_text(f"title: $:/DefaultTiddlers\n\n{names}", "utf-8")


def _tiddlywiki_command(program: Path, folder: Path, port: int) -> tuple[list[str], Mapping[str, str]]:
    return ["node", str(program), str(folder), "--listen", f"port={port}", "host=127.0.0.1"], {}


# DokuWiki: pages are files

_PAGES = {
    "start": "====== Harbour office ======\n\n  * [[boats]]\n  * [[prices]]\n  * [[staff]]\n",
    "boats": "====== Boats ======\n\nThe ferry leaves at nine.\n\n===== Small boats =====\n\nTwo dinghies.\n",
    "prices": "====== Prices ======\n\n^ What ^ Euro ^\n| Berth | 40 |\n| Crane | 95 |\n",
    "staff": "====== Staff ======\n\nAnna, Bjarne, Celia.\n",
}
_DOKUWIKI_CONF = """<?php
$conf['title'] = 'Harbour wiki';
$conf['savedir'] = getenv('WIKI_STATE') . '/data';
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
$conf['disableactions'] = '';
$conf['updatecheck'] = 0;
"""


def _make_dokuwiki(program: Path, folder: Path) -> None:
    shutil.copytree("/etc/dokuwiki", folder / "conf", symlinks=False)
    for name in "pages attic cache index locks media media_attic media_meta meta tmp log".split():
        (folder / "data" / name).mkdir(parents=True)
    for title, text in _PAGES.items():
        (folder / "data" / "pages" / f"{title}.txt").write_text(text, "utf-8")
    (folder / "conf" / "local.php").write_text(_DOKUWIKI_CONF, "utf-8")
    (folder / "conf" / "acl.auth.php").write_text("*\t@ALL\t1\n*\t@user\t16\n", "utf-8")
    digest = hashlib.sha1(PASSWORD.encode()).hexdigest()
    users = f"admin:{digest}:Anna Berg:anna@harbour.example:admin,user\n"
    (folder / "conf" / "users.auth.php").write_text(users, "utf-8")
    (folder / "first.php").write_text("<?php define('DOKU_CONF', getenv('WIKI_STATE') . '/conf/');\n", "utf-8")
    indexer = ["php", "-d", f"auto_prepend_file={folder / 'first.php'}", str(program / "bin" / "indexer.php"), "-q"]
    subprocess.run(
        indexer, check=True, env={**os.environ, "WIKI_STATE": str(folder)}, stderr=subprocess.DEVNULL, timeout=60
    )


def _dokuwiki_command(program: Path, folder: Path, port: int) -> tuple[list[str], Mapping[str, str]]:
    first = f"auto_prepend_file={folder / 'first.php'}"
    return ["php", "-d", first, "-S", f"127.0.0.1:{port}", "-t", str(program)], {"WIKI_STATE": str(folder)}


# Wagtail: one sqlite file

_WAGTAIL_SETTINGS = """

WAGTAIL_GRAVATAR_PROVIDER_URL = None
WAGTAIL_ENABLE_UPDATE_CHECK = False
WAGTAIL_ENABLE_WHATS_NEW_BANNER = False
ALLOWED_HOSTS = ["127.0.0.1"]
WAGTAIL_SITE_NAME = "Harbour"
"""
_WAGTAIL_SEED = """
from django.contrib.auth import get_user_model
from home.models import HomePage
from wagtail.contrib.redirects.models import Redirect
from wagtail.models import Collection

users = get_user_model().objects
users.create_superuser("admin", "anna@harbour.example", PASSWORD, first_name="Anna", last_name="Berg")
users.create_user("bjarne", "bjarne@harbour.example", PASSWORD, first_name="Bjarne", last_name="Dahl")
home = HomePage.objects.first()
for title in ("Boats", "Prices", "Staff", "Old page"):
    home.add_child(instance=HomePage(title=title)).save_revision().publish()
Collection.get_first_root_node().add_child(name="Photos")
Redirect.objects.create(old_path="/old-prices", redirect_page=HomePage.objects.get(title="Prices"))
"""


def _make_wagtail(program: Path, folder: Path) -> None:
    run = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, "timeout": 180}
    subprocess.run([str(program), "-m", "wagtail.bin.wagtail", "start", "harbour", "."], **run)  # type: ignore[call-overload]
    with (folder / "harbour" / "settings" / "dev.py").open("a", encoding="utf-8") as file:
        file.write(_WAGTAIL_SETTINGS)
    subprocess.run([str(program), "manage.py", "migrate"], **run)  # type: ignore[call-overload]
    seed = f"PASSWORD = {PASSWORD!r}\n{_WAGTAIL_SEED}"
    subprocess.run([str(program), "manage.py", "shell", "-c", seed], **run)  # type: ignore[call-overload]


def _wagtail_command(program: Path, folder: Path, port: int) -> tuple[list[str], Mapping[str, str]]:
    return [str(program), "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"], {}


_MAKERS = {"tiddlywiki": _make_tiddlywiki, "dokuwiki": _make_dokuwiki, "wagtail": _make_wagtail}
_COMMANDS = {"tiddlywiki": _tiddlywiki_command, "dokuwiki": _dokuwiki_command, "wagtail": _wagtail_command}
