"""Shop on django-oscar: settings, addresses, initial state. Runs in the state's folder with Oscar's Python.

    python oscar_site.py                makes the state: db.sqlite3, index/, media/
    python -m gunicorn "oscar_site:make_application()"

All names, products and prices are made up, and deterministic.
"""

import io
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import oscar
from oscar.defaults import *  # noqa: F403

STATE = Path.cwd()
SECRET_KEY = "known to everybody: the shop answers on loopback only"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = [*oscar.INSTALLED_APPS, "sorl.thumbnail"]
SITE_ID = 1
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
]
AUTHENTICATION_BACKENDS = ["oscar.apps.customer.auth_backends.EmailBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ROOT_URLCONF = "oscar_site"
_PROCESSORS = (
    *(f"django.{name}" for name in ("template.context_processors.request", "template.context_processors.debug")),
    *(f"django.contrib.{name}" for name in ("auth.context_processors.auth", "messages.context_processors.messages")),
    *(
        f"oscar.apps.{name}"
        for name in ("search.context_processors.search_form", "checkout.context_processors.checkout")
    ),
    *(
        "oscar.apps.communication.notifications.context_processors.notifications",
        "oscar.core.context_processors.metadata",
    ),
)
_PAYMENT = """{% extends "oscar/checkout/checkout.html" %}
{% block title %}Payment | {{ block.super }}{% endblock %}
{% block checkout_nav %}{% include "oscar/checkout/nav.html" with step=3 %}{% endblock %}
{% block checkout_title %}Payment{% endblock %}
{% block order_contents %}{% endblock %}{% block shipping_address %}{% endblock %}
{% block shipping_method %}{% endblock %}{% block payment_method %}{% endblock %}
{% block payment_details %}<p>You pay when the goods are delivered.</p>
<a class="btn btn-primary btn-lg" href="{% url 'checkout:preview' %}">Continue</a>{% endblock %}
"""
"""Template for a page that Oscar leaves to each project."""
_LOADERS = [
    ("django.template.loaders.locmem.Loader", {"oscar/checkout/payment_details.html": _PAYMENT}),
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "context_processors": _PROCESSORS,
            "loaders": [("django.template.loaders.cached.Loader", _LOADERS)],
        },
    }
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": STATE / "db.sqlite3", "ATOMIC_REQUESTS": True}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.whoosh_backend.WhooshEngine", "PATH": STATE / "index"}}
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
STATIC_URL, MEDIA_URL, MEDIA_ROOT = "/static/", "/media/", STATE / "media"
LANGUAGE_CODE, TIME_ZONE, USE_TZ = "en-gb", "UTC", True
OSCAR_SHOP_NAME, OSCAR_SHOP_TAGLINE = "Harbour Supplies", ""
OSCAR_DEFAULT_CURRENCY = "EUR"
OSCAR_FROM_EMAIL = "shop@harbour.example"
OSCAR_MODERATE_REVIEWS = True
OSCAR_SEARCH_FACETS: dict[str, Any] = {"fields": {}, "queries": {}}
OSCAR_INITIAL_ORDER_STATUS = OSCAR_INITIAL_LINE_STATUS = "Pending"
OSCAR_ORDER_STATUS_PIPELINE = {
    "Pending": ("Being processed", "Cancelled"),
    "Being processed": ("Complete", "Cancelled"),
    "Complete": (),
    "Cancelled": (),
}

