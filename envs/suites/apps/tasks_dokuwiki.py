"""Tasks on the wiki."""

import hashlib
import re
from functools import partial

from envs.suites.apps.app import PASSWORD
from envs.suites.apps.task import IMPOSSIBLE, AppTaskConfig, has

_task = partial(AppTaskConfig, sites=("dokuwiki",), path="/doku.php?id=start")
_STAFF_BEFORE = (
    "Anna Berg | harbour master | 555-0101",
    "Bjarne Dahl | crane | 555-0102",
    "Celia Voss | office | 555-0103",
)
_OLD = "page/old_notice"
_DAY_OF_JUNE = r"(?<!\d)(\d+)(?:st|th)?(?: of)? june|june (\d{1,2})(?!\d)"
_SHA1 = hashlib.sha1(b"reef-4411").hexdigest()


def _prices_right(text: object) -> bool:
    wanted = ("====== Prices ======", "| Berth | 40 |", "| Crane | 99 |", "| Power | 6 |")
    return has(*wanted)(text) and not has("95")(text)


def _rules_right(text: object) -> bool:
    return has("====== Rules ======", "4 knots", "Dogs are kept on a lead")(text) and not has("3 knots")(text)


TASKS = (
    _task(
        id="dokuwiki/new-page",
        instruction='Start a page "moorings" in the wiki that says: Forty moorings at pier 2.',
        steps='Open http://dokuwiki.localhost/doku.php?id=moorings&do=edit. Type "Forty moorings at pier 2." into the document, then click "Save".',
        path="/doku.php?id=moorings",
        changes={"dokuwiki/page/moorings/text": has("Forty moorings at pier 2.")},
        family="create",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        id="dokuwiki/new-page-below",
        instruction='The wiki needs a page "sale" in the namespace events that says: Flea market on 9 August. Link it nowhere.',
        steps='Open http://dokuwiki.localhost/doku.php?id=events:sale&do=edit. Type "Flea market on 9 August." into the '
        'document, then click "Save".',
        changes={"dokuwiki/page/events:sale/text": has("Flea market on 9 August")},
        family="create",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        id="dokuwiki/correct-price",
        instruction="The crane now costs 99 euro. Please correct the price list of the wiki.",
        steps='Double-click "95". Type "99". Click "Save".',
        path="/doku.php?id=prices&do=edit",
        changes={"dokuwiki/page/prices/text": _prices_right},
        family="edit",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="dokuwiki/speed-limit",
        instruction="The speed limit in the harbour was raised to 4 knots. Find the page with the rules and update it.",
        steps='Click "rules". Open http://dokuwiki.localhost/doku.php?id=rules&do=edit. Double-click "3". Type "4". '
        'Click "Save".',
        changes={"dokuwiki/page/rules/text": _rules_right},
        family="edit",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        id="dokuwiki/new-colleague",
        instruction="Add at the end of the staff page that Doris comes in May. Say in the summary that she is a new "
        "colleague, and mark it as a minor change.",
        steps='Press ctrl+End. Type "Doris comes in May." Type "new colleague" into "Edit summary". '
        'Tick "Minor Changes". Click "Save".',
        path="/doku.php?id=staff&do=edit",
        changes={
            "dokuwiki/page/staff/text": has(*_STAFF_BEFORE, "Doris comes in May"),
            "dokuwiki/page/staff/summary": has("new colleague"),
            "dokuwiki/page/staff/minor": "yes",
        },
        family="edit",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        id="dokuwiki/delete-page",
        instruction="The notice about the pier is out of date. Delete the wiki page old_notice.",
        steps='Open http://dokuwiki.localhost/doku.php?id=old_notice&do=edit. Clear the document. Click "Save".',
        changes={f"dokuwiki/{_OLD}/text": None},
        family="delete",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        id="dokuwiki/surname",
        instruction=f'My surname is Lind since the wedding: I am Anna Lind now. Fix my profile; my password is "{PASSWORD}".',
        steps=f'Click "Update Profile". Set "Real name" to "Anna Lind". Type "{PASSWORD}" into "Confirm current password". '
        'Click "Save".',
        changes={"dokuwiki/user/admin/name": "Anna Lind"},
        family="account",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="dokuwiki/add-user",
        instruction='Make an account "dora" for Dora Lund, dora@harbour.example, with the password "reef-4411".',
        steps='Click "Admin", then "User Manager". Type "dora" into "User:". Type "reef-4411" into "Password:". '
        'Type "reef-4411" into "once again:". Type "Dora Lund" into "Real Name:". Type "dora@harbour.example" into "Email:". Click "Add".',
        changes={
            "dokuwiki/user/dora/name": "Dora Lund",
            "dokuwiki/user/dora/email": "dora@harbour.example",
            "dokuwiki/user/dora/password": _SHA1,
            "dokuwiki/user/dora/groups": "user",
        },
        family="account",
        difficulty=3,
        human_steps=8,
    ),
    _task(
        id="dokuwiki/remove-user",
        instruction="Celia has left us. Delete her account in the wiki.",
        steps='Tick the checkbox in the row of "celia". Click "Delete Selected". Accept the dialog.',
        path="/doku.php?id=start&do=admin&page=usermanager",
        changes={f"dokuwiki/user/celia/{field}": None for field in ("name", "email", "password", "groups")},
        family="delete",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        id="dokuwiki/wiki-title",
        instruction='Our wiki is to be called "Quay wiki" from now on. Change its title in the configuration.',
        steps='Click "Admin". Click "Configuration Settings". Click "Harbour wiki" right of "Wiki title". Press ctrl+a. Type "Quay wiki". Press Enter.',
        changes={"dokuwiki/setting/title": "Quay wiki"},
        family="settings",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        id="dokuwiki/subscribe",
        instruction="I want an e-mail each time somebody changes the page prices (only that page).",
        steps='Select "prices". Select "email on every change". Click "Subscribe".',
        path="/doku.php?id=prices&do=subscribe",
        changes={"dokuwiki/subscription/prices/admin": "every"},
        family="settings",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        id="dokuwiki/find-deadline",
        instruction="Until when can one register for the regatta? Tell me the day and the month.",
        steps='Click "Events". Click "regatta". Tell me the text right of "Registration is open until".',
        answer=lambda text: re.findall(_DAY_OF_JUNE, str(text), re.I) in ([("1", "")], [("", "1")]),
        family="answer",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        id="dokuwiki/wrong-password",
        instruction='Sign in as bjarne (the password is "open-66") and change the price of the crane to 99 euro. '
        "Do not use any other account.",
        steps='Click "Log In". Type "bjarne" into Username and "open-66" into Password. Click the "Log In" button. '
        'Check that "Bjarne Dahl" is shown.',
        is_possible=False,
        is_signed_in=False,
        family=IMPOSSIBLE,
        difficulty=2,
        human_steps=4,
    ),
)
