import pytest

from cua.guard import risk
from cua.guard.risk import Facts
from envs import Action, Click, Hotkey, PressKey, Scroll, Target, TypeText
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


def classify(fact: Facts) -> str | None:
    found = risk.classify(fact)
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


@pytest.mark.parametrize(
    ("target", "claim", "risk"),
    [
        (None, "Click the Delete button", "delete"),
        ('link "Help"', "Click the Delete button", "delete"),
        ('button "Next"', "Pay 49 euros", "pay"),
        ('link "Help"', "Click Help to find out how to delete the account", None),
        ('button "Continue"', "Click Continue to delete the account", "delete"),
        ('link "Help"', 'Click the link "How to delete your account"', None),
        ('link "Help"', "Open https://shop.example.com/delete-account", None),
        ('link "Help"', "To delete the account, click Help", "delete"),
    ],
)
def test_the_models_own_words_count_too(target: str | None, claim: str, risk: str | None) -> None:
    assert classify(facts(target=target, claim=claim)) == risk


@pytest.mark.parametrize(
    ("target", "risk"),
    [
        (Target(role="button", names=("Next",), handlers=("onclick deleteAll()",)), "delete"),
        (Target(role="button", names=("Next",), handlers=("onclick gtag('send')",)), None),
        (Target(role="button", names=("×",), handlers=("ng-click vm.remove(item)",)), "delete"),
        (Target(role="button", names=("×",), handlers=("onclick this.parentNode.remove()",)), None),
        (Target(role="button", names=("Go",), handlers=("action /checkout/pay",)), "pay"),
        (Target(role="link", names=("Next",), url="https://a.example/account/delete"), "delete"),
        (Target(role="link", names=("Next",), url="https://a.example/index.php?title=X&action=delete"), "delete"),
        (Target(role="link", names=("Next",), url="https://a.example/why-we-never-delete-your-notes"), None),
        (Target(role="link", names=("Payment methods",), url="https://a.example/payment"), None),
        (Target(role="button", names=("Next",), hints=("btn-delete",)), None),
        (Target(role="button", names=("OK",), hints=("btn-delete",)), "delete"),
    ],
)
def test_handlers_and_addresses_count_under_every_name(target: Target, risk: str | None) -> None:
    assert classify(Facts(action=CLICK, verb="click", target=target, claim="", url=None)) == risk


@pytest.mark.parametrize(
    ("action", "is_field", "risk"),
    [
        (PressKey(key="delete"), False, "delete"),
        (Hotkey(keys=("shift", "delete")), False, "delete"),
        (PressKey(key="delete"), True, None),
        (PressKey(key="f8"), False, None),
    ],
)
def test_the_delete_key_counts_outside_of_fields(action: Action, is_field: bool, risk: str | None) -> None:
    row = Target(role="row", names=("report.txt",), is_field=is_field)
    assert classify(Facts(action=action, verb="presskey", target=row, claim="Press it", url=None)) == risk


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
