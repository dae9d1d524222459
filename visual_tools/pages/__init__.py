"""How alike two pages are: their text blocks as Design2Code compares them, and what they look like."""

from visual_tools.pages.similarity import VisualSimilarity, visual_similarity
from visual_tools.pages.text_blocks import BlockScores, TextBlock, match_blocks, read_blocks

__all__ = ["BlockScores", "TextBlock", "VisualSimilarity", "match_blocks", "read_blocks", "visual_similarity"]
