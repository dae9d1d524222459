"""Rules for the wordings of steps. The first rule that matches a clause makes the step."""

import re
from collections.abc import Sequence

from apps.literal.rules.clicking import CLICKING, GOING, POINTING
from apps.literal.rules.figures import LOOKS
from apps.literal.rules.form_filling import CHOOSING, PAIRS, SUGGESTING, TYPING
from apps.literal.rules.notation import PhraseRule
from apps.literal.rules.scroll_and_read import LOOKING, REPORTING
from apps.literal.rules.text_and_answers import WORKING

_RULES: tuple[PhraseRule, ...] = (
    *LOOKS,
    *WORKING,
    *GOING,
    *POINTING,
    *LOOKING,
    *SUGGESTING,
    *PAIRS,
    *TYPING,
    *CHOOSING,
    *REPORTING,
    *CLICKING,
)
_STARTS = frozenset[str]().union(*(each.starts for each in _RULES if each.starts is not None))
_BY_START = {
    start: [each for each in _RULES if each.starts is None or start in each.starts] for start in (*_STARTS, "")
}


def rules_for(clause: str) -> Sequence[PhraseRule]:
    """Return the rules for clauses with the same first word, in order."""
    word = re.match(r"[\w'-]*", clause)
    return _BY_START.get(word[0].lower() if word is not None else "", _BY_START[""])
