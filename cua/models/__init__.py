"""Models behind one protocol: OpenAI-compatible servers, the embedded literal follower, recorded replies.

Start with `make_model`. Importing this loads nothing heavy; the SDK is imported by the first call.
"""

from cua.models.make import ModelSettings, make_model

__all__ = ["ModelSettings", "make_model"]