PASSWORD = "sesame-77"
SESSION = "harbour0session0of0mara000000001"
CREATED = datetime(2024, 1, 7, 9, 30, tzinfo=UTC)
MARA, JORIS = "mara@harbour.example", "joris@harbour.example"
PEOPLE = (  # first name, last name, email
    ("Mara", "Lind", MARA),
    ("Joris", "Haan", JORIS),
    ("Edda", "Stein", "edda@harbour.example"),
    ("Tomas", "Brandt", "tomas@harbour.example"),
)
GOODS = {  # category: (title, UPC, price, number in stock, description)
    "Ropes": (
        ("Mooring rope 12 mm", "RO-12", "34.50", 40, "Twenty metres of soft polyester with a spliced eye."),
        ("Mooring rope 16 mm", "RO-16", "52.00", 18, "Twenty metres for boats of more than nine metres."),
        ("Anchor line 30 m", "RO-30", "61.90", 9, "Lead in the first ten metres keeps it on the ground."),
        ("Heaving line", "RO-08", "14.20", 25, "Light line with a weighted knot; it floats."),
    ),
    "Lamps": (
        ("Brass lantern", "LA-01", "89.00", 6, "Burns twelve hours on one filling."),
        ("Anchor light", "LA-02", "27.40", 30, "White, seen from all sides at two miles."),
        ("Head torch", "LA-03", "19.95", 55, "Red and white light, two batteries."),
        ("Signal lamp", "LA-04", "145.00", 3, "For Morse signals by day and night."),
    ),
    "Clothing": (
        ("Oilskin jacket", "CL-01", "118.00", 14, "Yellow, with taped seams."),
        ("Wool cap", "CL-02", "16.80", 60, "Knitted on the island."),
        ("Deck boots", "CL-03", "74.50", 11, "Grip on wet teak."),
        ("Sailing gloves", "CL-04", "23.60", 0, "Five cut fingers; palms of leather."),
    ),
    "Navigation": (
        ("Hand compass", "NA-01", "48.00", 20, "Reads to one degree."),
        ("Tide table", "NA-02", "9.80", 100, "High and low water of every harbour of the coast."),
        ("Chart of the bay", "NA-03", "21.00", 35, "Printed on paper that may get wet."),
        ("Dividers", "NA-04", "17.30", 22, "Brass, to be used with one hand."),
    ),
    "Galley": (
        ("Enamel mug", "GA-01", "7.50", 120, "White with a blue rim."),
        ("Gimballed stove", "GA-02", "239.00", 2, "Stays level up to thirty degrees."),
        ("Water can 10 l", "GA-03", "12.90", 48, "Folds flat when it is empty."),
        ("Tin of ship's biscuits", "GA-04", "5.60", 75, "Keeps for five years."),
    ),
}
ORDERS = (  # number, email, status, day of January 2024, (UPC, quantity)...
    ("100101", MARA, "Complete", 9, (("NA-01", 1), ("GA-01", 4))),
    ("100102", "edda@harbour.example", "Complete", 11, (("CL-02", 2),)),
    ("100103", "tomas@harbour.example", "Being processed", 14, (("RO-12", 2), ("RO-08", 1))),
    ("100104", MARA, "Pending", 16, (("LA-02", 1),)),
    ("100105", "edda@harbour.example", "Pending", 17, (("CL-03", 1), ("GA-04", 3))),
    ("100106", "tomas@harbour.example", "Pending", 18, (("GA-02", 1),)),
)
ADDRESSES = (  # email, line, city, postcode
    (MARA, "4 Quay Street", "Norhaven", "2101"),
    (MARA, "17 Mill Lane", "Westerby", "3350"),
    ("edda@harbour.example", "2 Lighthouse Road", "Norhaven", "2107"),
    ("tomas@harbour.example", "31 Fish Market", "Sandvik", "4420"),
)
REVIEWS = (  # UPC, email, stars, title, text, is approved
    ("NA-01", JORIS, 5, "Reads well", "Clear at night, too.", True),
    ("CL-02", "edda@harbour.example", 4, "Warm", "Warm, but it itches a little.", True),
    ("RO-12", "tomas@harbour.example", 5, "Good rope", "Soft and strong.", False),
    ("GA-02", "tomas@harbour.example", 1, "BUY CHEAP WATCHES", "Watches at watches.example, best prices!", False),
)
VOUCHERS = (("Spring sale", "SPRING10", 10), ("Crew discount", "CREW25", 25))  # name, code, percent


