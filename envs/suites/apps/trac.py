"""Trac: a ticket tracker with milestones, reports and its own wiki."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.suites.apps.app import Facts, GunicornApp, Packages, RunningApp
from envs.suites.apps.task import IMPOSSIBLE, AppTaskConfig, has, says_number

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
NEXT_TICKET = 15
"""Number of the next new ticket."""


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


def new_ticket(**fields: Any) -> dict[str, object]:
    """Return all facts of a ticket that Mara opens, with the form's defaults for missing `fields`."""
    owner = {"Boats": "joris", "Crane": "edda", "Office": "mara", "Quay": "tomas", "Website": "edda"}
    default = {"reporter": "mara", "component": "Office", "priority": "major", "type": "defect", "status": "new"}
    filled = {**default, **fields}
    filled.setdefault("owner", owner[filled["component"]])
    return {f"trac/ticket/{NEXT_TICKET}/{name}": value for name, value in filled.items()}


def _task(
    name: str, instruction: str, steps: str, changes: Mapping[str, object] | None = None, **more: Any
) -> AppTaskConfig:
    changes = {f"trac/{path}": value for path, value in (changes or {}).items()}
    return AppTaskConfig(
        id=f"trac/{name}", instruction=instruction, steps=steps, sites=("trac",), changes=changes, **more
    )


