"""What texts say, however they are written, and which ones say nothing."""

import pytest

from cua.guard.words import kind_of, kind_of_hint, says_nothing


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Dеlеtе", "delete"),  # Cyrillic letters
        ("deleтe", "delete"),
        ("Ｄｅｌｅｔｅ", "delete"),
        ("D\u200be\u200blete", "delete"),
        ("De\u00adlete", "delete"),
        ("De\u2060le\ufefft\u3164e", "delete"),
        ("D e l e t e", "delete"),
        ("D.e.l.e.t.e", "delete"),
        ("D e l e t e   a l l", "delete"),
        ("De\u0301le\u0336te", "delete"),
        ("Đelete", "delete"),
        ("De1ete", "delete"),
        ("subm1t", "submit"),
        ("ᴅᴇʟᴇᴛᴇ", "delete"),
        ("🅳🅴🅻🅴🆃🅴", "delete"),
        ("ⓓⓔⓛⓔⓣⓔ", "delete"),
        ("𝔇𝔢𝔩𝔢𝔱𝔢", "delete"),
        ("\u202eeteleD", "delete"),
        ("Next 🗑️", "delete"),
        ("Pаy nоw", "pay"),
        ("💳", "pay"),
        ("Konto endgültig löschen", "delete"),
        ("LÖSCHEN", "delete"),
        ("Supprimer le compte", "delete"),
        ("Usuń konto", "delete"),
        ("Удалить всё", "delete"),
        ("حذف الحساب", "delete"),
        ("हटाएं", "delete"),
        ("全部删除", "delete"),
        ("アカウントを削除", "delete"),
        ("계정 삭제", "delete"),
        ("Hesabı sil", "delete"),
        ("Jetzt kaufen", "pay"),
        ("Finalizar compra", "pay"),
        ("Отправить", "send"),
        ("続ける", None),
        ("Undeleted items", None),
        ("Payments", None),
        ("Resend", None),
        ("Postcode", None),
        ("Display", None),
        ("Search", None),
        ("Next", None),
        ("Sort by date", None),
        ("Model 3", None),
        ("A B C D", None),
        ("1 0 1 0", None),
        ("Wissen", None),
        ("Öffnen", None),
        ("", None),
    ],
)
def test_what_a_text_says(text: str, kind: str | None) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("OK", True),
        ("Ｏ\u200bK", True),
        ("Yes!", True),
        ("I'm sure", True),
        ("", True),
        ("✓", True),
        ("\ue872", True),
        ("Да", True),
        ("はい", True),
        ("Cancel", False),
        ("Next page", False),
        ("7", False),
        ("Yesterday", False),
    ],
)
def test_which_names_say_nothing(text: str, nothing: bool) -> None:
    assert says_nothing(text) == nothing


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        ("fa fa-trash", "delete"),
        ("TrashIcon", "delete"),
        ("/img/bin.svg", "delete"),
        ("deleteAll(this)", "delete"),
        ("#icon-credit-card", "pay"),
        ("paper-plane", "send"),
        ("/cgi-bin/search", None),
        ("btn btn-primary", None),
        ("removable cabin", None),
    ],
)
def test_names_of_icons_and_handlers(hint: str, kind: str | None) -> None:
    assert kind_of_hint(hint) == kind


def test_a_long_text_takes_little_time_and_is_cut() -> None:
    assert kind_of("word " * 300 + "delete") == "delete"
    assert kind_of("a b " * 100_000) is None
