"""Colours: which there are, how much of a pie, of bars or of an image each takes, and where one is."""

from visual_tools.colors.measure import color_share
from visual_tools.colors.palette import ColorMask, color_mask
from visual_tools.colors.shares import ColorShares, Piece, Share, draw_share

__all__ = ["ColorMask", "ColorShares", "Piece", "Share", "color_mask", "color_share", "draw_share"]
