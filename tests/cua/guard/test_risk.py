import pytest

from cua.guard import risk
from cua.guard.risk import Facts
from envs import Action, Click, Hotkey, PressKey, Scroll, TypeText
from tests.cua.guard.targets import target_of

CLICK = Click(x_px=1, y_px=1)


def facts(action: Action = CLICK, target: str | None = None, claim: str = "", uses_secret: bool = False) -> Facts:
    return Facts(
        action=action,
        verb="x",
        target=None if isinstance(action, Scroll) else target_of(target),
        claim=claim,
        url="https://shop.example.com/",
        uses_secret=uses_secret,
    )


def classify(fact: Facts, allowed_domains: tuple[str, ...] = ()) -> str | None:
    found = risk.classify(fact, allowed_domains)
    return found.kind if found else None


@pytest.mark.parametrize(
    ("target", "risk"),
    [
        ('button "Delete"', "delete"),
        ('button "Delete account"', "delete"),
        ('button "Remove from cart"', "delete"),
        ('button "Buy now"', "pay"),
        ('button "Place your order"', "pay"),
        ('button "Send"', "send"),
        ('button "Submit"', "submit"),
        ('button "Log in"', "credentials"),
        ('input[type=password] "Password"', "credentials"),
        ('button "Löschen"', "delete"),
        ('button "Jetzt kaufen"', "pay"),
        ('button "删除"', "delete"),
        ('link "Settings"', None),
        ('button "Add expense"', None),
        ('button "Display"', None),  # holds "play", not "pay"
        ('link "Payments" -> https://shop.example.com/payments', None),
        ('link "Resend" -> https://shop.example.com/', None),
        ('button "Undeleted items"', None),
        ('textbox "Postcode"', None),
    ],
)
def test_what_a_click_lands_on_decides(target: str, risk: str | None) -> None:
    assert classify(facts(target=target, claim="Click Save")) == risk


def test_the_models_claim_decides_only_where_nothing_is_known() -> None:
    assert classify(facts(target=None, claim="Click the Delete button")) == "delete"
    assert classify(facts(target='link "Help"', claim="Click the Delete button")) is None


@pytest.mark.parametrize(
    ("target", "claim", "risk"),
    [
        ('window "Files"', "Click the Delete button", "delete"),
        ('popup of "Mousepad"', "Click Send", "send"),
        ('window "Delete 3 files?"', "Click the middle button", "delete"),
        ('window "Files"', "Click the second file", None),
    ],
)
def test_where_only_the_window_is_known_the_claim_counts_too(target: str, claim: str, risk: str | None) -> None:
    assert classify(facts(target=target, claim=claim)) == risk


def test_leaving_the_allowed_domains_is_a_risk() -> None:
    link = 'link "Next" -> https://other.example.org/x'
    assert classify(facts(target=link), ("shop.example.com",)) == "leave_domains"
    assert classify(facts(target=link), ("example.org",)) is None
    assert classify(facts(target=link)) is None


@pytest.mark.parametrize(
    ("action", "claim", "risk"),
    [
        (TypeText(text="hello, please delete this later"), "Type a note", None),
        (TypeText(text="rm -rf ~/work\n"), "Type a command", "delete"),
        (TypeText(text="sudo apt remove x"), "", "delete"),
        (PressKey(key="enter"), "Press Enter to send the message", "send"),
        (PressKey(key="enter"), "Press Enter to search", None),
        (PressKey(key="delete"), "Delete the file", "delete"),
        (Hotkey(keys=("ctrl", "enter")), "Send the mail", "send"),
        (Hotkey(keys=("ctrl", "s")), "Save", None),
        (Scroll(dy=-3), "Scroll to the delete button", None),
    ],
)
def test_keys_and_text(action: Action, claim: str, risk: str | None) -> None:
    assert classify(facts(action=action, claim=claim)) == risk


@pytest.mark.parametrize(
    ("text", "claim", "risk"),
    [
        ("\n", "Delete the file", "delete"),
        ("", "Delete the file", "delete"),
        ("delete\n", "Type delete", None),
        ("delete", 'Type "delete"', None),
        ("report", "Type report to delete the account", "delete"),
    ],
)
def test_what_is_typed_is_taken_out_of_the_claim(text: str, claim: str, risk: str | None) -> None:
    assert classify(facts(action=TypeText(text=text), claim=claim)) == risk


def test_typing_a_secret_is_a_risk() -> None:
    assert classify(facts(action=TypeText(text="{{password}}"), uses_secret=True)) == "credentials"
