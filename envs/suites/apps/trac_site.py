"""Tracker on Trac: initial state, and WSGI application. Runs in the state's folder with Trac's Python.

    python trac_site.py                         makes the state: the project `env`
    python -m gunicorn "trac_site:make_application()"

A cookie identifies the signed-in user. The link "Login" asks for name and password by HTTP authentication, like Trac's
own server, and sets such a cookie.

All names, tickets and pages are made up, and deterministic.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

COOKIE = "b3a1f0c27d5e4986"
PASSWORD = "sesame-77"
_LOGINS = "logins"
"""File with the hashed passwords, in the format of Trac's server."""
PEOPLE = (("mara", "Mara Lind"), ("joris", "Joris Haan"), ("edda", "Edda Stein"), ("tomas", "Tomas Brandt"))
COMPONENTS = (("Boats", "joris"), ("Crane", "edda"), ("Office", "mara"), ("Quay", "tomas"), ("Website", "edda"))
MILESTONES = (  # name, due, completed, description
    ("Spring opening", (2024, 4, 1), None, "All berths are ready for guests."),
    ("Summer season", (2024, 6, 15), None, "The regatta is in July."),
    ("Winter storage", (2023, 11, 1), (2023, 11, 20), "All boats are in hall 3."),
)
VERSIONS = (("2023", (2023, 1, 1)), ("2024", (2024, 1, 1)))
TICKETS = (  # summary, description, reporter, owner, component, milestone, priority, type, status, comments
    (
        "Lamp at the end of the north quay is dark",
        "Nobody can see the last berth at night.",
        "edda",
        "tomas",
        "Quay",
        "Spring opening",
        "major",
        "defect",
        "assigned",
        (("tomas", "The bulb is fine; it is the cable."),),
    ),
    (
        "Crane stops when it rains",
        "It stops after ten minutes of rain and starts again an hour later.",
        "joris",
        "edda",
        "Crane",
        "Spring opening",
        "critical",
        "defect",
        "accepted",
        (),
    ),
    (
        "Price list on the website is of last year",
        "Berths cost 40 euro now.",
        "tomas",
        "edda",
        "Website",
        "Spring opening",
        "major",
        "defect",
        "new",
        (),
    ),
    (
        "Buy ropes for the guest berths",
        "Two mooring ropes of 12 mm, from the shop.",
        "mara",
        "joris",
        "Quay",
        "Summer season",
        "minor",
        "task",
        "new",
        (),
    ),
    (
        "Small ferry takes in water",
        "About a bucket a day.",
        "joris",
        "joris",
        "Boats",
        "Spring opening",
        "blocker",
        "defect",
        "accepted",
        (("joris", "The seal of the shaft is worn."),),
    ),
    (
        "Show the tide on the front page",
        "Guests ask for it each day.",
        "edda",
        "edda",
        "Website",
        "Summer season",
        "minor",
        "enhancement",
        "new",
        (),
    ),
    (
        "Paint the dinghies",
        "White, with a blue rim.",
        "mara",
        "tomas",
        "Boats",
        "Spring opening",
        "trivial",
        "task",
        "new",
        (),
    ),
    (
        "Office door does not lock",
        "It has to be pulled hard.",
        "tomas",
        "mara",
        "Office",
        "",
        "major",
        "defect",
        "new",
        (),
    ),
    (
        "Book the diver for the chain inspection",
        "The insurance asks for it every two years.",
        "mara",
        "mara",
        "Quay",
        "Summer season",
        "major",
        "task",
        "new",
        (),
    ),
    (
        "Crane: yearly inspection",
        "Done by the company from Sandvik.",
        "edda",
        "edda",
        "Crane",
        "Winter storage",
        "major",
        "task",
        "closed",
        (("edda", "Passed."),),
    ),
    (
        "Website is slow on phones",
        "The pictures are too large.",
        "joris",
        "edda",
        "Website",
        "",
        "minor",
        "defect",
        "new",
        (),
    ),
    (
        "Move the printer to the first floor",
        "",
        "mara",
        "mara",
        "Office",
        "Spring opening",
        "trivial",
        "task",
        "closed",
        (("mara", "It stays where it is."),),
    ),
    (
        "Ladder at berth 14 is loose",
        "Two of the four bolts are gone.",
        "tomas",
        "tomas",
        "Quay",
        "Spring opening",
        "critical",
        "defect",
        "new",
        (),
    ),
    (
        "Send the bill for the winter to all owners",
        "43 owners, 180 euro each.",
        "mara",
        "joris",
        "Office",
        "",
        "major",
        "task",
        "assigned",
        (),
    ),
)
RESOLUTIONS = {10: "fixed", 12: "wontfix"}
PAGES = {
    "WikiStart": (
        "= Harbour works =",
        "What has to be done in the harbour, and who does it.",
        " * [wiki:OnCall Who is on call]\n * [wiki:Suppliers]\n * [/report Reports]\n * [/roadmap Roadmap]",
    ),
    "OnCall": (
        "= Who is on call =",
        "||= Week =||= Person =||\n|| 14 || Joris ||\n|| 15 || Edda ||\n|| 16 || Tomas ||",
    ),
    "Suppliers": (
        "= Suppliers =",
        " * Ropes: Harbour Supplies\n * Paint: Brandt and sons, Sandvik\n * Diver: Ulla Moen",
    ),
}
"""Paragraphs by page name."""
CONFIG = {
    ("project", "descr"): "What has to be done in the harbour",
    ("project", "footer"): "Harbour works",
    ("header_logo", "src"): "",
    ("notification", "smtp_enabled"): "disabled",
    ("ticket", "default_component"): "Office",
    ("trac", "default_dateinfo_format"): "absolute",
    ("trac", "default_date_format"): "iso8601",
    ("trac", "default_timezone"): "GMT",
    ("logging", "log_type"): "none",
    ("components", "trac.admin.web_ui.pluginadminpanel"): "disabled",  # it accepts code
    ("components", "trac.admin.web_ui.loggingadminpanel"): "disabled",  # it accepts file names
}


