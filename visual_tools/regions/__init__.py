"""Regions of an image: foreground, connected parts, counted and measured objects, edges, outlines, drawn shapes."""
