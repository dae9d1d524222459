"""Tasks on several apps: information from one app is used in another."""

from collections.abc import Mapping
from typing import Any

from envs.suites.apps.oscar import in_basket
from envs.suites.apps.task import CROSS_SITE, IMPOSSIBLE, AppTaskConfig, has, says_number
from envs.suites.apps.trac import new_ticket

_WIKI = "http://dokuwiki.localhost"
_NOTES = "http://tiddlywiki.localhost"
_SITE = "http://wagtail.localhost/admin/"
_REGATTA = {"wagtail/redirect//regatta-2031/target": f"{_WIKI}/doku.php?id=events:regatta"}


def _task(
    name: str,
    instruction: str,
    steps: str,
    sites: tuple[str, ...],
    changes: Mapping[str, object] | tuple[Mapping[str, object], ...],
    **more: Any,
) -> AppTaskConfig:
    family = {"family": CROSS_SITE, "difficulty": 3, **more}
    return AppTaskConfig(
        id=f"cross-site/{name}", instruction=instruction, steps=steps, sites=sites, changes=changes, **family
    )


TASKS = (
    _task(
        "crane-note",
        instruction=f'Our wiki ({_WIKI}) says what the crane costs. Make a note called "Crane" here in my notes with that price.',
        steps='Click "new tiddler". Type "Crane". '
        'Type "The crane costs 95 euro." into "Type the text for this tiddler". Click "ok".',
        sites=("tiddlywiki", "dokuwiki"),
        changes={"tiddlywiki/Crane/text": has("95")},
        difficulty=2,
        human_steps=8,
    ),
    _task(
        "staff-phone",
        instruction=f'My notes ({_NOTES}) have Dora\'s phone number. Write a page "dora" in this wiki that says her number.',
        steps=f'Open {_WIKI}/doku.php?id=dora&do=edit. Type "Dora: 555-0104" into the document, then click "Save".',
        sites=("dokuwiki", "tiddlywiki"),
        path="/doku.php?id=staff",
        changes={"dokuwiki/page/dora/text": has("555-0104")},
        difficulty=2,
        human_steps=8,
    ),
    _task(
        "regatta-redirect",
        instruction=f"Visitors of /regatta-2031 on our site shall land on the page of our wiki ({_WIKI}) about the regatta. "
        "Make that redirect; its target is the full address of the page as the browser shows it.",
        steps='Click "Add redirect". Type "/regatta-2031" into "Redirect from". '
        f'Type "{_WIKI}/doku.php?id=events:regatta" into "Redirect to any URL". Click "Create".',
        sites=("wagtail", "dokuwiki"),
        path="/admin/redirects/",
        changes=({**_REGATTA, "wagtail/redirect//regatta-2031/is_permanent": 1}, _REGATTA),
        human_steps=9,
    ),
    _task(
        "speed-introduction",
        instruction=f"Look up in our wiki ({_WIKI}) how fast one may go in the harbour, and make that the introduction of the page "
        'Boats here, in these words: "At most N knots." Save it as a draft.',
        steps='Set "Introduction" to "At most 3 knots.". Click "Save draft".',
        sites=("wagtail", "dokuwiki"),
        path="/admin/pages/4/edit/",
        changes={"wagtail/page/boats/draft/intro": has("At most 3 knots")},
        difficulty=2,
        human_steps=7,
    ),
    _task(
        "budget-page",
        instruction=f'Take the budget of 2031 from my notes ({_NOTES}) and write it on a new wiki page "budget" here; then delete the '
        'note "Old draft" in my notes.',
        steps=f'Open {_WIKI}/doku.php?id=budget&do=edit. Type "Budget of 2031: 4200 euro." into the document, then click "Save". '
        f'Open {_NOTES}/#Old%20draft. Click "edit". Click "delete". Accept the dialog.',
        sites=("dokuwiki", "tiddlywiki"),
        path="/doku.php?id=start",
        changes={
            "dokuwiki/page/budget/text": has("4200"),
            "tiddlywiki/Old draft/text": None,
            "tiddlywiki/Old draft/tags": None,
        },
        human_steps=12,
    ),
    _task(
        "same-title",
        instruction=f"The wiki ({_WIKI}) and my notes shall carry the same title: give the wiki, in its configuration, the title that "
        "my notes have. I am signed in there as admin.",
        steps=f'Open {_WIKI}/doku.php?id=start&do=admin&page=config. Click "Harbour wiki" right of "Wiki title". Press ctrl+a. Type "Harbour notes". Press Enter.',
        sites=("tiddlywiki", "dokuwiki"),
        changes={"dokuwiki/setting/title": "Harbour notes"},
        difficulty=2,
        human_steps=6,
    ),
    _task(
        "price-into-ticket",
        "We want a signal lamp. Look up what it costs in the shop (http://oscar.localhost) and open a ticket in the "
        'tracker (http://trac.localhost) for the office, with the summary "Buy a signal lamp" and the amount as its '
        "description.",
        'Click "Signal lamp". Open "http://trac.localhost/newticket". Type "Buy a signal lamp" into Summary. '
        'Type "145.00" into the document. Click "Create ticket".',
        ("oscar", "trac"),
        new_ticket(summary="Buy a signal lamp", description=says_number(145)),
        path="/catalogue/category/lamps_2/",
        human_steps=6,
    ),
    _task(
        "ticket-into-basket",
        "A ticket in the tracker (http://trac.localhost) says what we need from the shop (http://oscar.localhost). "
        "Put just that into my basket.",
        'Click "#4". Open "http://oscar.localhost/catalogue/category/ropes_1/". Click "Mooring rope 12 mm". '
        'Click "Add to basket". Click "Add to basket".',
        ("trac", "oscar"),
        {f"oscar/{path}": value for path, value in in_basket(RO_12=2).items()},
        path="/report/1",
        human_steps=5,
    ),
    _task(
        "order-status-into-comment",
        "Joris asks how far the order 100103 in the shop (http://oscar.localhost) is. Write its status, and nothing "
        "else, as a comment into ticket 14 of the tracker (http://trac.localhost).",
        'Tell me the Status. Open "http://trac.localhost/ticket/14". Scroll to the bottom. '
        'Type "Being processed" into the document. Click "Submit changes".',
        ("oscar", "trac"),
        {"trac/comment/14/1/text": lambda text: str(text).strip(" .").lower() == "being processed"},
        path="/dashboard/orders/100103/",
        human_steps=5,
    ),
    _task(
        "price-into-note",
        'Make a note called "Anchor light" in my notes (http://tiddlywiki.localhost) that holds what one costs in the '
        "shop (http://oscar.localhost): the amount only.",
        'Open "http://tiddlywiki.localhost/". Click "Tools". Click "new tiddler". Type "Anchor light". '
        'Type "27.40" into "Type the text for this tiddler". Press ctrl+Enter.',
        ("oscar", "tiddlywiki"),
        {"tiddlywiki/Anchor light/text": says_number(27.4)},
        path="/catalogue/category/lamps_2/",
        human_steps=6,
    ),
    _task(
        "who-is-on-call",
        "The tracker (http://trac.localhost) has a page that says who is on call. Make a note in my notes "
        '(http://tiddlywiki.localhost) called "Week 16" with the name of the person, and nothing else.',
        'Click "Who is on call". Open "http://tiddlywiki.localhost/". Click "Tools". Click "new tiddler". '
        'Type "Week 16". Type "Tomas" into "Type the text for this tiddler". Press ctrl+Enter.',
        ("trac", "tiddlywiki"),
        {"tiddlywiki/Week 16/text": lambda text: str(text).strip(" .").lower() == "tomas"},
        path="/wiki",
        human_steps=6,
    ),
    _task(
        "reorder-what-runs-out",
        "See in the shop's dashboard (http://oscar.localhost/dashboard/) how many gimballed stoves are in stock. If "
        "there are fewer than five, open a task for the office in the tracker (http://trac.localhost) with the summary "
        '"Order gimballed stoves" and the priority critical.',
        'Click "Stock and pricing". Open "http://trac.localhost/newticket". Type "Order gimballed stoves" into '
        'Summary. Select "task" in Type. Select "critical" in Priority. Click "Create ticket".',
        ("oscar", "trac"),
        new_ticket(summary="Order gimballed stoves", type="task", priority="critical"),
        path="/dashboard/catalogue/products/18/",
        human_steps=6,
    ),
    _task(
        "price-of-what-is-not-sold",
        "The diver in ticket 9 of the tracker (http://trac.localhost) needs a diving suit. Write what the shop "
        "(http://oscar.localhost) takes for one as a comment into the ticket.",
        'Open "http://oscar.localhost/catalogue/category/clothing_3/". Click "Diving suit". '
        'Open "http://trac.localhost/ticket/9". Click "Submit changes".',
        ("trac", "oscar"),
        {},
        path="/ticket/9",
        is_possible=False,
        family=IMPOSSIBLE,
        human_steps=3,
    ),
)
