"""Models with a common interface: OpenAI-compatible servers, the embedded literal follower, recorded replies.

The entry point is `make_model`. Importing this package loads no heavy module; the first call imports the SDK.
"""

from cua.models.make import ModelSettings, make_model

__all__ = ["ModelSettings", "make_model"]
