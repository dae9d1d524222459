"""Colours of an image: a palette, the share of each colour in a pie, in bars or in an image, and colour masks."""

from visual_tools.colors.measure import color_share
from visual_tools.colors.palette import ColorMask, color_mask
from visual_tools.colors.shares import ColorShares, Piece, Share, draw_share

__all__ = ["ColorMask", "ColorShares", "Piece", "Share", "color_mask", "color_share", "draw_share"]
