"""Search an image for smaller images, codes, and text."""

from visual_tools.search.codes import Code, Codes, read_codes
from visual_tools.search.templates import Match, Matches, match_template
from visual_tools.search.texts import TextMatch, TextMatches, find_text

__all__ = ["Code", "Codes", "Match", "Matches", "TextMatch", "TextMatches", "find_text", "match_template", "read_codes"]
