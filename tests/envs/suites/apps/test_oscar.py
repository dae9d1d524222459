"""The tasks on the shop: solved, not done, nearly done."""

import pytest
from playwright.async_api import Page

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps.proving import Proof, ids_of, prove

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
ROOT = "http://oscar.localhost"
COMPASS, MUG, CAN, ROPE, CAP, LAMP = 13, 17, 19, 2, 10, 8
BOOTS, GLOVES, TIDE, DIVIDERS = 11, 12, 14, 16
FORM = "#create_update_product_form"


async def add(page: Page, *products: int) -> None:
    for product in products:
        await page.goto(f"{ROOT}/catalogue/x_{product}/")
        await page.click("#add_to_basket_form button")


async def set_quantity(page: Page, line: int, quantity: int) -> None:
    await page.goto(f"{ROOT}/basket/")
    await page.fill(f"#id_form-{line}-quantity", str(quantity))
    await page.locator("#basket_formset button[type=submit]", has_text="Update").nth(line).click()


async def mugs(page: Page, quantity: int) -> None:
    await add(page, MUG, CAN)
    await set_quantity(page, 0, quantity)


async def check_out(page: Page, street: str, *, place: bool = True) -> None:
    await page.goto(f"{ROOT}/checkout/shipping-address/")
    box = page.locator("form", has_text="Ship to").filter(has=page.locator("button[type=submit]"))
    card = page.locator(".card, .well", has_text=street).last
    await (card if await card.count() else box).locator("button[type=submit]").first.click()
    await page.get_by_role("link", name="Continue").click()
    if place:
        await page.click("#place-order")


async def order(page: Page, product: int, street: str, *, voucher: str = "", place: bool = True) -> None:
    await add(page, product)
    if voucher:
        await page.goto(f"{ROOT}/basket/")
        await page.click("#voucher_form_link a, #voucher_form_link button")
        await page.fill("#id_code", voucher)
        await page.get_by_role("button", name="Add voucher").click()
    await check_out(page, street, place=place)


async def wish(page: Page, product: int) -> None:
    await page.goto(f"{ROOT}/catalogue/x_{product}/")
    await page.get_by_text("Add to wish list").click()
    await page.get_by_role("link", name="For the boat").click()


async def add_address(page: Page, postcode: str) -> None:
    await page.goto(f"{ROOT}/accounts/addresses/add/")
    filled = {"first_name": "Mara", "last_name": "Lind", "line1": "9 Beacon Road", "line4": "Norhaven"}
    for name, value in {**filled, "postcode": postcode}.items():
        await page.fill(f"#id_{name}", value)
    await page.select_option("#id_country", label="Netherlands")
    await page.get_by_role("button", name="Save").click()


async def change_name(page: Page, field: str) -> None:
    await page.goto(f"{ROOT}/accounts/profile/edit/")
    await page.fill(field, "Lind-Haan")
    await page.get_by_role("button", name="Save").click()


async def review(page: Page, score: int) -> None:
    await page.goto(f"{ROOT}/catalogue/x_{BOOTS}/reviews/add/")
    await page.fill("#id_title", "Dry feet")
    await page.locator("#id_score").evaluate("(list, score) => { list.value = score; }", str(score))
    await page.fill("#id_body", "They keep the water out.")
    await page.get_by_role("button", name="Save review").click()


async def notify(page: Page, *, press: bool) -> None:
    await page.goto(f"{ROOT}/catalogue/x_{GLOVES}/")
    if press:
        await page.get_by_role("button", name="Notify me").click()


async def edit_product(page: Page, product: int, field: str, value: str | bool, *, save: bool = True) -> None:
    await page.goto(f"{ROOT}/dashboard/catalogue/products/{product}/")
    if isinstance(value, bool):
        await page.set_checked(field, value)
    else:
        await page.get_by_role("link", name="Stock and pricing").click()
        await page.fill(field, value)
    if save:
        await page.locator(f"{FORM} button[value=save]").click()


async def new_category(page: Page, parent: str | None) -> None:
    await page.fill("#id_name", "Paint")
    if parent is not None:
        await page.select_option("#id_treebeard_ref_node", label=parent)
        await page.select_option("#id_treebeard_position", label="First child of")
    await page.locator("button[value=save]").click()


async def judge_review(page: Page, number: int, status: str) -> None:
    await page.goto(f"{ROOT}/dashboard/reviews/{number}/")
    await page.locator("#id_status").evaluate(
        "(list, label) => { list.value = [...list.options].find((option) => option.label === label).value; }", status
    )
    await page.get_by_role("button", name="Save").click()


