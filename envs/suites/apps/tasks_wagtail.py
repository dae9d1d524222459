"""Tasks on the content management system."""

import re
from functools import partial

from envs.suites.apps.task import IMPOSSIBLE, AppTaskConfig, has, says_number

_task = partial(AppTaskConfig, sites=("wagtail",), path="/admin/")


def _is_set(value: object) -> bool:
    return bool(value)


TASKS = (
    _task(
        id="wagtail/draft-page",
        instruction='Make a new page "Winter berths" below Home and keep it as a draft; nothing needs to stand on it yet.',
        steps='Type "Winter berths" into "Page title". Click "Save draft".',
        path="/admin/pages/add/home/homepage/3/",
        changes={"wagtail/page/winter-berths/title": "Winter berths", "wagtail/page/winter-berths/parent": "home"},
        family="create",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        id="wagtail/rename-in-draft",
        instruction='The page Prices shall be called "Price list". Save that as a draft, do not publish it yet.',
        steps='Click "Prices". Click "Prices" above "The page title as you\'d like it to be seen by the public". '
        'Press ctrl+a. Type "Price list". Click "Save draft".',
        path="/admin/pages/3/",
        changes={"wagtail/page/prices/draft/title": "Price list"},
        family="edit",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="wagtail/introduction",
        instruction='Change the introduction of the page Boats to "Ferries and dinghies." and publish that.',
        steps='Click "Boats". Set "Introduction" to "Ferries and dinghies.". Click the button right of "Save draft". '
        'Click "Publish".',
        path="/admin/pages/3/",
        changes={"wagtail/page/boats/intro": "Ferries and dinghies."},
        family="edit",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        id="wagtail/publish-draft",
        instruction="The page Winter storage is ready. Publish it as it is.",
        steps='Click "Winter storage". Click the button right of "Save draft". Click "Publish".',
        path="/admin/pages/3/",
        changes={"wagtail/page/winter-storage/live": 1},
        family="edit",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        id="wagtail/unpublish",
        instruction="Take the page Staff off the public site, but do not delete it.",
        steps='Open http://wagtail.localhost/admin/pages/6/unpublish/. Click "Yes, unpublish it".',
        changes={"wagtail/page/staff/live": None},
        family="edit",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        id="wagtail/delete-page",
        instruction='Get rid of the page "Old page": delete it.',
        steps='Open http://wagtail.localhost/admin/pages/11/delete/. Click "Yes, delete it".',
        changes={f"wagtail/page/old-page/{field}": None for field in ("title", "parent", "live", "intro")},
        family="delete",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        id="wagtail/search-description",
        instruction="Search engines shall describe the page Boats as: All boats of our harbour. Set that in its meta "
        "description and save it as a draft.",
        steps='Click "Promote". Type "All boats of our harbour." into "Meta description". Click "Save draft".',
        path="/admin/pages/4/edit/",
        changes={"wagtail/page/boats/draft/search_description": has("All boats of our harbour")},
        family="edit",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        id="wagtail/add-redirect",
        instruction="Make sure that visitors of /winter land on https://harbour.example/w, for the time being only: the "
        "redirect shall not be permanent.",
        steps='Click "Add redirect". Type "/winter" into "Redirect from". Untick the checkbox. '
        'Type "https://harbour.example/w" into "Redirect to any URL". Click "Create".',
        path="/admin/redirects/",
        changes={"wagtail/redirect//winter/target": "https://harbour.example/w"},
        family="create",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        id="wagtail/delete-redirect",
        instruction="The ferry company has gone: remove the redirect from /ferry.",
        steps='Click "/ferry". Open http://wagtail.localhost/admin/redirects/2/delete/. Click "Yes, delete".',
        path="/admin/redirects/",
        changes={"wagtail/redirect//ferry/target": None, "wagtail/redirect//ferry/is_permanent": None},
        family="delete",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        id="wagtail/first-name",
        instruction="I am called Anneke, not Anna. Correct my first name in my account.",
        steps='Set "First Name" to "Anneke". Click "Save".',
        path="/admin/account/",
        changes={"wagtail/user/admin/first_name": "Anneke"},
        family="account",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        id="wagtail/add-user",
        instruction='Add a user "dora": Dora Lund, dora@harbour.example, password "reef-4411-Kiel". She needs no roles yet.',
        steps='Type "dora" into the text field below "Username". Type "dora@harbour.example" into Email. Type "Dora" into "First Name". '
        'Type "Lund" into "Last Name". Click "Password". Type "reef-4411-Kiel". '
        'Click "Password confirmation". Type "reef-4411-Kiel". '
        'Click "Create".',
        path="/admin/users/new/",
        changes={
            "wagtail/user/dora/first_name": "Dora",
            "wagtail/user/dora/last_name": "Lund",
            "wagtail/user/dora/email": "dora@harbour.example",
            "wagtail/user/dora/password": _is_set,
            "wagtail/user/dora/is_active": 1,
        },
        family="account",
        difficulty=3,
        human_steps=8,
    ),
    _task(
        id="wagtail/deactivate-user",
        instruction="Celia Voss is away for a year. Make her account inactive, but keep it.",
        steps='Click "Celia Voss". Scroll to the bottom. Untick the checkbox. Click "Save".',
        path="/admin/users/",
        changes={"wagtail/user/celia/is_active": None},
        family="account",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        id="wagtail/add-collection",
        instruction='I need a collection "Plans" for drawings, directly below Root.',
        steps='Click "Add a collection". Type "Plans" into Name. Select "Root" in the list. Click "Create".',
        path="/admin/collections/",
        changes={"wagtail/collection/Plans/parent": "Root"},
        family="create",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="wagtail/count-below",
        instruction="How many pages lie below Events? Answer with the number.",
        steps='Click "Pages". Open http://wagtail.localhost/admin/pages/7/. Tell me the text right of "1-2 of".',
        answer=lambda text: says_number(2)(text) or re.fullmatch(r"\W*two(?: pages)?\W*", text, re.I) is not None,
        family="answer",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        id="wagtail/publish-nothing",
        instruction='Publish the draft "Summer storage". Change nothing else.',
        steps='Click "Summer storage". Click the button right of "Save draft". Click "Publish".',
        path="/admin/pages/3/",
        is_possible=False,
        family=IMPOSSIBLE,
        difficulty=1,
        human_steps=2,
    ),
)
