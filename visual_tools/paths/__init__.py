"""Shortest path through a maze: search, proof and drawing."""
