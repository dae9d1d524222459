"""Tools as TypeScript declarations, as the model was trained to read them."""

import json
from collections.abc import Sequence

from model_runtime.chat.messages import ToolSpec


def declare_tools(tools: Sequence[ToolSpec]) -> str:
    """Compact JSON for now."""
    return json.dumps(list(tools), separators=(",", ":"), ensure_ascii=False)
