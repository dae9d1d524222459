"""Embedded model that follows plain steps, from the screenshot alone."""

from apps.literal.model import LiteralModel

__all__ = ["LiteralModel"]
