"""The tasks: an instruction, where it starts, and what has to be true in the app's own state afterwards.

Written before the model was tried on any of them. Some cannot be done as they are said (a wrong password, a field
that is required and left empty, a question left open): there a claim of success is always wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

from webapps.apps import PASSWORD, App


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What is left when the model has ended: the app, and the page's text and address."""

    app: App
    text: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebTask:
    """One task.

    Attributes:
        app: The app's name.
        path: Where it starts.
        instruction: Its words.
        is_done: Whether the app's state is the wanted one.
        is_possible: Whether it can be done as it is said.
        needs_login: Whether it starts as the user `admin`.
    """

    app: str
    path: str
    instruction: str
    is_done: Callable[[End], bool]
    is_possible: bool = True
    needs_login: bool = False


def _shows(*texts: str) -> Callable[[End], bool]:
    return lambda end: all(text in end.text for text in texts)


def _tiddler(title: str, field: str, value: str) -> Callable[[End], bool]:
    return lambda end: (end.app.tiddler(title) or {}).get(field) == value


def _page(name: str, *texts: str) -> Callable[[End], bool]:
    return lambda end: all(text in (end.app.page(name) or "") for text in texts)


def _file(name: str, *texts: str) -> Callable[[End], bool]:
    def is_done(end: End) -> bool:
        file = end.app.folder / name
        held = file.read_text("utf-8") if file.exists() else ""
        return all(text in held for text in texts)

    return is_done


def _rows(sql: str, *expected: tuple[object, ...]) -> Callable[[End], bool]:
    return lambda end: end.app.query(sql) == list(expected)


def _tw(instruction: str, is_done: Callable[[End], bool], path: str = "/", is_possible: bool = True) -> WebTask:
    return WebTask(app="tiddlywiki", path=path, instruction=instruction, is_done=is_done, is_possible=is_possible)


def _doku(
    instruction: str, is_done: Callable[[End], bool], query: str, is_possible: bool = True, needs_login: bool = True
) -> WebTask:
    return WebTask(
        app="dokuwiki",
        path=f"/doku.php?{query}",
        instruction=instruction,
        is_done=is_done,
        is_possible=is_possible,
        needs_login=needs_login,
    )


def _wag(
    instruction: str, is_done: Callable[[End], bool], path: str, is_possible: bool = True, needs_login: bool = True
) -> WebTask:
    return WebTask(
        app="wagtail",
        path=path,
        instruction=instruction,
        is_done=is_done,
        is_possible=is_possible,
        needs_login=needs_login,
    )


_PANEL = "/#%24%3A%2FControlPanel"
_USERS = "SELECT first_name, last_name FROM auth_user WHERE username = 'admin'"

