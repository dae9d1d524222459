"""Types of JSON objects; their members are checked where they are read."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""JSON object that is only read."""
