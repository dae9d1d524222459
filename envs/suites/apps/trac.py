"""Trac: a ticket tracker with milestones, reports and its own wiki."""

from collections.abc import Mapping
from pathlib import Path

from envs.suites.apps.app import Facts, GunicornApp, Packages, RunningApp

_SITE = Path(__file__).with_name("trac_site.py")
_COOKIE = "b3a1f0c27d5e4986"
"""Session cookie of Mara; stored by `trac_site.py`."""
_DATABASE = "env/db/trac.db"
_TABLES = {
    "ticket": "SELECT id, summary, description, reporter, owner, component, milestone, version, priority, type, "
    "status, resolution, keywords, cc FROM ticket",
    "comment": "SELECT ticket || '/' || row_number() OVER (PARTITION BY ticket ORDER BY time), newvalue AS text "
    "FROM ticket_change WHERE field = 'comment' AND newvalue != ''",
    "attachment": "SELECT type || '/' || id, filename FROM attachment",
    "component": "SELECT name, name AS title, owner, description FROM component",
    "version": "SELECT name, name AS title, description FROM version",
    "milestone": "SELECT name, name AS title, description, date(nullif(due, 0) / 1000000, 'unixepoch') AS due, "
    "CASE WHEN completed > 0 THEN 'completed' END AS state FROM milestone",
    "choice": "SELECT type || '/' || name, name AS title FROM enum",
    "permission": "SELECT username || '/' || action, action FROM permission",
    "report": "SELECT title, query FROM report",
    "page": "SELECT name, name AS title, text FROM wiki AS w "
    "WHERE version = (SELECT max(version) FROM wiki WHERE name = w.name)",
}
"""Query for each kind of item: its name, then its facts."""
_PINS = "Trac==1.6 Jinja2==3.1.6 MarkupSafe==3.0.4 setuptools==79.0.1 gunicorn==27.0.1 packaging==26.3"
"""Trac, its dependencies (it imports `pkg_resources`, which later versions of setuptools lack), and the server."""


class Trac(GunicornApp):
    """Tracker with Mara signed in, its administrator.

    Its database is reset while no worker of gunicorn has it open: a new worker has everything loaded, but nothing
    opened.
    """

    name = "trac"
    role = "tracker"
    packages = Packages(pip=tuple(_PINS.split()))
    state_code = (_SITE,)
    served = "trac_site:make_application()"
    start_path = "/wiki"

    def cookies(self, app: RunningApp) -> Mapping[str, str]:
        """Return Mara's session cookie."""
        return {"trac_auth": _COOKIE}

    def facts(self, app: RunningApp) -> Facts:
        """Return tickets and comments by number; milestones, choices, permissions, reports and wiki pages by name."""
        return app.tell(_DATABASE, _TABLES)
