"""Types of JSON from outside."""

from typing import Any

Json = dict[str, Any]
"""JSON object; its members are checked where they are read."""