def __getattr__(name: str) -> Any:  # urlpatterns need the apps, which need the settings
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.apps import apps
    from django.urls import include, path, re_path
    from django.views.static import serve

    return [
        path("i18n/", include("django.conf.urls.i18n")),
        re_path(r"^media/(?P<path>.*)$", serve, {"document_root": MEDIA_ROOT}),
        path("", include(apps.get_app_config("oscar").urls[0])),
    ]


def make_application() -> Any:
    """Return the WSGI application, with style sheets; pages are preloaded so that a new worker answers quickly."""
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.contrib.staticfiles.views import serve
    from django.core.wsgi import get_wsgi_application

    class Shop(StaticFilesHandler):  # type: ignore[misc]
        def serve(self, request: Any) -> Any:
            return serve(request, self.file_path(request.path), insecure=True)

    os.environ["DJANGO_SETTINGS_MODULE"] = "oscar_site"
    shop = Shop(get_wsgi_application())
    _look_around()
    return shop


def _look_around() -> None:
    """Request some pages to preload their code for new workers; all connections are closed."""
    from django.db import connections
    from django.test import Client

    client = Client(SERVER_NAME="oscar.localhost")
    client.cookies["sessionid"] = SESSION
    for path in ("/catalogue/", "/search/?q=rope", "/basket/", "/dashboard/", "/dashboard/orders/"):
        client.get(path)
    connections.close_all()


def make_state() -> None:
    """Make the initial state in the current folder."""
    import django
    from django.core.management import call_command

    os.environ["DJANGO_SETTINGS_MODULE"] = "oscar_site"
    django.setup()
    call_command("migrate", verbosity=0)
    people = _add_people()
    goods = _add_goods()
    _add_orders(people, goods)
    _add_extras(people, goods)
    call_command("rebuild_index", interactive=False, verbosity=0)
    _sign_in(people)


def _add_people() -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from oscar.core.loading import get_model

    Country = get_model("address", "Country")
    country = Country.objects.create(
        iso_3166_1_a2="NL",
        iso_3166_1_a3="NLD",
        printable_name="Netherlands",
        name="Netherlands",
        is_shipping_country=True,
    )
    people: dict[str, Any] = {}
    for first, last, email in PEOPLE:
        people[email] = get_user_model().objects.create_user(
            first.lower(),
            email,
            PASSWORD,
            first_name=first,
            last_name=last,
            is_staff=email == MARA,
            is_superuser=email == MARA,
            date_joined=CREATED,
            last_login=CREATED,
        )
    for email, line, city, postcode in ADDRESSES:
        user = people[email]
        user.addresses.create(
            first_name=user.first_name,
            last_name=user.last_name,
            line1=line,
            line4=city,
            postcode=postcode,
            country=country,
            is_default_for_shipping=not user.addresses.exists(),
        )
    return people


def _add_goods() -> dict[str, Any]:
    from django.core.files.base import ContentFile
    from oscar.apps.catalogue.categories import create_from_breadcrumbs
    from oscar.core.loading import get_model

    kind = get_model("catalogue", "ProductClass").objects.create(name="Goods")
    partner = get_model("partner", "Partner").objects.create(name="Harbour store")
    Product = get_model("catalogue", "Product")
    goods: dict[str, Any] = {}
    for number, (category, rows) in enumerate(GOODS.items()):
        node = create_from_breadcrumbs(category)
        for place, (title, upc, price, stock, text) in enumerate(rows):
            product = Product.objects.create(product_class=kind, title=title, upc=upc, description=f"<p>{text}</p>")
            product.categories.add(node)
            product.stockrecords.create(
                partner=partner,
                partner_sku=upc,
                price=Decimal(price),
                price_currency="EUR",
                num_in_stock=stock,
                low_stock_threshold=5,
            )
            product.images.create(original=ContentFile(_image(number, place, title), f"{upc}.png"))
            goods[upc] = product
    Product.objects.update(date_created=CREATED, date_updated=CREATED)
    return goods