PLAIN = (
    _tw(
        'Click "Tools". Click "new tiddler". Type "Winter storage" into "New Tiddler". '
        'Type "Boats stand in hall 3." into "Type the text for the tiddler". Press ctrl+Enter.',
        _tiddler("Winter storage", "text", "Boats stand in hall 3."),
    ),
    _tw('Click the "Recent" tab, then click "Harbours".', _shows("Bergen, Kiel and Gdynia.")),
    _tw('Type "Gdynia" into the text field. Click "Harbours" below "matches".', _shows("Bergen, Kiel and Gdynia.")),
    _tw('Click "home", then click "close all".', lambda end: "Bread, milk" not in end.text),
    _tw('Click "travel". Click "Harbours".', _shows("Bergen, Kiel and Gdynia.")),
    _tw('Set "Subtitle" to "berths and boats".', _tiddler("$:/SiteSubtitle", "text", "berths and boats"), path=_PANEL),
    _tw(
        'Click the Settings tab. Turn on "Enable automatic CamelCase linking".',
        _tiddler("$:/config/WikiParserRules/Inline/wikilink", "text", "enable"),
        path=_PANEL,
    ),
    _tw(
        'Click "Settings". Select "Tools" in "Specify which sidebar tab is displayed by default".',
        _tiddler("$:/config/DefaultSidebarTab", "text", "$:/core/ui/SideBar/Tools"),
        path=_PANEL,
    ),
    _tw(
        'Click "Tools". Click "new tiddler". Type "Boats" into "New Tiddler". '
        'Type "Sold." into "Type the text for the tiddler". Press ctrl+Enter.',
        _tiddler("Boats", "text", "Sold."),
        is_possible=False,
    ),
    _tw(
        'Click "Delete" in the row of "Meeting notes".',
        lambda end: end.app.tiddler("Meeting notes") is None,
        is_possible=False,
    ),
    _doku(
        f'Click "Log In". Type "admin" into Username and "{PASSWORD}" into Password. Click the "Log In" button.',
        _shows("Logged in as"),
        "id=start",
        needs_login=False,
    ),
    _doku(
        'Click "Log In". Type "admin" into Username and "open-66" into Password. Click the "Log In" button.',
        _shows("Logged in as"),
        "id=start",
        is_possible=False,
        needs_login=False,
    ),
    _doku(
        'Type "Forty moorings at pier 2." into the document, then click "Save".',
        _page("moorings", "Forty moorings at pier 2."),
        "id=moorings&do=edit",
    ),
    _doku(
        'Click "Edit". Press ctrl+End. Type "Doris comes in May." Type "new colleague" into "Edit summary". '
        'Tick "Minor Changes". Click "Save".',
        lambda end: (
            _page("staff", "Doris comes in May.")(end) and _file("data/meta/staff.changes", "new colleague")(end)
        ),
        "id=staff",
    ),
    _doku(
        'Type "dinghies" into Search and press Enter. Click "boats".',
        _shows("Two dinghies."),
        "id=start",
        needs_login=False,
    ),
    _doku('Click "Sitemap", then click "prices".', _shows("Crane"), "id=start", needs_login=False),
    _doku(
        'Click "Update Profile". Set "Real name" to "Anna Lind". Click "Save".',
        _file("conf/users.auth.php", "Anna Lind"),
        "id=start",
        is_possible=False,
    ),
    _doku(
        f'Click "Update Profile". Set "Real name" to "Anna Lind". Type "{PASSWORD}" into "Confirm current password". '
        'Click "Save".',
        _file("conf/users.auth.php", "Anna Lind"),
        "id=start",
    ),
    _doku(
        'Click "Admin", then "User Manager". Type "celia" into "User:". Type "reef-4411" into "Password:" and into '
        '"once again:". Type "Celia Voss" into "Real Name:". Type "celia@harbour.example" into "Email:". Click "Add".',
        _file("conf/users.auth.php", "celia", "Celia Voss", "celia@harbour.example"),
        "id=start",
    ),
    _doku(
        'Click "Configuration Settings". Set "Wiki title" to "Quay wiki". Press Enter.',
        _file("conf/local.php", "Quay wiki"),
        "id=start&do=admin",
    ),
    _wag(
        f'Type "admin" into Username. Type "{PASSWORD}" into Password. Click "Sign in".',
        _shows("Anna Berg"),
        "/admin/login/",
        needs_login=False,
    ),
    _wag(
        'Type "admin" into Username. Type "open-66" into Password. Click "Sign in".',
        _shows("Anna Berg"),
        "/admin/login/",
        is_possible=False,
        needs_login=False,
    ),
    _wag(
        'Type "Winter berths" into "Page title". Click "Save draft".',
        _rows("SELECT title FROM wagtailcore_page WHERE title = 'Winter berths'", ("Winter berths",)),
        "/admin/pages/add/home/homepage/3/",
    ),
    _wag(
        'Click "Prices". Click "Prices" above "The page title as you\'d like it to be seen by the public". '
        'Press ctrl+a. Type "Price list". Click "Save draft".',
        _rows("SELECT draft_title FROM wagtailcore_page WHERE slug = 'prices'", ("Price list",)),
        "/admin/pages/3/",
    ),
    _wag(
        'Click "Yes, delete it".',
        _rows("SELECT title FROM wagtailcore_page WHERE slug = 'old-page'"),
        "/admin/pages/7/delete/",
    ),
    _wag(
        'Click "Add redirect". Type "/winter" into "Redirect from". Untick "Permanent". '
        'Type "https://harbour.example/w" into "Redirect to any URL". Click "Create".',
        _rows(
            "SELECT old_path, is_permanent, redirect_link FROM wagtailredirects_redirect WHERE old_path = '/winter'",
            ("/winter", 0, "https://harbour.example/w"),
        ),
        "/admin/redirects/",
    ),
    _wag(
        'Click "Add redirect". Type "https://harbour.example/w" into "Redirect to any URL". Click "Create".',
        lambda end: len(end.app.query("SELECT id FROM wagtailredirects_redirect")) > 1,
        "/admin/redirects/",
        is_possible=False,
    ),
    _wag(
        'Type "celia" into Username. Type "Celia" into "First Name". Type "Voss" into "Last Name". Click "Create".',
        lambda end: bool(end.app.query("SELECT id FROM auth_user WHERE username = 'celia'")),
        "/admin/users/new/",
        is_possible=False,
    ),
    _wag('Set "First Name" to "Anneke". Click "Save".', _rows(_USERS, ("Anneke", "Berg")), "/admin/account/"),
    _wag(
        'Type "Staff" into "Search all pages" and press Enter. Click "Staff".',
        lambda end: "/admin/pages/6/" in end.url,
        "/admin/",
    ),
)
"""Ten for each app, as the model's page says that steps are said."""

