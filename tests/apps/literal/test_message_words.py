"""Messages of pages in several languages: done, refused, still at work, or not known."""

from apps.literal.message_words import classify_message, is_in_progress
from tests.tables import table

MESSAGES = {
    "good": "Saved|Beta deleted. Undo|Finished: 0 errors, 0 warnings|14 of 14 rows imported|Item deleted. This cannot "
    "be undone.|Your order #123 has been placed. Please check your inbox.|Gespeichert|Vos modifications ont bien été "
    "enregistrées|0 errors, 0 warnings|"
    "Zmiany zostały zapisane|Sikeres mentés|Uloženo|Kaydedildi|保存しました|저장되었습니다|Сохранено",
    "bad": "0 of 14 contacts imported|3 of 14 rows imported|Invitations sent: 0|No contacts were imported|Verify you "
    "are human|You are doing that too often. Wait a minute and retry.|Bob changed this page meanwhile. Reload it.|Rate "
    "limit reached|Saved locally only, the server is offline|Das hat leider nicht geklappt|Nie udało się zapisać zmian|"
    "Kunde inte spara|Salvataggio non riuscito|Mentés sikertelen|Kayıt başarısız oldu|保存できませんでした|تعذر الحفظ|"
    "Не удалось сохранить|저장하지 못했습니다|Sent to 3 of 5 recipients|17/20 passed|1,250 of 3,000 rows copied|"
    "Verschickt an 3 von 5 Personen|Removed 0 files|Removed o files|0 files removed|Nothing matched.|0 results|"
    "Enter the code|"
    "We have sent a text message with 6 digits to your phone.",
    "pending": "Saving…|Please wait|Syncing 42 %|Wird gespeichert …|Chargement…|処理中|..."
    "|Backing up… 81 %|Packing 7.5 %"
    "|39 MB of 210 MB|39 MB of 210 MB uploaded|1.5 GB / 3 GB",
    "unknown": "Amsterdam|Weight 3 kg|Move to…|Page 1 of 3|1–20 of 57|Showing 1 to 20 of 57|Step 2 of 3|"
    "3 of 14 selected|Due 3/4/2026|Rated 4/5|Discount 20 %|Open 24/7|0.00 EUR|Seite 1 von 3|12/2026|2 of 5",
}
CASES = [(text, verdict) for verdict, texts in MESSAGES.items() for text in texts.split("|")]


@table(("text", "verdict"), CASES)
def test_a_message_is_judged_by_its_words(text: str, verdict: str) -> None:
    assert classify_message(text) == verdict


def test_dots_alone_are_work_only_on_what_was_pressed() -> None:
    assert is_in_progress("Lagrar…", is_own=True)
    assert not is_in_progress("Rename…")
