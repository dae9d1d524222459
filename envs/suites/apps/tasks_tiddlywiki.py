"""Tasks on the notes."""

from functools import partial
from urllib.parse import quote

from envs.suites.apps.task import IMPOSSIBLE, AppTaskConfig, has

_task = partial(AppTaskConfig, sites=("tiddlywiki",))
_PANEL = "/#" + quote("$:/ControlPanel", safe="")
_TRAVEL = {"tiddlywiki/Packing/tags": "travel", "tiddlywiki/Packing/text": "Rain coat, boots, charts."}

TASKS = (
    _task(
        id="tiddlywiki/new-note",
        instruction='I need a new note called "Winter storage" that says: Boats stand in hall 3.',
        steps='Click "new tiddler". Type "Winter storage". '
        'Type "Boats stand in hall 3." into "Type the text for this tiddler". Click "ok".',
        changes={"tiddlywiki/Winter storage/text": "Boats stand in hall 3."},
        family="create",
        difficulty=1,
        human_steps=5,
    ),
    _task(
        id="tiddlywiki/new-tagged-note",
        instruction='Write down in a new note called "Ferry times", tagged travel, that the ferry back leaves at 18:30.',
        steps='Click "new tiddler". Type "Ferry times". '
        'Type "The ferry back leaves at 18:30." into "Type the text for this tiddler". Type "travel" into "tag name". '
        'Click "add". Click "ok".',
        changes={"tiddlywiki/Ferry times/text": has("18:30"), "tiddlywiki/Ferry times/tags": "travel"},
        family="create",
        difficulty=2,
        human_steps=7,
    ),
    _task(
        id="tiddlywiki/add-to-list",
        instruction="Put butter at the end of my shopping list, and leave the rest of it alone.",
        steps='Click "edit" right of "Shopping list". Click "Bread, milk, 12 eggs.". Press ctrl+End. Type " Butter.". '
        'Click "ok".',
        changes={"tiddlywiki/Shopping list/text": has("Bread, milk, 12 eggs", "butter")},
        family="edit",
        difficulty=1,
        human_steps=5,
    ),
    _task(
        id="tiddlywiki/correct-number",
        instruction="The budget of 2031 went up to 4800 euro. Please correct my meeting notes.",
        steps='Click "edit" right of "Meeting notes". Double-click "4200". Type "4800". Click "ok".',
        changes={"tiddlywiki/Meeting notes/text": "Budget of 2031: 4800 euro."},
        family="edit",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="tiddlywiki/delete-note",
        instruction="Nobody needs the old draft any more: delete that note.",
        steps='Type "Old draft". Click "Old draft" below "matches". Click "edit" right of "Old draft". '
        'Click "delete". Accept the dialog.',
        changes={"tiddlywiki/Old draft/text": None, "tiddlywiki/Old draft/tags": None},
        family="delete",
        difficulty=2,
        human_steps=5,
    ),
    _task(
        id="tiddlywiki/rename-note",
        instruction='Shorten the title of my note "Packing list" to just "Packing".',
        steps='Click "edit". Type "Packing". Click "ok".',
        path="/#Packing%20list",
        changes={**_TRAVEL, "tiddlywiki/Packing list/tags": None, "tiddlywiki/Packing list/text": None},
        family="edit",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="tiddlywiki/tag-note",
        instruction='The phone numbers are useful at home too: give that note the tag "home" beside the one that it has.',
        steps='Click "edit". Type "home" into "tag name". Click "add". Click "ok".',
        path="/#Phone%20numbers",
        changes=tuple({"tiddlywiki/Phone numbers/tags": tags} for tags in ("work home", "home work")),
        family="edit",
        difficulty=1,
        human_steps=4,
    ),
    _task(
        id="tiddlywiki/subtitle",
        instruction='Change the subtitle of these notes to "berths and boats".',
        steps='Click "control panel". Click "what we should not forget" right of "Subtitle". Press ctrl+a. Type "berths and boats".',
        changes={"tiddlywiki/$:/SiteSubtitle/text": "berths and boats"},
        family="settings",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        id="tiddlywiki/start-page",
        instruction="When I open my notes, I want to see only Boats and Harbours, in this order.",
        steps='Set "Default tiddlers" to "Boats Harbours".',
        path=_PANEL,
        changes=tuple(
            {"tiddlywiki/$:/DefaultTiddlers/text": text}
            for first in ("Boats", "[[Boats]]")
            for second in ("Harbours", "[[Harbours]]")
            for text in (f"{first} {second}", f"{first}\n{second}")
        ),
        family="settings",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        id="tiddlywiki/camel-case",
        instruction="Turn on in the settings that words in CamelCase become links by themselves.",
        steps='Click the Settings tab. Turn on "Enable automatic CamelCase linking".',
        path=_PANEL,
        changes={"tiddlywiki/$:/config/WikiParserRules/Inline/wikilink/text": "enable"},
        family="settings",
        difficulty=2,
        human_steps=2,
    ),
    _task(
        id="tiddlywiki/find-number",
        instruction="What is Bjarne's phone number? Tell me just the number.",
        steps='Type "Phone". Click "Phone numbers" below "matches". Tell me the text right of "Bjarne".',
        answer=lambda text: has("555-0102")(text) and not (has("0101")(text) or has("0104")(text)),
        family="answer",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        id="tiddlywiki/send-note",
        instruction="Send the meeting notes to Bjarne by e-mail, with the Send button of this program.",
        steps='Click "Send" right of "Meeting notes".',
        is_possible=False,
        family=IMPOSSIBLE,
        difficulty=1,
        human_steps=2,
    ),
)