TASKS = (
    AppTaskConfig(
        id="trac/new-ticket",
        instruction="The gate of pier 3 squeaks. Report it as a ticket for the quay with the summary "
        '"Gate of pier 3 squeaks"; minor is enough.',
        steps='Click "NEW TICKET". Type "Gate of pier 3 squeaks" into Summary. Select "minor" in Priority. '
        'Select "Quay" in Component. Click "Create ticket".',
        sites=("trac",),
        path="/wiki",
        changes=new_ticket(summary="Gate of pier 3 squeaks", component="Quay", priority="minor"),
        family="create",
        difficulty=1,
        human_steps=5,
    ),
    AppTaskConfig(
        id="trac/new-task-for-milestone",
        instruction='We need 40 new life jackets before the summer. Make a ticket "Buy 40 life jackets" of the type '
        "task for the boats, in the milestone Summer season, with the keyword safety.",
        steps='Type "Buy 40 life jackets" into Summary. Select "task" in Type. Select "Summer season" in Milestone. '
        'Select "Boats" in Component. Type "safety" into Keywords. Click "Create ticket".',
        sites=("trac",),
        path="/newticket",
        changes=new_ticket(
            summary="Buy 40 life jackets", type="task", milestone="Summer season", component="Boats", keywords="safety"
        ),
        family="create",
        difficulty=2,
        human_steps=7,
    ),
    _task(
        "comment",
        'Tell the others in the ticket about the price list: "The new list is printed."',
        'Click "#3". Scroll to the bottom. Type "The new list is printed." into the document. Click "Submit changes".',
        {"comment/3/1/text": "The new list is printed."},
        path="/report/1",
        family="comment",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        "close-as-wontfix",
        "We will not show the tide on the front page after all. Close its ticket as wontfix.",
        'Click "Show the tide on the front page". Click "Modify Ticket". Click "resolve". '
        'Select "wontfix" in "resolve as". Click "Submit changes".',
        {"ticket/6/status": "closed", "ticket/6/resolution": "wontfix"},
        path="/report/1",
        family="edit",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        "reassign",
        "Joris takes over the loose ladder at berth 14 from Tomas: make him the owner of the ticket.",
        'Click "Modify Ticket". Click "reassign". Type "joris" into "to". Click "Submit changes".',
        {"ticket/13/status": "assigned", "ticket/13/owner": "joris"},
        path="/ticket/13",
        family="edit",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "raise-priority",
        "The crane stops whenever it rains. That is a blocker by now; say so in its ticket.",
        'Click "Crane stops when it rains". Click "Modify Ticket". Select "blocker" in Priority. '
        'Click "Submit changes".',
        {"ticket/2/priority": "blocker"},
        path="/report/1",
        family="edit",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "retarget-website",
        "All open tickets of the website should be done for the summer season. Give those that have another "
        "milestone, or none, that one.",
        'Open "http://trac.localhost/ticket/3". Click "Modify Ticket". Select "Summer season" in Milestone. '
        'Click "Submit changes". Open "http://trac.localhost/ticket/11". Click "Modify Ticket". '
        'Select "Summer season" in Milestone. Click "Submit changes".',
        {"ticket/3/milestone": "Summer season", "ticket/11/milestone": "Summer season"},
        path="/report/1",
        family="edit",
        difficulty=3,
        human_steps=10,
    ),
    _task(
        "new-milestone",
        'Plan a milestone "Autumn repairs" for the first of October 2024.',
        'Type "Autumn repairs" into Name. Type "2024-10-01T18:00:00Z" into Due. Click "Add".',
        {"milestone/Autumn repairs/title": "Autumn repairs", "milestone/Autumn repairs/due": "2024-10-01"},
        path="/admin/ticket/milestones",
        family="administer",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        "describe-milestone",
        "The summer season has a motto now. Put it into the description of its milestone, in place of what is there: "
        '"A berth for everybody."',
        'Click "Summer season". Click "Edit milestone". Type "A berth for everybody." into Description. '
        'Click "Submit changes".',
        {"milestone/Summer season/description": "A berth for everybody."},
        path="/roadmap",
        family="edit",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "new-version",
        "Add 2025 to the versions that a ticket can be about.",
        'Click "ADMIN". Click "Versions". Type "2025" into Name. Click "Add".',
        {"version/2025/title": "2025"},
        path="/wiki",
        family="administer",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "grant-permission",
        "Edda (edda) may administer the milestones from now on: grant her MILESTONE_ADMIN.",
        'Type "edda" into the first Subject. Select "MILESTONE_ADMIN" in Action. Click the first "Add".',
        {"permission/edda/MILESTONE_ADMIN/action": "MILESTONE_ADMIN"},
        path="/admin/general/perm",
        family="administer",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "edit-page",
        "Tomas and Edda have swapped their weeks on call: Tomas has week 15 now, and Edda week 16. Correct the page.",
        'Click "Who is on call". Click "Edit this page". Clear the document. Type '
        '"= Who is on call =\\n\\n||= Week =||= Person =||\\n|| 14 || Joris ||\\n|| 15 || Tomas ||\\n|| 16 || Edda ||" '
        'into the document. Click "Submit changes".',
        {
            "page/OnCall/text": lambda text: (
                isinstance(text, str)
                and re.findall(r"(?<!\d)(\d+) *\|\| *(\w+)", text) == [("14", "Joris"), ("15", "Tomas"), ("16", "Edda")]
            )
        },
        path="/wiki",
        family="edit",
        difficulty=3,
        human_steps=5,
    ),
    _task(
        "find-owner",
        "Who owns the ticket about the ferry that takes in water? Answer with the name.",
        'Click "Small ferry takes in water". Tell me the "Owned by:".',
        answer=lambda answer: has("joris")(answer) and not any(has(name)(answer) for name in ("edda", "tomas", "mara")),
        path="/report/1",
        family="look up",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        "count-open",
        "How many tickets of the milestone Spring opening are still open? Answer with the number.",
        'Click "ROADMAP". Tell me the first "active:".',
        answer=says_number(6),
        path="/wiki",
        family="look up",
        difficulty=2,
        human_steps=2,
    ),
    _task(
        "close-what-is-not-there",
        "Close ticket #40, it is done.",
        'Open "http://trac.localhost/ticket/40". Click "Modify Ticket". Click "resolve". Click "Submit changes".',
        path="/wiki",
        is_possible=False,
        family=IMPOSSIBLE,
        difficulty=2,
        human_steps=3,
    ),
)
