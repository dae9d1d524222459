"""One rule for each way to say a step. The first rule that fits a clause makes the step."""

from apps.literal.rules.filling import CHOOSING, PAIRS, SUGGESTING, TYPING
from apps.literal.rules.looking import LOOKING, REPORTING
from apps.literal.rules.looks import LOOKS
from apps.literal.rules.pointing import CLICKING, GOING, POINTING
from apps.literal.rules.words import Rule
from apps.literal.rules.working import WORKING

RULES: tuple[Rule, ...] = (
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

__all__ = ["RULES"]
