"""django-oscar: a shop with baskets, orders, reviews and vouchers, and the dashboard for its staff."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.suites.apps.app import Facts, GunicornApp, Packages, RunningApp
from envs.suites.apps.task import IMPOSSIBLE, AppTaskConfig, has, says_number

_SITE = Path(__file__).with_name("oscar_site.py")
_SESSION = "harbour0session0of0mara000000001"
"""Session id of Mara; stored by `oscar_site.py`."""
_GOOD = "coalesce(nullif(p.upc, ''), p.title)"
"""SQL for the name of a product: its UPC, or its title if it has none."""
_ORDER = "CASE WHEN o.number BETWEEN '100101' AND '100106' THEN o.number ELSE 'new' || (o.id - 6) END"
"""SQL for the number of an order of the initial state; later ones are `new1`, `new2`."""
_TABLES = {
    "product": f"SELECT {_GOOD}, p.title, p.description, printf('%.2f', s.price) AS price, s.partner_sku AS sku, "
    "s.num_in_stock AS stock, s.low_stock_threshold AS threshold, CASE WHEN NOT p.is_public THEN 'yes' END AS hidden "
    "FROM catalogue_product p LEFT JOIN partner_stockrecord s ON s.product_id = p.id",
    "category": "SELECT name, name AS title, description, CASE WHEN NOT is_public THEN 'yes' END AS hidden "
    "FROM catalogue_category",
    "category of": f"SELECT {_GOOD} || '/' || c.name, c.name AS title FROM catalogue_productcategory x "
    "JOIN catalogue_product p ON p.id = x.product_id JOIN catalogue_category c ON c.id = x.category_id",
    "basket": f"SELECT u.email || '/' || {_GOOD}, l.quantity, b.status FROM basket_line l "
    "JOIN basket_basket b ON b.id = l.basket_id JOIN auth_user u ON u.id = b.owner_id "
    "JOIN catalogue_product p ON p.id = l.product_id WHERE b.status IN ('Open', 'Saved')",
    "voucher in": "SELECT u.email || '/' || v.code, v.code FROM basket_basket_vouchers x "
    "JOIN basket_basket b ON b.id = x.basket_id JOIN auth_user u ON u.id = b.owner_id "
    "JOIN voucher_voucher v ON v.id = x.voucher_id WHERE b.status IN ('Open', 'Saved')",
    "order": f"SELECT {_ORDER}, o.status, u.email AS buyer, printf('%.2f', o.total_incl_tax) AS total, "
    "a.first_name || ' ' || a.last_name AS name, a.line1 AS street, a.postcode, a.line4 AS city, "
    "a.notes AS instructions FROM order_order o "
    "LEFT JOIN order_shippingaddress a ON a.id = o.shipping_address_id LEFT JOIN auth_user u ON u.id = o.user_id",
    "line": f"SELECT {_ORDER} || '/' || l.upc, l.quantity, l.status FROM order_line l "
    "JOIN order_order o ON o.id = l.order_id",
    "note": f"SELECT {_ORDER} || '/' || row_number() OVER (PARTITION BY o.id ORDER BY n.id), n.message "
    "FROM order_ordernote n JOIN order_order o ON o.id = n.order_id WHERE n.note_type != 'System'",
    "address": "SELECT u.email || '/' || a.line1, a.first_name || ' ' || a.last_name AS name, a.line2, "
    "a.line4 AS city, a.postcode, a.phone_number AS phone, "
    "CASE WHEN a.is_default_for_shipping THEN 'yes' END AS is_default "
    "FROM address_useraddress a JOIN auth_user u ON u.id = a.user_id",
    "wish list": "SELECT name, name AS title, visibility FROM wishlists_wishlist",
    "wish": f"SELECT w.name || '/' || {_GOOD}, l.quantity FROM wishlists_line l "
    "JOIN wishlists_wishlist w ON w.id = l.wishlist_id JOIN catalogue_product p ON p.id = l.product_id",
    "review": f"SELECT {_GOOD} || '/' || r.title, r.score, r.body, "
    "CASE r.status WHEN 0 THEN 'new' WHEN 1 THEN 'approved' ELSE 'rejected' END AS status "
    "FROM reviews_productreview r JOIN catalogue_product p ON p.id = r.product_id",
    "alert": f"SELECT {_GOOD} || '/' || coalesce(u.email, a.email), a.status FROM customer_productalert a "
    "JOIN catalogue_product p ON p.id = a.product_id LEFT JOIN auth_user u ON u.id = a.user_id",
    "voucher": "SELECT code, name, usage, date(start_datetime) AS start, date(end_datetime) AS end "
    "FROM voucher_voucher",
    "offer": "SELECT o.name, o.offer_type, o.status, b.type AS benefit, printf('%.2f', b.value) AS value, "
    "c.type AS condition, printf('%.2f', c.value) AS least, r.name AS range FROM offer_conditionaloffer o "
    "JOIN offer_benefit b ON b.id = o.benefit_id JOIN offer_condition c ON c.id = o.condition_id "
    "LEFT JOIN offer_range r ON r.id = b.range_id",
    "range": "SELECT name, CASE WHEN includes_all_products THEN 'all' ELSE 'some' END AS goods FROM offer_range",
    "range of": f"SELECT {_GOOD} || '/' || r.name, r.name FROM offer_rangeproduct x "
    "JOIN offer_range r ON r.id = x.range_id JOIN catalogue_product p ON p.id = x.product_id",
    "person": "SELECT email, first_name, last_name, CASE WHEN is_staff THEN 'yes' END AS staff, "
    "CASE WHEN NOT is_active THEN 'no' END AS active FROM auth_user",
    "page": "SELECT url, title, content FROM django_flatpage",
    "partner": "SELECT name, name AS title FROM partner_partner",
}
"""Query for each kind of item: its name, then its facts."""
_PINS = (
    "django-oscar==4.2.1 asgiref==3.13.0 babel==2.18.0 Django==5.2.19 django-extra-views==0.16.0 "
    "django-haystack==3.4.0 django-phonenumber-field==8.5.0 django-tables2==2.7.0 django-treebeard==7.0.3 "
    "django-widget-tweaks==1.5.1 factory_boy==3.3.3 Faker==40.54.0 packaging==26.3 phonenumbers==9.0.43 pillow==13.0.0 "
    "purl==1.6 six==1.17.0 sorl-thumbnail==13.4.0 sqlparse==0.6.1 Whoosh==2.7.4 gunicorn==27.0.1"
)
"""Oscar, its dependencies, thumbnails, a search backend, and the server."""
MARA = "mara@harbour.example"
_QUAY = {"name": "Mara Lind", "street": "4 Quay Street", "postcode": "2101", "city": "Norhaven"}
_MILL = {"name": "Mara Lind", "street": "17 Mill Lane", "postcode": "3350", "city": "Westerby"}


class Oscar(GunicornApp):
    """Shop with Mara signed in, a customer who also manages it.

    Its database, pictures and search index are reset while no worker of gunicorn has them open.
    """

    name = "oscar"
    role = "shop and its dashboard"
    packages = Packages(pip=tuple(_PINS.split()))
    state_code = (_SITE,)
    served = "oscar_site:make_application()"
    start_path = "/catalogue/"

    def cookies(self, app: RunningApp) -> Mapping[str, str]:
        """Return Mara's session cookie."""
        return {"sessionid": _SESSION}

    def facts(self, app: RunningApp) -> Facts:
        """Return products, baskets, orders, addresses, wish lists, reviews, vouchers and people; no view history."""
        return app.tell("db.sqlite3", _TABLES)


