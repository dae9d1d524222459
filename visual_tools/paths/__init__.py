"""Shortest path through a maze: search, proof and drawing."""

from visual_tools.paths.check import PathCheck, check_path, draw_path
from visual_tools.paths.search import PathResult
from visual_tools.paths.shortest import shortest_path

__all__ = ["PathCheck", "PathResult", "check_path", "draw_path", "shortest_path"]
