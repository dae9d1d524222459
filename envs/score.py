"""The verdict of a task as a plain number."""

from decimal import Decimal
from numbers import Real

from envs.errors import EvaluationError

_MAX_SHOWN_CHARS = 80


def parse_score(value: object) -> float | None:
    """Convert what `evaluate` returned to a float in [0, 1]; None stays None.

    Real numbers of any type are accepted: Python's own, `Decimal`, `Fraction` and numpy's scalars.

    Raises:
        EvaluationError: It is anything else, or lies outside of [0, 1].
    """
    if value is None:
        return None
    try:
        score = float(value) if isinstance(value, Real | Decimal) or _is_numpy_bool(value) else None  # type: ignore[arg-type]
    except (ValueError, OverflowError):  # a signalling NaN, or an integer beyond the range of floats
        score = None
    if score is None or not 0.0 <= score <= 1.0:
        raise EvaluationError(f"evaluate() returned {_shown(value)}, expected a real number from 0 to 1, or None")
    return score + 0.0  # -0.0 becomes 0.0


def _is_numpy_bool(value: object) -> bool:
    """True for `numpy.bool_`, which is not registered as a number; numpy itself need not be loaded."""
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _shown(value: object) -> str:
    text = ascii(value)
    text = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 3]}..."
    return f"{text} ({type(value).__name__})"