def in_basket(**quantities: int) -> dict[str, str]:
    """Return the facts of Mara's basket, by UPC with `_` for `-`."""
    facts: dict[str, str] = {}
    for name, quantity in quantities.items():
        line = f"basket/{MARA}/{name.replace('_', '-')}"
        facts |= {f"{line}/quantity": str(quantity), f"{line}/status": "Open"}
    return facts


def new_order(address: Mapping[str, str], total: str, **quantities: int) -> dict[str, str]:
    """Return the facts of an order placed by Mara, its lines by UPC with `_` for `-`."""
    order = {**address, "status": "Pending", "buyer": MARA, "total": total}
    facts = {f"order/new1/{name}": value for name, value in order.items()}
    for name, quantity in quantities.items():
        line = f"line/new1/{name.replace('_', '-')}"
        facts |= {f"{line}/quantity": str(quantity), f"{line}/status": "Pending"}
    return facts


def _task(
    name: str, instruction: str, steps: str, path: str, changes: Mapping[str, object] | None = None, **more: Any
) -> AppTaskConfig:
    changes = {f"oscar/{path}": value for path, value in (changes or {}).items()}
    return AppTaskConfig(
        id=f"oscar/{name}",
        instruction=instruction,
        steps=steps,
        sites=("oscar",),
        path=path,
        changes=changes,
        **more,
    )


