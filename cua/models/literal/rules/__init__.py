"""One rule for each way to say a step. The first rule that fits a clause makes the step."""

from cua.models.literal.rules.filling import CHOOSING, PAIRS, SUGGESTING, TYPING
from cua.models.literal.rules.looking import LOOKING, REPORTING
from cua.models.literal.rules.looks import LOOKS
from cua.models.literal.rules.pointing import CLICKING, GOING, POINTING
from cua.models.literal.rules.words import Rule
from cua.models.literal.rules.working import WORKING

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
