"""Results as JSON: data classes become objects, arrays are left out."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np


def to_json(value: Any) -> Any:
    """What `json.dumps` takes: fields whose names begin with an underscore and arrays are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: to_json(part) for name, part in fields.items() if not (name.startswith("_") or is_array(part))}
    if isinstance(value, dict):
        return {str(key): to_json(part) for key, part in value.items() if not is_array(part)}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value if not is_array(part)]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Path) else value


def is_array(value: Any) -> bool:
    """Whether this is an array of pixels or points."""
    return isinstance(value, np.ndarray)