def make_state() -> None:
    """Make the initial state in the current folder."""
    import base64
    import hashlib

    from trac.admin.console import run
    from trac.env import open_environment

    if run(["env", "initenv", "Harbour works", "sqlite:db/trac.db"]):
        raise SystemExit("trac-admin initenv failed")
    env = open_environment("env")
    for (section, name), value in CONFIG.items():
        env.config.set(section, name, value)
    env.config.save()
    hashed = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    Path(_LOGINS).write_text("".join(f"{user}:{{SHA}}{hashed}\n" for user, _ in PEOPLE), "utf-8")
    _add_people(env)
    _add_plans(env)
    _add_tickets(env)
    _add_pages(env)
    env.shutdown()


def _add_people(env: Any) -> None:
    from trac.perm import PermissionSystem

    PermissionSystem(env).grant_permission("mara", "TRAC_ADMIN")
    with env.db_transaction as db:
        for user, name in PEOPLE:
            db("INSERT INTO session VALUES (%s, 1, 0)", (user,))
            db("INSERT INTO session_attribute VALUES (%s, 1, 'name', %s)", (user, name))
        db("INSERT INTO auth_cookie VALUES (%s, 'mara', '127.0.0.1', 4000000000)", (COOKIE,))


def _add_plans(env: object) -> None:
    from trac.ticket.model import Component, Milestone, Version

    for old in (*Component.select(env), *Milestone.select(env), *Version.select(env)):
        old.delete()
    for name, owner in COMPONENTS:
        component = Component(env)
        component.name, component.owner = name, owner
        component.insert()
    for name, due, completed, description in MILESTONES:
        milestone = Milestone(env)
        milestone.name, milestone.description, milestone.due = name, description, datetime(*due, 18, tzinfo=UTC)
        milestone.completed = datetime(*completed, 18, tzinfo=UTC) if completed else None
        milestone.insert()
    for name, time in VERSIONS:
        version = Version(env)
        version.name, version.time = name, datetime(*time, tzinfo=UTC)
        version.insert()


def _add_tickets(env: object) -> None:
    from trac.ticket.model import Ticket

    for number, row in enumerate(TICKETS, 1):
        names = ("summary", "description", "reporter", "owner", "component", "milestone", "priority", "type", "status")
        ticket = Ticket(env)
        for name, value in zip(names, row[:-1], strict=True):
            ticket[name] = value
        ticket["resolution"] = RESOLUTIONS.get(number, "")
        ticket.insert(when=datetime(2024, 2, number, 9, tzinfo=UTC))
        for hour, (author, text) in enumerate(row[-1], 10):
            ticket.save_changes(author, text, when=datetime(2024, 2, number, hour, tzinfo=UTC))


def _add_pages(env: object) -> None:
    from trac.wiki.model import WikiPage

    for name, paragraphs in PAGES.items():
        page = WikiPage(env, name)
        if page.exists:
            page.delete()
        page = WikiPage(env, name)
        page.text = "\n\n".join(paragraphs)
        page.save("mara", "", datetime(2024, 2, 1, tzinfo=UTC))


def make_application() -> Application:
    """Return the WSGI application. Everything is loaded and requested once, so that a new worker answers at once."""
    from wsgiref.util import setup_testing_defaults

    from trac.env import open_environment
    from trac.web.auth import BasicAuthentication
    from trac.web.main import dispatch_request
    from trac.web.standalone import AuthenticationMiddleware

    folder = str(Path("env").absolute())

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["trac.env_path"] = folder
        answer: Iterable[bytes] = dispatch_request(environ, start_response)
        return answer

    env = open_environment(folder, use_cache=True)
    for path in ("/wiki", "/newticket", "/ticket/1", "/query", "/roadmap"):
        environ: dict[str, Any] = {"PATH_INFO": path, "REMOTE_ADDR": "127.0.0.1", "HTTP_COOKIE": f"trac_auth={COOKIE}"}
        setup_testing_defaults(environ)
        for _ in application(environ, lambda *answer: None):
            pass
    env.shutdown()  # database connections must not be inherited by another process
    logins = {"env": BasicAuthentication(str(Path(_LOGINS).absolute()), "Harbour works")}
    guarded: Application = AuthenticationMiddleware(application, logins, single_env_name="env")
    return guarded


if __name__ == "__main__":
    make_state()
