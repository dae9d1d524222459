"""What the tabs of the page share: our own HTML, errors in words, the way to a session."""

import time
from html import escape
from typing import Any

from cua.errors import CuaError
from envs.errors import EnvError
from visual_tools.errors import VisualError

ERRORS = (CuaError, EnvError, VisualError, ValueError)
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def html(gr: Any, value: str, **options: Any) -> Any:
    """Our own HTML with our own style."""
    return gr.HTML(value, apply_default_css=False, padding=False, container=False, **options)


def goto(session_id: str) -> str:
    """HTML that opens a session in the live part of the page."""
    return f'<assistant-goto session="{escape(session_id)}" nonce-number="{time.monotonic_ns()}"></assistant-goto>'


def plain(error: Exception) -> str:
    """What went wrong, for a place that shows HTML."""
    return escape(str(error).splitlines()[0] if str(error) else type(error).__name__)


def refused(gr: Any, error: Exception, title: str) -> Exception:
    """What went wrong, as a message on the page, to be raised."""
    found: Exception = gr.Error(plain(error), print_exception=False, title=title)
    return found
