"""The embedded model that follows plain steps, from the screenshot alone."""

from cua.models.literal.model import LiteralModel

__all__ = ["LiteralModel"]