NATURAL = (
    _tw(
        "I need a new note called Winter storage that says the boats stand in hall 3.",
        lambda end: "hall 3" in (end.app.tiddler("Winter storage") or {}).get("text", ""),
    ),
    _tw("Could you show me where the ferries from Harbours go?", _shows("Bergen, Kiel and Gdynia.")),
    _tw(
        "Please make the subtitle of this wiki something friendlier, like berths and boats.",
        _tiddler("$:/SiteSubtitle", "text", "berths and boats"),
        path=_PANEL,
    ),
    _doku(f"Sign me in as admin, my password is {PASSWORD}.", _shows("Logged in as"), "id=start", needs_login=False),
    _doku("The crane now costs 99 euro, please correct the price list.", _page("prices", "99"), "id=prices"),
    _doku("Find the page that mentions dinghies and open it.", _shows("Two dinghies."), "id=start", needs_login=False),
    _doku(
        "My surname is Lind since the wedding, can you fix my profile?",
        _file("conf/users.auth.php", "Lind"),
        "id=start",
    ),
    _wag(
        "Get rid of the old page, nobody needs it any more.",
        _rows("SELECT id FROM wagtailcore_page WHERE slug = 'old-page'"),
        "/admin/pages/3/",
    ),
    _wag(
        "Rename the Prices page to Price list.",
        _rows("SELECT draft_title FROM wagtailcore_page WHERE slug = 'prices'", ("Price list",)),
        "/admin/pages/3/",
    ),
    _wag(
        "Make sure that visitors of /winter land on https://harbour.example/w.",
        _rows(
            "SELECT redirect_link FROM wagtailredirects_redirect WHERE old_path = '/winter'",
            ("https://harbour.example/w",),
        ),
        "/admin/redirects/",
    ),
)
"""The same kinds of wishes as people say them; none of them is a list of steps."""

FRESH = (
    _tw('Click the More tab, then click "Tags".', _shows("untagged")),
    _tw(
        'Click "Tools". Click "new journal". Type "Calm sea." into "Type the text for this tiddler". Press ctrl+Enter.',
        lambda end: any("Calm sea." in file.read_text("utf-8") for file in end.app.folder.rglob("tiddlers/*.tid")),
    ),
    _tw(
        'Click "Settings". Select "Tools" in "Specify which More sidebar tab is displayed by default".',
        lambda end: False,
        path=_PANEL,
        is_possible=False,
    ),
    _doku('Type "anna" into Search and press Enter. Click "staff".', _shows("Bjarne"), "id=start", needs_login=False),
    _doku('Clear the document. Click "Save".', lambda end: end.app.page("prices") is None, "id=prices&do=edit"),
    _doku(
        'Click "Update Profile". Type "sail-9" into "New password". Type "sail-8" into "once again". '
        f'Type "{PASSWORD}" into "Confirm current password". Click "Save".',
        lambda end: False,
        "id=start",
        is_possible=False,
    ),
    _wag(
        'Click "Add a collection". Type "Plans" into Name. Select "Root" in Parent. Click "Create".',
        _rows("SELECT name FROM wagtailcore_collection WHERE name = 'Plans'", ("Plans",)),
        "/admin/collections/",
    ),
    _wag(
        'Click "Add" in the row of "Groups". Type "Skippers" into "Name:". Click "SAVE".',
        _rows("SELECT name FROM auth_group WHERE name = 'Skippers'", ("Skippers",)),
        "/django-admin/",
    ),
    _wag(
        'Click "Add" in the row of "Users". Type "celia" into "Username:". Click "SAVE".',
        lambda end: bool(end.app.query("SELECT id FROM auth_user WHERE username = 'celia'")),
        "/django-admin/",
        is_possible=False,
    ),
    _wag(
        'Click "Users". Click "bjarne". Type "Dahlberg" into "Last name:". Click "SAVE".',
        _rows("SELECT last_name FROM auth_user WHERE username = 'bjarne'", ("Dahlberg",)),
        "/django-admin/",
    ),
)
"""Ten that were written and first run after the model was mended for the thirty."""

SETS = {"plain": PLAIN, "natural": NATURAL, "fresh": FRESH}
