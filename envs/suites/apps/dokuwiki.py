"""DokuWiki: a wiki whose pages, users and rights are text files."""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

from envs.errors import EnvDiedError
from envs.suites.apps.app import PASSWORD, Command, Facts, Packages, RunningApp, WebApp, run_tool

_PAGES = {
    "start": """====== Harbour office ======

  * [[boats]]
  * [[prices]]
  * [[staff]]
  * [[rules]]
  * [[events:start|Events]]
""",
    "boats": """====== Boats ======

The ferry leaves at nine.

===== Small boats =====

Two dinghies.

===== Winter =====

Boats stand in hall 3 from October to April.
""",
    "prices": """====== Prices ======

^ What ^ Euro ^
| Berth | 40 |
| Crane | 95 |
| Power | 6 |
""",
    "staff": """====== Staff ======

^ Name ^ Work ^ Phone ^
| Anna Berg | harbour master | 555-0101 |
| Bjarne Dahl | crane | 555-0102 |
| Celia Voss | office | 555-0103 |
""",
    "rules": """====== Rules ======

Speed in the harbour is 3 knots at most.

Dogs are kept on a lead.
""",
    "events/start": """====== Events ======

  * [[events:regatta]]
  * [[events:open_day]]
""",
    "events/regatta": """====== Regatta ======

The regatta is on 14 June 2031. Registration is open until 1 June.
""",
    "events/open_day": """====== Open day ======

On 3 May the lighthouse is open from ten to four.
""",
    "old_notice": "====== Notice ======\n\nThe pier was closed in 2029.\n",
}
_CONF = """<?php
$conf['title'] = 'Harbour wiki';
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
$conf['subscribers'] = 1;
$conf['passcrypt'] = 'sha1';
"""
_PROTECTED = """<?php
$conf['savedir'] = getenv('WIKI_STATE') . '/data';
$conf['updatecheck'] = 0;
$conf['securecookie'] = 0;
$conf['plugin']['popularity']['never'] = 1;
"""
_PEOPLE = (
    ("admin", "Anna Berg", "anna", "admin,user"),
    ("bjarne", "Bjarne Dahl", "bjarne", "user"),
    ("celia", "Celia Voss", "celia", "user"),
)
_FIRST_LINE = "<?php define('DOKU_CONF', getenv('WIKI_STATE') . '/conf/');\n"
_FOLDERS = "pages attic cache index locks media media_attic media_meta meta tmp log sessions".split()
_OWN_SUMMARIES = ("created", "removed", "old revision restored", "external edit")
_CHANGE = re.compile(r"^\d+\t[^\t]*\t(?P<kind>[A-Za-z])\t[^\t]*\t(?P<user>[^\t]*)\t(?P<summary>[^\t]*)")


