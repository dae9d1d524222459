"""django-oscar: a shop with baskets, orders, reviews and vouchers, and the dashboard for its staff."""

from collections.abc import Mapping
from pathlib import Path

from envs.suites.apps.app import Facts, GunicornApp, Packages, RunningApp

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
