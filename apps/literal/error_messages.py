"""Signs that an action did not work: messages, red lines, refusing pages, unanswered questions."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apps.literal.field_boxes import find_field_boxes
from apps.literal.find_text import find_button, find_colours, joined_lines
from apps.literal.message_words import without_instructed
from apps.literal.screen import OcrScreen, find_new_lines, fraction_kept
from apps.literal.text_match import CONTAINED, alphanumeric, fit_texts
from visual_tools.box import Box
from visual_tools.ocr import TextLine

_SENTENCES = (
    # English
    r"please (?:fill|enter|select|choose|provide|check|correct|try|specify|supply|include|use|match|complete|sign in"
    r"|log in|type|lengthen|shorten|pick|tick|confirm|add|upload|accept|agree)",
    r"(?:is|are|was) (?:a )?(?:required|mandatory|invalid|incorrect|missing|wrong|not (?:a )?(?:valid|allowed|permitted"
    r"|correct|recogni[sz]ed|found|available|unique))",
    r"required field|(?:field|fields|value|input|entry|entries) (?:is |are )?(?:required|missing|invalid|mandatory)",
    r"^\W*(?:required|invalid|missing|mandatory)\W*$",
    r"^\W*(?:an? )?(?:fatal |internal |server |unexpected |unknown |validation |network )*error\b",
    r"invalid \w+|not (?:a )?valid\b|(?:wrong|incorrect) \w+",
    r"must (?:be|not|contain|have|match|include|start|end|fill|enter|select|choose|agree|accept|provide)",
    r"(?:can ?not|can'?t|may not|should not) be (?:blank|empty|null|used|saved|found|changed|deleted|created"
    r"|processed)",
    r"(?:do|does|did) ?(?:not|n'?t) (?:match|exist|work|succeed)|(?:are|is) not the same",
    r"already (?:exists?|taken|in use|registered|used|been (?:taken|used))|no such \w+",
    r"too (?:short|long|small|large|big|weak|many|few|high|low)\b|(?:at least|at most) \d+ (?:char|letter|digit)",
    r"failed to|(?:could|did|was|were) ?n[o']t (?:be )?\w+|could not|couldn'?t|unable to|has failed|(?:was|were) not"
    r"|not (?:saved|sent|created|updated|changed|deleted|submitted|accepted|authori[sz]ed)|login failed",
    r"something went wrong|(?:went|gone) wrong|access denied|permission denied|not permitted|forbidden|unauthori[sz]ed"
    r"|(?:no|insufficient) permissions?|try again|has expired|was rejected|(?:card|payment) (?:was )?declined",
    r"nothing (?:was|has been|got|could be) \w+|(?:has|have|had|contains?) (?:\w+ )?(?:problems?|errors?)\b",
    r"(?:fix|correct) the|there (?:was|were|is|are) (?:a|an|some|\d+) (?:problem|error|issue)|\d+ errors?\b"
    r"|out of stock"
    r"|should be (?:a|an|at|in|less|more|greater|between)|enter a (?:valid|number|whole)|(?:number|value)s? only",
    # German
    r"bitte (?:füllen|geben|wählen|prüfen|korrigieren|versuchen|überprüfen|tragen|ausfüllen|eingeben|auswählen)"
    r"|pflichtfeld|erforderlich|ungültig|fehlgeschlagen|verweigert|^\W*fehler\b|nicht (?:gefunden|erlaubt|möglich"
    r"|gültig|korrekt|leer)|(?:darf|konnte|kann) nicht|bereits (?:vergeben|vorhanden|verwendet)|falsche[rs]?\b",
    # French
    r"veuillez|obligatoire|(?:est|sont) requis|requise?\b|invalide|incorrecte?\b|^\W*erreur\b|échou|échec|refusé"
    r"|(?:n'est|ne sont|n'a) pas|déjà (?:utilisé|pris|existant)",
    # Spanish and Portuguese
    r"por favor|obligatori[oa]|obrigatóri[oa]|(?:es|son) requerid[oa]|inválid[oa]|incorrect[oa]|incorret[oa]"
    r"|^\W*erro?r?\b|falló|falhou|denegado|negado|no (?:es|se|pudo) |não (?:é|foi|pode)|ya existe|já existe",
    # Italian
    r"per favore|obbligatori[oa]|richiest[oa]\b|non (?:è|valid|corrett|riuscit)|non valid[oa]|^\W*errore\b"
    r"|già (?:usat|esist)",
    # Dutch, Polish, Swedish
    r"vul (?:dit|een|het)|verplicht|ongeldig|mislukt|geweigerd|wymagane|nieprawidłow|błąd|obligatorisk|ogiltig"
    r"|misslyckades",
    # Chinese, Japanese, Korean, Russian
    r"请(?:填写|输入|选择)|必填|不能为空|错误|失败|无效|拒绝|入力してください|必須|エラー|無効|失敗|필수|오류|잘못"
    r"|обязательн|ошибка|неверн|недопустим|заполните|запрещ",
)
PLAIN = re.compile(
    r"\b(?:"
    r"errors?|problems?|fail(?:ed|ure|s)?|wrong|denied|rejected|declined|missing|required|invalid|incorrect|not found"
    r"|forbidden|expired|empty|fehler|falsch|erreur|requis|error|errore|erro|fout"
    r")\b",
    re.I,
)
"""Words that tables and headings also contain; they count in red, in a red box, or close to a field."""
PAGES = re.compile(
    r"\b(?:400|401|403|404|405|409|410|422|429|500|501|502|503|504)\b.*\b(?:error|found|forbidden|request|denied|gateway"
    r"|unavailable|unauthori[sz]ed|allowed|gone|timeout|required|conflict)|(?:http|error|status)(?: code)?:? [45]\d\d\b"
    r"|(?:page|file|site|resource|url|document) (?:was |could |can |is )?not (?:be )?(?:found|available)"
    r"|^\W*not found\W*$"
    r"|^\W*(?:403 )?forbidden\W*$|^\W*(?:internal )?server error|bad gateway|service unavailable|access (?:is )?denied"
    r"|permission denied|can[’']?t (?:be reached|reach)|\bERR_[A-Z_]{4,}|DNS_PROBE|site can.?t be|is not working"
    r"|cookies (?:are|have been) (?:switched|turned) off"
    r"|(?:enable|switch on|turn on|allow) (?:your )?cookies|something went wrong"
    r"|seite nicht gefunden|zugriff verweigert"
    r"|page (?:introuvable|non trouvée)|página no encontrada|pagina non trovata",
    re.I,
)
"""Texts of an error page shown instead of the requested page."""
HARMLESS = re.compile(
    r"\b(?:no|0|zero|without(?: any)?|keine|ohne|sans|sin|senza) (?:\w+ )?(?:errors?|problems?|issues?|failures?|failed"
    r"|fehler|erreurs?|errores|errori)\b|not required|(?:can ?not|can'?t) be (?:undone|reversed|recovered|restored)"
    r"|wrong\?|(?:fields )?(?:marked|with)[^.]{0,24}(?:is|are) (?:required|mandatory)"
    r"|\* ?(?:= ?)?required(?: fields?)?",
    re.I,
)
"""Phrases with the same words that indicate no error."""
QUESTIONS = re.compile(
    r"are you sure|do you (?:really |want|wish)|really (?:delete|remove|want|leave|discard)|would you like|want to"
    r" (?:delete|leave|continue|discard|save|proceed)|(?:delete|remove|discard|leave|overwrite|replace|proceed|continue"
    r"|confirm|cancel|submit|send|quit|exit|close|reset|clear|unsaved) ?[^?!]{0,60}\?|sind sie sicher|möchten sie"
    r"|wollen sie|wirklich|êtes-vous sûr|voulez-vous|está seguro|¿desea|¿quiere|sei sicuro|vuoi |tem certeza|deseja"
    r"|weet u zeker|确定|よろしいですか",
    re.I,
)
"""Questions of a dialog before it executes the clicked command."""

SENTENCES = re.compile("|".join(f"(?:{part})" for part in _SENTENCES), re.I)
"""Sentences that indicate an error by themselves."""

THANKS = re.compile(
    r"^\W*(?:thanks?|done|success\w*|saved|sent|ok|welcome|danke|merci|gracias|grazie|obrigad[oa])\b", re.I
)
"""Start of a confirmation, whatever its colour."""

_STATUS = re.compile(
    r"\W*(?:(?:http|error|status|code|fehler|erreur)\W*)*(?:40[0-9]|41[0-8]|42[1-9]|431|451|50[0-8]|51[01]|52[0-9]|530)"
    r"(?:\W*|\W+(?:nginx|apache|openresty|caddy|cloudflare|iis|error|fehler|erreur)\b.*)",
    re.I,
)
"""HTTP status code as a heading or as the first line of a page."""

_COMMAND = re.compile(
    r"\W*(?:(?:permanently )?(?:delete|remove|discard|cancel|log ?out|sign ?out|unsubscribe|leave|close|deactivate"
    r"|clear|reset|revoke|archive|block|report|undo|erase|empty)|supprimer|retirer|eliminar|borrar|excluir|elimina"
    r"|verwijder(?:en)?|usu[nń]|ta bort|slett?|poista|smazat|t[oö]rl[eé]s|sil|удалить|删除|削除|삭제)(?:\W+\w+){0,3}\W*"
    r"|(?:\w+\W+){0,3}(?:l[oö]schen|entfernen|abmelden|verwerfen|verwijderen)\W*",
    re.I,
)
"""Texts of links and buttons that are red because of what they do."""

Tone = Literal["", "red", "orange", "green"]

_OTHER_GROUND = 6
_SAME_PAGE = 0.4
_SAME_FORM = 0.6
"""Shares of a screen's lines that remain: below the first it is another page, below the second another part of a page.
"""

_MAX_MESSAGES = 10
_MAX_NOTICES = 4
_MAX_LOUD = 3
_MAX_PAGE_LINES = 15
_MIN_MESSAGE_CHARS = 6


def find_error_message(before: OcrScreen, now: OcrScreen, named: Sequence[str], *, is_form: bool) -> str | None:
    """Return an error message that appeared between two screens, or None.

    Args:
        before: Screen on which an action was executed.
        now: Screen after it.
        named: Texts of the instruction, whose words are not errors.
        is_form: True if a form was filled or sent; then single words such as "failed" are messages, not content.
    """
    new = [line for line in find_new_lines(before, now) if not is_named(line.text, named)]
    if not new:
        return _find_red_field(before, now) if is_form else None
    kept = fraction_kept(before, now)
    is_same_page = kept >= _SAME_PAGE
    num_texts = len({line.text for line in new})
    is_few = num_texts <= _MAX_MESSAGES
    is_quiet_message = kept >= _SAME_FORM and num_texts <= (_MAX_MESSAGES if is_form else _MAX_NOTICES)
    fields = find_field_boxes(now)
    loud = [line for line in new if find_tone(now, line) == "red"]
    for line in [*new, *(joined_lines(new) if is_few else [])]:
        is_loud = any(part.box_px.intersection(line.box_px) > 0 for part in loud)
        is_message = is_quiet_message
        if is_loud:
            is_message = is_same_page or (len(loud) <= _MAX_LOUD and line.box_px.top < 0.6 * now.height)
        is_beside = any(_is_next_to_field(line.box_px, field) for field in fields)
        words = _find_words(line.text, named, is_plain=is_form and (is_loud or (is_beside and is_message)))
        if words and is_message:
            return line.text
        if is_form and is_same_page and is_few and is_loud and is_beside and _is_message_like(now, line, named):
            return line.text
    if not is_same_page:
        return _find_refusal(now, new, named)
    return _find_red_field(before, now) if is_form and is_few else None


def find_question(before: OcrScreen, now: OcrScreen, named: Sequence[str]) -> str | None:
    """Return a question that appeared and was not answered, such as "Delete the file?" with its buttons."""
    new = find_new_lines(before, now)
    buttons = [line for line in new if find_button(now, line.box_px) is not None]
    if not buttons and now.dialog is None:
        return None
    for line in [*new, *joined_lines(new[:_MAX_MESSAGES])]:
        question = QUESTIONS.search(line.text)
        if question is not None and not is_named(question[0], named) and line not in buttons:
            return line.text
    return None


def is_still_shown(text: str, now: OcrScreen) -> bool:
    """Return True if an earlier message is still on the screen."""
    wanted = alphanumeric(text)
    return any(wanted == alphanumeric(line.text) for line in [*now.lines, *joined_lines(now.lines)])


def _find_red_field(before: OcrScreen, now: OcrScreen) -> str | None:
    """Describe a field whose border turned red, by its position."""
    if before.image.shape != now.image.shape:
        return None
    for box in find_field_boxes(now):
        above = Box(box.left + 4, box.top - 1, box.right - 4, box.top)
        below = Box(box.left + 4, box.bottom, box.right - 4, box.bottom + 1)
        is_red = all(_is_reddish_strip(now, strip) for strip in (above, below))
        if is_red and not any(_is_reddish_strip(before, strip) for strip in (above, below)):
            return f"a field at {box.left}, {box.top} that turned red"
    return None


def _is_reddish_strip(screen: OcrScreen, strip: Box) -> bool:
    pixels = screen.crop(strip).reshape(-1, 3)
    return pixels.size > 0 and _is_reddish(np.median(pixels, axis=0), least=0.4)


def _find_refusal(now: OcrScreen, new: Sequence[TextLine], named: Sequence[str]) -> str | None:
    """Return the refusing or error text of a page with few lines, or None."""
    if len(now.lines) > _MAX_PAGE_LINES:
        return None
    first = min(now.lines, key=lambda line: line.box_px.top)
    if any(_is_result(line, now, named) for line in new):
        return None
    for line in new:
        if (line is first or now.is_large(line.box_px)) and _STATUS.fullmatch(line.text):
            return line.text
        refusal = PAGES.search(line.text) or SENTENCES.search(HARMLESS.sub("", without_instructed(line.text, named)))
        if refusal is not None and not is_named(refusal[0], named):
            return line.text
    return None


def _find_words(text: str, named: Sequence[str], *, is_plain: bool) -> str | None:
    clean = HARMLESS.sub(" ", without_instructed(text.replace("’", "'"), named))
    for pattern in (SENTENCES, PLAIN) if is_plain else (SENTENCES,):
        for match in pattern.finditer(clean):
            if not is_named(match[0], named):
                return match[0]
    return None


def is_named(words: str, named: Sequence[str]) -> bool:
    """Return True if words occur in the instruction."""
    return any(words.casefold().strip() in text.casefold() for text in named)


def _is_message_like(screen: OcrScreen, line: TextLine, named: Sequence[str]) -> bool:
    """Return True if a text is as long as a message and is not a confirmation, a button, or a text that was typed."""
    is_confirmation = THANKS.search(line.text) is not None
    is_other = is_confirmation or is_control(screen, line) or _holds_quoted(line.text, named)
    return len(line.text) >= _MIN_MESSAGE_CHARS and not is_other


def _is_result(line: TextLine, now: OcrScreen, named: Sequence[str]) -> bool:
    """Return True if a text outside fields contains what was typed and no error, such as a list with the new entry."""
    is_quiet = not SENTENCES.search(HARMLESS.sub("", line.text))
    is_free = not any(field.contains(line.box_px) for field in find_field_boxes(now))
    typed = [text for text in named if text.startswith("Type ")]
    return is_quiet and is_free and _holds_quoted(line.text, typed)


def _holds_quoted(text: str, named: Sequence[str]) -> bool:
    """Return True if a text contains words that the instruction quotes."""
    quoted = {words for each in named for words in re.findall(r'"([^"]{3,})"', each)}
    return any(fit.score >= CONTAINED for words in quoted for fit in fit_texts(words, text))


def is_control(screen: OcrScreen, line: TextLine) -> bool:
    """Return True if a text is a button, or a short command such as the red "Delete this shelf"."""
    return find_button(screen, line.box_px) is not None or _COMMAND.fullmatch(line.text) is not None


def _is_next_to_field(text: Box, field: Box) -> bool:
    """Return True if a text is right below, right above or right of a field, where its message would be."""
    is_below = -4 <= text.top - field.bottom < 1.6 * max(text.height, 12) and text.overlap_x(field) > 0
    is_right = 0 <= text.left - field.right < 60 and text.overlap_y(field) > 0
    return is_below or is_right


def find_tone(screen: OcrScreen, line: TextLine) -> Tone:
    """Return the warning or confirming colour of a message: of its letters, or of a background unlike the page's."""
    crop = screen.crop(line.box_px.padded(2))
    if crop.size == 0:
        return ""
    letters, background = find_colours(crop)
    if _is_reddish(letters, least=0.4) or _is_reddish(background, least=0.035):
        return "red"
    is_page = np.abs(background - screen.page_colour.astype(np.int16)).max() < _OTHER_GROUND
    if _is_orange(letters, least=0.4) or (not is_page and _is_orange(background, least=0.035)):
        return "orange"
    return "green" if _is_green(letters, least=0.4) or (not is_page and _is_green(background, least=0.035)) else ""


def _is_orange(colour: NDArray[Any], least: float) -> bool:
    """Return True if red > green > blue by clear margins: orange, amber, brown."""
    red, green, blue = (float(value) for value in colour)
    is_warm = red >= 50 and red - blue >= max(2.5 * least * red, 12)
    return is_warm and blue < green < red and green - blue > 0.4 * (red - blue)


def _is_green(colour: NDArray[Any], least: float) -> bool:
    """Return True if green exceeds red and blue by at least the share `least`."""
    red, green, blue = (float(value) for value in colour)
    return green >= 50 and green - max(red, blue) >= max(least * green, 8)


def _is_reddish(colour: NDArray[Any], least: float) -> bool:
    """Return True if red leads by the share `least` and green and blue are close: not orange, brown or violet."""
    red, green, blue = (float(value) for value in colour)
    lead = red - max(green, blue)
    return red >= 50 and lead >= max(least * red, 8) and abs(green - blue) <= 0.6 * lead + 6
