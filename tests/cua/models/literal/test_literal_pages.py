"""Whole instructions on pages of many styles in a real browser; the DOM is only asked afterwards."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cua.models.literal.browser_driver import HEIGHT, WIDTH, follow

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PAGES = Path(__file__).parent / "pages"
_CLICKABLE_LISTS = "select, ::picker(select) { appearance: base-select !important }"


def find_chromium() -> str | None:
    names = (os.environ.get("K25_BROWSER", ""), "chromium-headless-shell", "chromium", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@pytest.fixture
async def page() -> AsyncIterator[Any]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on PATH and K25_BROWSER is not set")
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        await browser.close()


VALUES = "Object.fromEntries([...document.querySelectorAll('input[id],select[id],textarea[id]')].map(e => [e.id, ['checkbox','radio'].includes(e.type) ? e.checked : e.value]))"

FORMS: list[tuple[str, str, str, object]] = [
    (
        "labels_left",
        'Type "Ann" into First name, type Baker into Last name and enter ann@example.org in the E-mail address field.\n'
        "Choose Italy from the Country list. Replace Notes with 'call back <soon> & \"twice\"'. Tick 'Send me the newsletter', untick 'I accept the terms'. Click Store. Check that 'Customer stored' is shown.",
        VALUES,
        {"first": "Ann", "last": "Baker", "mail": "ann@example.org", "country": "Italy", "notes": 'call back <soon> & "twice"', "news": True, "terms": False},
    ),
    (
        "bootstrap_like",
        "1. Set First name to Ann\n2. Set Last name to Baker\n3. Fill Address with 'Rue 5'\n4. Set Country to Belgium\n5. Set Zip to 1040\n6. Tick 'Shipping address is the same'\n"
        "7. Uncheck 'Save this information'\n8. Turn on Gift wrapping\n9. Turn off Express delivery\n10. Select the Debit card radio button\n11. Click Continue to checkout",
        f"({{...{VALUES}, title: document.title}})",
        {"first": "Ann", "last": "Baker", "addr": "Rue 5", "country": "Belgium", "zip": "1040", "same": True, "save": False, "gift": True, "exp": False, "credit": False, "debit": True, "title": "ordered"},
    ),
    (
        "dark",
        "Type ann into User name; type s3cret! into Password; select Asia/Tokyo in Time zone; check 'Keep me signed in'; uncheck 'Send me news'; press the Create account button",
        f"({{...{VALUES}, title: document.title}})",
        {"user": "ann", "pw": "s3cret!", "tz": "Asia/Tokyo", "keep": True, "mails": False, "title": "up"},
    ),
    (
        "floating",
        "Enter 'Ann Baker' in Full name, type Paris into City, type 0123 into Phone number, type lamp into Search products, type X7 into 'Coupon code', then click Send",
        f"({{...{VALUES}, title: document.title}})",
        {"name": "Ann Baker", "city": "Paris", "phone": "0123", "q": "lamp", "coupon": "X7", "title": "sent"},
    ),
    (
        "accents",
        "Type Hauptstraße 5 into Straße, type 180 into Größe, type Zoé into Prénom, select Dîner in Catégorie, type 2026 into Año and click Annuler",
        f"({{...{VALUES}, title: document.title}})",
        {"street": "Hauptstraße 5", "size": "180", "prenom": "Zoé", "cat": "Dîner", "ano": "2026", "title": "annule"},
    ),
    ("rows", "Click the second Delete, then click Edit in the row of 'Hotel'", "log.textContent", "edit Hotel"),
    ("rows", "Click Delete in the row of 'Coffee'. Check that 'deleted Coffee' is shown", "t.rows.length", 5),
    ("rows", "Click the last Delete", "log.textContent", "deleted Hotel"),
    ("rows", "Click 'Edit' next to 'Train ticket'", "log.textContent", "edit Train ticket"),
    ("long", "Scroll down until 'Signature' is seen, type Ann into Signature and click 'I agree'", "[sig.value, document.title]", ["Ann", "agreed"]),
    ("long", "Click the 'I agree' button", "document.title", "agreed"),
    ("modal", "Click Delete next to photo.png, then confirm the dialog", "log.textContent", "deleted photo.png"),
    ("modal", "Click the first Delete. Dismiss the dialog", "log.textContent", "kept report.pdf"),
    ("tabs", "Open the Security tab, type 4711 into New PIN and click Change PIN", "log.textContent", "pin 4711"),
    ("tabs", "Click Notifications\nTick Push messages", "push.checked", True),
    ("tabs", "Select Français in Language", "lang.value", "Français"),
    ("tabs", "Hover over Products, then click Music", "log.textContent", "music"),
    ("drag", "Drag Alpha to Trash", "log.textContent", "Alpha in Trash"),
    ("drag", "Drag 'Beta' and drop it on 'Archive'", "log.textContent", "Beta in Archive"),
    ("keypad", 'Click "7", "+", "8" and "="', "out.textContent", "15"),
    ("keypad", "Click 9, then click *, click 6, click - , click 4 and click =", "out.textContent", "50"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "instruction", "script", "expected"), FORMS, ids=[f"{case[0]}-{i}" for i, case in enumerate(FORMS)]
)
async def test_instruction_has_its_effect(
    page: Any, name: str, instruction: str, script: str, expected: object
) -> None:
    await page.goto((PAGES / f"{name}.html").as_uri())
    await page.add_style_tag(content=_CLICKABLE_LISTS)

    outcome = await follow(page, instruction)

    assert (outcome.status, await page.evaluate(script)) == ("success", expected), "\n".join(
        [outcome.answer, *outcome.actions]
    )


ANSWERS = [
    ("rows", "Tell me the Total", "187.65"),
    ("rows", "What is the Amount in the row of 'Train ticket'?", "45.00"),
    ("bootstrap_like", "report the text next to 'Promo code' and tell me the Total (USD)", "-$5\n$20"),
]


@pytest.mark.parametrize(("name", "instruction", "expected"), ANSWERS)
async def test_answer_is_what_stands_there(page: Any, name: str, instruction: str, expected: str) -> None:
    await page.goto((PAGES / f"{name}.html").as_uri())

    outcome = await follow(page, instruction)

    assert (outcome.status, outcome.answer) == ("success", expected), outcome.actions
