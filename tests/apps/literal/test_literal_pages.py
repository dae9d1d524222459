"""Whole instructions on pages of many styles in a real browser; the DOM is only asked afterwards."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from envs import InstructionTask
from envs.browser import BrowserEnv
from envs.browser.launch import find_browser
from tests.apps.literal.driver import Outcome, follow

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(find_browser() is None, reason="no browser was found; `cua setup` gets one"),
]
PAGES = Path(__file__).parent / "pages"


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(PAGES)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


async def follow_on_page(env: BrowserEnv, base_url: str, name: str, instruction: str) -> Outcome:
    await env.reset(InstructionTask(instruction=instruction))
    await env.goto(f"{base_url}/{name}.html")
    observation = (await env.step([])).observation
    return await follow(env, observation, instruction)


VALUES = (
    "Object.fromEntries([...document.querySelectorAll('input[id],select[id],textarea[id]')].map(e => "
    "[e.id, ['checkbox','radio'].includes(e.type) ? e.checked : e.value]))"
)
VALUES_AND_TITLE = f"({{...{VALUES}, title: document.title}})"

FORMS: list[tuple[str, str, str, object]] = [
    ("wrapped", 'Click "Price list on the website is of last year".', "out.textContent", "Opened: prices"),
    (
        "labels_left",
        (
            'Type "Ann" into First name, type Baker into Last name and enter ann@example.org in the E-mail '
            "address field.\nChoose Italy from the Country list. Replace Notes with 'call back <soon> & \"twice\"'. "
            "Tick 'Send me the newsletter', untick 'I accept the terms'. Click Store. Check that 'Customer "
            "stored' is shown."
        ),
        VALUES,
        {
            "first": "Ann",
            "last": "Baker",
            "mail": "ann@example.org",
            "country": "Italy",
            "notes": 'call back <soon> & "twice"',
            "news": True,
            "terms": False,
        },
    ),
    (
        "bootstrap_like",
        (
            "1. Set First name to Ann\n2. Set Last name to Baker\n3. Fill Address with 'Rue 5'\n4. Set Country to "
            "Belgium\n5. Set Zip to 1040\n6. Tick 'Shipping address is the same'\n7. Uncheck 'Save this "
            "information'\n8. Turn on Gift wrapping\n9. Turn off Express delivery\n10. Select the Debit card radio "
            "button\n11. Click Continue to checkout"
        ),
        VALUES_AND_TITLE,
        {
            "first": "Ann",
            "last": "Baker",
            "addr": "Rue 5",
            "country": "Belgium",
            "zip": "1040",
            "same": True,
            "save": False,
            "gift": True,
            "exp": False,
            "credit": False,
            "debit": True,
            "title": "ordered",
        },
    ),
    (
        "dark",
        (
            "Type ann into User name; type s3cret! into Password; select Asia/Tokyo in Time zone; check 'Keep me "
            "signed in'; uncheck 'Send me news'; press the Create account button"
        ),
        VALUES_AND_TITLE,
        {"user": "ann", "pw": "s3cret!", "tz": "Asia/Tokyo", "keep": True, "mails": False, "title": "up"},
    ),
    (
        "floating",
        (
            "Enter 'Ann Baker' in Full name, type Paris into City, type 0123 into Phone number, type lamp into "
            "Search products, type X7 into 'Coupon code', then click Send"
        ),
        VALUES_AND_TITLE,
        {"name": "Ann Baker", "city": "Paris", "phone": "0123", "q": "lamp", "coupon": "X7", "title": "sent"},
    ),
    (
        "accents",
        (
            "Type Hauptstraße 5 into Straße, type 180 into Größe, type Zoé into Prénom, select Dîner in "
            "Catégorie, type 2026 into Año and click Annuler"
        ),
        VALUES_AND_TITLE,
        {"street": "Hauptstraße 5", "size": "180", "prenom": "Zoé", "cat": "Dîner", "ano": "2026", "title": "annule"},
    ),
    ("rows", "Click the second Delete, then click Edit in the row of 'Hotel'", "log.textContent", "edit Hotel"),
    ("rows", "Click Delete in the row of 'Coffee'. Check that 'deleted Coffee' is shown", "t.rows.length", 5),
    ("rows", "Click the last Delete", "log.textContent", "deleted Hotel"),
    ("rows", "Click 'Edit' next to 'Train ticket'", "log.textContent", "edit Train ticket"),
    (
        "long",
        "Scroll down until 'Signature' is seen, type Ann into Signature and click 'I agree'",
        "[sig.value, document.title]",
        ["Ann", "agreed"],
    ),
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
    (
        "survey",
        (
            "Type Ann Lee into Full name, type 'Rue de la Paix 5, Paris' into Street and city, set Date of birth "
            "to 1990-12-31, select Yes for Smoker, select No for 'Own car', select 'Every day' in 'How often do "
            "you read?', tick Jazz and untick Opera, type 'Nothing.' into Remarks, click Submit answers"
        ),
        VALUES_AND_TITLE,
        {
            "name": "Ann Lee",
            "street": "Rue de la Paix 5, Paris",
            "birth": "31.12.1990",
            "s1": True,
            "s2": False,
            "c1": False,
            "c2": True,
            "often": "Every day",
            "jazz": True,
            "rock": False,
            "opera": False,
            "remarks": "Nothing.",
            "title": "submitted",
        },
    ),
    ("mailbox", "Search for invoice", "document.title", "search invoice"),
    (
        "mailbox",
        (
            "Tick the checkbox in the row of 'Weekly report', tick the checkbox in the row of 'Invoice 2231' and "
            "click Archive"
        ),
        "document.title",
        "archived 1,3",
    ),
    (
        "wrapped",
        'Double-click "6". Type "7". Double-click "9". Type "8".',
        "stock.value + ordered.value",
        "78",
    ),
    ("mailbox", "Untick the checkbox in the row of 'Lunch?'\nClick Delete", "document.title.trim()", "deleted"),
    (
        "mailbox",
        (
            "Click '+ New message'. Type bob@example.org into To; type 'Hello' into Subject; type 'Line "
            "one\\nLine two' into Message; click Send"
        ),
        "[document.title, msg.value]",
        ["sent bob@example.org Hello", "Line one\nLine two"],
    ),
    ("gradient", "Click Get started", "document.title.trim()", "started"),
    ("gradient", "Click 'Learn more' below 'Teams'", "document.title", "learn teams"),
    ("gradient", "Click the second 'Learn more'", "document.title", "learn teams"),
    (
        "gradient",
        "Scroll to 'Newsletter', type a@b.org into 'Your e-mail' and click Subscribe",
        "document.title",
        "subscribed a@b.org",
    ),
    (
        "editor",
        "Click in the editor and type 'Dear all,'. Press Enter. Type 'see you'. Press ctrl+b",
        "[ed.innerText.trim(), document.title]",
        ["Dear all,\nsee you", "ctrl+b"],
    ),
    ("editor", "Type 'Hello' into the document", "ed.innerText.trim()", "Hello"),
    (
        "chooser",
        (
            'Enter a name that starts with "Gua" and ends with "la" into Country, select Ann in Guests, '
            "check the 2nd radio button and click Send."
        ),
        "[country.value, [...guests.selectedOptions].map(o => o.value).join(), "
        "document.querySelector('[name=seat]:checked')?.value, document.title]",
        ["Guatemala", "Ann", "b", "Sent"],
    ),
    ("keypad", "Click 9, then click *, click 6, click - , click 4 and click =", "out.textContent", "50"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "instruction", "script", "expected"), FORMS, ids=[f"{index}-{form[0]}" for index, form in enumerate(FORMS)]
)
async def test_instruction_has_its_effect(
    env: BrowserEnv, base_url: str, name: str, instruction: str, script: str, expected: object
) -> None:
    outcome = await follow_on_page(env, base_url, name, instruction)

    seen = await env.page.evaluate(script)
    assert (outcome.status, seen) == ("success", expected), "\n".join([outcome.answer, *outcome.actions])


ANSWERS = [
    ("wrapped", 'Tell me the Customer in the row of "100103".', "Tomas Brandtmann"),
    ("wrapped", 'Tell me the Customer in the row of "100104".', "Mara"),
    ("rows", "Tell me the Total", "187.65"),
    ("rows", "What is the Amount in the row of 'Train ticket'?", "45.00"),
    ("bootstrap_like", "report the text next to 'Promo code' and tell me the Total (USD)", "-$5\n$20"),
]


@pytest.mark.parametrize(("name", "instruction", "expected"), ANSWERS)
async def test_answer_is_what_stands_there(
    env: BrowserEnv, base_url: str, name: str, instruction: str, expected: str
) -> None:
    outcome = await follow_on_page(env, base_url, name, instruction)

    assert (outcome.status, outcome.answer) == ("success", expected), outcome.actions
