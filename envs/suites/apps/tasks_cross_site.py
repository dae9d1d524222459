"""Tasks on several apps: information from one app is used in another."""

from collections.abc import Mapping
from typing import Any

from envs.suites.apps.task import CROSS_SITE, IMPOSSIBLE, AppTaskConfig, says_number
from envs.suites.apps.tasks_oscar import in_basket
from envs.suites.apps.tasks_trac import new_ticket


def _task(
    name: str, instruction: str, steps: str, sites: tuple[str, ...], changes: Mapping[str, Any], **more: Any
) -> AppTaskConfig:
    family = {"family": CROSS_SITE, "difficulty": 3, **more}
    return AppTaskConfig(
        id=f"cross-site/{name}", instruction=instruction, steps=steps, sites=sites, changes=changes, **family
    )


TASKS = (
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
