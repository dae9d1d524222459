"""Colours: which there are, how much of a pie, of bars or of a picture each takes, and where one is."""

from visual_tools.colors.measure import color_share
from visual_tools.colors.shares import ColorShares, Piece, Share

__all__ = ["ColorShares", "Piece", "Share", "color_share"]