class DokuWiki(WebApp):
    """Wiki of a harbour; the account `admin` is Anna Berg, the administrator."""

    name = "dokuwiki"
    role = "wiki"
    packages = Packages(
        apt=("php-cgi", "php-cli", "php-xml", "dokuwiki"),
        apt_answers=("dokuwiki dokuwiki/webservers multiselect",),
        needs=("php", "/usr/share/dokuwiki/doku.php"),
    )
    start_path = "/lib/exe/css.php?t=none"

    _ROOT = Path("/usr/share/dokuwiki")

    def make_state(self, folder: Path) -> None:
        """Write pages, people and rights, and build the search index."""
        shutil.copytree("/etc/dokuwiki", folder / "conf", symlinks=False)
        for name in _FOLDERS:
            (folder / "data" / name).mkdir(parents=True)
        for name, text in _PAGES.items():
            page = folder / "data" / "pages" / f"{name}.txt"
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, "utf-8")
        digest = hashlib.sha1(PASSWORD.encode()).hexdigest()
        people = "".join(
            f"{login}:{digest}:{name}:{mail}@harbour.example:{groups}\n" for login, name, mail, groups in _PEOPLE
        )
        files = {
            "conf/local.php": _CONF,
            "conf/local.protected.php": _PROTECTED,
            "conf/acl.auth.php": "*\t@ALL\t1\n*\t@user\t16\n",
            "conf/users.auth.php": people,
            "first.php": _FIRST_LINE,
        }
        for path, text in files.items():
            (folder / path).write_text(text, "utf-8")
        run_tool(self._php(folder, self._ROOT / "bin" / "indexer.php", "-q"), folder)

    def command(self, folder: Path, port: int) -> Command:
        """Return the command of PHP's built-in server, which starts quickly and keeps no state."""
        return self._php(folder, "-S", f"127.0.0.1:{port}", "-t", self._ROOT)

    def cookies(self, app: RunningApp) -> Mapping[str, str]:
        """Return the session cookies of Anna Berg, signed in through the login form."""
        form = urlencode({"u": "admin", "p": PASSWORD, "do": "login", "id": "start"}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = app.ask("POST", "/doku.php", body=form, headers=kind)
        given = [line.partition(";")[0].partition("=") for line in answer.headers.get_all("Set-Cookie") or ()]
        cookies = {name: value for name, _, value in given if value not in ("", "deleted")}
        if not any(name.startswith("DW") for name in cookies):
            raise EnvDiedError(f"DokuWiki does not let admin in (status {answer.status})")
        return cookies

    def facts(self, app: RunningApp) -> Facts:
        """Return texts and last summaries of pages, files, people, rights, subscriptions, and settings."""
        return dict(_facts_of(app.folder))

    @staticmethod
    def _php(folder: Path, *argv: str | Path) -> Command:
        settings = (f"auto_prepend_file={folder}/first.php", f"session.save_path={folder}/data/sessions")
        return Command(
            argv=("php", *(part for setting in settings for part in ("-d", setting)), *argv),
            env={"WIKI_STATE": str(folder)},
        )


def _facts_of(folder: Path) -> Iterator[tuple[str, str]]:
    data, conf = folder / "data", folder / "conf"
    for file in sorted((data / "pages").rglob("*.txt")):
        name = _id_of(file, data / "pages")
        yield f"page/{name}/text", _read(file).strip()
        yield from (
            (f"page/{name}/{field}", value) for field, value in _last_change(data / "meta", file, data / "pages")
        )
    for file in sorted((data / "media").rglob("*")):
        if file.is_file():
            yield f"media/{_id_of(file, data / 'media')}", hashlib.sha256(file.read_bytes()).hexdigest()
    for line in _lines(conf / "users.auth.php"):
        login, *rest = line.split(":")
        for field, value in zip(("password", "name", "email", "groups"), rest, strict=False):
            yield f"user/{login}/{field}", value
    for line in _lines(conf / "acl.auth.php"):
        scope, subject, level = [*line.split(), "", ""][:3]
        yield f"right/{scope}/{subject}", level
    for file in sorted((data / "meta").rglob("*.mlist")):
        for line in _lines(file):
            login, style = [*line.split(), ""][:2]
            yield f"subscription/{_id_of(file, data / 'meta')}/{login}", style
    for name, value in re.findall(r"^\$conf\['(\w+)'\]\s*=\s*'?(.*?)'?;\s*$", _read(conf / "local.php"), re.MULTILINE):
        yield f"setting/{name}", value


def _last_change(meta: Path, page: Path, pages: Path) -> Iterator[tuple[str, str]]:
    """Yield the summary of the last change of a page, if it has one."""
    lines = _read((meta / page.relative_to(pages)).with_suffix(".changes")).splitlines()
    change = _CHANGE.match(lines[-1]) if lines else None
    if change is not None and change["summary"] and not change["summary"].startswith(_OWN_SUMMARIES):
        yield "summary", change["summary"]
    if change is not None and change["kind"] == "e":
        yield "minor", "yes"


def _id_of(file: Path, root: Path) -> str:
    relative = file.relative_to(root)
    return ":".join((relative.with_suffix("") if file.suffix in (".txt", ".mlist") else relative).parts)


def _lines(file: Path) -> list[str]:
    return [line.strip() for line in _read(file).splitlines() if line.strip() and not line.startswith(("#", "<?php"))]


def _read(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.is_file() else ""
