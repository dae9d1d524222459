"""Tasks on the shop, for a customer and for its staff in the dashboard."""

from collections.abc import Mapping
from typing import Any

from envs.suites.apps.task import IMPOSSIBLE, AppTaskConfig, has, says_number

MARA = "mara@harbour.example"
_QUAY = {"name": "Mara Lind", "street": "4 Quay Street", "postcode": "2101", "city": "Norhaven"}
_MILL = {"name": "Mara Lind", "street": "17 Mill Lane", "postcode": "3350", "city": "Westerby"}


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
    name: str, instruction: str, steps: str, path: str, changes: Mapping[str, Any] | None = None, **more: Any
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
