"""Words of messages in the most common languages of web pages: success, refusal, work in progress.

All patterns are matched against lower-case text without accents (`fold`), since OCR drops accents.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

MessageVerdict = Literal["good", "bad", "pending", "unknown"]

_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "ß": "ss", "œ": "oe", "’": "'", "‘": "'"})
_MARKS = re.compile("[\u0300-\u036f]")

_GOOD = (
    # English
    r"\b(?:saved|sent|created|updated|added|deleted|removed|archived|published|posted|submitted|received|confirmed"
    r"|completed?|done|finished|thanks?|thank you|welcome|success\w*|booked|ordered|placed|joined|(?:un)?subscribed"
    r"|signed (?:in|up)|logged in|(?:un)?follow(?:ing|ed)|liked|starred|pinned|bookmarked|copied|moved"
    r"|shared|uploaded|downloaded|imported|exported|scheduled|enabled|activated|accepted|approved|registered|changed"
    r"|applied|restored|renamed|assigned|marked|cleared|merged|installed|connected|synced|synchroni[sz]ed|voted"
    r"|reserved|paid|purchased|invited|duplicated|congratulations|well done|all set|on its way|in touch|see you"
    r"|you(?:'re| are) (?:in|on the list)\b|good to go|all caught up"
    r"|up to date|stored|recorded|noted|delivered|started|launched|deployed|verified"
    r"|unlocked|redeemed|checked (?:in|out)|in your (?:cart|basket|bag)|undo)\b",
    # German, Dutch, Swedish, Danish, Norwegian
    r"gespeichert|gesendet|erfolgreich|erstellt|geloscht|hinzugefugt|aktualisiert|\bdanke?\b|eingegangen|abgeschlossen|\bfertig\b"
    r"|erledigt|gebucht|bestellt|veroffentlicht|geandert|entfernt|angemeldet|abonniert|verschickt|bestatigt|willkommen",
    r"opgeslagen|verzonden|\bgelukt|aangemaakt|verwijderd|toegevoegd|bijgewerkt|bedankt|voltooid|bewaard|verstuurd",
    r"\bsparad|\bgemt\b|\blagret|skickat|\bsendt|\bskapad|oprettet|opprettet|raderad|slettet|tillagd|tilfojet"
    r"|uppdatera[dt]|opdateret|oppdatert|\btack\b|\btakk?\b|faerdig|ferdig|lyckades|gennemfort",
    # French, Spanish, Portuguese, Italian, Romanian
    r"enregistree?s?\b|envoyee?s?\b|\bsucces\b|creee?s?\b|supprimee?s?\b|ajoutee?s?\b|mise?s? a jour|\bmerci\b"
    r"|terminee?s?\b|publiee?s?\b|modifiee?s?\b|confirmee?s?\b|bienvenue|\breussi",
    r"guardad[oa]|enviad[oa]|\bexito|\bcread[oa]|eliminad[oa]|anadid[oa]|agregad[oa]|actualizad[oa]|\bgracias"
    r"|completad[oa]|publicad[oa]|\blisto\b|confirmad[oa]|bienvenid[oa]",
    r"\bsalv[oa]s?\b|sucesso|\bcriad[oa]|excluid[oa]|removid[oa]|adicionad[oa]|atualizad[oa]|\bobrigad[oa]\b"
    r"|concluid[oa]|\bpronto\b",
    r"salvat[oaie]|inviat[oaie]|successo|\bcreat[oaie]\b|eliminat[oaie]|aggiunt[oaie]|aggiornat[oaie]|\bgrazie"
    r"|completat[oaie]|pubblicat[oaie]",
    r"\btrimis|\bsters[ae]?\b|adaugat|actualizat|multumim|\bgata\b",
    # Finnish, Polish, Czech, Slovak, Hungarian, Croatian, Serbian, Slovenian
    r"tallennettu|lahetetty|onnistui|\bluotu|poistettu|lisatty|paivitetty|kiitos|\bvalmis\b",
    r"zapisan|wyslan|\bsukces|pomyslnie|utworzon|usuniet|\bdodan[oaey]|zaktualizowan|dziekujemy|\bgotowe|udalo sie",
    r"ulozen|odeslan|uspesne|vytvoren|smazan|\bpridan|aktualizovan|dekujeme|dakujeme|hotovo",
    r"mentve|elkuldve|\bsikeres|letrehozva|torolve|hozzaadva|frissitve|koszonjuk|\bkesz\b|sikerult",
    r"spremljen|sacuvan|poslan[oa]?\b|uspjesno|uspesno|obrisan|azuriran|\bhvala|shranjen",
    # Turkish, Indonesian, Vietnamese
    r"kaydedildi|gonderildi|basarili|basariyla|olusturuldu|silindi|eklendi|guncellendi|tesekkur|tamamlandi",
    r"berhasil|tersimpan|disimpan|terkirim|dihapus|ditambahkan|terima kasih|selesai|thanh cong|da luu|da gui|cam on",
    # Russian, Ukrainian, Chinese, Japanese, Korean, Arabic, Hebrew
    r"сохран|отправлен|успешно|создан|удален|добавлен|обновлен|спасибо|готово|збережен|надіслан|успішно",
    r"成功|已(?:保存|发送|提交|创建|删除|添加|更新|完成|儲存|送出)|完成|谢谢|感谢|謝謝|ました|完了|ありがとう|저장되었|완료|성공|전송되었"
    r"|되었습니다|감사",
    r"\bتم\b|نجاح|شكرا|נשמר|נשלח|בהצלחה|תודה",
)
_REFUSED = (
    # English
    r"\b(?:not|no longer|cannot|unable|never|failed|failures?|errors?|problems?|trouble|denied|declined|rejected"
    r"|refused|forbidden|restricted|prohibited|disallowed|blocked|banned|suspended|locked|expired|invalid|incorrect"
    r"|wrong|unexpected|unavailable|maintenance|offline|timed? ?out|abort(?:ed)?|skipped|ignored|nothing|lost|broken"
    r"|crash(?:ed)?|overload(?:ed)?|busy|sorry|oops|unfortunately|insufficient|missing|conflicts?|outdated|unsaved"
    r"|exceed(?:s|ed)?|quotas?|captcha|robots?|human|too (?:many|much|often|fast|soon|late|early|long|short|large|big"
    r"|small|high|low)|sold out|slow down|used up|run out|ran out|(?:just|already) (?:gone|taken|left|used)|meanwhile"
    r"|someone else|another (?:user|person)|by someone|read[- ]only|only (?:for|part|some|\d)|cancel(?:l)?ed|undone"
    r"|partial(?:ly)?|(?:signed|logged) out|stopped|interrupted|but|without (?:saving|sending))\b|n['o]t\b(?<!\bgot)",
    # German, Dutch, Swedish, Danish, Norwegian
    r"\bleider\b|\bnicht\b|\bkeine?[rnms]?\b|\bfehler|fehlgeschlagen|gescheitert|ungultig|abgelehnt|gesperrt|verweigert"
    r"|abgelaufen|uberschritten|erschopft|unmoglich|bereits vergeben",
    r"\bniet\b|\bgeen\b|\bfout|mislukt|ongeldig|geweigerd|verlopen|helaas",
    r"\binte\b|\bikke\b|\bingen\b|\bfejl|\bfeil|misslyck|mislykke|mislykt|ogiltig|ugyldig|tyvarr|desvaerre|dessverre"
    r"|beklager|\bnekad|utgatt",
    # French, Spanish, Portuguese, Italian, Romanian
    r"\bpas\b|impossible|echou|echec|\berreur|refuse|\bexpiree?\b|invalide|depasse|interdit|introuvable|desole|\baucune?\b",
    r"\bno (?:se|es|ha|hay|pudo|puede|tiene|fue|esta)\b|\bfallo|fallid[oa]|invalid[oa]|incorrect[oa]|rechazad[oa]"
    r"|denegad[oa]|caducad[oa]|expirad[oa]|lo sentimos|imposible|ningun|excedid[oa]|superad[oa]",
    r"\bnao\b|\berro\b|\bfalh|recusad[oa]|negad[oa]|desculpe|nenhum|\bnon\b|errore|fallit[oa]|impossibile|rifiutat"
    r"|negat[oa]|scadut[oa]|spiacent|nessun",
    r"\bnu\b|eroare|esuat|refuzat|expirat|din pacate",
    # Finnish, Polish, Czech, Slovak, Hungarian, Croatian, Serbian, Slovenian
    r"\bei\b|virhe|epaonnistu|valitettavasti|hylatt|estetty|tarkista",
    r"\bnie\b|\bnieud|\bblad|niepowodzeni|nieprawidlow|niestety|odrzucon|wygasl|\bbrak\b|zabronion|przekroczon",
    r"\bchyba|nepodaril|selhal|zlyhal|neplatn|bohuzel|odmitnut|zamitnut|vyprsel|\bnelze|nemoz",
    r"\bnem\b|sikertelen|\bhiba|ervenytelen|sajnos|elutasit|lejart|megtagad|\btilt|probal[dj]",
    r"\bnije\b|\bni\b|greska|napaka|neuspjes|neuspes|nevazec|nazalost|odbijen",
    # Turkish, Indonesian, Vietnamese
    r"basarisiz|\bhata|edilemedi|[ae]m[ae]di\b|olmadi|gecersiz|maalesef|reddedil|yetkiniz|\bdegil\b|\byok\b|tekrar den",
    r"\bgagal|\btidak\b|\bsalah\b|\bmaaf\b|kesalahan|ditolak|kedaluwarsa|\bkhong\b|that bai|xin loi|tu choi",
    # Russian, Ukrainian, Greek, Chinese, Japanese, Korean, Arabic, Hebrew
    r"\bне\b|ошибк|неудач|недопустим|отказ|истек|запрещ|невозможно|помилк|відмов|αποτυχ|σφαλμα|\bδεν\b",
    r"失败|失敗|错误|錯誤|无法|無法|不能|不可|拒绝|拒絕|过期|未能|抱歉|超过|超過|限制|不存在|没有权限|稍后"
    r"|重试|验证码|不足",
    r"できま|できな|エラー|無効|ません|拒否|期限切れ|もう一度|申し訳|不正|足り"
    r"|실패|오류|없습니다|못했|수 없|잘못|거부|만료"
    r"|죄송|다시 시도|초과",
    r"تعذر|فشل|خطأ|لا يمكن|\bلم\b|عذر|مرفوض|שגיאה|נכשל|\bלא\b",
)
ASKING = re.compile(
    r"\b(?:please|wait|later|try (?:it |that )?again|again (?:later|in|soon)"
    r"|retry|verify|confirm that|prove|log ?in|sign ?in|log on|ask an?|contact|permissions?"
    r"|upgrade|limit(?:ed|s)?|trial|subscription|your plan|payment|billing|reload"
    r"|refresh|must|needs?|required?|only|already|maximum|minimum|at (?:most|least)|review|moderat\w+|pending"
    r"|back soon|coming soon|cookies?|consent|javascript|one more step"
    r"|hold on|enter (?:the|your|a)|(?:ask for|request|need) access|signed out|logged out"
    r"|(?:subscribe|sign up|join|buy|pay|register) to"
    r"|to (?:continue|keep|proceed|unlock)|verification|two-(?:step|factor)|one-time|security code"
    r"|next (?:try|attempt|vote|time) in)\b|\b(?:in|wait) \d+ ?(?:s|sec\w*|min\w*|h|hours?)\b"
)
PENDING = re.compile(
    r"\b(?:loading|saving|sending|uploading|downloading|processing|please wait|working on it|one moment"
    r"|just a (?:moment|second|sec)|hang on|in progress|syncing|connecting|preparing|submitting|publishing|deleting"
    r"|removing|importing|exporting|updating|creating|verifying|checking|searching|generating|calculating|waiting"
    r"|posting|adding)\b|\bladt\b|wird (?:ge|ver)\w+t\b|bitte warten|chargement|patienter|en cours|cargando|espere"
    r"|guardando|enviando|carregando|aguarde|salvando|caricamento|attendere|salvataggio|\bladen\b|even geduld|bezig"
    r"|wczytywanie|prosze czekac|zapisywanie|laddar|\bvanta\b|sparar|indlaeser|vent venligst|gemmer|lagrer|yukleniyor"
    r"|kaydediliyor|lutfen bekleyin|nacitani|ukladani|betoltes|kerem varjon|tallennetaan|ladataan|загрузка|сохранение"
    r"|подождите|加载|加載|请稍候|正在|読み込み|お待ち|処理中|保存中|送信中|로딩|기다려|처리 중|저장 중"
    r"|menyimpan|memuat|dang luu|dang tai"
)
DOTS = re.compile(r"(?:…|\.\s?\.|‥|⋯|・・)\s*$")
_NO_WORK = re.compile(
    r"^\W*(?:search|select|choose|type|enter|read|show|more|add|view|find|filter|write|suche|buscar)\b"
)

GOOD = re.compile("|".join(f"(?:{part})" for part in _GOOD))
CODE_ASKED = re.compile(
    r"\benter (?:the|your|a|this) (?:[\w-]+ ){0,3}(?:code|pin)\b"
    r"|\b(?:\d|four|six|eight)[- ]digit (?:\w+ )?(?:code|pin)\b"
    r"|\b(?:text message|sms|e-?mail|message) with (?:a |the )?(?:(?:\d|four|six|eight) digits|(?:\w+ )?code)\b"
    r"|\b(?:verification|security|confirmation|one-time|login) (?:code|password|pin)\b|\bcode (?:eingeben|ein)\b"
)
WALL = re.compile(
    r"\b(?:(?:need|request|ask for|no) (?:access|permission)|signed? (?:in|out)|logged? (?:in|out)|human|robot|captcha"
    r"|expired|timed out|denied|forbidden|not (?:found|allowed|available|exist)|unavailable|maintenance|errors?"
    r"|went wrong|verif\w+|(?:security|one-time) code|subscribe to|members? only|password|anmelden|connecter|iniciar"
    r"|accedi|entrar)\b"
)
"""Texts of a page that replaced the one to be opened."""
REFUSED = re.compile("|".join(f"(?:{part})" for part in _REFUSED))

_WORKED = (
    r"(?:import|upload|download|sen[dt]|save|copi|copy|delet|remov|updat|mov|process|complet|add|sync|creat|deliver|invit"
    r"|export|publish|convert|transfer|match|appl|succe|post|stor)"
)
_GOOD_ZERO = r"(?:errors?|warnings?|problems?|issues?|failures?|(?:items? )?left|remaining|unread|new|conflicts?)"
_NUMBER = r"\d+(?:[.,]\d+)*"
_PART = re.compile(
    rf"(?<![\w.,:/–—-])(?P<done>{_NUMBER}) ?(?P<unit>[kmgt]?i?b)? ?"
    rf"(?:of|out of|/|von|de|di|z|av|af|sur|van|din|od|iz|из|з|dari|sa) ?(?P<total>{_NUMBER})"
    r"(?![\w:/]|-\d)(?! ?%)(?: [kmgt]i?b\b)?"
)
_COUNTER_BEFORE = re.compile(
    r"(?:\b(?:pages?|steps?|slides?|photos?|images?|pictures?|questions?|items?|parts?|chapters?|sections?|tabs?|levels?"
    r"|lessons?|weeks?|days?|rounds?|screens?|cards?|match(?:es)?|results?|records?|rows?|showing|shown|viewing|rated"
    r"|rating|score|seite|schritt|bild|frage|etape|pagina|paso|passo|strona|krok|sida|steg|strana)|страница|шаг"
    r"|\d ?(?:[-–—]|to))\W*$"
)
_COUNTER_AFTER = re.compile(
    r"\W*(?:left|remain\w*|selected|chosen|used|free|stars?|points?|available|in use|ausgewahlt|ubrig|belegt)\b"
)
_ZERO_RESULT = re.compile(
    rf"(?<![\w.,:/$€£%-])(?:0|zero)(?! (?:\w+ )?{_GOOD_ZERO}\b)(?: [^\W\d]+)* (?:\w*{_WORKED}\w*|\w+ed|found|results?"
    rf"|matche?s?|done|hits?)\b|\b(?:\w*{_WORKED}\w*|\w+ed|found|done) (?:[^\W\d]+ ){{0,3}}(?:0|zero)(?![\w:/%]|[.,]\d)"
    rf"(?! (?:\w+ )?{_GOOD_ZERO}\b)|\b[a-z]+ed o [a-z]+s\b|^o (?!{_GOOD_ZERO}\b)[a-z]+ (?:[a-z]+ )?[a-z]+ed\b"
)
"""Zero results, in either word order; OCR reads a single 0 as the letter o."""
_NO_TROUBLE = re.compile(r"(?<![\w.,])(?:0|no|zero) (?:errors?|warnings?|problems?|issues?|failures?)\b")
_DATE = re.compile(r"0\d/.*|\d{1,2}/0\d|\d{1,2}/(?:19|20)\d\d")
_SHARE = re.compile(r"(?<![\d.,])(\d{1,2}(?:[.,]\d+)?) ?%")
_NONE_DONE = re.compile(
    rf"\b(?:0|zero|no) (?!{_GOOD_ZERO})(?:\w+ ){{0,3}}?(?:were |was |have been )?\w*{_WORKED}\w*(?:ed|ied|nt|d)\b"
    rf"|\b{_WORKED}\w*(?: \w+){{0,2}}: ?0\b|(?:\w+ ){{0,2}}{_WORKED}\w*: ?0\b"
)
_HARMLESS = re.compile(
    r"\b(?:no|0|zero|without(?: any)?|keine?|ohne|sans|sin|senza|0 von) (?:\w+ )?(?:errors?|warnings?|problems?|issues?"
    r"|failures?|failed|conflicts?|skipped|missing|lost|fehler|warnungen|erreurs?|errores|errori)\b"
    r"|(?:errors?|warnings?|failed|skipped): ?0\b|not required|can(?:not|'t| not) be undone"
    r"|nothing (?:left )?to do|nothing left|do(?:n't| not) forget|changed your mind"
    r"|(?:check|see) your (?:inbox|mail|e-?mail)\w*|any ?(?:time|more)|by the way"
)
_ACTIVE = re.compile(r"\b(?:changed|updated|edited|deleted|removed|moved|renamed) (?:this|the|it|your)\b")
_SENTENCE_END = re.compile(r"(?<=[^\s.\d])[.!?。！？;](?:\s+|$)|\s[–—-]\s")
_PARTICIPLE = re.compile(r"\b[a-z]{2,}ed\b", re.I)
_NOT_YET = re.compile(
    r"\b(?:will|to|can|could|must|should|may|might|would|shall|cannot)(?: \w+)? be (?:\w+ly )?\w+"
    r"|\bwhen \w+ (?:is|are|has|have) .*"
)
"""Statements about the future, such as "will be sent when you are back online"."""
_ENDED = re.compile(r"\bno longer (?:follow|subscrib|receiv|get|be (?:notif|inform))\w*", re.I)
_STEM = 5
_MAX_PENDING_WORDS = 6
_MAX_DOTTED_WORDS = 2
_MIN_WORDS = 4


def fold(text: str) -> str:
    """Return a text in lower case without accents; Korean and Japanese characters are kept."""
    split = unicodedata.normalize("NFKD", text.casefold()).translate(_LETTERS)
    return unicodedata.normalize("NFC", _MARKS.sub("", split))


def classify_message(text: str, wanted: Sequence[str] = ()) -> MessageVerdict:
    """Judge a message about an action: the first meaningful sentence decides, but a later refusal overrides it.

    Args:
        text: The message.
        wanted: Texts of the instruction; "cancelled" is a success after "Cancel order".
    """
    message = without_instructed(fold(text), wanted)
    is_working = is_in_progress(text)
    if not is_working and is_incomplete(message):
        return "bad"
    verdict: MessageVerdict = "good" if _NO_TROUBLE.search(message) else "unknown"
    message = _HARMLESS.sub(" ", message)
    if is_working and not REFUSED.search(message):
        return "pending"
    for sentence in filter(str.strip, _SENTENCE_END.split(message)):
        sentence_verdict = _judge_sentence(sentence)
        if sentence_verdict == "bad" and (
            verdict == "unknown" or REFUSED.search(sentence) or CODE_ASKED.search(sentence)
        ):
            return "bad"
        verdict = sentence_verdict if verdict == "unknown" else verdict
    return verdict


def without_instructed(text: str, wanted: Sequence[str]) -> str:
    """Replace participles of an instruction's words, such as "blocked" of "Block", by "done"."""
    text = _ENDED.sub("done", text)
    stems = {word[:_STEM] for each in wanted for word in re.findall(r"[a-z]{3,}", fold(each))}
    return _PARTICIPLE.sub(lambda word: "done" if any(map(word[0].lower().startswith, stems)) else word[0], text)


