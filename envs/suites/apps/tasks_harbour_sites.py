"""Tasks on notes, wiki and site together: information from one app is written in another."""

from functools import partial

from envs.suites.apps.task import CROSS_SITE, AppTaskConfig, has

_task = partial(AppTaskConfig, family=CROSS_SITE)
_WIKI = "http://dokuwiki.localhost"
_NOTES = "http://tiddlywiki.localhost"
_SITE = "http://wagtail.localhost/admin/"
_REGATTA = {"wagtail/redirect//regatta-2031/target": f"{_WIKI}/doku.php?id=events:regatta"}

TASKS = (
    _task(
        id="cross-site/crane-note",
        instruction=f'Our wiki ({_WIKI}) says what the crane costs. Make a note called "Crane" here in my notes with that price.',
        steps='Click "new tiddler". Type "Crane". '
        'Type "The crane costs 95 euro." into "Type the text for this tiddler". Click "ok".',
        sites=("tiddlywiki", "dokuwiki"),
        changes={"tiddlywiki/Crane/text": has("95")},
        difficulty=2,
        human_steps=8,
    ),
    _task(
        id="cross-site/staff-phone",
        instruction=f'My notes ({_NOTES}) have Dora\'s phone number. Write a page "dora" in this wiki that says her number.',
        steps=f'Open {_WIKI}/doku.php?id=dora&do=edit. Type "Dora: 555-0104" into the document, then click "Save".',
        sites=("dokuwiki", "tiddlywiki"),
        path="/doku.php?id=staff",
        changes={"dokuwiki/page/dora/text": has("555-0104")},
        difficulty=2,
        human_steps=8,
    ),
    _task(
        id="cross-site/regatta-redirect",
        instruction=f"Visitors of /regatta-2031 on our site shall land on the page of our wiki ({_WIKI}) about the regatta. "
        "Make that redirect; its target is the full address of the page as the browser shows it.",
        steps='Click "Add redirect". Type "/regatta-2031" into "Redirect from". '
        f'Type "{_WIKI}/doku.php?id=events:regatta" into "Redirect to any URL". Click "Create".',
        sites=("wagtail", "dokuwiki"),
        path="/admin/redirects/",
        changes=({**_REGATTA, "wagtail/redirect//regatta-2031/is_permanent": 1}, _REGATTA),
        difficulty=3,
        human_steps=9,
    ),
    _task(
        id="cross-site/speed-introduction",
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
        id="cross-site/budget-page",
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
        difficulty=3,
        human_steps=12,
    ),
    _task(
        id="cross-site/same-title",
        instruction=f"The wiki ({_WIKI}) and my notes shall carry the same title: give the wiki, in its configuration, the title that "
        "my notes have. I am signed in there as admin.",
        steps=f'Open {_WIKI}/doku.php?id=start&do=admin&page=config. Click "Harbour wiki" right of "Wiki title". Press ctrl+a. Type "Harbour notes". Press Enter.',
        sites=("tiddlywiki", "dokuwiki"),
        changes={"dokuwiki/setting/title": "Harbour notes"},
        difficulty=2,
        human_steps=6,
    ),
)