async def set_status(page: Page, number: int, status: str) -> None:
    await page.goto(f"{ROOT}/dashboard/orders/{number}/")
    await page.locator("#id_new_status").evaluate("(list, status) => { list.value = status; }", status)
    await page.get_by_role("button", name="Change status").click()


async def note(page: Page, number: int) -> None:
    await page.goto(f"{ROOT}/dashboard/orders/{number}/")
    await page.get_by_role("link", name="Notes").click()
    await page.fill("#id_message", "Comes on Friday to fetch it.")
    await page.locator("input[value='Save note']").click()


async def say(page: Page, answer: str) -> str:
    return answer


PROOFS = {
    "oscar/add-to-basket": Proof(
        solve=lambda page: add(page, COMPASS),
        miss=lambda page: add(page, COMPASS, COMPASS),
    ),
    "oscar/three-mugs": Proof(solve=lambda page: mugs(page, 3), miss=lambda page: mugs(page, 2)),
    "oscar/order-to-westerby": Proof(
        solve=lambda page: order(page, ROPE, "17 Mill Lane"),
        miss=lambda page: order(page, ROPE, "17 Mill Lane", place=False),
    ),
    "oscar/order-with-voucher": Proof(
        solve=lambda page: order(page, CAP, "4 Quay Street", voucher="SPRING10"),
        miss=lambda page: order(page, CAP, "4 Quay Street"),
    ),
    "oscar/wish": Proof(solve=lambda page: wish(page, LAMP), miss=lambda page: wish(page, LAMP - 1)),
    "oscar/new-address": Proof(
        solve=lambda page: add_address(page, "2111 AB"),
        miss=lambda page: add_address(page, "2110 AB"),
    ),
    "oscar/change-name": Proof(
        solve=lambda page: change_name(page, "#id_last_name"),
        miss=lambda page: change_name(page, "#id_first_name"),
    ),
    "oscar/review": Proof(solve=lambda page: review(page, 4), miss=lambda page: review(page, 5)),
    "oscar/notify-me": Proof(
        solve=lambda page: notify(page, press=True),
        miss=lambda page: notify(page, press=False),
    ),
    "oscar/cheapest-lamp": Proof(
        solve=lambda page: say(page, "It costs €19,95."),
        miss=lambda page: say(page, "€27.40"),
    ),
    "oscar/cost-of-order": Proof(solve=lambda page: say(page, "€78.00"), miss=lambda page: say(page, "€27.40")),
    "oscar/buy-what-is-sold-out": Proof(miss=lambda page: notify(page, press=True)),
    "oscar/change-price": Proof(
        solve=lambda page: edit_product(page, TIDE, "#id_stockrecords-0-price", "10.50"),
        miss=lambda page: edit_product(page, TIDE, "#id_stockrecords-0-price", "10.50", save=False),
    ),
    "oscar/restock": Proof(
        solve=lambda page: edit_product(page, GLOVES, "#id_stockrecords-0-num_in_stock", "25"),
        miss=lambda page: edit_product(page, GLOVES, "#id_stockrecords-0-low_stock_threshold", "25"),
    ),
    "oscar/hide-product": Proof(
        solve=lambda page: edit_product(page, DIVIDERS, "#id_is_public", False),
        miss=lambda page: edit_product(page, DIVIDERS, "#id_is_discountable", False),
    ),
    "oscar/new-category": Proof(
        solve=lambda page: new_category(page, None),
        miss=lambda page: page.fill("#id_name", "Paint"),
    ),
    "oscar/approve-review": Proof(
        solve=lambda page: judge_review(page, 3, "Approved"),
        miss=lambda page: judge_review(page, 4, "Approved"),
    ),
    "oscar/process-order": Proof(
        solve=lambda page: set_status(page, 100105, "Being processed"),
        miss=lambda page: set_status(page, 100105, "Cancelled"),
    ),
    "oscar/note-on-order": Proof(solve=lambda page: note(page, 100103), miss=lambda page: note(page, 100106)),
    "oscar/who-bought-the-stove": Proof(
        solve=lambda page: say(page, "Tomas Brandt"),
        miss=lambda page: say(page, "Edda Stein"),
    ),
}


@pytest.mark.parametrize("task_id", ids_of("oscar"))
async def test_a_task_is_told_from_nothing_and_from_a_near_miss(env: AppsEnv, task_id: str) -> None:
    await prove(env, task_id, PROOFS)