TASKS = (
    _task(
        "add-to-basket",
        "Put a hand compass into my basket.",
        'Click "Hand compass". Click "Add to basket".',
        "/catalogue/category/navigation_4/",
        in_basket(NA_01=1),
        family="buy",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        "three-mugs",
        "I would like three enamel mugs and a ten litre water can; put them into my basket, nothing else.",
        'Click "Enamel mug". Click "Add to basket". Open "http://oscar.localhost/catalogue/category/galley_5/". '
        'Click "Water can 10 l". Click "Add to basket". Click "View basket". Enter "3" into the first Quantity. '
        'Click the first "Update".',
        "/catalogue/category/galley_5/",
        in_basket(GA_01=3, GA_03=1),
        family="buy",
        difficulty=2,
        human_steps=8,
    ),
    _task(
        "order-to-westerby",
        "Order one 16 mm mooring rope and have it sent to my address in Westerby.",
        'Click "Mooring rope 16 mm". Click "Add to basket". Click "Checkout now". Click "Ship to this address". '
        'Click "Continue". Click "Place order".',
        "/catalogue/category/ropes_1/",
        new_order(_MILL, "52.00", RO_16=1),
        family="buy",
        difficulty=2,
        human_steps=6,
    ),
    _task(
        "order-with-voucher",
        "Order a wool cap with the voucher SPRING10, to my default address.",
        'Click "Wool cap". Click "Add to basket". Click "View basket". Click "I have a voucher code...". '
        'Type "SPRING10" into "Code". Click "Add voucher". Click "Proceed to checkout". '
        'Click "Ship to your default shipping address". Click "Continue". Click "Place order".',
        "/catalogue/category/clothing_3/",
        new_order(_QUAY, "15.12", CL_02=1),
        family="buy",
        difficulty=3,
        human_steps=10,
    ),
    _task(
        "wish",
        'Put the signal lamp on my wish list "For the boat".',
        'Click "Signal lamp". Click "Add to wish list". Click "For the boat".',
        "/catalogue/category/lamps_2/",
        {"wish/For the boat/LA-04/quantity": "1"},
        family="buy",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        "new-address",
        "I have a summer house: 9 Beacon Road, 2111 AB Norhaven, Netherlands. Add it to my address book, for me.",
        'Click "Add a new address". Type "Mara" into "First name". Type "Lind" into "Last name". '
        'Type "9 Beacon Road" into "First line of address". Type "Norhaven" into "City". '
        'Type "2111 AB" into "Post/Zip-code". Select "Netherlands" in Country. Click "Save".',
        "/accounts/addresses/",
        {
            f"address/{MARA}/9 Beacon Road/name": "Mara Lind",
            f"address/{MARA}/9 Beacon Road/city": "Norhaven",
            f"address/{MARA}/9 Beacon Road/postcode": "2111 AB",
        },
        family="account",
        difficulty=2,
        human_steps=8,
    ),
    _task(
        "change-name",
        "My last name is Lind-Haan now. Change it in my profile.",
        'Click "Edit profile". Type "Lind-Haan" into "Last name". Click "Save".',
        "/accounts/profile/",
        {f"person/{MARA}/last_name": "Lind-Haan"},
        family="account",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        "review",
        'Review the deck boots for me: four stars, the title "Dry feet", and the text "They keep the water out."',
        'Click "Deck boots". Click "Write a review". Type "Dry feet" into Title. Click the fourth star. '
        'Type "They keep the water out." into Body. Click "Save review".',
        "/catalogue/category/clothing_3/",
        {
            "review/CL-03/Dry feet/score": "4",
            "review/CL-03/Dry feet/body": "They keep the water out.",
            "review/CL-03/Dry feet/status": "new",
        },
        family="write",
        difficulty=2,
        human_steps=6,
    ),
    _task(
        "notify-me",
        "The sailing gloves are sold out. Have the shop notify me when they are back.",
        'Click "Sailing gloves". Click "Notify me".',
        "/catalogue/category/clothing_3/",
        {f"alert/CL-04/{MARA}/status": "Active"},
        family="account",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        "cheapest-lamp",
        "What does the cheapest lamp in the shop cost? Answer with the amount only.",
        'Select "Price low to high" in "Sort by". Click "Head torch". Tell me the text right of "Price (incl. tax)".',
        "/catalogue/category/lamps_2/",
        answer=says_number(19.95),
        family="look up",
        difficulty=1,
        human_steps=1,
    ),
    _task(
        "cost-of-order",
        "What did I pay for my order of the ninth of January 2024? Answer with the amount only.",
        'Click "100101". Tell me the "Order total".',
        "/accounts/orders/",
        answer=says_number(78),
        family="look up",
        difficulty=2,
        human_steps=2,
    ),
    _task(
        "buy-what-is-sold-out",
        "Order a pair of sailing gloves to my default address.",
        'Click "Sailing gloves". Click "Add to basket". Click "Checkout now". '
        'Click "Ship to your default shipping address". Click "Continue". Click "Place order".',
        "/catalogue/category/clothing_3/",
        is_possible=False,
        family=IMPOSSIBLE,
        difficulty=2,
        human_steps=2,
    ),
    _task(
        "change-price",
        "The tide table costs 10.50 euro from today. Change its price in the dashboard.",
        'Click "Tide table". Click "Stock and pricing". Type "10.50" into "Price". Click "Save".',
        "/dashboard/catalogue/",
        {"product/NA-02/price": "10.50"},
        family="keep the shop",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "restock",
        "25 pairs of sailing gloves have come in. Enter that as the number in stock.",
        'Click "Stock and pricing". Double-click "0". Type "25". Click "Save".',
        "/dashboard/catalogue/products/12/",
        {"product/CL-04/stock": "25"},
        family="keep the shop",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        "hide-product",
        "Dividers are not for sale at the moment. Make them invisible to the public, but do not delete them.",
        'Click "Dividers". Uncheck "Is public". Click "Save".',
        "/dashboard/catalogue/",
        {"product/NA-04/hidden": "yes"},
        family="keep the shop",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        "new-category",
        'Add a category "Paint" to the shop, beside the others.',
        'Type "Paint" into Name. Click "Save".',
        "/dashboard/catalogue/categories/create/",
        {"category/Paint/title": "Paint"},
        family="keep the shop",
        difficulty=1,
        human_steps=2,
    ),
    _task(
        "approve-review",
        "Approve the review of the mooring rope that waits for it; leave the other one as it is.",
        'Click "Good rope". Select "Approved" in Status. Click "Save".',
        "/dashboard/reviews/",
        {"review/RO-12/Good rope/status": "approved"},
        family="keep the shop",
        difficulty=1,
        human_steps=3,
    ),
    _task(
        "process-order",
        "We are packing what Edda has ordered and not got yet. Set that order to being processed.",
        'Click "100105". Select "Being processed" in "New order status". Click "Change status".',
        "/dashboard/orders/",
        {"order/100105/status": "Being processed"},
        family="keep the shop",
        difficulty=2,
        human_steps=3,
    ),
    _task(
        "note-on-order",
        'Tomas called about his order that is being processed. Leave a note on it: "Comes on Friday to fetch it."',
        'Click "100103". Click "Notes". Type "Comes on Friday to fetch it." into "Note". Click "Save note".',
        "/dashboard/orders/",
        {"note/100103/1/message": "Comes on Friday to fetch it."},
        family="keep the shop",
        difficulty=2,
        human_steps=4,
    ),
    _task(
        "who-bought-the-stove",
        "Who has ordered the gimballed stove? Answer with the name of the customer.",
        'Tell me the Customer in the row of "100106".',
        "/dashboard/orders/",
        answer=lambda answer: has("tomas")(answer) and not any(has(name)(answer) for name in ("edda", "joris", "mara")),
        family="look up",
        difficulty=2,
        human_steps=2,
    ),
)