def _judge_sentence(sentence: str) -> MessageVerdict:
    if REFUSED.search(sentence) or _ACTIVE.search(sentence) or CODE_ASKED.search(sentence):
        return "bad"
    if GOOD.search(_NOT_YET.sub(" ", sentence)):
        return "unknown" if re.search(r"\balready\b", sentence) else "good"
    return "bad" if ASKING.search(sentence) else "unknown"


def is_sentence(text: str) -> bool:
    """Return True if a text is long enough for an explanation, as refusals are more often than confirmations."""
    return len(text.split()) >= _MIN_WORDS or len(re.findall(r"[\u3040-\u9fff\uac00-\ud7af]", text)) >= 2 * _MIN_WORDS


def is_incomplete(folded: str) -> bool:
    """Return True if a folded text counts what was done and the count is zero or incomplete."""
    if any(not part["unit"] for part in _find_parts(folded)):
        return True
    return _NONE_DONE.search(folded) is not None or _ZERO_RESULT.search(folded) is not None


def _find_parts(folded: str) -> list[re.Match[str]]:
    """Return each "3 of 14" in a folded text that is not a page counter, a date or the entire text."""
    return [
        part
        for part in _PART.finditer(folded)
        if to_number(part["done"]) < to_number(part["total"])
        and not _COUNTER_BEFORE.search(folded[: part.start()])
        and not _COUNTER_AFTER.match(folded, part.end())
        and not ("/" in part[0] and _DATE.fullmatch(part[0].replace(" ", "")))
        and (part["unit"] or len(part[0]) < len(folded.strip()))
    ]


def to_number(text: str) -> float:
    """Parse a number that may have thousands separators: "1,250", "3.5", "1.250,5"."""
    plain = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", text).replace(",", ".")
    return float(plain) if plain.count(".") < 2 else float(plain.replace(".", ""))


def is_in_progress(text: str, *, is_own: bool = False) -> bool:
    """Return True if a text reports work in progress: "Saving…", "Please wait", "Syncing 42 %".

    Args:
        text: The text.
        is_own: True if it is the new text of the clicked element; then dots suffice, which menus also have.
    """
    folded = fold(text)
    words = re.findall(r"\w+", folded)
    if any(part["unit"] for part in _find_parts(folded)):
        return True
    if _SHARE.search(folded) and (
        PENDING.search(folded) or re.search(r"…|\.\s?\.|[a-z]\.", text) or words[0].endswith("ing")
    ):
        return True
    if not words or len(words) > _MAX_PENDING_WORDS or _NO_WORK.match(folded):
        return not words and DOTS.search(folded) is not None
    has_dots = DOTS.search(folded) is not None and len(words) <= _MAX_DOTTED_WORDS
    return PENDING.search(folded) is not None or (has_dots and (is_own or words[0].endswith("ing")))
