"""Wagtail: a content management system on Django; its state is one sqlite file."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envs.suites.apps.app import PASSWORD, Command, Facts, GunicornApp, Packages, RunningApp, run_tool

_MODELS = '''
from django.db import models
from wagtail.admin.panels import FieldPanel
from wagtail.fields import RichTextField
from wagtail.models import Page


class HomePage(Page):
    """A page of the harbour's site."""

    intro = models.CharField("Introduction", max_length=250, blank=True)
    body = RichTextField("Text", blank=True)
    content_panels = [*Page.content_panels, FieldPanel("intro"), FieldPanel("body")]
'''
_SETTINGS = """

DATABASES["default"]["NAME"] = "db.sqlite3"
MEDIA_ROOT = "media"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
ALLOWED_HOSTS = ["*"]
LOGGING_CONFIG = None
TIME_ZONE = "UTC"
WAGTAIL_GRAVATAR_PROVIDER_URL = None
WAGTAIL_ENABLE_UPDATE_CHECK = False
WAGTAIL_ENABLE_WHATS_NEW_BANNER = False
WAGTAIL_AUTOSAVE_INTERVAL = 0
WAGTAIL_SITE_NAME = "Harbour"
WAGTAILADMIN_BASE_URL = "http://wagtail.localhost"
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
"""
_SERVED = """
from django.contrib.staticfiles.handlers import StaticFilesHandler
from harbour.wsgi import application as site

application = StaticFilesHandler(site)
"""
_SESSION = "k25harbourk25harbourk25harbour25"
_SEED = """
from datetime import timedelta
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import Group
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils.timezone import now
from home.models import HomePage
from wagtail.contrib.redirects.models import Redirect
from wagtail.models import Collection, Site

users = get_user_model().objects
anna = users.create_superuser("admin", "anna@harbour.example", PASSWORD, first_name="Anna", last_name="Berg")
bjarne = users.create_user("bjarne", "bjarne@harbour.example", PASSWORD, first_name="Bjarne", last_name="Dahl")
bjarne.groups.add(Group.objects.get(name="Editors"))
users.create_user("celia", "celia@harbour.example", PASSWORD, first_name="Celia", last_name="Voss")
home = HomePage.objects.first()

def add(parent, title, intro="", body="", live=True):
    page = parent.add_child(instance=HomePage(title=title, intro=intro, body=body, live=live))
    revision = page.save_revision(user=anna)
    if live:
        revision.publish()
    return page

add(home, "Boats", "What lies in our harbour.", "<p>The ferry leaves at nine.</p>")
prices = add(home, "Prices", "Berths, crane and power.", "<p>A berth is 40 euro a night.</p>")
add(home, "Staff", "Who works here.", "<p>Anna Berg is the harbour master.</p>")
events = add(home, "Events", "What is on.")
add(events, "Regatta", "On 14 June 2031.", "<p>Registration is open until 1 June.</p>")
add(events, "Open day", "On 3 May.", "<p>The lighthouse is open from ten to four.</p>")
add(home, "Winter storage", "Not yet public.", "<p>Boats stand in hall 3.</p>", live=False)
add(home, "Old page", "Nobody needs this.")
Collection.get_first_root_node().add_child(name="Photos")
Redirect.objects.create(old_path="/old-prices", redirect_page=prices)
Redirect.objects.create(old_path="/ferry", redirect_link="https://ferry.example/")
Site.objects.update(hostname="wagtail.localhost", port=80, site_name="Harbour")
signed_in = {
    SESSION_KEY: str(anna.pk),
    BACKEND_SESSION_KEY: "django.contrib.auth.backends.ModelBackend",
    HASH_SESSION_KEY: anna.get_session_auth_hash(),
}
Session.objects.create(
    session_key=SESSION, session_data=SessionStore().encode(signed_in), expire_date=now() + timedelta(days=36500)
)
"""
_TABLES = {
    "redirect": "SELECT r.old_path, r.is_permanent, coalesce(p.slug, r.redirect_link) AS target "
    "FROM wagtailredirects_redirect r LEFT JOIN wagtailcore_page p ON p.id = r.redirect_page_id",
    "collection": "SELECT c.name, above.name AS parent FROM wagtailcore_collection c "
    "JOIN wagtailcore_collection above ON above.depth = c.depth - 1 AND c.path LIKE above.path || '%'",
    "user": "SELECT username, first_name, last_name, email, password, is_active, is_superuser, "
    "(SELECT group_concat(g.name, ', ') FROM auth_user_groups m JOIN auth_group g ON g.id = m.group_id "
    "WHERE m.user_id = u.id) AS groups FROM auth_user u",
    "group": "SELECT name, name AS title FROM auth_group",
    "site": "SELECT hostname, port, site_name, is_default_site FROM wagtailcore_site",
    "image": "SELECT i.title, c.name AS collection FROM wagtailimages_image i "
    "JOIN wagtailcore_collection c ON c.id = i.collection_id",
    "document": "SELECT d.title, c.name AS collection FROM wagtaildocs_document d "
    "JOIN wagtailcore_collection c ON c.id = d.collection_id",
}
"""Query for each kind of item: its name, then its facts."""
_PAGES = (
    "SELECT p.slug, p.title, parent.slug AS parent, p.live, p.show_in_menus AS in_menus, p.locked, p.seo_title, "
    "p.search_description, p.go_live_at, p.expire_at, h.intro, h.body, "
    "CASE WHEN p.has_unpublished_changes THEN r.content END AS draft FROM wagtailcore_page p "
    "JOIN home_homepage h ON h.page_ptr_id = p.id LEFT JOIN wagtailcore_page parent "
    "ON parent.depth = p.depth - 1 AND p.path LIKE parent.path || '%' "
    "LEFT JOIN wagtailcore_revision r ON r.id = p.latest_revision_id"
)
_KEYS = re.compile(r' data-block-key=\\?"\w+\\?"')
"""Keys that the editor assigns to paragraphs; in JSON the quotes have backslashes."""
_DRAFT_FIELDS = (
    "title",
    "slug",
    "intro",
    "body",
    "show_in_menus",
    "seo_title",
    "search_description",
    "go_live_at",
    "expire_at",
)


_PINS = (
    "wagtail==8.0.1 anyascii==0.3.3 asgiref==3.13.0 beautifulsoup4==4.15.0 certifi==2026.10.18 "
    "charset-normalizer==3.5.2 defusedxml==0.7.1 Django==5.2.19 django-filter==26.2 "
    "django-modelcluster==6.5 django-ninja==1.7.1 django-permissionedforms==0.1 django-stubs-ext==6.1.2 "
    "django-taggit==6.1.0 django-tasks==0.12.0 django-treebeard==5.3.1 djangorestframework==3.18.3 "
    "draftjs_exporter==7.3.1 et_xmlfile==2.0.0 filetype==1.2.0 idna==3.20 laces==0.1.2 modelsearch==1.3.2 "
    "openpyxl==3.1.5 pillow==13.0.0 pillow_heif==1.8.1 pydantic==2.14.3 requests==2.34.2 soupsieve==4.1.2 "
    "sqlparse==0.6.1 swapper==1.5.0 telepath==0.3.1 urllib3==2.8.0 Willow==1.12.0 gunicorn==27.0.1"
)
"""Wagtail, its dependencies, and the server."""


class Wagtail(GunicornApp):
    """Site of a harbour; the account `admin` is Anna Berg, the administrator."""

    name = "wagtail"
    role = "content management"
    packages = Packages(pip=tuple(_PINS.split()))
    served = "served"
    start_path = "/admin/login/"

    def make_state(self, folder: Path) -> None:
        """Make a project with `wagtail start`, with a text on each page, and add pages and people."""
        tool = (self.python, "-m")
        run_tool(Command(argv=(*tool, "wagtail.bin.wagtail", "start", "harbour", ".")), folder)
        (folder / "home" / "models.py").write_text(_MODELS, "utf-8")
        (folder / "served.py").write_text(_SERVED, "utf-8")
        with (folder / "harbour" / "settings" / "dev.py").open("a", encoding="utf-8") as settings:
            settings.write(_SETTINGS)
        seed = f"PASSWORD, SESSION = {PASSWORD!r}, {_SESSION!r}\n{_SEED}"
        for argv in (("makemigrations", "home"), ("migrate",), ("shell", "-c", seed)):
            run_tool(Command(argv=(self.python, "manage.py", *argv)), folder)

    def cookies(self, app: RunningApp) -> Mapping[str, str]:
        """Return the session cookie of Anna Berg, which is part of the initial state."""
        return {"sessionid": _SESSION}

    def facts(self, app: RunningApp) -> Facts:
        """Return pages by slug with draft changes; people, groups, redirects, collections, sites and files."""
        return dict(_facts_of(app))


def _facts_of(app: RunningApp) -> Iterator[tuple[str, object]]:
    for kind, sql in _TABLES.items():
        for name, row in _rows(app, sql):
            yield from ((f"{kind}/{name}/{column}", value) for column, value in row.items())
    for slug, row in _rows(app, _PAGES):
        draft = json.loads(_KEYS.sub("", str(row.pop("draft", "{}"))))
        yield from ((f"page/{slug}/{column}", value) for column, value in row.items())
        live = {"slug": slug, "show_in_menus": bool(row.get("in_menus")), **row}
        for column in _DRAFT_FIELDS:
            if draft and (draft.get(column) or "") != (live.get(column) or ""):
                yield f"page/{slug}/draft/{column}", draft.get(column) or ""


def _rows(app: RunningApp, sql: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the first column of each row, and the non-empty values of the others by name."""
    names, rows = app.query("db.sqlite3", sql)
    for name, *values in rows:
        columns = zip(names[1:], values, strict=True)
        plain = ((column, _KEYS.sub("", value) if isinstance(value, str) else value) for column, value in columns)
        yield str(name), {column: value for column, value in plain if value not in (None, "", 0)}
