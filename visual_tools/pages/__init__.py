"""Similarity of two web pages: text blocks as compared by Design2Code, and visual appearance."""

from visual_tools.pages.similarity import VisualSimilarity, visual_similarity
from visual_tools.pages.text_blocks import BlockScores, TextBlock, match_blocks, read_blocks

__all__ = ["BlockScores", "TextBlock", "VisualSimilarity", "match_blocks", "read_blocks", "visual_similarity"]
