"""What messages say when something went wrong, in several languages, and what dialogs say when they ask."""

import re

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
_PLAIN = (
    r"errors?|problems?|fail(?:ed|ure|s)?|wrong|denied|rejected|declined|missing|required|invalid|incorrect|not found"
    r"|forbidden|expired|empty|fehler|falsch|erreur|requis|error|errore|erro|fout"
)
_PAGES = (
    r"\b(?:400|401|403|404|405|409|410|422|429|500|501|502|503|504)\b.*\b(?:error|found|forbidden|request|denied|gateway"
    r"|unavailable|unauthori[sz]ed|allowed|gone|timeout|required|conflict)|(?:http|error|status)(?: code)?:? [45]\d\d\b"
    r"|(?:page|file|site|resource|url|document) (?:was |could |can |is )?not (?:be )?(?:found|available)"
    r"|^\W*not found\W*$"
    r"|^\W*(?:403 )?forbidden\W*$|^\W*(?:internal )?server error|bad gateway|service unavailable|access (?:is )?denied"
    r"|permission denied|can[’']?t (?:be reached|reach)|something went wrong|seite nicht gefunden|zugriff verweigert"
    r"|page (?:introuvable|non trouvée)|página no encontrada|pagina non trovata"
)
_HARMLESS = (
    r"\b(?:no|0|zero|without(?: any)?|keine|ohne|sans|sin|senza) (?:\w+ )?(?:errors?|problems?|issues?|failures?|failed"
    r"|fehler|erreurs?|errores|errori)\b|not required|(?:can ?not|can'?t) be (?:undone|reversed|recovered|restored)"
    r"|wrong\?|(?:fields )?(?:marked|with)[^.]{0,24}(?:is|are) (?:required|mandatory)|\* ?(?:= ?)?required(?: fields?)?"
)
_QUESTIONS = (
    r"are you sure|do you (?:really |want|wish)|really (?:delete|remove|want|leave|discard)|would you like|want to"
    r" (?:delete|leave|continue|discard|save|proceed)|(?:delete|remove|discard|leave|overwrite|replace|proceed|continue"
    r"|confirm|cancel|submit|send|quit|exit|close|reset|clear|unsaved) ?[^?!]{0,60}\?|sind sie sicher|möchten sie"
    r"|wollen sie|wirklich|êtes-vous sûr|voulez-vous|está seguro|¿desea|¿quiere|sei sicuro|vuoi |tem certeza|deseja"
    r"|weet u zeker|确定|よろしいですか"
)

SENTENCES = re.compile("|".join(f"(?:{part})" for part in _SENTENCES), re.I)
"""A message that says by itself that something is wrong."""

PLAIN = re.compile(rf"\b(?:{_PLAIN})\b", re.I)
"""Words that tables and headings hold too: they count in red, in a red box, or close to a field."""

PAGES = re.compile(_PAGES, re.I)
"""What a page says that stands in the place of the wanted one."""

HARMLESS = re.compile(_HARMLESS, re.I)
"""The same words where nothing is wrong."""

QUESTIONS = re.compile(_QUESTIONS, re.I)
"""What a dialog asks before it does what was pressed."""