def _image(number: int, place: int, title: str) -> bytes:
    from PIL import Image, ImageDraw

    colours = ("#7a5c3a", "#c99a2e", "#2f6f6a", "#33548c", "#8c3b4a")
    image = Image.new("RGB", (400, 400), "#f4f1ea")
    draw = ImageDraw.Draw(image)
    for ring in range(place + 1):
        draw.ellipse(
            (60 + 35 * ring, 60 + 35 * ring, 340 - 35 * ring, 340 - 35 * ring), fill=colours[(number + ring) % 5]
        )
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _add_orders(people: dict[str, Any], goods: dict[str, Any]) -> None:
    from oscar.apps.order.utils import OrderCreator
    from oscar.core.loading import get_class, get_model

    total_of = get_class("checkout.calculators", "OrderTotalCalculator")()
    method = get_class("shipping.methods", "Free")()
    strategy = get_class("partner.strategy", "Selector")().strategy()
    for number, email, status, day, lines in ORDERS:
        user, placed = people[email], datetime(2024, 1, day, 10, 0, tzinfo=UTC)
        basket = get_model("basket", "Basket").objects.create(owner=user)
        basket.strategy = strategy
        for upc, quantity in lines:
            basket.add_product(goods[upc], quantity)
        address = get_model("order", "ShippingAddress")()
        user.addresses.order_by("pk").first().populate_alternative_model(address)
        address.save()
        charge = method.calculate(basket)
        OrderCreator().place_order(
            basket,
            total_of.calculate(basket, charge),
            method,
            charge,
            user=user,
            shipping_address=address,
            order_number=number,
            status=status,
            date_placed=placed,
        )
        basket.submit()


def _add_extras(people: dict[str, Any], goods: dict[str, Any]) -> None:
    from oscar.core.loading import get_model

    for upc, email, score, title, text, is_approved in REVIEWS:
        goods[upc].reviews.create(user=people[email], score=score, title=title, body=text, status=int(is_approved))
    get_model("reviews", "ProductReview").objects.update(date_created=CREATED)
    for upc in {row[0] for row in REVIEWS}:
        goods[upc].update_rating()
    wishlist = get_model("wishlists", "WishList").objects.create(owner=people[MARA], name="For the boat")
    wishlist.add(goods["LA-01"])
    whole = get_model("offer", "Range").objects.create(name="All goods", includes_all_products=True)
    for name, code, percent in VOUCHERS:
        offer = get_model("offer", "ConditionalOffer").objects.create(
            name=f"Offer for voucher '{name}'",
            offer_type="Voucher",
            condition=get_model("offer", "Condition").objects.create(range=whole, type="Count", value=1),
            benefit=get_model("offer", "Benefit").objects.create(range=whole, type="Percentage", value=percent),
        )
        voucher = get_model("voucher", "Voucher").objects.create(
            name=name,
            code=code,
            usage="Multi-use",
            start_datetime=datetime(2020, 1, 1, tzinfo=UTC),
            end_datetime=datetime(2099, 1, 1, tzinfo=UTC),
        )
        voucher.offers.add(offer)


def _sign_in(people: Mapping[str, object]) -> None:
    """Request the pages with images, so that their thumbnails are in the state, and store Mara's session."""
    from django.test import Client
    from oscar.core.loading import get_model

    Session = get_model("sessions", "Session")
    client = Client(SERVER_NAME="oscar.localhost")
    client.force_login(people[MARA])
    products = get_model("catalogue", "Product").objects.all()
    for path in ("/catalogue/", "/dashboard/catalogue/", *(product.get_absolute_url() for product in products)):
        if client.get(path).status_code != 200:
            raise SystemExit(f"{path} does not work")
    for name in ("ProductRecord", "UserRecord", "UserProductView"):
        get_model("analytics", name).objects.all().delete()
    session = Session.objects.get()
    forever = datetime(2099, 1, 1, tzinfo=UTC)
    Session.objects.create(session_key=SESSION, session_data=session.session_data, expire_date=forever)
    session.delete()


if __name__ == "__main__":
    make_state()
